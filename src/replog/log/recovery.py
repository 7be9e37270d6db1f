"""Opening a log: which of its files can be trusted, and what is cut, removed or made anew.

After a clean stop sizes are trusted. Otherwise everything from the recovery point on (what was
never flushed) is read and its CRCs checked; the log ends before the first batch that is not sound,
and later segments go. What lies before the recovery point is never cut here: if that is broken,
only a leader's copy can mend it. Indexes and epoch file are caches: what is wrong with them costs
time, not records.
"""

import zlib
from contextlib import suppress
from itertools import pairwise
from struct import Struct
from typing import Final

from crc32c import crc32c

from replog.log import files, leftovers
from replog.log.disk import Disk
from replog.log.epoch_file import EpochFile
from replog.log.errors import LogCorrupt
from replog.log.results import RecoveryReport
from replog.log.segment import Segment
from replog.model.ids import NO_EPOCH
from replog.records.header import (
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
)

# Read at once while CRCs are checked: large, since all of it is looked at.
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_OFFSETS_OF_SEGMENT_MAX: Final = 2**31 - 1  # indexes hold them as 32-bit numbers
_OLD_MESSAGE_PREFIX = Struct(">qiIb")  # offset, length, CRC, magic of the formats before 2

_LEFTOVER_SUFFIXES: Final = (".deleted", ".cleaned", ".tmp")


def open_segments(
    disk: Disk, directory: str, index_interval_bytes: int, report: RecoveryReport, *, clean: bool
) -> list[Segment]:
    """All segments of the folder in order, after leftovers of earlier work are gone."""
    names = disk.list(directory)
    replacing = leftovers.settle_swaps(disk, directory, names, report)
    if replacing:
        names = disk.list(directory)
    bases = set()
    for name in names:
        base_offset = files.base_offset_of(name, files.LOG_SUFFIX)
        if base_offset is not None:
            bases.add(base_offset)
    for name in names:
        if name.endswith(_LEFTOVER_SUFFIXES):
            disk.remove(f"{directory}/{name}")
        for suffix in (files.INDEX_SUFFIX, files.TIME_INDEX_SUFFIX):
            orphan = files.base_offset_of(name, suffix)
            if orphan is not None and orphan not in bases:
                disk.remove(f"{directory}/{name}")
    segments = [
        Segment.open(disk, directory, base_offset, index_interval_bytes)
        for base_offset in sorted(bases)
    ]
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    if replacing or not clean:
        leftovers.drop_replaced(disk, directory, segments, report)
    return segments


def trust(segments: list[Segment], epochs: EpochFile, report: RecoveryReport) -> bool:
    """After a clean stop. False when the end of the log can't be followed after all: `recover`."""
    for segment in segments:
        segment.dirty = segment.entries_dirty = False
    if segments:
        try:
            segments[-1].load()
        except LogCorrupt as error:
            report.reasons.append(str(error))
            return False
    if not _load_epochs(segments, epochs):
        report.epochs_rebuilt = True
        observed = _Epochs()
        for segment in segments:
            for header in segment.headers(0):
                observed.observe(header)
        epochs.restore(observed.entries)
    return True


def recover(
    segments: list[Segment],
    epochs: EpochFile,
    recovery_point: int,
    report: RecoveryReport,
    *,
    log_start_offset: int,
) -> None:
    """Check everything from `recovery_point` on, cut what is not sound, remove what lies behind.

    Below the log's start, what is in front of a hole goes instead: those segments were leaving when
    power went, and some of their names are back without others.

    Raises LogCorrupt when something before the recovery point is not sound.
    """
    report.epochs_rebuilt = not _load_epochs(segments, epochs)
    first = _first_to_check(segments, recovery_point)
    observed = _Epochs()
    if report.epochs_rebuilt:
        for segment in segments[:first]:
            for header in segment.headers(0):
                observed.observe(header)
    for segment in segments[:first]:
        segment.dirty = segment.entries_dirty = False
    if first and segments[first].base_offset == recovery_point:
        _complete_entries(segments[first - 1])
    index = first
    while index < len(segments):
        segment = segments[index]
        start = 0 if report.epochs_rebuilt else recovery_point
        truncated = report.bytes_truncated
        _SegmentScan(segment, observed, report).run(start, recovery_point)
        index += 1
        if report.bytes_truncated > truncated or _ends_here(segments, index - 1, recovery_point):
            if index < len(segments) and segments[index].base_offset <= log_start_offset:
                index = _remove_in_front(segments, index)
            else:
                _remove_behind(segments, index, report)
    for segment in segments[first:-1]:
        segment.seal()  # or its last time is known to this process alone
    epochs.restore(_merged(epochs.entries(), observed, segments))


def _load_epochs(segments: list[Segment], epochs: EpochFile) -> bool:
    """False when the file says nothing of a log that has records: power may have gone meanwhile."""
    if not epochs.load():
        return False
    return bool(epochs.latest_epoch >= 0 or not any(segment.size for segment in segments))


def _first_to_check(segments: list[Segment], recovery_point: int) -> int:
    """The segment that holds the recovery point, or would."""
    index = max(len(segments) - 1, 0)
    while index > 0 and segments[index].base_offset > recovery_point:
        index -= 1
    return index


def _complete_entries(segment: Segment) -> None:
    """Make the end of a sealed segment's indexes anew, which power may have taken.

    Its bytes were flushed, perhaps while it was the active one, of which a flush leaves the indexes
    alone. Raises DiskError.
    """
    next_offset = segment.next_offset
    with suppress(LogCorrupt):  # who reads the records finds that, and tells
        position, _ = segment.begin_recovery(next_offset)
        for header in segment.headers(position):
            segment.note(header, header.position)
        segment.seal()
    segment.unload()
    segment.next_offset = next_offset
    segment.entries_dirty = True


def _ends_here(segments: list[Segment], index: int, recovery_point: int) -> bool:
    """Whether the log can't go on with the next segment, though this one is sound.

    Behind the recovery point every segment begins where the one in front of it ends: only
    compaction leaves holes, and it touches what is flushed. Raises LogCorrupt when flushed segments
    overlap.
    """
    if index + 1 == len(segments):
        return False
    end_offset, following = segments[index].next_offset, segments[index + 1]
    if following.base_offset < end_offset and following.base_offset < recovery_point:
        raise LogCorrupt(f"{following.stem}.log begins before the one in front of it ends")
    return following.base_offset != end_offset and following.base_offset > recovery_point


def _remove_behind(segments: list[Segment], keep: int, report: RecoveryReport) -> None:
    # From the end, so that a crash in between leaves a log without a hole.
    while len(segments) > keep:
        segment = segments.pop()
        report.segments_removed += 1
        report.bytes_truncated += segment.size
        report.reasons.append(f"{segment.stem}.log is behind the end")
        segment.remove()


def _remove_in_front(segments: list[Segment], keep: int) -> int:
    for segment in segments[:keep]:
        segment.remove()
    del segments[:keep]
    return 0


class _Epochs:
    """Epochs as the batches that were looked at tell them."""

    __slots__ = ("entries", "first_batch")

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.first_batch: tuple[int, int] | None = None  # its epoch and offset

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def observe(self, header: BatchHeader) -> None:
        epoch = header.leader_epoch
        if self.first_batch is None:
            self.first_batch = (epoch, header.base_offset)
        if epoch > self.latest:
            self.entries.append((epoch, header.base_offset))


def _merged(
    stored: list[tuple[int, int]], observed: _Epochs, segments: list[Segment]
) -> list[tuple[int, int]]:
    """What the file says of the part that was not looked at, then what the batches say.

    An epoch without a batch that began at the end is forgotten, as are those that contradict a
    batch: they tell of a log that was longer, or another one.
    """
    end_offset = segments[-1].next_offset if segments else 0
    if observed.first_batch is None:
        return [entry for entry in stored if entry[1] < end_offset]
    first_epoch, first_offset = observed.first_batch
    kept = [entry for entry in stored if entry[0] <= first_epoch and entry[1] < first_offset]
    latest = kept[-1][0] if kept else NO_EPOCH
    return kept + [entry for entry in observed.entries if entry[0] > latest]


class _SegmentScan:
    """Reads the batches of one segment, checks them and takes note of them."""

    def __init__(self, segment: Segment, epochs: _Epochs, report: RecoveryReport) -> None:
        self._segment = segment
        self._epochs = epochs
        self._report = report
        self._data = b""
        self._view = memoryview(self._data)
        self._data_start = 0

    def run(self, start_offset: int, recovery_point: int) -> None:
        """Check from the batch of `start_offset` on; cut at the first that is not sound.

        Raises LogCorrupt when that one is before `recovery_point`.
        """
        segment = self._segment
        position, rebuilt = segment.begin_recovery(start_offset)
        if rebuilt and segment.size:
            self._report.indexes_rebuilt += 1
        while position < segment.size:
            header = self._header_at(position)
            if header is None or not self._sound(header):
                fault = self._short(position) if header is None else self._fault(header)
                if header is None or fault is not None:
                    self._cut(position, fault, recovery_point)
                    return
            if header.leader_epoch != self._epochs.latest:
                self._epochs.observe(header)
            segment.note(header, position)
            self._report.batches_scanned += 1
            position += header.length

    def _cut(self, position: int, fault: str | None, recovery_point: int) -> None:
        segment = self._segment
        reason = f"{segment.stem}.log at {position}: {fault}"
        if segment.next_offset < recovery_point:
            raise LogCorrupt(f"{reason}; this was flushed up to offset {recovery_point}")
        self._report.reasons.append(reason)
        self._report.bytes_truncated += segment.size - position
        segment.cut_to(position)

    def _header_at(self, position: int) -> BatchHeader | None:
        """The header there, with `position` in the file; None when the file is too short."""
        if position + HEADER_SIZE > self._segment.size:
            return None
        self._read(position, HEADER_SIZE)
        header = BatchHeader(self._data, position - self._data_start)
        header.position = position
        return header

    def _read(self, position: int, length: int) -> None:
        """Have `length` bytes (at most a chunk) from `position` on in `_data`."""
        if position + length > self._data_start + len(self._data):
            self._data = self._segment.file.read(position, _CHUNK_BYTES)
            self._view = memoryview(self._data)
            self._data_start = position

    def _sound(self, header: BatchHeader) -> bool:
        """`_fault` in short, for a batch that lies in the chunk that was read. False: ask it."""
        segment = self._segment
        index = header.position - self._data_start
        end = index + header.length
        delta = header.last_offset_delta
        return (
            header.length >= HEADER_SIZE
            and end <= len(self._data)
            and header.magic == MAGIC
            and header.base_offset >= segment.next_offset
            and 0 <= delta < _OFFSETS_OF_SEGMENT_MAX
            and header.base_offset + delta - segment.base_offset <= _OFFSETS_OF_SEGMENT_MAX
            and header.leader_epoch >= self._epochs.latest
            and crc32c(self._view[index + CRC_COVERS_FROM : end]) == header.crc
        )

    def _fault(self, header: BatchHeader) -> str | None:
        """Why these bytes are not the next batch of this segment."""
        segment = self._segment
        if header.length < HEADER_SIZE or header.magic != MAGIC:
            self._refuse_old_format(header.position)
            return f"no batch (length {header.length - LOG_OVERHEAD}, magic {header.magic})"
        if header.position + header.length > segment.size:
            return f"a batch of {header.length} bytes is cut off"
        if 0 <= header.leader_epoch < self._epochs.latest:
            return f"epoch {header.leader_epoch} comes after {self._epochs.latest}"
        if header.base_offset < segment.next_offset:
            return f"offset {header.base_offset} comes after {segment.next_offset - 1}"
        if not 0 <= header.last_offset_delta < _OFFSETS_OF_SEGMENT_MAX:
            return f"last offset delta {header.last_offset_delta}"
        if header.last_offset - segment.base_offset > _OFFSETS_OF_SEGMENT_MAX:
            return f"offset {header.last_offset} does not belong into this segment"
        if self._crc(header) != header.crc:
            return "the CRC does not match"
        return None

    def _crc(self, header: BatchHeader) -> int:
        position = header.position + CRC_COVERS_FROM
        left = header.length - CRC_COVERS_FROM
        crc = 0
        while left:
            piece = min(left, _CHUNK_BYTES)
            self._read(position, piece)
            index = position - self._data_start
            crc = crc32c(self._view[index : index + piece], crc)
            position += piece
            left -= piece
        return crc

    def _short(self, position: int) -> str:
        self._refuse_old_format(position)
        return "the file ends inside a header"

    def _refuse_old_format(self, position: int) -> None:
        """Sound messages of magic 0 or 1 are somebody's records: never cut them off as garbage."""
        left = self._segment.size - position
        if left < _OLD_MESSAGE_PREFIX.size:
            return
        self._read(position, min(left, _CHUNK_BYTES))
        index = position - self._data_start
        _, length, crc, magic = _OLD_MESSAGE_PREFIX.unpack_from(self._data, index)
        size = length + LOG_OVERHEAD
        if magic not in (0, 1) or not 26 <= size <= min(left, _CHUNK_BYTES):
            return
        if zlib.crc32(self._view[index + 16 : index + size]) == crc & 0xFFFFFFFF:
            raise LogCorrupt(
                f"{self._segment.stem}.log holds messages of format {magic}, not {MAGIC}"
            )
