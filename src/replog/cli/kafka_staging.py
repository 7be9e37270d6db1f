"""Copies of Kafka's partitions, made ready for a broker beside its log folder, and proven.

The first copy is opened as a broker would, which recovers what an unclean stop left; every batch of
the source is read, and read again through the copy. The other replicas are copies of that.
"""

import filecmp
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from replog.cli.errors import Failure
from replog.cli.kafka_folders import Copy
from replog.cli.read_only_disk import ReadOnlyDisk
from replog.log import files
from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.partition_log import PartitionLog
from replog.log.results import OutOfRange
from replog.log.walk import walk_batches
from replog.node.partition import replay_producers
from replog.records.errors import CorruptBatch
from replog.records.header import BatchHeader, iterate
from replog.runtime.os_disk import OsDisk

READ_BYTES: Final = 4 * 1024 * 1024

# Indexes are made anew from the log: they cost a walk over headers, and are right then.
_TAKEN: Final = (files.LOG_SUFFIX, files.SNAPSHOT_SUFFIX, files.TRANSACTION_INDEX_SUFFIX)
_TAKEN_WHOLE: Final = (files.LEADER_EPOCH_CHECKPOINT, files.PARTITION_METADATA)

Progress = Callable[[int], None]  # so many more bytes are done


@dataclass(slots=True)
class Content:
    """What a log holds from its start on, as one reader saw it."""

    batches: int = 0
    records: int = 0  # control records among them
    bytes: int = 0
    last_producer_id: int = -1
    gaps: bool = False  # compaction took offsets away
    log_append_time: bool = False  # of the last batch
    end_offset: int = 0
    _sum: Any = field(default_factory=sha256)

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        self.gaps = self.gaps or (self.batches > 0 and header.base_offset != self.end_offset)
        self.batches += 1
        self.records += header.count
        self.bytes += len(batch)
        self.last_producer_id = max(self.last_producer_id, header.producer_id)
        self.log_append_time = header.log_append_time
        self.end_offset = header.next_offset
        self._sum.update(batch)

    @property
    def checksum(self) -> str:
        """SHA-256 over the bytes of all batches, in order."""
        return str(self._sum.hexdigest())


@dataclass(slots=True)
class Staged:
    """A partition that is ready. `cut` tells what an unclean stop of Kafka left half written."""

    copy: Copy
    content: Content
    log_start: int
    end_offset: int
    latest_epoch: int
    open_transactions: int = 0
    cut: str | None = None


def stage(copy: Copy, root: Path, progress: Progress) -> Staged:
    """Put `copy` into the folder `root`, checked from end to end. Raises Failure."""
    target = root / str(copy.tp)
    try:
        _copy_files(copy, target, progress)
        return _prove(copy, root, progress)
    except (LogCorrupt, DiskError, CorruptBatch) as error:
        raise Failure(f"{copy.directory} can't be imported: {error}") from error
    except OSError as error:
        raise Failure(f"{error.filename or target}: {error.strerror}") from error


def _copy_files(copy: Copy, target: Path, progress: Progress) -> None:
    target.mkdir(parents=True)
    for source in sorted(copy.directory.iterdir()):
        name = source.name
        if name in _TAKEN_WHOLE or files.base_offset_of(name, files.LOG_SUFFIX) is not None:
            wanted = True
        elif name.endswith(".swap"):
            wanted = True  # compaction was about to put it in place
        else:
            # What is derived from the log is believed only after a clean stop.
            wanted = copy.clean and name.endswith(_TAKEN)
        if wanted and source.is_file():
            copy_file(source, target / name)
            progress(source.stat().st_size)


def copy_file(source: Path, target: Path) -> None:
    """A copy of the bytes, on stable storage. Raises OSError."""
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())


def _prove(copy: Copy, root: Path, progress: Progress) -> Staged:
    log = PartitionLog.open(
        OsDisk(root),
        str(copy.tp),
        LogConfig(),
        topic_id=copy.topic_id,
        recovery_point=copy.recovery_point,
        clean=copy.clean,
        log_start_offset=copy.log_start,
    )
    try:
        cut = "; ".join(log.recovery.reasons) if log.recovery.lost_anything else None
        if cut is not None and (copy.clean or log.log_end_offset < copy.recovery_point):
            raise LogCorrupt(f"records that were safe are damaged: {cut}")
        for segment in log.segments:
            segment.load()
            segment.seal()
            if segment is not log.segments[-1]:
                segment.unload()
        producers = replay_producers(log, log.recovery.reasons)
        expected = _source_content(copy, log, progress)
        found = _copied_content(log, progress)
        if (found.batches, found.checksum) != (expected.batches, expected.checksum):
            raise LogCorrupt(
                f"the copy has {found.batches} batches, checksum {found.checksum}; the source has "
                f"{expected.batches}, {expected.checksum}"
            )
        staged = Staged(
            copy,
            found,
            log.log_start_offset,
            log.log_end_offset,
            latest_epoch=log.latest_epoch,
            open_transactions=len(producers.transactions.open),
            cut=cut,
        )
        end_offset = log.close()
        log.snapshots.add_unsynced(end_offset, producers.entries())
        return staged
    finally:
        log.abandon()


def _source_content(copy: Copy, log: PartitionLog, progress: Progress) -> Content:
    """Read from Kafka's own folder, segment by segment, with all CRCs."""
    content = Content()
    disk = ReadOnlyDisk(copy.folder)
    for segment in log.segments:
        path = f"{segment.stem}{files.LOG_SUFFIX}"
        if not disk.exists(path):
            path += ".swap"
        file = disk.open(path)
        try:
            for _, header, batch in walk_batches(file, min(segment.size, file.size())):
                if header.next_offset > log.log_start_offset:
                    content.add(header, batch)
        finally:
            file.close()
        progress(segment.size)
    return content


def _copied_content(log: PartitionLog, progress: Progress) -> Content:
    """Read as a follower reads."""
    content = Content()
    offset = log.log_start_offset
    while True:
        read = log.read(offset, READ_BYTES, upto=log.log_end_offset, min_one=True)
        if isinstance(read, OutOfRange) or read.range is None:
            return content
        data = memoryview(read.range.read())
        for header in iterate(data):
            content.add(header, data[header.position : header.position + header.length])
            offset = header.next_offset
        progress(len(data))


def replicate(staged: Path, target: Path, progress: Progress) -> None:
    """Another replica: the same files, compared byte by byte. Raises Failure."""
    try:
        target.mkdir(parents=True)
        for source in sorted(staged.iterdir()):
            copy_file(source, target / source.name)
            if not filecmp.cmp(source, target / source.name, shallow=False):
                raise Failure(f"{target / source.name} is not what was written to it")
            progress(source.stat().st_size if source.suffix == files.LOG_SUFFIX else 0)
        OsDisk(target.parent).sync_directory(target.name)
    except DiskError as error:
        raise Failure(str(error)) from error
    except OSError as error:
        raise Failure(f"{error.filename or target}: {error.strerror}") from error
