"""Log folders of Apache Kafka brokers: which partitions are in them, and which copy is the best.

Nothing is written. A folder may hold some partitions of a topic only; several folders, of several
brokers or of several disks of one, are looked at together.
"""

import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replog.cli.errors import Failure
from replog.cli.kafka_metadata import BadMetadata, KafkaMetadata, read_metadata
from replog.cli.read_only_disk import ReadOnlyDisk
from replog.log import checkpoints, epoch_file, files
from replog.log.checkpoints import WrongFolder
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.scan import walk_headers
from replog.model.ids import TopicPartition, topic_id_text

# Of no use to a cluster without KRaft, share groups and tiered storage.
LEFT_OUT = frozenset({"__cluster_metadata", "__share_group_state", "__remote_log_metadata"})


@dataclass(frozen=True, slots=True)
class Copy:
    """One replica in one folder. Offsets are what the folder's checkpoints say, 0 without one."""

    tp: TopicPartition
    topic_id: bytes
    folder: Path  # the log folder; the partition's is `tp` in it
    clean: bool  # the broker was stopped in good order
    latest_epoch: int
    end_offset: int  # as far as it can be told without recovery
    log_start: int
    recovery_point: int
    cleaned_to: int
    bytes: int

    @property
    def directory(self) -> Path:
        return self.folder / str(self.tp)


@dataclass(slots=True)
class FoundTopic:
    """A topic, with the best copy of each of its partitions."""

    name: str
    topic_id: bytes
    copies: dict[int, Copy] = field(default_factory=dict)
    configs: dict[str, str] | None = None  # None: no controller's log tells
    partitions: int = 0  # how many there should be
    leader_epochs: dict[int, int] = field(default_factory=dict)  # by partition, as far as told


@dataclass(slots=True)
class Found:
    """All that is in the folders."""

    topics: dict[str, FoundTopic] = field(default_factory=dict)
    next_producer_id: int = 0
    notes: list[str] = field(default_factory=list)


class LogFolders:
    """The folders, locked so that no broker starts on them. Close when done."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Raises Failure when one is no log folder, or in use."""
        self._locks: list[int] = []
        self.folders = [folder.resolve() for folder in folders]
        try:
            for folder in self.folders:
                _check(folder)
                self._lock(folder)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "LogFolders":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in self._locks:
            os.close(descriptor)
        self._locks.clear()

    def _lock(self, folder: Path) -> None:
        try:
            descriptor = os.open(folder / ".lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # never used by a broker, or not ours to lock
        self._locks.append(descriptor)
        try:
            # A JVM takes the one kind of lock, a Replog broker the other.
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise Failure(f"{folder} is in use by a running broker: stop it first") from error

    def look(self) -> Found:
        """What there is. Raises Failure when it can't be made sense of."""
        found = Found()
        clusters = {meta.cluster_id for folder in self.folders if (meta := _meta(folder))}
        if len(clusters) > 1:
            raise Failure(
                f"these folders belong to clusters {', '.join(sorted(clusters))}: import those of "
                "one cluster at a time"
            )
        metadata = [self._metadata(folder, found) for folder in self.folders]
        known = [m for m in metadata if m is not None]
        ids = {topic_id for controllers in known for topic_id in controllers.topics}
        for folder in self.folders:
            for copy in _copies(folder, found):
                if known and copy.topic_id not in ids:
                    found.notes.append(f"{copy.directory} is of a topic that was deleted: left out")
                else:
                    _take(found, copy)
        for topic in found.topics.values():
            topic.partitions = max(topic.copies) + 1
            for controllers in known:
                told = controllers.topics.get(topic.topic_id)
                if told is not None:
                    topic.partitions = max(topic.partitions, told.partitions)
                    topic.configs = dict(told.configs)
                    for index, epoch in told.leader_epochs.items():
                        known_epoch = topic.leader_epochs.get(index, epoch)
                        topic.leader_epochs[index] = max(known_epoch, epoch)
        found.next_producer_id = max((m.next_producer_id for m in known), default=0)
        return found

    def _metadata(self, folder: Path, found: Found) -> KafkaMetadata | None:
        try:
            return read_metadata(folder)
        except BadMetadata as error:
            found.notes.append(f"topics' configurations are not known: {error}")
            return None


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise Failure(f"{folder} is no folder")
    if any(checkpoints.partition_of_directory(child.name) for child in folder.iterdir()):
        return
    below = sorted({str(p.parent.parent) for p in folder.glob("*/**/partition.metadata")})
    hint = f"; log folders below it: {', '.join(below)}" if below else ""
    raise Failure(
        f"{folder} has no partitions: a log folder (Kafka's log.dirs) holds folders such as "
        f"events-0{hint}"
    )


def _meta(folder: Path) -> checkpoints.MetaProperties | None:
    try:
        return checkpoints.read_meta(ReadOnlyDisk(folder))
    except WrongFolder as error:
        raise Failure(f"{folder}: {error}") from error


def _copies(folder: Path, found: Found) -> list[Copy]:
    disk = ReadOnlyDisk(folder)
    if _meta(folder) is None:
        found.notes.append(f"{folder} has no {checkpoints.META_PROPERTIES}: taken as it is")
    offsets: dict[str, dict[TopicPartition, int]] = {}
    for name in (checkpoints.LOG_STARTS, checkpoints.RECOVERY_POINTS, checkpoints.CLEANED):
        offsets[name], fault = checkpoints.read(disk, name)
        if fault is not None:
            found.notes.append(f"{folder / name} is not used: {fault}")
    clean = disk.exists(checkpoints.CLEAN_SHUTDOWN)
    copies = []
    for name in disk.list(""):
        tp = checkpoints.partition_of_directory(name)
        if tp is None or tp.topic in LEFT_OUT or not (folder / name).is_dir():
            continue
        topic_id = checkpoints.topic_id_of(disk, name)
        if topic_id is None:
            raise Failure(
                f"{folder / name} does not tell its topic's id: only folders of Kafka 2.8 and "
                "later, which have a partition.metadata, can be imported"
            )
        end_offset, size = _end_of(disk, name)
        data = disk.read_file(f"{name}/{files.LEADER_EPOCH_CHECKPOINT}")
        epochs = (epoch_file.parse(data) if data is not None else None) or []
        copies.append(
            Copy(
                tp,
                topic_id,
                folder,
                clean,
                latest_epoch=epochs[-1][0] if epochs else -1,
                end_offset=end_offset,
                log_start=offsets[checkpoints.LOG_STARTS].get(tp, 0),
                recovery_point=offsets[checkpoints.RECOVERY_POINTS].get(tp, 0),
                cleaned_to=offsets[checkpoints.CLEANED].get(tp, 0),
                bytes=size,
            )
        )
    return copies


def _end_of(disk: ReadOnlyDisk, directory: str) -> tuple[int, int]:
    """(where the log ends, bytes of its segments)."""
    found = (files.base_offset_of(n, files.LOG_SUFFIX) for n in disk.list(directory))
    bases = sorted(base for base in found if base is not None)
    size = 0
    end_offset = bases[-1] if bases else 0
    for base in bases:
        file = disk.open(files.stem(directory, base) + files.LOG_SUFFIX)
        try:
            size += file.size()
            if base == bases[-1]:
                for header in walk_headers(file, 0, file.size()):
                    end_offset = header.next_offset
        except (LogCorrupt, DiskError):
            continue  # torn off by a crash, or damaged: whoever opens it will say
        finally:
            file.close()
    return end_offset, size


def _take(found: Found, copy: Copy) -> None:
    name = copy.tp.topic
    topic = found.topics.setdefault(name, FoundTopic(name, copy.topic_id))
    if topic.topic_id != copy.topic_id:
        raise Failure(
            f"{copy.directory} belongs to topic id {topic_id_text(copy.topic_id)}, another folder "
            f"of {name!r} to {topic_id_text(topic.topic_id)}: these are two topics of one name"
        )
    there = topic.copies.get(copy.tp.partition)
    # The history of the newest leader holds, and of that the longest copy.
    if there is None or (copy.latest_epoch, copy.end_offset) > (
        there.latest_epoch,
        there.end_offset,
    ):
        topic.copies[copy.tp.partition] = copy
