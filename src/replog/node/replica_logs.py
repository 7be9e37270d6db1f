"""Logs of the replicas on this broker, in the folders of `log.dirs`: where each is, and goes.

Logs are opened (and recovered) before the broker registers; a partition claims its log when the
first image names it. A log of a topic that a full image does not name at all is a stray: its topic
was deleted while this broker was away. It is renamed and kept, for the coordinator may have lost
what it knew. Topics that the controller can't read just now are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.identity import topic_id_of
from replog.model.cluster import TopicRecord
from replog.model.config import TopicConfig, topic_config
from replog.model.ids import NO_EPOCH, ZERO_TOPIC_ID, TopicPartition
from replog.model.outputs import Level
from replog.model.partition import PartitionRecord
from replog.node.log_folder import FolderSetup, FolderState, LogFolder
from replog.node.log_tasks import OpenedLog, Task
from replog.node.partition import Partition

if TYPE_CHECKING:
    from replog.node.node import Node


@dataclass(frozen=True, slots=True)
class Unopened:
    """Why a replica has no log. `damaged`: there is one, and it is none that can be read;
    `folder_failed`: it is the same for all in a log folder."""

    reason: str
    damaged: bool = False
    folder_failed: bool = False


class ReplicaLogs:
    """The log folders of this broker."""

    def __init__(self, node: Node, setups: Sequence[FolderSetup]) -> None:
        self._node = node
        self.folders = [LogFolder(node, setup) for setup in setups]

    @property
    def stopped_epoch(self) -> int:
        """The broker epoch after which all folders were closed in good order, -1 for none."""
        epochs = {folder.stopped_epoch for folder in self.folders}
        return epochs.pop() if len(epochs) == 1 else NO_EPOCH

    def load(self) -> None:
        """Open and recover every log in every folder. Called once, before anything is served."""
        seen: dict[TopicPartition, LogFolder] = {}
        self._run([folder.begin_load() for folder in self.folders])
        for folder in self.folders:
            folder.end_load()
            for tp in list(folder.unclaimed):
                if tp in seen:
                    seen[tp] = self._choose(tp, seen[tp], folder)
                else:
                    seen[tp] = folder
        self._node.last_broker_epoch = self.stopped_epoch
        self._schedule_checkpoint()

    def _choose(self, tp: TopicPartition, one: LogFolder, other: LogFolder) -> LogFolder:
        """A partition was found twice: one folder had failed, the partition was copied anew into
        another one, and the first is back. The log that goes further is the one in use."""

        def reach(folder: LogFolder) -> tuple[int, int]:
            log, _ = folder.unclaimed[tp]
            return log.latest_epoch, log.log_end_offset

        used, stray = (one, other) if reach(one) >= reach(other) else (other, one)
        self._node.report(
            Level.WARNING,
            f"{tp} is in {used.path} and in {stray.path}: the first is used, the other renamed",
        )
        stray.leave_as_stray(tp)
        return used

    def open(
        self, tp: TopicPartition, topic: TopicRecord, record: PartitionRecord
    ) -> Partition | Unopened:
        """The replica that an image names: with the log on disk, or a new one; or why it can't be
        opened, which is reported."""
        node = self._node
        config = topic_config(node.config, topic.configs)
        found = self._claim(tp, topic.topic_id)
        if found is None:
            folder = self._folder_of(tp, record)
            if isinstance(folder, Unopened):
                node.report(Level.ERROR, f"{tp} can't be opened: {folder.reason}")
                return folder
            try:
                if topic_id_of(folder.disk, str(tp)) is None:  # a power cut may leave such a one
                    folder.forget(tp)
                log, producers = folder.open_log(tp, topic.topic_id, log_config(config))
            except (DiskError, LogCorrupt) as error:
                node.report(Level.ERROR, f"{tp} can't be opened: {error}")
                if isinstance(error, LogCorrupt):
                    return Unopened(str(error), damaged=True)
                folder.failed(error)
                return Unopened(str(error), folder_failed=True)
            folder.count += 1
        else:
            folder, log, producers = found
            log.config = log_config(config)
        return Partition(
            tp,
            topic.topic_id,
            log,
            folder=folder,
            record=record,
            topic=config,
            producers=producers,
            high_watermark=folder.high_watermark(tp),
        )

    def _claim(self, tp: TopicPartition, topic_id: bytes) -> tuple[LogFolder, *OpenedLog] | None:
        """The log that was found at the start; one of another topic of this name is set aside."""
        for folder in self.folders:
            found = folder.unclaimed.get(tp)
            if found is None or folder.state is FolderState.FAILED:
                continue
            del folder.unclaimed[tp]
            if found[0].topic_id == topic_id:
                return (folder, *found)
            folder.set_aside(found[0])
        return None

    def _folder_of(self, tp: TopicPartition, record: PartitionRecord) -> LogFolder | Unopened:
        """Where a replica without an open log is or goes, or why it can be nowhere."""
        is_new = record.leader_epoch == 0 and record.partition_epoch == 0
        relied_on = self._node.broker_id in {*record.isr, *record.elr, *record.last_known_elr}
        # It may be elected for what it has: an empty log must not stand for that.
        must_be_there = relied_on and not is_new
        bereft = [folder.path for folder in self.folders if tp in folder.gone]
        if bereft and must_be_there:
            return Unopened(
                f"it was closed in good order in {bereft[0]}, and is gone: bring it back and start "
                "this broker again, or let another replica lead (replog elect --unclean); a topic "
                "that has no other has to be deleted"
            )
        usable = [folder for folder in self.folders if folder.online]
        for folder in usable:
            if folder.disk.exists(str(tp)):
                return folder
        # What is in a failed folder is not known; in a full one a log may have failed to recover.
        holders = [
            folder
            for folder in self.folders
            if folder.state is FolderState.FAILED
            or (folder.state is FolderState.FULL and folder.disk.exists(str(tp)))
        ]
        if holders and must_be_there:
            reason = f"it may be in {holders[0].path}, which can't be used: {holders[0].reason}"
            return Unopened(reason, folder_failed=True)
        if not usable:
            return Unopened("no log folder takes new partitions", folder_failed=True)
        free = [folder for folder in usable if not self.is_cordoned(folder)]
        return min(free or usable, key=lambda folder: folder.count)

    def is_cordoned(self, folder: LogFolder) -> bool:
        """Whether new partitions go elsewhere while they can."""
        return folder.path in self._node.config.cordoned_log_dirs

    def configure(self, partition: Partition, topic: TopicRecord) -> None:
        """Let the log obey what holds for `topic` now."""
        broker = self._node.config
        if topic.configs != partition.topic.overrides or broker is not partition.topic.broker:
            config = topic_config(broker, topic.configs)
            partition.configure(config, log_config(config))

    # ---- checkpoints -----------------------------------------------------------------------

    def _schedule_checkpoint(self) -> None:
        node = self._node
        interval = node.config.int("replica.high.watermark.checkpoint.interval.ms")
        node.timers.call_at(node.now_ms + interval, self._checkpoint)

    def _checkpoint(self) -> None:
        self._schedule_checkpoint()
        for folder in self.folders:
            folder.write_high_watermarks()

    def write_log_starts(self) -> None:
        """Have it known soon where all logs start."""
        for folder in self.folders:
            folder.write_log_starts()

    # ---- the end of a log --------------------------------------------------------------------

    def delete(self, partition: Partition) -> None:
        """The replica is no longer wanted here."""
        partition.folder.set_aside(partition.log, partition.topic.file_delete_delay_ms)

    def delete_unclaimed(self, name: str, topic_id: bytes) -> None:
        """A topic is deleted of which logs are here that no image has named."""
        for folder in self.folders:
            for tp, (log, _) in list(folder.unclaimed.items()):
                if tp.topic == name and log.topic_id == topic_id:
                    del folder.unclaimed[tp]
                    folder.set_aside(log)

    def rename_strays(self, topics: Mapping[str, TopicRecord]) -> None:
        """These are all topics that there are: a log of any other one is not served any more."""
        for folder in self.folders:
            for tp, (log, _) in list(folder.unclaimed.items()):
                topic = topics.get(tp.topic)
                if topic is None or topic.topic_id not in (log.topic_id, ZERO_TOPIC_ID):
                    self._node.report(
                        Level.WARNING,
                        f"{tp} in {folder.path} belongs to no topic any more: renamed, and kept",
                    )
                    folder.leave_as_stray(tp)

    def delete_unassigned(self, tp: TopicPartition, topic_id: bytes) -> None:
        """A replica went to other brokers while this one was away."""
        for folder in self.folders:
            found = folder.unclaimed.get(tp)
            if found is not None and found[0].topic_id == topic_id:
                del folder.unclaimed[tp]
                folder.set_aside(found[0])

    def close(self) -> None:
        """Flush and close everything; each folder gets the marker of a clean shutdown."""
        self._run([folder.begin_close() for folder in self.folders])
        for folder in self.folders:
            folder.end_close()

    def _run(self, tasks: Sequence[Sequence[Task]]) -> None:
        """Those of each folder on threads of its own: a folder is a device, as a rule."""
        node = self._node
        node.setup.run_tasks(tasks, node.config.num_recovery_threads_per_data_dir)


def log_config(topic: TopicConfig) -> LogConfig:
    """The part of a topic's configuration that its log obeys."""
    return LogConfig(**{name: getattr(topic, name) for name in LogConfig.__dataclass_fields__})
