"""Putting logs on stable storage while writes go on: durability `fsync`, and Kafka's `flush.*`.

Group commit: one job is under way at a time and syncs every partition that has something new; what
is appended meanwhile is the next job's. A sync that ends moves the leader's own part of the high
watermark, or, on a follower, is told to the leader with the next fetch.

A log that was cut is synced too, some at a time when nobody waits for others: until then a power
cut may bring back what was cut off (`PartitionLog.certain_end`). After an unclean stop that may be
every log.

The first sync that fails ends this broker's use of the disk for good: the kernel may have dropped
the pages, so a second try that succeeds proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.log.durability import LogFlush
from replog.model.inputs import JobDone
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

NEVER = 2**63 - 1  # `flush.messages` and `flush.ms` when nobody has set them
# Logs that nobody waits for in one job: a sync may take tens of milliseconds, and writers who come
# meanwhile wait for all of them.
UNHURRIED_MAX = 20


class Syncs:
    """Which partitions have bytes that are to be synced soon."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._wanted: dict[Partition, None] = {}
        self._unhurried: dict[Partition, None] = {}  # logs that were cut
        self._under_way = False
        self._timers: dict[Partition, Timer] = {}

    def appended(self, partition: Partition) -> None:
        """The log grew, or its role or its topic's configuration changed: sync what is to be synced
        by now. Whatever is not is under way or has its time: nothing else asks for it."""
        topic = partition.topic
        if partition.log.unsynced_cut is not None:
            self._unhurried[partition] = None
            self._begin()
        unsynced = partition.log_end_offset - partition.log.recovery_point
        if unsynced <= 0:
            return
        if topic.durable or unsynced >= topic.flush_messages:
            self._want(partition)
        elif topic.flush_ms < NEVER and partition not in self._timers:
            node = self._node
            self._timers[partition] = node.timers.call_at(
                node.now_ms + topic.flush_ms, lambda: self._due(partition)
            )

    def _due(self, partition: Partition) -> None:
        del self._timers[partition]
        if self._node.partitions.get(partition.tp) is partition:
            self._want(partition)

    def _want(self, partition: Partition) -> None:
        self._wanted[partition] = None
        self._begin()

    def _begin(self) -> None:
        """Start the next job unless one is under way: one sync of each log is waited for by all
        the writes that came before it."""
        if self._under_way or not (self._wanted or self._unhurried):
            return
        node = self._node
        partitions, self._wanted = self._wanted, {}
        if not partitions:
            partitions = dict.fromkeys(list(self._unhurried)[:UNHURRIED_MAX])
        for partition in partitions:
            self._unhurried.pop(partition, None)
        flushes = [
            (partition, partition.log.begin_flush(to_end=True))
            for partition in partitions
            if node.partitions.get(partition.tp) is partition
        ]
        if not flushes:
            self._begin()
            return
        self._under_way = True

        def work() -> None:
            for _, flush in flushes:
                flush()

        node.run_job(work, lambda done: self._done(flushes, done))

    def _done(self, flushes: list[tuple[Partition, LogFlush]], done: JobDone) -> None:
        node = self._node
        for partition, flush in flushes:
            if node.partitions.get(partition.tp) is not partition:
                continue
            if done.error is not None:
                node.partitions.disk_failed(partition, DiskError(done.error))
                continue
            synced = partition.log.flushed(flush)
            leader = partition.leader
            if leader is None:
                node.fetchers.synced(partition)
            elif leader.on_synced(synced, node.now_ms):
                node.waits.committed(partition)
            # A log that was cut meanwhile is not synced by this, and may never grow again: whoever
            # is to write to it may wait for the rest of it to be synced.
            self.appended(partition)
        self._under_way = False
        self._begin()
