"""The log of one partition: appends, reads and truncations by offset. The one writer of its bytes.

Leader's appends stamp offsets and epoch into the caller's buffer and write it as it is; follower's
appends keep what was fetched. Reads answer with file ranges. All offsets handed in are trusted to
be what the replica rules allow (HW, LSO, truncation points): this room knows bytes and offsets
only.

Errors: DiskError when the file system refuses, LogCorrupt when what it gives back is no log. After
either the partition is to be taken offline: `abandon` it.
"""

from collections.abc import Sequence
from typing import Final

from replog.log import recovery
from replog.log.config import LogConfig
from replog.log.disk import Disk
from replog.log.durability import DurableLog
from replog.log.epoch_file import EpochFile
from replog.log.fetched import takeable
from replog.log.files import folder_for_deletion
from replog.log.identity import identify
from replog.log.producer_snapshot import ProducerSnapshots
from replog.log.reading import ReadableLog
from replog.log.results import (
    NO_APPEND_TIME,
    AppendResult,
    RecoveryReport,
    Truncation,
)
from replog.log.segment import Segment
from replog.log.shrinking import ShrinkingLog
from replog.log.transaction_index import AbortedTransactions
from replog.records.header import (
    BatchHeader,
    size_of,
    stamp,
    stamp_log_append_time,
)

_INDEX_ENTRY_BYTES_MAX: Final = 12
# Of a batch, and of an offset in its segment: indexes hold them in 32 bits.
_POSITION_MAX: Final = 2**31 - 1


class PartitionLog(ReadableLog, ShrinkingLog, DurableLog):
    """See the module's text. Make one with `open`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        topic_id: bytes,
        segments: list[Segment],
        epochs: EpochFile,
        report: RecoveryReport,
    ) -> None:
        """Use `open`."""
        ShrinkingLog.__init__(self)
        DurableLog.__init__(self)
        self._disk = disk
        self._segments = segments
        self._active = segments[-1]
        self._epochs = epochs
        self._loaded: list[Segment] = []  # sealed ones with indexes in memory, latest used last
        self._cuts = 0  # truncations so far: a flush that was begun before one proves nothing
        self.directory = directory
        self.config = config
        self.topic_id = topic_id
        self.recovery = report
        self.log_start_offset = segments[0].base_offset
        self.log_end_offset = self._active.next_offset
        self.snapshots = ProducerSnapshots(disk, directory)
        self.snapshots.load(self.log_end_offset)
        self.aborted = AbortedTransactions(disk, directory, segments)
        if not self.aborted.load(disk.list(directory), report.reasons):
            self.snapshots.cut(-1)  # to read all of it, and so make the index anew

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        topic_id: bytes,
        recovery_point: int,
        clean: bool,
        log_start_offset: int = 0,
    ) -> "PartitionLog":
        """Open the folder, or make it; recover what an unclean stop left.

        `clean` says that the last process closed all logs; `recovery_point` is the offset up to
        which the log was flushed by the checkpoint (0 when unknown), `log_start_offset` likewise.
        Raises DiskError, LogCorrupt, and TopicIdMismatch (a LogCorrupt) for another topic's folder.
        """
        report = RecoveryReport()
        identify(disk, directory, topic_id, report)
        segments = recovery.open_segments(
            disk, directory, config.index_interval_bytes, report, clean=clean
        )
        epochs = EpochFile(disk, directory)
        trusted = clean and bool(segments) and recovery.trust(segments, epochs, report)
        recovered = bool(segments) and not trusted
        if recovered:
            recovery.recover(
                segments, epochs, recovery_point, report, log_start_offset=log_start_offset
            )
        elif not segments:
            epochs.create()
            segments.append(
                Segment.create(disk, directory, log_start_offset, config.index_interval_bytes)
            )
        log = cls(
            disk,
            directory,
            config,
            topic_id=topic_id,
            segments=segments,
            epochs=epochs,
            report=report,
        )
        if not (trusted or recovered):
            log._reserve()
        log.recovery_point = min(recovery_point, log.log_end_offset)
        if recovered and report.lost_anything:
            log.flush()  # nobody will know that something was cut off, should it come back
        elif recovered:
            log.unsynced_cut = log.recovery_point  # by the last process, for all that is known
        if log_start_offset > log.log_end_offset and not clean:
            # All that a power cut has left was deleted before: no offset is given twice.
            report.reasons.append(f"{directory} begins anew at {log_start_offset}, its known start")
            log.reset_to(log_start_offset)
        log.log_start_offset = min(max(log_start_offset, log.log_start_offset), log.log_end_offset)
        epochs.truncate_from_start(log.log_start_offset)
        return log

    # Facts --------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all segments' logs."""
        return sum(segment.size for segment in self._segments)

    @property
    def base_offsets(self) -> list[int]:
        """Of the segments, rising. The first may lie below the log's start."""
        return [segment.base_offset for segment in self._segments]

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch that this log knows, -1 when it knows none."""
        return self._epochs.latest_epoch

    def epoch_entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of all known epochs, oldest first."""
        return self._epochs.entries()

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the batch that holds `offset`, -1 when that is not known."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, its end): see `EpochFile.end_offset_for`."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    # Appends ------------------------------------------------------------------------------------

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that a leadership begins, before anything is written in it. Raises DiskError."""
        self._epochs.assign(epoch, start_offset)

    def append_as_leader(
        self,
        buffer: bytearray | memoryview,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        wall_ms: int,
    ) -> AppendResult:
        """Give the batches of `headers` (adjacent in the writable `buffer`) the next offsets.

        Stamps `buffer` and `headers`, then writes once. `wall_ms` is the records' time on a topic
        with LogAppendTime. Raises DiskError; then nothing was appended.
        """
        first_offset = next_offset = self.log_end_offset
        append_time = NO_APPEND_TIME
        if self.config.log_append_time:
            append_time = wall_ms
            for header in headers:
                stamp_log_append_time(buffer, header, wall_ms)
        for header in headers:
            header.base_offset = next_offset
            header.leader_epoch = leader_epoch
            stamp(buffer, header.position, next_offset, leader_epoch)
            next_offset += header.last_offset_delta + 1
        if leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(leader_epoch, first_offset)
        start, end = headers[0].position, size_of(headers)
        rolled = self._must_roll(headers[0], end - start)
        self._append(memoryview(buffer)[start:end], headers, rolled)
        return AppendResult(
            first_offset, next_offset - 1, end - start, append_time, rolled, headers
        )

    def append_as_follower(self, buffer: bytes | bytearray | memoryview) -> AppendResult:
        """Append fetched batches as they are; a last one that is cut off is left out.

        Offsets may be missing: compaction took them, perhaps before the topic's policy changed.
        What is in front of a batch that can't be taken is appended, so that the next fetch begins
        with that one. Raises OffsetsNotContiguous or CorruptBatch for the first (nothing appended),
        or DiskError (a part of the batches may be in the log, whole ones only: ask again from
        `log_end_offset`).
        """
        first_offset = self.log_end_offset
        view = memoryview(buffer)
        headers, skipped = takeable(view, first_offset)
        rolled = False
        done = end = 0
        while done < len(headers):
            rolls = self._must_roll(headers[done], headers[done].length)
            upto = self._fitting(headers, done, rolls)
            part = headers[done:upto]
            if part[-1].leader_epoch > self._epochs.latest_epoch:
                for header in part:
                    self._epochs.assign(header.leader_epoch, header.base_offset)
            end = size_of(part)
            self._append(view[part[0].position : end], part, rolls)
            rolled = rolled or rolls
            done = upto
        return AppendResult(
            first_offset, self.log_end_offset - 1, end, NO_APPEND_TIME, rolled, headers, skipped
        )

    def _fitting(self, headers: Sequence[BatchHeader], first: int, rolls: bool) -> int:
        """Up to which header the batches from `first` on go into one segment: at least one."""
        if first + 1 == len(headers):
            return first + 1
        active = self._active
        size = 0 if rolls else active.size
        base_offset = active.base_offset if size else headers[first].base_offset
        room = self.config.segment_bytes - size
        start = headers[first].position
        index = first + 1
        while index < len(headers):
            header = headers[index]
            if (
                header.position + header.length - start > room
                or header.last_offset - base_offset > _POSITION_MAX
            ):
                break
            index += 1
        return index

    def _append(self, data: memoryview, headers: Sequence[BatchHeader], rolls: bool) -> None:
        """Write into the active segment, or into a new one when it `rolls`."""
        active = self._roll(self._next_base(headers)) if rolls else self._active
        active.append(data, headers)
        self.log_end_offset = active.next_offset

    def _next_base(self, headers: Sequence[BatchHeader]) -> int:
        """Where a segment begins that is to hold these: at the end of the log, even if offsets are
        missing there. Recovery takes what is between two segments for a segment that was lost. Only
        offsets too far away to be told in its indexes begin further on."""
        return max(self.log_end_offset, headers[-1].last_offset - _POSITION_MAX)

    def _must_roll(self, header: BatchHeader, length: int) -> bool:
        """Whether so many bytes that begin with this batch belong into a new segment."""
        active, config = self._active, self.config
        size = active.size
        if not size:
            return False
        first_timestamp = active.first_timestamp
        return (
            size + length > config.segment_bytes
            or header.base_offset + header.last_offset_delta - active.base_offset > _POSITION_MAX
            or active.index_bytes > config.segment_index_bytes - _INDEX_ENTRY_BYTES_MAX
            or (
                first_timestamp is not None
                and first_timestamp >= 0
                and header.max_timestamp - first_timestamp > config.roll_ms_min
                and header.max_timestamp - first_timestamp > config.roll_ms(active.stem)
            )
        )

    def roll(self) -> None:
        """Seal the active segment, if it has anything, and begin another. Raises DiskError."""
        if self._active.size:
            self._roll(self.log_end_offset)

    def _roll(self, base_offset: int) -> Segment:
        active = self._active
        active.seal()
        # At most the newest segment may lose its name in a power cut, or the log would have a hole.
        # A flush outside the step has mostly seen to it since the last roll.
        if self._names_synced < self._names:
            self._flush_names()
        created = Segment.create(
            self._disk, self.directory, base_offset, self.config.index_interval_bytes
        )
        active.next_offset = base_offset
        self._names += 1
        self._segments.append(created)
        self._active = created
        self._keep_loaded(active)
        self._reserve()
        return created

    def _reserve(self) -> None:
        """`preallocate`: the new segment has all its room from the beginning. That is kept beside
        the file's length, so that recovery finds no zeros behind the last batch (Kafka's does)."""
        if self.config.preallocate:
            self._active.file.reserve(self.config.segment_bytes)

    # Cuts ---------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> Truncation | None:
        """Remove all records from `offset` on, and the batch that holds it; None without any.

        Later segments lose their names but not their bytes: only the returned file's change. An
        `offset` before the first segment begins the log anew there. Epochs that begin at `offset`
        are forgotten even when no record goes: a leadership that wrote nothing is no common
        history. Raises DiskError, LogCorrupt.
        """
        if offset >= self.log_end_offset:
            self._epochs.truncate_from_end(offset)
            return None
        self._drop_replaced()
        first = self._segments[0]
        if offset < first.base_offset:
            self.reset_to(offset)
            return Truncation(first.file, 0, True)
        index = self._index_of(offset)
        self._remove_from(index + 1)
        self._active = active = self._segments[index]
        if active in self._loaded:
            self._loaded.remove(active)
        position = active.truncate(offset)
        self._ends_at(active.next_offset)
        end = self.log_end_offset
        self.unsynced_cut = end if self.unsynced_cut is None else min(self.unsynced_cut, end)
        lowered = self.recovery_point > self.log_end_offset
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        return Truncation(active.file, active.size if position is None else position, lowered)

    def reset_to(self, offset: int, producers: bytes = b"") -> None:
        """Remove everything; the log begins and ends at `offset`. Raises DiskError.

        `producers` is a snapshot of what is known of producers by batches below `offset`, if
        anything. The recovery point checkpoint must be written before the next append.
        """
        self._drop_replaced()
        self._remove_from(0)
        self._epochs.clear()
        self._epochs.sync()  # or the old ones would be told of the new log after a power cut
        self.snapshots.cut(-1)  # they tell of a history that nothing here goes on with
        self.aborted.cut(-1)
        if producers:
            self.snapshots.adopt(offset, producers)
        self._active = Segment.create(
            self._disk, self.directory, offset, self.config.index_interval_bytes
        )
        # Without its name, the log would begin at 0 again after a power cut.
        self._names += 1
        self._flush_names()
        self._segments.append(self._active)
        self.log_start_offset = offset
        self._ends_at(offset)
        self.unsynced_cut = None
        self.recovery_point = offset
        self._reserve()

    def _remove_from(self, keep: int) -> None:
        # From the end, each for good before the next: a crash in between leaves a log without a
        # hole, and none of them comes back after a power cut to stand behind what is new.
        while len(self._segments) > keep:
            segment = self._segments[-1]
            segment.remove()
            self._disk.sync_directory(self.directory)
            self._segments.pop()
            if segment in self._loaded:
                self._loaded.remove(segment)

    def _ends_at(self, end_offset: int) -> None:
        self._cuts += 1
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.cleaned_to = min(self.cleaned_to, end_offset)
        self._epochs.truncate_from_end(end_offset)
        self.snapshots.cut(end_offset)
        self.aborted.cut(end_offset)

    # The end -----------------------------------------------------------------------------------

    def close(self) -> int:
        """Complete the indexes, flush, close; returns the recovery point. Raises DiskError.

        After it, and a clean-shutdown marker, the log opens without a scan.
        """
        self._drop_replaced()
        self._active.seal()
        self._active.sync()
        recovery_point = self.flush()
        self.abandon()
        return recovery_point

    def abandon(self) -> None:
        """Give the files back as they are: the disk failed, or the folder is to be deleted."""
        for flush in self._flushes:
            flush.log_closed = True
        self.snapshots.abandon()
        for segment in self._segments:
            segment.file.close()

    def rename_for_deletion(self, token: bytes) -> str:
        """Abandon the log and give its folder the name under which it waits for `remove_tree`.

        `token` has 16 random bytes. Returns the new name. Raises DiskError.
        """
        self.abandon()
        renamed = folder_for_deletion(self.directory, token)
        self._disk.rename(self.directory, renamed)
        return renamed
