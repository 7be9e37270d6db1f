"""Work on many logs at once: recovered at the start of a broker, flushed and closed at its end.

Nothing else goes on meanwhile, so a step waits for it. A task touches one log and what it was
given, never the node; the world runs `num.recovery.threads.per.data.dir` of each folder at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from replog.core.producer.state import ProducerTable
from replog.log.config import LogConfig
from replog.log.disk import Disk, DiskError
from replog.log.errors import LogCorrupt
from replog.log.partition_log import PartitionLog
from replog.model.ids import TopicPartition
from replog.node.partition import replay_producers

# What went wrong is kept by the task: it raises nothing.
Task = Callable[[], None]
# Runs all tasks of all groups, up to so many of each group at a time; returns when all have ended.
RunTasks = Callable[[Sequence[Sequence[Task]], int], None]

OpenedLog = tuple[PartitionLog, ProducerTable]


def one_by_one(groups: Sequence[Sequence[Task]], at_once: int) -> None:
    """For a world without threads."""
    for tasks in groups:
        for task in tasks:
            task()


class Marks(NamedTuple):
    """What a folder's files of offsets said when the broker began, by partition."""

    recovery_points: Mapping[TopicPartition, int]
    log_starts: Mapping[TopicPartition, int]
    cleaned: Mapping[TopicPartition, int]


class Opening:
    """A log that is there, or a new one, on its way to be used. `clean`: sizes can be trusted."""

    def __init__(
        self,
        disk: Disk,
        tp: TopicPartition,
        topic_id: bytes,
        *,
        marks: Marks,
        config: LogConfig,
        clean: bool = False,
    ) -> None:
        self.tp = tp
        self.warnings: list[str] = []
        self.error: DiskError | LogCorrupt | None = None
        self._disk = disk
        self._topic_id = topic_id
        self._marks = marks
        self._config = config
        self._clean = clean
        self._opened: OpenedLog | None = None

    def __call__(self) -> None:
        try:
            self._opened = self._open()
        except (DiskError, LogCorrupt) as error:
            self.error = error

    def opened(self) -> OpenedLog:
        """What came of it. Raises the error that there was."""
        if self._opened is None:
            raise self.error or DiskError(f"{self.tp} was not opened")
        return self._opened

    def _open(self) -> OpenedLog:
        tp, marks = self.tp, self._marks
        log = PartitionLog.open(
            self._disk,
            str(tp),
            self._config,
            topic_id=self._topic_id,
            recovery_point=marks.recovery_points.get(tp, 0),
            clean=self._clean,
            log_start_offset=marks.log_starts.get(tp, 0),
        )
        log.cleaned_to = min(marks.cleaned.get(tp, 0), log.log_end_offset)
        if log.recovery.lost_anything:
            self.warnings.append(f"{tp}: {'; '.join(log.recovery.reasons)}")
        return log, replay_producers(log, self.warnings, complete=True)


class Closing:
    """A log that is flushed and closed, so that it opens without a look at its records."""

    def __init__(self, log: PartitionLog, producers: ProducerTable) -> None:
        self.error: DiskError | None = None
        self._log = log
        self._producers = producers

    def __call__(self) -> None:
        try:
            end_offset = self._log.close()
            self._log.snapshots.add_unsynced(end_offset, self._producers.entries())
        except DiskError as error:
            self.error = error
