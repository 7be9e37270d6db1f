"""DeleteRecords, API key 21, versions 0-2: the records below an offset are gone (KIP-107).

Versions: 2 is flexible. Answered by the leader when all live replicas have moved their log's start,
and this broker would know of it after a restart; the low watermark is the smallest of these starts.
Offset -1 stands for the high watermark. Topics that are compacted and nothing else refuse: a record
that somebody still reads by its key would be gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import INTERNAL_TOPICS, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


def handle(
    node: Node, request: Received, message: DeleteRecordsRequest
) -> DeleteRecordsResponse | None:
    """Carry out all partitions, and answer once the last of them is done."""
    call = _Call(node, request)
    for topic in message.topics:
        for partition in topic.partitions:
            call.begin(
                TopicPartition(topic.name, partition.partition_index),
                partition.offset,
                message.timeout_ms,
            )
    return call.ready()


class _Call:
    """One request on its way."""

    def __init__(self, node: Node, request: Received) -> None:
        self._node = node
        self._request = request
        self._results: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
        self._open = 0
        self._parked = False

    def begin(self, tp: TopicPartition, offset: int, timeout_ms: int) -> None:
        """One partition."""
        results = self._results.setdefault(tp.topic, {})
        result = results[tp.partition] = DeleteRecordsPartitionResult(
            partition_index=tp.partition, low_watermark=NO_LOW_WATERMARK
        )
        found = _deletable(self._node, tp, offset)
        if isinstance(found, ErrorCode):
            result.error_code = found
            return
        self._open += 1

        def done(error: ErrorCode, low_watermark: int) -> None:
            result.error_code = error
            result.low_watermark = low_watermark
            self._open -= 1
            if self._parked and not self._open:
                self._node.reply(self._request, self._response())

        partition, start = found
        self._node.upkeep.deletions.delete(partition, start, timeout_ms, done)

    def ready(self) -> DeleteRecordsResponse | None:
        """The answer, or None: it is sent later."""
        self._parked = self._open > 0
        return None if self._parked else self._response()

    def _response(self) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(name=name, partitions=list(results.values()))
                for name, results in self._results.items()
            ]
        )


def _deletable(node: Node, tp: TopicPartition, offset: int) -> tuple[Partition, int] | ErrorCode:
    """The partition and its new start, or why there is none."""
    partition = node.partitions.find(tp)
    if tp.topic in INTERNAL_TOPICS and partition is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if isinstance(partition, ErrorCode):
        return partition
    if not node.partitions.leads(partition):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    policy = partition.topic.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        return ErrorCode.POLICY_VIOLATION
    start = partition.high_watermark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= start <= partition.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return partition, start
