"""DeleteRecords requests on the leader: carried out at once, answered when every live replica has
moved its log's start too.

Followers learn the leader's log start from its fetch responses and tell theirs in their fetches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition
    from replog.node.timers import Timer

# on_done(error, low watermark)
DeletionDone = Callable[[ErrorCode, int], None]

UNKNOWN = -1

# Partitions that wait at once on one broker; a client that deletes everywhere has some thousands.
WAITING_MAX = 20_000

# The least time that a request gets which allows any: the new start has to reach the disk.
TIMEOUT_MIN_MS = 100

_ALIVE = frozenset({BrokerState.ACTIVE, BrokerState.CONTROLLED_SHUTDOWN})


class _Deletion:
    """One partition of one request, from when its log's start has moved until it is answered."""

    __slots__ = ("durable", "epoch", "offset", "on_done", "partition", "timer")

    def __init__(self, partition: Partition, offset: int, on_done: DeletionDone) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.offset = offset
        self.on_done = on_done
        self.durable = False  # a restart of this broker would know of it
        self.timer: Timer | None = None


class Deletions:
    """All that wait."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[TopicPartition, dict[_Deletion, None]] = {}
        self._count = 0

    def delete(
        self, partition: Partition, offset: int, timeout_ms: int, on_done: DeletionDone
    ) -> None:
        """Let the log of a partition that is led here start at `offset`, which is committed.

        `on_done` runs in this step or a later one: with REQUEST_TIMED_OUT after `timeout_ms`, and
        with NOT_LEADER_OR_FOLLOWER when the leadership ends. What was deleted stays deleted.
        THROTTLING_QUOTA_EXCEEDED: too many wait, and nothing was done.
        """
        node = self._node
        if self._count >= WAITING_MAX:
            on_done(ErrorCode.THROTTLING_QUOTA_EXCEEDED, UNKNOWN)
            return
        deletion = _Deletion(partition, offset, on_done)
        self._waiting.setdefault(partition.tp, {})[deletion] = None
        self._count += 1

        def durable(error: str | None) -> None:
            if error is not None:
                self._end(deletion, ErrorCode.KAFKA_STORAGE_ERROR)
                return
            deletion.durable = True
            self.check(partition.tp)

        deletion.timer = node.timers.call_at(
            node.now_ms + max(timeout_ms, TIMEOUT_MIN_MS),
            lambda: self._end(deletion, ErrorCode.REQUEST_TIMED_OUT),
        )
        node.upkeep.move_start(partition, offset, durable)
        if timeout_ms <= 0 and self.low_watermark(partition) < offset:
            self._end(deletion, ErrorCode.REQUEST_TIMED_OUT)

    def follower_starts_at(self, partition: Partition, broker_id: int, offset: int) -> None:
        """An authenticated follower of this leader epoch tells where its log starts."""
        if partition.leader is not None:
            partition.leader.log_starts[broker_id] = offset
            if partition.tp in self._waiting:
                self.check(partition.tp)

    def check(self, tp: TopicPartition) -> None:
        """Something has changed: a follower has told its log's start, or the leadership ended."""
        for deletion in list(self._waiting.get(tp, ())):
            partition = deletion.partition
            if not partition.is_leader or partition.leader_epoch != deletion.epoch:
                self._end(deletion, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif deletion.durable and self.low_watermark(partition) >= deletion.offset:
                self._end(deletion, ErrorCode.NONE)

    def check_all(self) -> None:
        """The cluster has changed: who is dead is not waited for."""
        for tp in list(self._waiting):
            self.check(tp)

    def low_watermark(self, partition: Partition) -> int:
        """The smallest log start among the replicas that live; -1 while one has not told its."""
        leader = partition.leader
        if leader is None:
            return UNKNOWN
        brokers = self._node.cluster.brokers
        starts = [
            leader.log_starts.get(broker_id, UNKNOWN)
            for broker_id in leader.progress
            if broker_id in brokers and brokers[broker_id].state in _ALIVE
        ]
        return min([partition.log_start_offset, *starts])

    def _end(self, deletion: _Deletion, error: ErrorCode) -> None:
        tp = deletion.partition.tp
        waiting = self._waiting.get(tp, {})
        if deletion not in waiting:
            return
        del waiting[deletion]
        self._count -= 1
        if deletion.timer is not None:
            deletion.timer.cancel()
        if not waiting:
            del self._waiting[tp]
        told = error in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
        deletion.on_done(error, self.low_watermark(deletion.partition) if told else UNKNOWN)
