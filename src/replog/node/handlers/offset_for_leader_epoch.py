"""OffsetForLeaderEpoch, API key 23, versions 2-4: where the records of a leader epoch end.

Versions: 2 the leader epoch that the client knows, for fencing (KIP-320); 3 the replica id.

The leader answers with the largest epoch not above the one asked for, and the offset at which the
next epoch begins; for its newest epoch that is the log end (KIP-101, KIP-279). An epoch that it
can't know is answered with -1 and -1. A client that read further than that has read what was
truncated since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """One answer for each partition, in the order of the request."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(node, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in message.topics
        ]
    )


def _answer(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = node.partitions.find(TopicPartition(topic, asked.partition))
    if isinstance(partition, ErrorCode):
        return EpochEndOffset(error_code=partition, partition=asked.partition)
    error = partition.fence(asked.current_leader_epoch)
    if error is ErrorCode.NONE and not node.partitions.leads(partition):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error is not ErrorCode.NONE:
        return EpochEndOffset(error_code=error, partition=asked.partition)
    epoch, end = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end)
