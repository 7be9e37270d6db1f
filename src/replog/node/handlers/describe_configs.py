"""DescribeConfigs, API key 32, versions 1-4: configurations of topics, brokers and groups.

Versions: 1 sources and synonyms (KIP-226), 3 types and documentation (KIP-569).

Any broker answers for topics, groups and client metrics subscriptions; only the broker itself for a
broker. Values of passwords are never shown. Loggers, whose levels can't be changed here, have no
configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from replog.core.topics import topic_name_fault
from replog.model.config import BrokerConfig, ConfigError
from replog.model.config_entries import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    dynamic_default_entries,
    group_entries,
    topic_entries,
)
from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode, Refused
from replog.model.inputs import Received
from replog.model.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from replog.node.node import Node

# In one answer: those of 10,000 topics. Each takes 3 us to write, while nobody else is served.
ENTRIES_MAX: Final = 400_000
TOO_MANY: Final = Refused(
    ErrorCode.INVALID_REQUEST,
    f"more than {ENTRIES_MAX} configurations in one answer: ask for fewer resources",
)

# Entries of a resource, and its own settings: they tell it from others of its type.
Found = tuple[Iterable[ConfigEntry], Mapping[str, str]]
# What was made for an answer, by what decides on it: most topics have the same configurations.
_Shown = dict[object, list[DescribeConfigsResourceResult]]

# Stands for the resource that is all brokers, whose entries are not those of a broker.
ALL_BROKERS: Final = {"": ""}


def handle(
    node: Node, request: Received, message: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """One result for each resource asked for."""
    config = effective_config(node)
    results = []
    shown: _Shown = {}
    left = ENTRIES_MAX
    for resource in message.resources:
        found = _find(node, config, resource)
        outcome = found if isinstance(found, Refused) else _configs(resource, found, message, shown)
        if not isinstance(outcome, Refused):
            left -= len(outcome)
            if left < 0:
                outcome = TOO_MANY
        results.append(_result(resource, outcome))
    return DescribeConfigsResponse(results=results)


def _configs(
    resource: DescribeConfigsResource, found: Found, message: DescribeConfigsRequest, shown: _Shown
) -> list[DescribeConfigsResourceResult]:
    """Those of a resource that are wanted; `shown` has what was made for others."""
    entries, own = found
    wanted = frozenset(resource.configuration_keys or ())
    alike = (resource.resource_type, frozenset(own.items()), wanted)
    configs = shown.get(alike)
    if configs is None:
        configs = shown[alike] = [
            _shown(entry, message) for entry in entries if not wanted or entry.key.name in wanted
        ]
    return configs


def _result(
    resource: DescribeConfigsResource, outcome: list[DescribeConfigsResourceResult] | Refused
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    if isinstance(outcome, Refused):
        result.error_code, result.error_message = outcome.error, outcome.message
    else:
        result.configs = outcome
    return result


def effective_config(node: Node) -> BrokerConfig:
    """The broker's configuration under the dynamic values that the cluster holds for it."""
    stored = node.cluster.broker_configs
    own, default = stored.get(str(node.broker_id), {}), stored.get("", {})
    if own == node.config.dynamic and default == node.config.dynamic_default:
        return node.config
    try:
        return node.config.with_dynamic(dynamic=own, dynamic_default=default)
    except ConfigError:  # only a hand in the coordinator can store what is not valid
        return node.config


def _find(node: Node, config: BrokerConfig, resource: DescribeConfigsResource) -> Found | Refused:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic_entries(node, config, name)
        case ResourceType.BROKER:
            if name == "":
                return dynamic_default_entries(config), ALL_BROKERS
            return _not_this_broker(node, name, " or nothing") or (broker_entries(config), {})
        case ResourceType.BROKER_LOGGER:
            if name == "":
                return Refused(ErrorCode.INVALID_REQUEST, "a logger is asked for by broker id")
            return _not_this_broker(node, name, "") or ((), {})
        case ResourceType.CLIENT_METRICS:
            if name == "":
                text = "a client metrics subscription is asked for by name"
                return Refused(ErrorCode.INVALID_REQUEST, text)
            own = node.cluster.client_metrics.get(name, {})
            return client_metrics_entries(own), own
        case ResourceType.GROUP:
            if name == "":
                return Refused(ErrorCode.INVALID_REQUEST, "a group is asked for by its id")
            own = node.cluster.group_configs.get(name, {})
            return group_entries(config, own), own
    return Refused(
        ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} is not known"
    )


def _topic_entries(node: Node, config: BrokerConfig, name: str) -> Found | Refused:
    fault = topic_name_fault(name)
    if fault is not None:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    topic = node.cluster.topics.get(name)
    if topic is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic_entries(config, topic.configs), topic.configs


def _not_this_broker(node: Node, name: str, otherwise: str) -> Refused | None:
    """Why `name` does not mean this broker, or None when it does."""
    if not (name.isascii() and name.isdigit()):
        return Refused(ErrorCode.INVALID_REQUEST, f"broker id {name!r} is not a number")
    # As text: Python reads no number that has thousands of digits.
    if (name.lstrip("0") or "0") != str(node.broker_id):
        return Refused(
            ErrorCode.INVALID_REQUEST,
            f"broker {node.broker_id} was asked for broker {name}: "
            f"{node.broker_id}{otherwise} expected",
        )
    return None


def _shown(entry: ConfigEntry, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    key = entry.key
    return DescribeConfigsResourceResult(
        name=key.name,
        value=entry.value,
        read_only=key.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source)
            for s in (entry.synonyms if message.include_synonyms else ())
        ],
        config_type=entry.type_number,
        documentation=_documentation(key.name) if message.include_documentation else None,
    )


def _documentation(name: str) -> str:
    from replog.model.config_docs import DOCS  # only this question needs them

    return DOCS.get(name, "")
