"""One of the folders in `log.dirs`: its logs, its files of offsets, and whether it can be used.

    ONLINE -> FULL     there was no room for a write: what is there is read, nothing is written
    ONLINE, FULL -> FAILED   any other error, fsync above all: nothing in it can be trusted

Only a restart leads back. A folder that failed once is not tried again: the kernel may have dropped
what it could not write, so a second try that succeeds would prove nothing. After the restart its
records are in doubt, on the same host too: the folder takes another id, by which the controller
takes it for a replaced one. Its broker leaves ISR and ELR, and is back when it has caught up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from replog.log import checkpoints
from replog.log.config import LogConfig
from replog.log.disk import Disk, DiskError, DiskFull
from replog.log.errors import LogCorrupt
from replog.log.files import DELETED_FOLDER_SUFFIX, STRAY_FOLDER_SUFFIX, stray_folder
from replog.log.partition_log import PartitionLog
from replog.model.ids import NO_EPOCH, TopicPartition
from replog.model.outputs import Level
from replog.node.checkpoint_file import CheckpointFile, Written
from replog.node.disk_jobs import run_disk_job
from replog.node.folder_doubt import FolderDoubt
from replog.node.log_tasks import Closing, Marks, OpenedLog, Opening, Task
from replog.node.partition import Partition

if TYPE_CHECKING:
    from replog.node.node import Node

# For folders whose topic, and with it `file.delete.delay.ms`, is not known any more.
FILE_DELETE_DELAY_MS = 60_000


class FolderState(Enum):
    """See the module's text."""

    ONLINE = "online"
    FULL = "full"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class FolderSetup:
    """A folder as the world has it. `failed` tells why it can't be used from the start."""

    path: str
    disk: Disk
    failed: str | None = None


class LogFolder:
    """One folder. `unclaimed` are logs that were found in it and that no image has named yet."""

    def __init__(self, node: Node, setup: FolderSetup) -> None:
        self._node = node
        self._failed_before = setup.failed
        self.path = setup.path
        self.disk = setup.disk
        self.state = FolderState.ONLINE
        self.reason = ""  # why it is not online
        self.doubt = FolderDoubt(
            node, setup.disk, setup.path, lambda: node.partitions.folder_changed(self)
        )
        self.strays: list[str] = []  # names of folders that belong to no topic, and are kept
        self._all_opened = True  # no log in it is as an earlier process left it
        self._all_used = True  # none is offline
        # Of the registration after which it was closed in good order, if it was.
        self.stopped_epoch = NO_EPOCH
        self._openings: list[Opening] = []
        self._closings: list[Closing] = []
        self.count = 0  # partitions in it, claimed or not: a new one goes where there are fewest
        self.unclaimed: dict[TopicPartition, OpenedLog] = {}
        # Logs that were not opened. What is known of them stays known: without its recovery point a
        # log that has rotted would be cut as one that was not flushed.
        self._unopened: set[TopicPartition] = set()
        # Of these, those that were closed in good order with records in them, and are not there.
        self.gone: set[TopicPartition] = set()
        # As the last process left them:
        self._recovery_points: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        disk, failed = self.disk, self.failed
        self._recovery_file = CheckpointFile(
            node, disk, checkpoints.RECOVERY_POINTS, self._current_recovery_points, failed
        )
        self._high_watermark_file = CheckpointFile(
            node, disk, checkpoints.HIGH_WATERMARKS, self._current_high_watermarks, failed
        )
        self._log_start_file = CheckpointFile(
            node, disk, checkpoints.LOG_STARTS, self._current_log_starts, failed
        )
        self._cleaned_file = CheckpointFile(
            node, disk, checkpoints.CLEANED, self._current_cleaned, failed
        )

    @property
    def online(self) -> bool:
        """Records can be written."""
        return self.state is FolderState.ONLINE

    def failed(self, error: DiskError) -> None:
        """A call on this folder's disk raised `error`: it is full, or can't be used any more."""
        state = FolderState.FULL if isinstance(error, DiskFull) else FolderState.FAILED
        if state is self.state or self.state is FolderState.FAILED:
            return
        self.state, self.reason = state, str(error)
        what = (
            "is full, and only read from" if state is FolderState.FULL else "is not used any more"
        )
        self._node.report(Level.ERROR, f"log folder {self.path} {what} until a restart: {error}")
        if state is FolderState.FAILED:
            for log, _ in self.unclaimed.values():
                log.abandon()
            if self._failed_before is None:
                self.doubt.begin()
        self._node.partitions.folder_changed(self)

    # ---- opening ---------------------------------------------------------------------------

    def begin_load(self) -> list[Task]:
        """What is to be done to open every log in the folder; then `end_load`."""
        try:
            if self._failed_before is not None:
                raise DiskError(self._failed_before)
            self._recovery_points = self._recovery_file.read()
            self._high_watermarks = self._high_watermark_file.read()
            self._log_starts = self._log_start_file.read()
            self._cleaned = self._cleaned_file.read()
            self._unopened.update(self._recovery_points, self._high_watermarks)
            marker = checkpoints.take_clean_shutdown(self.disk)
            self.stopped_epoch = NO_EPOCH if marker is None else marker.broker_epoch
            foreign = [
                name
                for name in self.disk.list("")
                if not self._is_ours(name, clean=marker is not None) and self.disk.list(name)
            ]
            self._report_left_alone(foreign)
            self._unopened = {opening.tp for opening in self._openings}
            if marker is not None:
                held = {tp for tp, mark in self._high_watermarks.items() if mark}
                self.gone = held - self._unopened
                self._unopened |= self.gone
        except DiskError as error:
            self._openings.clear()
            self.failed(error)
        return list(self._openings)

    def end_load(self) -> None:
        """All that `begin_load` wanted is done."""
        openings, self._openings = self._openings, []
        errors: list[DiskError] = []
        for opening in openings:
            try:
                self.unclaimed[opening.tp] = self._opened(opening)
            except LogCorrupt as error:
                self._node.report(
                    Level.ERROR, f"{opening.tp} can't be used and is left alone: {error}"
                )
            except DiskError as error:
                errors.append(error)
            else:
                self.count += 1
        for failure in errors:
            self.failed(failure)
        if not errors:
            self._forget_lost_watermarks()

    def _forget_lost_watermarks(self) -> None:
        """A power cut took what was committed: what is written there next must not be taken for
        that after another restart."""
        lost = {
            tp: log.log_end_offset
            for tp, (log, _) in self.unclaimed.items()
            if self.high_watermark(tp) > log.log_end_offset
        }
        self._high_watermarks.update(lost)
        if lost:
            try:
                self.lower_high_watermarks()
            except DiskError as error:
                self.failed(error)

    def _report_left_alone(self, foreign: list[str]) -> None:
        for what, names in (
            ("folders that belong to no topic any more", self.strays),
            ("folders that are not those of partitions, or do not say of which topic", foreign),
        ):
            if names:
                self._node.report(
                    Level.WARNING, f"{self.path} has {what}, left alone: {', '.join(names)}"
                )

    def _is_ours(self, name: str, *, clean: bool) -> bool:
        """False for what is no business of ours; a log is going to be opened."""
        if name.endswith(DELETED_FOLDER_SUFFIX):
            self.remove_later(name, delay_ms=0)
            return True
        if name.endswith(STRAY_FOLDER_SUFFIX):
            self.strays.append(name)
            return True
        tp = checkpoints.partition_of_directory(name)
        topic_id = None if tp is None else checkpoints.topic_id_of(self.disk, name)
        if tp is None or topic_id is None:
            return False
        self._openings.append(self._opening(tp, topic_id, LogConfig(), clean=clean))
        return True

    def open_log(self, tp: TopicPartition, topic_id: bytes, config: LogConfig) -> OpenedLog:
        """Open a log that is there, or a new one. Raises DiskError, LogCorrupt."""
        opening = self._opening(tp, topic_id, config)
        opening()
        return self._opened(opening)

    def _opening(
        self, tp: TopicPartition, topic_id: bytes, config: LogConfig, *, clean: bool = False
    ) -> Opening:
        marks = Marks(self._recovery_points, self._log_starts, self._cleaned)
        return Opening(self.disk, tp, topic_id, marks=marks, config=config, clean=clean)

    def _opened(self, opening: Opening) -> OpenedLog:
        for warning in opening.warnings:
            self._node.report(Level.WARNING, warning)
        if opening.error is not None:
            self._all_opened = False
        opened = opening.opened()
        self._unopened.discard(opening.tp)
        self.gone.discard(opening.tp)
        return opened

    def high_watermark(self, tp: TopicPartition) -> int:
        """As the last process left it, 0 when that is not known."""
        return self._high_watermarks.get(tp, 0)

    def forget(self, tp: TopicPartition) -> None:
        """What is known of an earlier partition of this name does not hold for a new one, and is
        not to be found after a restart either. Raises DiskError."""
        files = (
            (self._recovery_points, self._recovery_file),
            (self._high_watermarks, self._high_watermark_file),
            (self._log_starts, self._log_start_file),
            (self._cleaned, self._cleaned_file),
        )
        for known, file in files:
            known.pop(tp, None)
            if file.mentions(tp):
                file.write_now()

    # ---- checkpoints -----------------------------------------------------------------------

    def write_high_watermarks(self) -> None:
        """Have it known after a restart what consumers have seen. They only ever lag: an old one
        costs a moment until the leader is asked, never a record."""
        if self.state is not FolderState.FAILED:
            self._high_watermark_file.write_later()

    def lower_high_watermarks(self) -> None:
        """Now, in the step: what consumers had seen was lost, by an election that cut it off or by
        a power cut. After a restart the old mark would speak of what has come in its place. Raises
        DiskError."""
        self._high_watermark_file.write_now()

    def write_recovery_points(self) -> None:
        """Now, in the step: a log was cut below what the file vouches for. Raises DiskError."""
        self._recovery_file.write_now()

    def begun_anew(self, tp: TopicPartition) -> None:
        """Now, in the step: its log begins elsewhere, perhaps below its start until now. After a
        restart that would speak of records that are deleted, and what has come in their place would
        go. Raises DiskError."""
        self._recovery_file.write_now()
        if self._log_start_file.mentions(tp):
            self._log_start_file.write_now()

    def write_log_starts(self, then: Written | None = None) -> None:
        """Have it known where logs start; `then` runs once that outlives a power cut."""
        if self.state is FolderState.FAILED:
            if then is not None:
                then(self.reason)
        elif then is None:
            self._log_start_file.write_later()
        else:
            self._log_start_file.write_durably(then)

    def write_cleaned(self) -> None:
        """Have it known up to where logs are compacted. An old one costs time only."""
        self._cleaned_file.write_later()

    def segment_rolled(self, partition: Partition) -> None:
        """A segment is full: flush it, and write down what the producers' state is where the new
        one begins, outside the step, so that a restart need not read the full one.

        To be called when `partition.producers` tells of all that is in the full segment, and of
        nothing behind it."""
        log = partition.log
        flush = log.begin_flush(to_end=False)
        snapshot = log.snapshots.begin(log.base_offsets[-1])
        producers = partition.producers.copy()

        def work() -> None:
            flush()
            snapshot(producers.entries())

        def done(error: DiskError | None) -> None:
            if self._node.partitions.get(partition.tp) is not partition:
                return
            try:
                if error is not None:
                    raise error
                log.flushed(flush)
                log.snapshots.keep(snapshot, frozenset(log.base_offsets))
                self._recovery_file.write_later()
            except DiskError as failure:
                self.failed(failure)

        run_disk_job(self._node, work, done)

    def _partitions(self) -> Iterator[Partition]:
        return (p for p in self._node.partitions.all() if p.folder is self)

    def _logs(self) -> list[tuple[TopicPartition, PartitionLog]]:
        logs = [(tp, log) for tp, (log, _) in self.unclaimed.items()]
        return logs + [(p.tp, p.log) for p in self._partitions()]

    def _kept(self, known: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: offset for tp, offset in known.items() if tp in self._unopened}

    def _current_recovery_points(self) -> dict[TopicPartition, int]:
        points = self._kept(self._recovery_points)
        return points | {tp: log.recovery_point for tp, log in self._logs()}

    def _current_high_watermarks(self) -> dict[TopicPartition, int]:
        marks = self._kept(self._high_watermarks)
        marks |= {tp: self._high_watermarks.get(tp, 0) for tp in self.unclaimed}
        return marks | {p.tp: min(p.high_watermark, p.log.certain_end) for p in self._partitions()}

    def _current_log_starts(self) -> dict[TopicPartition, int]:
        starts = self._kept(self._log_starts)
        return starts | {
            tp: log.log_start_offset for tp, log in self._logs() if log.log_start_offset
        }

    def _current_cleaned(self) -> dict[TopicPartition, int]:
        cleaned = self._kept(self._cleaned)
        return cleaned | {tp: log.cleaned_to for tp, log in self._logs() if log.cleaned_to}

    # ---- the end of a log --------------------------------------------------------------------

    def set_aside(self, log: PartitionLog, delay_ms: int = FILE_DELETE_DELAY_MS) -> None:
        """The log is not wanted here any more: its folder gets another name now and goes later, so
        that a reply that is under way can end."""
        self.count -= 1
        if self.state is FolderState.FAILED:
            return
        try:
            aside = log.rename_for_deletion(self._node.rng.randbytes(16))
        except DiskError as error:
            self._node.report(Level.ERROR, f"{log.directory} can't be deleted: {error}")
            self.failed(error)
            return
        self.remove_later(aside, delay_ms)

    def leave_as_stray(self, tp: TopicPartition) -> None:
        """The unclaimed log of `tp` is not the one that is used: it stays under another name."""
        log, _ = self.unclaimed.pop(tp)
        self.count -= 1
        log.abandon()
        self.leave_aside(log.directory)

    def leave_aside(self, directory: str) -> str | None:
        """The folder of a log that nobody uses any more gets another name, under which it is kept.
        Returns that, or None when the disk refuses."""
        stray = stray_folder(directory, self._node.rng.randbytes(16))
        try:
            self.disk.rename(directory, stray)
        except DiskError as error:
            self.failed(error)
            return None
        self.strays.append(stray)
        return stray

    def remove_aside(self, stray: str, delay_ms: int) -> None:
        """What `leave_aside` has kept is not needed any more."""
        if stray in self.strays:
            self.strays.remove(stray)
        if self.state is not FolderState.FAILED:
            self.remove_later(stray, delay_ms)

    def remove_later(self, directory: str, delay_ms: int) -> None:
        """Remove a folder that waits for its removal."""
        node = self._node

        def done(error: DiskError | None) -> None:
            if error is not None:
                node.report(Level.ERROR, f"{directory} is not removed: {error}")

        def work() -> None:
            # Or power gives what is left of it the name of a log back, which has holes then.
            self.disk.sync_directory("")
            self.disk.remove_tree(directory)

        def due() -> None:
            run_disk_job(node, work, done)

        node.timers.call_at(node.now_ms + delay_ms, due)

    def begin_close(self) -> list[Task]:
        """What is to be done to flush and close all logs; then `end_close`."""
        if self.state is not FolderState.FAILED:
            inside = list(self._partitions())
            used = [(p.log, p.producers) for p in inside if p.offline_reason is None]
            self._all_used = len(used) == len(inside)
            logs = [*self.unclaimed.values(), *used]
            self._closings = [Closing(log, producers) for log, producers in logs]
        else:
            self.doubt.end()
        return list(self._closings)

    def end_close(self) -> None:
        """Write the checkpoints, and last the marker that says that all is closed.

        There is no marker when a log could not be opened, or was given up: the next start has to
        recover it still. What a cut that failed has left of it does not fit together.
        """
        if self.state is FolderState.FAILED:
            return
        try:
            errors = [closing.error for closing in self._closings if closing.error is not None]
            if errors:  # one that is not for want of room means more
                raise min(errors, key=lambda error: isinstance(error, DiskFull))
            self._recovery_file.write_now()
            self._high_watermark_file.write_now()
            self._log_start_file.write_now()
            self._cleaned_file.write_now()
            if self._all_opened and self._all_used:
                checkpoints.mark_clean_shutdown(self.disk, self._node.last_broker_epoch)
        except DiskError as error:
            self._node.report(
                Level.ERROR,
                f"log folder {self.path} is not closed cleanly, the next start recovers: {error}",
            )
            if not isinstance(error, DiskFull):
                self.doubt.begin_at_last()
