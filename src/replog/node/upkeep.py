"""What keeps the logs of this broker in bounds: retention, the log's start, producers' expiry.

The start of a log moves in the step, so nothing below it is read from then on; its files leave when
the new start is on stable storage, and are removed `file.delete.delay.ms` later. Compaction is in
`cleaning`, requests to delete records in `deletions`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.retention import NO_LIMIT, Retention, due
from replog.model.inputs import JobDone
from replog.model.outputs import Level
from replog.node import kept_producers
from replog.node.cleaning import Cleaning
from replog.node.deletions import Deletions

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# After a start, before the first look for segments that may go, unless the interval is shorter.
FIRST_CHECK_MS = 30_000

# Segments whose files get another name in one step, some 100 us each: the loop waits meanwhile.
LEAVING_MAX = 50

# Producers are looked through so often at the most; nobody is in a hurry to forget one.
PRODUCER_CHECK_MS = 600_000


class Upkeep:
    """The timers of a broker's logs, and what they set off."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.cleaning = Cleaning(node)
        self.deletions = Deletions(node)

    def start(self) -> None:
        """The logs are open: look after them from now on."""
        config = self._node.config
        interval = config.log_retention_check_interval_ms
        first = min(interval, FIRST_CHECK_MS)
        self._every(interval, self._check_retention, first_ms=first)
        self._every(
            config.int("log.flush.start.offset.checkpoint.interval.ms"),
            self._node.partitions.logs.write_log_starts,
        )
        self._every(min(PRODUCER_CHECK_MS, config.producer_id_expiration_ms), self._expire)
        self.cleaning.start()

    def _every(
        self, interval_ms: int, action: Callable[[], None], *, first_ms: int | None = None
    ) -> None:
        node = self._node

        def again() -> None:
            node.timers.call_at(node.now_ms + interval_ms, again)
            action()

        node.timers.call_at(node.now_ms + (interval_ms if first_ms is None else first_ms), again)

    # ---- retention -----------------------------------------------------------------------------

    def _check_retention(self) -> None:
        for partition in list(self._node.partitions.all()):
            if partition.offline_reason is None:
                self.retain(partition)

    def retain(self, partition: Partition) -> None:
        """Let go what has served its time, and what lies below the log's start anyway."""
        log, topic = partition.log, partition.topic
        deletes = "delete" in topic.cleanup_policy
        try:
            found = due(
                log.segments,
                Retention(
                    ms=topic.retention_ms if deletes else NO_LIMIT,
                    bytes=topic.retention_bytes if deletes else NO_LIMIT,
                ),
                wall_ms=self._node.wall_ms,
                committed=partition.high_watermark,
                end_offset=log.log_end_offset,
            )
            if found is not None:
                if found.segments == len(log.segments):
                    log.roll()
                    partition.folder.segment_rolled(partition)
                start = log.segments[found.segments].base_offset
                if start > log.log_start_offset:
                    self._node.report(
                        Level.INFO,
                        f"{partition.tp}: the log starts at {start}, {found.segments} of "
                        f"{len(log.segments)} segments go: {found.reason}",
                    )
                    self.move_start(partition, start)
            elif log.below_start():
                self._persist(partition)
        except (DiskError, LogCorrupt) as error:
            self._node.partitions.read_failed(partition, error)

    # ---- the log's start -----------------------------------------------------------------------

    def follow_start(self, partition: Partition, leaders: int) -> None:
        """On a follower: the leader's log starts there; so does ours, as far as is committed."""
        start = min(leaders, partition.high_watermark)
        if start > partition.log_start_offset:
            self.move_start(partition, start)

    def move_start(
        self, partition: Partition, offset: int, then: Callable[[str | None], None] | None = None
    ) -> None:
        """Records below `offset`, which must be committed, are gone for good.

        `then(error)` runs once a restart would know of it, in this step or a later one.
        """
        node = self._node
        try:
            partition.log.start_at(min(offset, partition.high_watermark))
        except DiskError as error:
            node.partitions.disk_failed(partition, error)
            if then is not None:
                then(str(error))
            return
        node.waits.start_moved(partition)
        self._persist(partition, then)

    def _persist(
        self, partition: Partition, then: Callable[[str | None], None] | None = None
    ) -> None:
        start = partition.log.log_start_offset

        def persisted(error: str | None) -> None:
            if error is None:
                self._leave(partition, start)
            if then is not None:
                then(error)

        partition.folder.write_log_starts(persisted)

    def _leave(self, partition: Partition, start: int) -> None:
        """`start` is on stable storage: files below it are not needed any more. The log's start may
        have moved on since."""
        node, log = self._node, partition.log
        if node.partitions.get(partition.tp) is not partition:
            return
        leaving = kept_producers.may_leave(partition, start)
        if not leaving and log.below_start(start):
            again = partial(self._leave, partition, start)
            kept_producers.keep(node, partition, start, again)
            return
        try:
            left = log.leave(min(leaving, LEAVING_MAX), start)
        except DiskError as error:
            node.partitions.disk_failed(partition, error)
            return
        if left:
            self.remove_later(partition, left)
        if log.below_start(start):
            node.timers.call_at(node.now_ms, lambda: self._leave(partition, start))

    def remove_later(self, partition: Partition, paths: list[str]) -> None:
        """Remove files of a log after `file.delete.delay.ms`. A crash before that does it too."""
        node, disk = self._node, partition.folder.disk
        directory = partition.log.directory

        def work() -> None:
            for path in paths:
                disk.remove(path)
            if disk.exists(directory):
                disk.sync_directory(directory)

        def done(ended: JobDone) -> None:
            if ended.error is not None:
                node.report(Level.WARNING, f"{directory}: not removed: {ended.error}")

        delay = partition.topic.file_delete_delay_ms
        node.timers.call_at(node.now_ms + delay, lambda: node.run_job(work, done))

    # ---- producers -----------------------------------------------------------------------------

    def _expire(self) -> None:
        """Forget producers that have written nothing for `producer.id.expiration.ms`."""
        node = self._node
        before = node.wall_ms - node.config.producer_id_expiration_ms
        for partition in node.partitions.all():
            partition.producers.expire(before)
