"""Compaction of the logs on this broker: which one is next, its pass in slices, the swap in a step.

`log.cleaner.threads` logs at a time, the dirtiest first, every `log.cleaner.backoff.ms` and as long
as there is one that is worth it; memory and speed are shared by all that are under way. Every
replica compacts for itself. A pass works on sealed segments below the high watermark; when the log
is cut or leaves meanwhile, what it has done so far is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.log.cleaner import CleaningPass, CleanRules, Replacement
from replog.log.cleaner_map import keys_within
from replog.log.cleaner_plan import (
    CompactionPlan,
    CompactionSettings,
    plan,
    stable_segments,
)
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.model.inputs import JobDone
from replog.model.outputs import Level
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# After the disk refused to write what a pass left: there may be room again.
AFTER_FAILURE_MS = 600_000

# After a pass that could not get on, since an undecided transaction was in its way.
AFTER_NOTHING_MS = 60_000


class Cleaning:
    """The cleaner of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._passes: dict[Partition, _RunningPass] = {}
        self._timer: Timer | None = None
        self._not_before: dict[Partition, float] = {}  # infinity: not before a restart

    def start(self) -> None:
        """Look for dirty logs from now on, unless `log.cleaner.enable` says no."""
        if self._node.config.bool("log.cleaner.enable"):
            self._look_later()

    @property
    def under_way(self) -> int:
        """How many logs are compacted now."""
        return len(self._passes)

    @property
    def threads(self) -> int:
        """How many may be at a time; 0: none."""
        return self._node.config.int("log.cleaner.threads")

    def _look_later(self) -> None:
        node = self._node
        if self._timer is None:
            backoff_ms = node.config.int("log.cleaner.backoff.ms")
            self._timer = node.timers.call_at(node.now_ms + backoff_ms, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._look()

    def _look(self) -> None:
        """Begin passes over the dirtiest logs, as many as may be; the next look is later."""
        room = self.threads - len(self._passes)
        if room > 0:
            found = [(p, plan) for p in self._node.partitions.all() if (plan := self._plan(p))]
            found.sort(key=lambda each: (each[1].overdue, each[1].dirty_ratio), reverse=True)
            for partition, compaction in found[:room]:
                running = _RunningPass(self, self._node, partition, compaction)
                self._passes[partition] = running
                running.go_on()
            if not found:
                self._forget_gone()
        if len(self._passes) < max(1, self.threads):
            self._look_later()

    def _plan(self, partition: Partition) -> CompactionPlan | None:
        node, log, topic = self._node, partition.log, partition.topic
        if not topic.compacted or partition.offline_reason is not None:
            return None
        if partition in self._passes:
            return None
        if self._not_before.get(partition, 0.0) > node.now_ms:
            return None
        settings = CompactionSettings(
            min_dirty_ratio=topic.min_cleanable_dirty_ratio,
            min_lag_ms=topic.min_compaction_lag_ms,
            max_lag_ms=topic.max_compaction_lag_ms,
        )
        try:
            return plan(
                log.segments[:-1],
                settings,
                first_dirty=max(log.cleaned_to, log.log_start_offset),
                stable=partition.last_stable_offset,
                wall_ms=node.wall_ms,
            )
        except (DiskError, LogCorrupt) as error:
            self.uncleanable(partition, str(error))
            return None

    def uncleanable(self, partition: Partition, reason: str) -> None:
        """The log can't be compacted; others go on."""
        self._not_before[partition] = float("inf")
        self._node.report(
            Level.ERROR, f"{partition.tp} is not compacted any more until a restart: {reason}"
        )

    def refused(self, partition: Partition, reason: str) -> None:
        """The disk did not take what was left of a log."""
        self._not_before[partition] = self._node.now_ms + AFTER_FAILURE_MS
        self._node.report(Level.ERROR, f"{partition.tp} is not compacted for now: {reason}")

    def postpone(self, partition: Partition) -> None:
        """Nothing can be done for the log just now: let others have their turn."""
        self._not_before[partition] = self._node.now_ms + AFTER_NOTHING_MS

    def ended(self, partition: Partition, *, look_again: bool = False) -> None:
        """A pass is over: on to the next log, at once or after a while."""
        del self._passes[partition]
        if look_again:
            self._look()
        else:
            self._look_later()

    def _forget_gone(self) -> None:
        here = set(self._node.partitions.all())
        self._not_before = {p: at for p, at in self._not_before.items() if p in here}


class _RunningPass:
    """One pass: a job for each slice, and a step between two of them."""

    def __init__(
        self, cleaning: Cleaning, node: Node, partition: Partition, found: CompactionPlan
    ) -> None:
        log, config, topic = partition.log, node.config, partition.topic
        self._cleaning = cleaning
        self._node = node
        self._partition = partition
        self._cuts = log.cuts
        self._started_ms = node.now_ms
        self._bytes_read = 0
        self._work = CleaningPass(
            partition.folder.disk,
            log.directory,
            stable_segments(log.segments[:-1], partition.last_stable_offset),
            first_dirty=found.first_dirty,
            end=found.end,
            config=log.config,
            rules=CleanRules(
                wall_ms=node.wall_ms,
                delete_retention_ms=topic.delete_retention_ms,
                producer_expiration_ms=config.producer_id_expiration_ms,
                keys_max=keys_within(
                    config.int("log.cleaner.dedupe.buffer.size") // max(1, cleaning.threads)
                ),
            ),
        )

    # ---- slices --------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Have the next slice done."""
        self._node.run_job(self._work.advance, self._advanced)

    def _advanced(self, ended: JobDone) -> None:
        work, partition = self._work, self._partition
        if not self._current:
            self._give_up()
        elif ended.error is not None:
            self._cleaning.refused(partition, ended.error)
            self._cleaning.ended(partition)
        elif work.failure is not None:
            if work.damaged:
                self._node.partitions.damaged.found(partition, work.failure)
            self._cleaning.uncleanable(partition, work.failure)
            self._cleaning.ended(partition)
        elif work.ready is not None:
            self._swap(work.ready)
        elif work.done:
            self._finish()
        else:
            self._throttled()

    @property
    def _current(self) -> bool:
        """Whether the log is still the one that the pass began with."""
        partition = self._partition
        return (
            self._node.partitions.get(partition.tp) is partition
            and partition.offline_reason is None
            and partition.log.cuts == self._cuts
            and partition.topic.compacted
        )

    def _throttled(self) -> None:
        """`log.cleaner.io.max.bytes.per.second`: wait as long as the last slice was too fast for
        its part of that."""
        node = self._node
        read = self._work.stats.bytes_read - self._bytes_read
        self._bytes_read += read
        rate = node.config.value("log.cleaner.io.max.bytes.per.second")
        share = rate / self._cleaning.under_way if isinstance(rate, float) else 0.0
        wait_ms = 1000 * read / share if share > 0 else 0.0
        if wait_ms < 1:
            self.go_on()
        else:
            node.timers.call_at(node.now_ms + wait_ms, self.go_on)

    # ---- swaps ---------------------------------------------------------------------------------

    def _swap(self, ready: Replacement) -> None:
        partition, node = self._partition, self._node
        log = partition.log
        try:
            swapped = log.replace(ready)
        except DiskError as error:
            node.partitions.disk_failed(partition, error)
            self._cleaning.ended(partition)
            return
        if swapped:
            node.run_job(log.sync_replaced, self._synced)
        else:
            self._give_up()

    def _synced(self, ended: JobDone) -> None:
        """The compacted segment has its name for good: what it stands for may leave."""
        partition, node = self._partition, self._node
        if node.partitions.get(partition.tp) is not partition or partition.offline_reason:
            self._give_up()
            return
        try:
            if ended.error is not None:
                raise DiskError(ended.error)
            left = partition.log.leave_replaced()
        except DiskError as error:
            node.partitions.disk_failed(partition, error)
            self._cleaning.ended(partition)
            return
        if left:
            node.upkeep.remove_later(partition, left)
        if self._current:
            self.go_on()
        else:
            self._give_up()

    # ---- the end -------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """The log was cut or has left: what is not swapped yet is of no use."""
        self._work.abandon()
        self._cleaning.ended(self._partition)

    def _finish(self) -> None:
        partition, node, work = self._partition, self._node, self._work
        log, stats = partition.log, self._work.stats
        if work.cleaned_to <= log.cleaned_to:
            self._cleaning.postpone(partition)  # a transaction goes on for long
        log.cleaned_to = max(log.cleaned_to, work.cleaned_to)
        partition.folder.write_cleaned()
        if stats.bytes_before:
            took_ms = node.now_ms - self._started_ms
            node.report(
                Level.INFO,
                f"{partition.tp}: compacted to offset {log.cleaned_to}: {stats.bytes_before} bytes "
                f"became {stats.bytes_after}, {stats.records_dropped} records went, {stats.keys} "
                f"keys, {took_ms:.0f} ms",
            )
        self._cleaning.ended(partition, look_again=True)
