"""Reading a log by offset and by time. The half of `PartitionLog` that changes nothing."""

from collections.abc import Iterator
from typing import Final

from replog.log.errors import LogCorrupt
from replog.log.results import LogRead, OutOfRange
from replog.log.segment import Segment
from replog.log.time_lookup import TimeAndOffset, find_latest, find_time
from replog.records.header import BatchHeader, crc_ok

# Sealed segments whose indexes stay in memory (two megabytes each for a full gigabyte of small
# batches).
LOADED_SEGMENTS_MAX: Final = 4


class ReadableLog:
    """Finds the segment of an offset or a time, and asks it. `PartitionLog` sets the attributes."""

    _segments: list[Segment]
    _active: Segment
    _loaded: list[Segment]  # sealed ones with indexes in memory, latest used last
    log_start_offset: int
    log_end_offset: int

    def read(
        self, offset: int, max_bytes: int, *, upto: int, min_one: bool, whole: bool = True
    ) -> LogRead | OutOfRange:
        """Batches from the one that holds `offset` on, from one segment, at most `max_bytes`.

        Nothing at or behind `upto` (a batch that reaches across it is left out). With `min_one` the
        first batch comes even when it is larger. Where they need not be `whole`, as many bytes come
        as there may be, and a reader leaves the rest of the last batch aside. Raises LogCorrupt or
        DiskError.
        """
        end_offset = self.log_end_offset
        if upto > end_offset:
            upto = end_offset
        if offset < self.log_start_offset or offset > end_offset:
            return OutOfRange(self.log_start_offset, end_offset)
        if offset >= upto:
            return LogRead(None, offset)
        segment = self._active
        if offset >= segment.base_offset:
            return LogRead(segment.range(offset, upto, max_bytes, min_one, whole=whole), offset)
        index = self._index_of(offset)
        while index < len(self._segments):
            segment = self._segments[index]
            if segment.base_offset >= upto:
                break
            self._keep_loaded(segment)
            if segment.position_of(offset) < segment.size:
                return LogRead(segment.range(offset, upto, max_bytes, min_one, whole=whole), offset)
            index += 1  # compaction took the rest of this segment
        return LogRead(None, offset)

    def fault_at(self, offset: int) -> str | None:
        """What is wrong with the batch that holds `offset`; None when it is as it was written, or
        there is none. Raises DiskError."""
        try:
            read = self.read(offset, 1, upto=self.log_end_offset, min_one=True)
        except LogCorrupt as error:
            return str(error)
        if not isinstance(read, LogRead) or read.range is None:
            return None
        data = read.range.read()
        if crc_ok(data, BatchHeader(data, 0)):
            return None
        return f"{read.range.file!r}: the CRC of the batch at {read.range.position} does not match"

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """Headers of all batches from the one that holds `offset` on, read in large pieces.

        Each `position` is the one in its segment's file. The log must not change meanwhile.
        """
        for index in range(self._index_of(offset), len(self._segments)):
            segment = self._segments[index]
            self._keep_loaded(segment)
            yield from segment.headers(segment.position_of(offset))

    def offset_for_time(self, timestamp: int) -> TimeAndOffset | None:
        """The first record, by offset, that is not earlier than `timestamp` (ms), or None."""
        found = find_time(self._segments, timestamp, self.log_start_offset)
        self._note_loaded()
        return found

    def offset_for_latest_time(self) -> TimeAndOffset | None:
        """The first record that has the largest timestamp (KIP-734); None in an empty log."""
        found = find_latest(self._segments, self.log_start_offset)
        self._note_loaded()
        return found

    def _index_of(self, offset: int) -> int:
        """Index of the segment that holds `offset`, or the first one."""
        low, high = 0, len(self._segments)
        while high - low > 1:
            middle = (low + high) // 2
            if self._segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle
        return low

    def _keep_loaded(self, segment: Segment) -> None:
        """Note the use of a sealed segment's indexes; the least used ones leave memory."""
        if segment is self._active or (self._loaded and self._loaded[-1] is segment):
            return
        if segment in self._loaded:
            self._loaded.remove(segment)
        self._loaded.append(segment)
        if len(self._loaded) > LOADED_SEGMENTS_MAX:
            self._loaded.pop(0).unload()

    def _note_loaded(self) -> None:
        for segment in self._segments[:-1]:
            if segment.loaded:
                self._keep_loaded(segment)
