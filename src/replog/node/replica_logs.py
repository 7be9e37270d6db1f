"""Folders of the replicas on this broker: opened, checkpointed, deleted, closed.

Logs are opened (and recovered) before the broker registers; a partition claims its log when the
first image names it. A folder that no image names is left alone: it may belong to a topic that the
controller could not read just now.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from replog.core.producer.state import ProducerTable
from replog.log import checkpoints
from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.files import DELETED_FOLDER_SUFFIX
from replog.log.partition_log import PartitionLog
from replog.model.cluster import TopicRecord
from replog.model.config import TopicConfig, topic_config
from replog.model.ids import TopicPartition
from replog.model.inputs import JobDone
from replog.model.outputs import Level
from replog.model.partition import PartitionRecord
from replog.node.checkpoint_file import CheckpointFile, Written
from replog.node.partition import Partition, replay_producers

if TYPE_CHECKING:
    from replog.node.node import Node

# For folders whose topic, and with it `file.delete.delay.ms`, is not known any more.
FILE_DELETE_DELAY_MS = 60_000


class ReplicaLogs:
    """The log folder of this broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._unclaimed: dict[TopicPartition, tuple[PartitionLog, ProducerTable]] = {}
        self._recovery_points: dict[TopicPartition, int] = {}  # as the last process left them
        self._high_watermarks: dict[TopicPartition, int] = {}  # likewise
        self._log_starts: dict[TopicPartition, int] = {}  # likewise
        self._cleaned: dict[TopicPartition, int] = {}  # likewise
        self._recovery_file = CheckpointFile(
            node, checkpoints.RECOVERY_POINTS, self._current_recovery_points
        )
        self._high_watermark_file = CheckpointFile(
            node, checkpoints.HIGH_WATERMARKS, self._current_high_watermarks
        )
        self._log_start_file = CheckpointFile(
            node, checkpoints.LOG_STARTS, self._current_log_starts
        )
        self._cleaned_file = CheckpointFile(node, checkpoints.CLEANED, self._current_cleaned)

    # ---- opening ---------------------------------------------------------------------------

    def load(self) -> None:
        """Open and recover every log in the folder. Called once, before anything is served."""
        node = self._node
        disk = node.disk
        clean = checkpoints.take_clean_shutdown(disk) is not None
        self._recovery_points = self._recovery_file.read()
        self._high_watermarks = self._high_watermark_file.read()
        self._log_starts = self._log_start_file.read()
        self._cleaned = self._cleaned_file.read()
        for name in disk.list(""):
            if name.endswith(DELETED_FOLDER_SUFFIX):
                self._remove_later(name, delay_ms=0)
                continue
            tp = checkpoints.partition_of_directory(name)
            topic_id = None if tp is None else checkpoints.topic_id_of(disk, name)
            if tp is None or topic_id is None:
                continue
            try:
                log = self._open(tp, topic_id, LogConfig(), clean=clean)
                self._unclaimed[tp] = (log, self._replay_producers(log))
            except (DiskError, LogCorrupt) as error:
                node.report(Level.ERROR, f"{name} can't be used and is left alone: {error}")
                continue
        self._schedule_checkpoint()

    def _open(
        self, tp: TopicPartition, topic_id: bytes, config: LogConfig, *, clean: bool
    ) -> PartitionLog:
        log = PartitionLog.open(
            self._node.disk,
            str(tp),
            config,
            topic_id=topic_id,
            recovery_point=self._recovery_points.get(tp, 0),
            clean=clean,
            log_start_offset=self._log_starts.get(tp, 0),
        )
        log.cleaned_to = min(self._cleaned.get(tp, 0), log.log_end_offset)
        if log.recovery.lost_anything:
            self._node.report(Level.WARNING, f"{tp}: {'; '.join(log.recovery.reasons)}")
        return log

    def _replay_producers(self, log: PartitionLog) -> ProducerTable:
        reasons: list[str] = []
        table = replay_producers(log, reasons)
        for reason in reasons:
            self._node.report(Level.WARNING, reason)
        return table

    def open(
        self, tp: TopicPartition, topic: TopicRecord, record: PartitionRecord
    ) -> Partition | None:
        """The replica that an image names: with the log on disk, or a new one. None: it can't be
        opened, which is reported."""
        node = self._node
        config = topic_config(node.config, topic.configs)
        found = self._unclaimed.pop(tp, None)
        if found is not None and found[0].topic_id != topic.topic_id:
            self._set_aside(found[0])
            self._high_watermarks.pop(tp, None)
            found = None
        try:
            if found is None:
                if not node.disk.exists(str(tp)):
                    self._forget(tp)
                log = self._open(tp, topic.topic_id, log_config(config), clean=False)
                producers = self._replay_producers(log)
            else:
                log, producers = found
                log.config = log_config(config)
        except (DiskError, LogCorrupt) as error:
            node.report(Level.ERROR, f"{tp} can't be opened: {error}")
            return None
        return Partition(
            tp,
            topic.topic_id,
            log,
            record=record,
            topic=config,
            producers=producers,
            high_watermark=self._high_watermarks.get(tp, 0),
        )

    def _forget(self, tp: TopicPartition) -> None:
        """What is known of an earlier partition of this name does not hold for a new one, and is
        not to be found after a restart either. Raises DiskError."""
        for known in (self._log_starts, self._cleaned):
            known.pop(tp, None)
        for file in (self._log_start_file, self._cleaned_file):
            if file.mentions(tp):
                file.write_now()

    def configure(self, partition: Partition, topic: TopicRecord) -> None:
        """Let the log obey what holds for `topic` now."""
        if topic.configs != partition.topic.overrides:
            config = topic_config(self._node.config, topic.configs)
            partition.configure(config, log_config(config))

    # ---- checkpoints -----------------------------------------------------------------------

    def _schedule_checkpoint(self) -> None:
        node = self._node
        interval = node.config.int("replica.high.watermark.checkpoint.interval.ms")
        node.timers.call_at(node.now_ms + interval, self._checkpoint)

    def _checkpoint(self) -> None:
        """Write the high watermarks, so that a restart knows what consumers have seen. They only
        ever lag: an old one costs a moment until the leader is asked, never a record."""
        self._schedule_checkpoint()
        self._high_watermark_file.write_later()

    def _current_high_watermarks(self) -> dict[TopicPartition, int]:
        marks = {tp: self._high_watermarks.get(tp, 0) for tp in self._unclaimed}
        return marks | {p.tp: p.high_watermark for p in self._node.partitions.all()}

    def segment_rolled(self, partition: Partition) -> None:
        """A segment is full: flush it, and write down what the producers' state is where the new
        one begins, outside the step, so that a restart need not read the full one.

        To be called when `partition.producers` tells of all that is in the full segment, and of
        nothing behind it."""
        log = partition.log
        flush = log.flush_rolled()
        snapshot = log.snapshots.begin(log.base_offsets[-1])
        producers = partition.producers.copy()

        def work() -> None:
            flush()
            snapshot(producers.entries())

        def done(ended: JobDone) -> None:
            if self._node.partitions.get(partition.tp) is not partition:
                return
            try:
                if ended.error is not None:
                    raise DiskError(ended.error)
                log.flushed(flush)
                log.snapshots.keep(snapshot, frozenset(log.base_offsets))
                self._recovery_file.write_later()
            except DiskError as error:
                self._node.partitions.disk_failed(partition, error)

        self._node.run_job(work, done)

    def _current_recovery_points(self) -> dict[TopicPartition, int]:
        points = {tp: log.recovery_point for tp, (log, _) in self._unclaimed.items()}
        points |= {p.tp: p.log.recovery_point for p in self._node.partitions.all()}
        return points

    def _current_log_starts(self) -> dict[TopicPartition, int]:
        return {tp: log.log_start_offset for tp, log in self._logs() if log.log_start_offset}

    def _current_cleaned(self) -> dict[TopicPartition, int]:
        return {tp: log.cleaned_to for tp, log in self._logs() if log.cleaned_to}

    def _logs(self) -> list[tuple[TopicPartition, PartitionLog]]:
        logs = [(tp, log) for tp, (log, _) in self._unclaimed.items()]
        return logs + [(p.tp, p.log) for p in self._node.partitions.all()]

    def write_log_starts(self, then: Written | None = None) -> None:
        """Have it known where logs start; `then` runs once that outlives a power cut."""
        if then is None:
            self._log_start_file.write_later()
        else:
            self._log_start_file.write_durably(then)

    def write_cleaned(self) -> None:
        """Have it known up to where logs are compacted. An old one costs time only."""
        self._cleaned_file.write_later()

    def write_recovery_points(self) -> None:
        """Now, in the step: a log was cut below what the file vouches for. Raises DiskError."""
        self._recovery_file.write_now()

    # ---- the end of a log --------------------------------------------------------------------

    def delete(self, partition: Partition) -> None:
        """The replica is no longer wanted here: its folder gets another name now and goes later,
        so that a reply that is under way can end."""
        self._set_aside(partition.log, partition.topic.file_delete_delay_ms)

    def delete_unclaimed(self, name: str, topic_id: bytes) -> None:
        """A topic is deleted of which logs are here that no image has named."""
        for tp, (log, _) in list(self._unclaimed.items()):
            if tp.topic == name and log.topic_id == topic_id:
                del self._unclaimed[tp]
                self._set_aside(log)

    def _set_aside(self, log: PartitionLog, delay_ms: int = FILE_DELETE_DELAY_MS) -> None:
        try:
            aside = log.rename_for_deletion(self._node.rng.randbytes(16))
        except DiskError as error:
            self._node.report(Level.ERROR, f"{log.directory} can't be deleted: {error}")
            return
        self._remove_later(aside, delay_ms)

    def _remove_later(self, directory: str, delay_ms: int) -> None:
        node = self._node

        def done(ended: JobDone) -> None:
            if ended.error is not None:
                node.report(Level.ERROR, f"{directory} is not removed: {ended.error}")

        node.timers.call_at(
            node.now_ms + delay_ms,
            lambda: node.run_job(lambda: node.disk.remove_tree(directory), done),
        )

    def close(self, partitions: Collection[Partition]) -> None:
        """Flush and close all logs, write the checkpoints, and last the marker that says so."""
        node = self._node
        try:
            logs = list(self._unclaimed.values())
            logs += [(partition.log, partition.producers) for partition in partitions]
            for log, producers in logs:
                end_offset = log.close()
                log.snapshots.write_last(end_offset, producers.entries())
            self.write_recovery_points()
            self._high_watermark_file.write_now()
            self._log_start_file.write_now()
            self._cleaned_file.write_now()
            checkpoints.mark_clean_shutdown(node.disk, node.broker_epoch)
        except DiskError as error:
            node.report(Level.ERROR, f"not stopped cleanly, the next start recovers: {error}")


def log_config(topic: TopicConfig) -> LogConfig:
    """The part of a topic's configuration that its log obeys."""
    return LogConfig(**{name: getattr(topic, name) for name in LogConfig.__dataclass_fields__})
