"""ListOffsets, API key 2, versions 1-11: the offset at a time, or at an end of the log.

Versions: 2 isolation levels (KIP-98), 4 leader epochs (KIP-320), 5 OFFSET_NOT_AVAILABLE
(KIP-207), 7 the offset of the largest timestamp (KIP-734), 8 the first local offset (KIP-405), 9
the last tiered one (KIP-1005), 10 a time-out, 11 the first not tiered one (KIP-1023).

The leader answers; a follower only a debugging replica id. Consumers see up to the high
watermark, or to the last stable offset when they read committed records; replicas see the whole
log. Without tiered storage the whole log is local, and what asks for tiered offsets finds none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

CONSUMER = -1
DEBUG_CONSUMER = -2  # may ask a follower
READ_UNCOMMITTED = 0
READ_COMMITTED = 1

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

# The version from which on a special timestamp is known.
_FIRST_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
NO_TIMESTAMP = -1

Found = tuple[int, int, int]  # offset, timestamp, leader epoch
NOTHING: Found = (NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)


def handle(node: Node, request: Received, message: ListOffsetsRequest) -> ListOffsetsResponse:
    """One answer for each partition; one that is asked for twice is refused, once."""
    if message.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refuse_all(message)
    asked: dict[TopicPartition, int] = {}
    for topic in message.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            asked[tp] = asked.get(tp, 0) + 1
    answers: dict[str, ListOffsetsTopicResponse] = {}
    for topic in message.topics:
        if not topic.partitions:
            continue  # answered by partition, as by Kafka
        answer = answers.setdefault(topic.name, ListOffsetsTopicResponse(name=topic.name))
        for partition in topic.partitions:
            times = asked.pop(TopicPartition(topic.name, partition.partition_index), 0)
            if times == 0:
                continue  # answered at its first mention
            if times > 1:
                found: Found | ErrorCode = ErrorCode.INVALID_REQUEST
            else:
                found = _find(node, request, message, topic.name, partition)
            answer.partitions.append(_answer(partition.partition_index, found))
    return ListOffsetsResponse(topics=list(answers.values()))


def _refuse_all(message: ListOffsetsRequest) -> ListOffsetsResponse:
    """What can't be meant: everything is named as it was asked for, twice if need be."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(asked.partition_index, error) for asked in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _answer(index: int, found: Found | ErrorCode) -> ListOffsetsPartitionResponse:
    if isinstance(found, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=index, error_code=found)
    offset, timestamp, epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _find(
    node: Node,
    request: Received,
    message: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsPartition,
) -> Found | ErrorCode:
    timestamp = asked.timestamp
    if timestamp < 0 and request.version < _FIRST_VERSION.get(timestamp, request.version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    partition = node.partitions.find(TopicPartition(topic, asked.partition_index))
    if isinstance(partition, ErrorCode):
        return partition
    fenced = partition.fence(asked.current_leader_epoch)
    if fenced is not ErrorCode.NONE:
        return fenced
    if not node.partitions.leads(partition) and message.replica_id != DEBUG_CONSUMER:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    try:
        found = _lookup(partition, timestamp, _end(partition, message))
    except (DiskError, LogCorrupt) as error:
        node.partitions.read_failed(partition, error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    if message.replica_id == CONSUMER and _may_be_short(partition, timestamp, found):
        if request.version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return found


def _may_be_short(partition: Partition, timestamp: int, found: Found) -> bool:
    """Whether a new leader, which does not know yet how far its log is committed, can't tell.

    Its high watermark may still be below what an earlier leader let consumers see (KIP-207).
    """
    if partition.offset_available:
        return False
    if timestamp == LATEST:
        return True
    return found == NOTHING and (timestamp >= 0 or timestamp == MAX_TIMESTAMP)


def _end(partition: Partition, message: ListOffsetsRequest) -> int:
    """The first offset that who asks may not see."""
    if message.replica_id != CONSUMER:
        return partition.log_end_offset
    if message.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _lookup(partition: Partition, timestamp: int, end: int) -> Found:
    log = partition.log
    if timestamp == LATEST:
        return end, NO_TIMESTAMP, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        return start, NO_TIMESTAMP, log.epoch_at(start)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_for_latest_time()
    else:
        found = log.offset_for_time(timestamp)
    if found is None or found[0] >= end:
        return NOTHING
    return found
