"""Leaderships that go back to their preferred leaders unasked: `auto.leader.rebalance.enable`.

Every `leader.imbalance.check.interval.seconds` the controller looks how many of the partitions that
prefer a broker are led by another one. Where these are more than
`leader.imbalance.per.broker.percentage` percent, those go back whose preferred leader is in the ISR
and alive; the others stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.preferred import elect_preferred, imbalanced
from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode, Refused
from replog.model.outputs import Level
from replog.node.looks import Look

if TYPE_CHECKING:
    from replog.node.node import Node

# Partitions that move in one check; more go in the next, so that clients are not all sent elsewhere
# at once.
MOVED_MAX = 1_000


class Rebalancing(Look):
    """The look of one controllership after the other."""

    def __init__(self, node: Node) -> None:
        def interval_ms() -> int:
            return 1_000 * node.config.int("leader.imbalance.check.interval.seconds")

        super().__init__(node, interval_ms, self._consider)

    def _consider(self) -> None:
        node = self._node
        if node.config.auto_leader_rebalance_enable:
            node.controlling.submit(self._plan, _failed)

    def _plan(self, draft: Draft) -> Callable[[], None]:
        percentage = self._node.config.int("leader.imbalance.per.broker.percentage")
        moved = 0
        for tp in imbalanced(draft.partitions(), percentage):
            record = draft.partition(tp)
            if record is None or moved >= MOVED_MAX:
                continue
            eligible = draft.liveness.eligible.difference(record.failed)
            change = elect_preferred(record, eligible, controller_epoch=draft.epoch)
            if not isinstance(change, Refused):
                draft.put_change(tp, change)
                moved += 1

        def done() -> None:
            if moved:
                text = f"{moved} partitions went back to their preferred leaders"
                self._node.report(Level.INFO, text)

        return done


def _failed(error: ErrorCode) -> None:
    """The next check is due anyway."""
