"""ListConfigResources, API key 74, versions 0-1: what has configurations.

Versions: 0 client metrics subscriptions alone (KIP-1000), 1 by type (KIP-1142). Topics and brokers
always have configurations, groups and subscriptions when something is set for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_TYPES = 1


def handle(
    node: Node, request: Received, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """The names of resources of the types asked for; of all types, when none is."""
    wanted: Iterable[int] = message.resource_types or list(ResourceType)
    if request.version < FIRST_VERSION_WITH_TYPES:
        wanted = [ResourceType.CLIENT_METRICS]
    response = ListConfigResourcesResponse()
    for number in dict.fromkeys(wanted):
        if number not in ResourceType.__members__.values():
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        response.config_resources += [
            ConfigResource(resource_name=name, resource_type=number)
            for name in _names(node, ResourceType(number))
        ]
    return response


def _names(node: Node, kind: ResourceType) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return node.cluster.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker) for broker in node.cluster.brokers]
    return node.cluster.configs(kind)
