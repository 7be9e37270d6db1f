"""FindCoordinator, API key 10, versions 0-6: which broker coordinates a group or transactions.

Versions: 1 key types and error texts, 3 flexible, 4 several keys at once (KIP-699), 6 share groups.

Any broker answers. A coordinator is the leader of the key's partition of `__consumer_offsets` or
`__transaction_state`; such a topic is made when its first key is asked for, with
COORDINATOR_NOT_AVAILABLE until it has a leader. Share groups are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import NO_BROKER
from replog.model.inputs import Received
from replog.model.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from replog.node.cluster_view import reachable

if TYPE_CHECKING:
    from replog.node.node import Node

GROUP = 0
TRANSACTION = 1

FIRST_VERSION_WITH_SEVERAL_KEYS = 4


def handle(
    node: Node, request: Received, message: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Say for each key where its coordinator is."""
    if request.version >= FIRST_VERSION_WITH_SEVERAL_KEYS:
        keys = message.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=[_find(node, request, message.key_type, key) for key in keys]
        )
    found = _find(node, request, message.key_type, message.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or "NONE",  # what Kafka sends for none
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(node: Node, request: Received, key_type: int, key: str) -> Coordinator:
    if key_type == GROUP:
        tp = node.groups.partition_of(key)
    elif key_type == TRANSACTION:
        tp = node.transactional_ids.partition_of(key)
    else:
        text = "Only groups and transactional ids have coordinators here."
        return _refused(key, ErrorCode.INVALID_REQUEST, text)
    if tp.topic not in node.cluster.topics:
        node.controlling.auto_create([tp.topic])
        text = f"The topic {tp.topic} is being made."
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    record = node.cluster.partition(tp)
    return _at(node, request, key, NO_BROKER if record is None else record.leader)


def _at(node: Node, request: Received, key: str, broker_id: int) -> Coordinator:
    endpoint = reachable(node.cluster, request).get(broker_id)
    if endpoint is None:
        text = "The partition that keeps this key has no leader that can be reached."
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
    return Coordinator(
        key=key, node_id=broker_id, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _refused(key: str, error: ErrorCode, text: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_BROKER, host="", port=-1, error_code=error, error_message=text
    )
