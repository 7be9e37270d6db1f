"""Settings that change while the broker runs, as the controller tells of them.

What is set for this broker goes before what is set for all, and that before the broker's own file.
`node.config` is replaced as a whole: who reads a value there sees the new one from the next step
on. A value that was worked out at the start stays; the names of such settings are read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from replog.core.config_changes import check_not_fixed
from replog.core.controller.state import Draft
from replog.model.config import BrokerConfig, ConfigError
from replog.model.config_entries import is_sensitive
from replog.model.config_open import OPEN_PREFIXES, broker_key
from replog.model.config_resources import ResourceType
from replog.model.config_table import BROKER
from replog.model.config_values import known_key, parse_value
from replog.model.outputs import Level, Reconfigured

if TYPE_CHECKING:
    from replog.node.node import Node

MIN_ISR = "min.insync.replicas"
# Settings of all brokers by which the controller judges partitions.
_RULES = ("unclean.leader.election.enable", MIN_ISR, "replog.durability")
# Lines in the log for one change.
REPORTED_MAX = 20


class DynamicConfig:
    """Keeps `node.config` in line with what is set in the cluster."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})  # own, of all

    def apply(self) -> bool:
        """The image has changed: whether `node.config` has changed with it."""
        node = self._node
        before = node.config
        own = node.cluster.configs_of(ResourceType.BROKER, str(node.broker_id))
        default = node.cluster.configs_of(ResourceType.BROKER, "")
        if (own, default) == self._seen:
            return False
        self._seen = (own, default)
        try:
            after = before.with_dynamic(
                dynamic=usable(own, self._passed_over),
                dynamic_default=usable(default, self._passed_over),
            )
        except ConfigError as error:  # only a hand in the coordinator can store what is not valid
            node.report(Level.ERROR, f"the settings in the coordinator are not taken: {error}")
            return False
        node.config = after
        node.outputs.append(Reconfigured(after))
        self._report(before, after)
        if node.controlling.active and any(after.text(n) != before.text(n) for n in _RULES):
            node.controlling.submit(_judge_again, lambda error: None)
        return True

    def _passed_over(self, error: ConfigError) -> None:
        self._node.report(Level.ERROR, f"a setting in the coordinator is ignored: {error}")

    def _report(self, before: BrokerConfig, after: BrokerConfig) -> None:
        names = {**before.dynamic, **before.dynamic_default, **after.dynamic}
        names |= after.dynamic_default
        changes = [
            f"{name} {_shown(name, before)} -> {_shown(name, after)}"
            for name in sorted(names)
            if before.text(name) != after.text(name)
        ]
        for change in changes[:REPORTED_MAX]:
            self._node.report(Level.INFO, f"configuration: {change}")


def usable(
    layer: Mapping[str, str], passed_over: Callable[[ConfigError], None] = lambda error: None
) -> dict[str, str]:
    """What of `layer` can hold; `passed_over` is told of the rest. A hand in the coordinator can
    store it, and a release of Replog that took it."""
    held = {}
    for name, text in layer.items():
        try:
            if not name.startswith(OPEN_PREFIXES):
                check_not_fixed(name)
                parse_value(known_key(BROKER, name), text)
            held[name] = text
        except ConfigError as error:
            passed_over(error)
    return held


def keep_min_isr(draft: Draft, config: BrokerConfig) -> None:
    """Store what holds for all brokers as `min.insync.replicas`, when nothing is stored yet.

    Who may be elected depends on it (KIP-966), so it must not depend on which broker leads or is
    controller: from then on what a broker's own file says about it counts for nothing.
    """
    stored = draft.configs_of(ResourceType.BROKER, "")
    if MIN_ISR not in stored:
        value = str(config.min_insync_replicas)
        draft.put_configs(ResourceType.BROKER, "", {**stored, MIN_ISR: value})


def _judge_again(draft: Draft) -> Callable[[], None]:
    draft.reconcile()
    return lambda: None


def _shown(name: str, config: BrokerConfig) -> str:
    return "(hidden)" if is_sensitive(broker_key(name)) else str(config.text(name))
