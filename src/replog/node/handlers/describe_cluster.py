"""DescribeCluster, API key 60, versions 0-2: the brokers and the controller (KIP-700).

Versions: 1 the type of endpoint (KIP-919), 2 fenced brokers (KIP-1073).

Answered by any broker from what it was told by the controller. Only brokers are endpoints here: the
controller is one of them, and there is no quorum to describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from replog.node.cluster_view import CLUSTER_OPERATIONS, NO_OPERATIONS, client_endpoint, is_alive

if TYPE_CHECKING:
    from replog.node.node import Node

ENDPOINT_BROKER = 1
ENDPOINT_CONTROLLER = 2


def handle(
    node: Node, request: Received, message: DescribeClusterRequest
) -> DescribeClusterResponse:
    """The live brokers that can be reached through the listener by which the request came."""
    if message.endpoint_type == ENDPOINT_CONTROLLER:
        return _refused(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "this is an endpoint of brokers (1); there is none of controllers (2)",
        )
    if message.endpoint_type != ENDPOINT_BROKER:
        return _refused(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"endpoint type {message.endpoint_type} is not known; 1 is brokers",
        )
    cluster = node.cluster
    brokers = []
    for broker in cluster.brokers.values():
        endpoint = client_endpoint(broker, request)
        alive = is_alive(broker)
        if endpoint is not None and (alive or message.include_fenced_brokers):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=broker.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=not alive,
                )
            )
    wanted = message.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=node.setup.cluster_id,
        controller_id=cluster.controller_id,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS if wanted else NO_OPERATIONS,
    )


def _refused(error: ErrorCode, text: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=error, error_message=text)
