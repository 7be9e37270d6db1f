"""The cluster as clients are shown it: who is alive, and where a client reaches whom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from replog.model.cluster import BrokerRecord, BrokerState, ClusterState, Endpoint
from replog.model.inputs import Received

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# Bit n of a set of authorized operations is the operation of code n (KIP-430). Without an
# authorizer everybody may do all that the resource knows.
NO_OPERATIONS = -(1 << 31)  # not asked for
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def is_alive(broker: BrokerRecord) -> bool:
    """Whether clients are sent to this broker. One that is shutting down still serves."""
    return broker.state in (BrokerState.ACTIVE, BrokerState.CONTROLLED_SHUTDOWN)


def client_endpoint(broker: BrokerRecord, request: Received) -> Endpoint | None:
    """Where who sent `request` reaches `broker`: by the listener through which it came to us.

    A request that came through no listener gets the broker's first. None: the broker has no such
    listener.
    """
    if not request.listener:
        return broker.endpoints[0] if broker.endpoints else None
    return broker.endpoint(request.listener)


def reachable(cluster: ClusterState, request: Received) -> dict[int, Endpoint]:
    """The live brokers that who sent `request` can reach, by id."""
    found = {}
    for broker in cluster.brokers.values():
        endpoint = client_endpoint(broker, request) if is_alive(broker) else None
        if endpoint is not None:
            found[broker.broker_id] = endpoint
    return found


def endpoints(
    cluster: ClusterState, broker_ids: Iterable[int], request: Received
) -> list[tuple[BrokerRecord, Endpoint]]:
    """Where brokers are reached through the listener by which the request came (KIP-951)."""
    found = []
    for broker_id in broker_ids:
        broker = cluster.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(request.listener)
        if broker is not None and endpoint is not None:
            found.append((broker, endpoint))
    return found


def preferred_reader(node: Node, partition: Partition, rack: str, offset: int) -> int | None:
    """The in-sync follower in the consumer's rack that holds `offset` (KIP-392); None: this
    leader serves itself."""
    leader = partition.leader
    if leader is None or not node.config.rack_aware_reads or node.config.rack == rack:
        return None
    best: tuple[int, int] | None = None
    for broker_id in leader.isr_state.isr:
        progress = leader.progress.get(broker_id)
        broker = node.cluster.brokers.get(broker_id)
        if progress is None or broker is None or not broker.eligible or broker.rack != rack:
            continue
        held = progress.log_end_offset
        if held >= offset and (best is None or held > best[0]):
            best = (held, broker_id)
    return None if best is None else best[1]
