"""DescribeReplicas, API key 20002, version 0, one of Replog's own: what this broker holds.

Answered for the replicas on this broker alone, leader or not, so that a tool that asks every
broker sees where LEO, HW and epochs differ. It only reads, and so anybody may ask. Null asks for
all replicas, a topic without partitions for all of that topic. A leader also says how far each
follower is: its log end offset (-1: it has not fetched in this epoch), and for how long it has
not been caught up (ms, 0 while it holds all that the leader has; -1: never yet). The controller
adds how many elections may have lost committed records: unclean ones, and those after a power cut
of all who were in sync (-1 from others). Log folders are told of that are not in order: full,
failed, or with folders in them that belong to no topic any more. So are logs that are damaged, and
not yet begun anew, or gone from a folder that is in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, NO_LEADER, NO_OFFSET, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.describe_replicas import (
    DescribedDamagedLog,
    DescribedLogFolder,
    DescribedReplica,
    DescribedReplicaTopic,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    ReplicaProgress,
)

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

LEADER = "leader"
FOLLOWER = "follower"
OFFLINE = "offline"  # the log can't be used
NONE = "none"  # no replica here


def handle(
    node: Node, request: Received, message: DescribeReplicasRequest
) -> DescribeReplicasResponse:
    """The replicas asked for, by topic."""
    return describe(node, message)


def describe(node: Node, message: DescribeReplicasRequest) -> DescribeReplicasResponse:
    """The answer of `node`, also when it asks itself."""
    cluster = node.cluster
    topics: dict[str, DescribedReplicaTopic] = {}
    for tp in _asked(node, message):
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = DescribedReplicaTopic(name=tp.topic)
        partition = node.partitions.get(tp)
        if partition is not None:
            topic.topic_id = partition.topic_id
        topic.partitions.append(_described(node, tp, partition))
    losses = node.controlling.losses
    return DescribeReplicasResponse(
        unclean_elections=-1 if losses is None else losses.unclean,
        bounded_losses=-1 if losses is None else losses.power_cut,
        coordinator_away_ms=node.membership.coordinator_away_ms,
        broker_id=node.broker_id,
        broker_epoch=node.broker_epoch,
        controller_id=cluster.controller_id,
        controller_epoch=cluster.controller_epoch,
        image_version=cluster.version,
        log_folders=[
            DescribedLogFolder(
                path=folder.path,
                state=folder.state.value,
                reason=folder.reason,
                replicas=folder.count,
                strays=folder.strays,
            )
            for folder in node.partitions.logs.folders
            if not folder.online or folder.strays
        ],
        damaged_logs=[
            DescribedDamagedLog(topic=tp.topic, index=tp.partition, reason=reason)
            for tp, reason in sorted(_damaged(node))
        ],
        topics=list(topics.values()),
    )


def _damaged(node: Node) -> Iterator[tuple[TopicPartition, str]]:
    """Logs that are in trouble by themselves, and why."""
    yield from ((p.tp, p.damage.reason) for p in node.partitions.all() if p.damage is not None)
    yield from node.partitions.offline.of_themselves()


def _asked(node: Node, message: DescribeReplicasRequest) -> Iterator[TopicPartition]:
    here = sorted(partition.tp for partition in node.partitions.all())
    if message.topics is None:
        yield from here
        return
    for topic in message.topics:
        if topic.partitions:
            yield from (TopicPartition(topic.name, index) for index in topic.partitions)
        else:
            yield from (tp for tp in here if tp.topic == topic.name)


def _described(node: Node, tp: TopicPartition, partition: Partition | None) -> DescribedReplica:
    if partition is None and node.partitions.offline.reason(tp) is not None:
        return _empty(tp, ErrorCode.KAFKA_STORAGE_ERROR, OFFLINE)
    if partition is None:
        known = node.cluster.partition(tp) is not None
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _empty(tp, error, NONE)
    if partition.offline_reason is not None:
        return _empty(tp, ErrorCode.KAFKA_STORAGE_ERROR, OFFLINE)
    record = partition.record
    described = DescribedReplica(
        index=tp.partition,
        role=FOLLOWER,
        leader_id=record.leader,
        leader_epoch=record.leader_epoch,
        log_start_offset=partition.log_start_offset,
        log_end_offset=partition.log_end_offset,
        high_watermark=partition.high_watermark,
        latest_epoch=partition.log.latest_epoch,
        log_bytes=partition.log.size,
        isr=list(record.isr),
    )
    leader = partition.leader_view()
    if leader is not None:
        described.role = LEADER
        described.isr = list(leader.isr_state.isr)
        described.caught_up_ms_ago = [
            ReplicaProgress(
                broker_id=broker,
                log_end_offset=progress.log_end_offset,
                caught_up_ms_ago=_caught_up_ms_ago(
                    node, progress.log_end_offset >= leader.log_end, progress.caught_up_ms
                ),
            )
            for broker, progress in leader.progress.items()
        ]
    return described


def _caught_up_ms_ago(node: Node, has_all: bool, caught_up_ms: float) -> int:
    if has_all:
        return 0
    if caught_up_ms == float("-inf"):
        return -1
    return max(0, int(node.now_ms - caught_up_ms))


def _empty(tp: TopicPartition, error: ErrorCode, role: str) -> DescribedReplica:
    return DescribedReplica(
        index=tp.partition,
        error_code=error,
        role=role,
        leader_id=NO_LEADER,
        leader_epoch=NO_EPOCH,
        log_start_offset=NO_OFFSET,
        log_end_offset=NO_OFFSET,
        high_watermark=NO_OFFSET,
        latest_epoch=NO_EPOCH,
    )
