"""Finding batches in a segment file by their headers, with few and bounded reads."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from replog.log.disk import DiskFile
from replog.log.errors import LogCorrupt
from replog.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

# Enough to find a batch behind an index entry with one read, when batches are small.
LOOKUP_BYTES: Final = 8192
# For whoever walks a whole log: large enough to be limited by memory, not by calls.
WALK_BYTES: Final = 256 * 1024

# base offset, length, (epoch,) magic, (CRC, attributes,) last offset delta
_SPAN = Struct(">qi4xb6xi")
_SPAN_SIZE: Final = _SPAN.size


class SpanWindow:
    """Where the batches of a file begin and end, and which offsets they hold."""

    __slots__ = ("_data", "_end", "_file", "_start")

    def __init__(self, file: DiskFile, end: int) -> None:
        self._file = file
        self._end = end  # nothing valid is at or behind this position
        self._data = b""
        self._start = 0

    def at(self, position: int) -> tuple[int, int, int]:
        """(base offset, size in bytes, last offset) of the batch at `position`.

        Raises LogCorrupt when there is none: batches are checked before they get here.
        """
        index = position - self._start
        if index < 0 or index + _SPAN_SIZE > len(self._data):
            self._data = self._file.read(position, LOOKUP_BYTES)
            self._start = position
            index = 0
            if len(self._data) < _SPAN_SIZE:
                raise LogCorrupt(f"{self._file!r} ends inside the batch at {position}")
        base_offset, length, magic, delta = _SPAN.unpack_from(self._data, index)
        size = length + LOG_OVERHEAD
        if size < HEADER_SIZE or position + size > self._end or magic != MAGIC or delta < 0:
            raise LogCorrupt(f"{self._file!r} has no batch at {position}")
        return base_offset, size, base_offset + delta


def walk_headers(file: DiskFile, position: int, end: int) -> Iterator[BatchHeader]:
    """Headers of the batches from `position` up to `end`; each `position` is the one in the file.

    Payloads are skipped where a batch is larger than a read. Raises LogCorrupt.
    """
    data = b""
    start = position
    while position < end:
        index = position - start
        if index + HEADER_SIZE > len(data):
            data = file.read(position, WALK_BYTES)
            start, index = position, 0
            if len(data) < HEADER_SIZE:
                raise LogCorrupt(f"{file!r} ends inside the header at {position}")
        header = BatchHeader(data, index)
        header.position = position
        if header.length < HEADER_SIZE or header.magic != MAGIC or position + header.length > end:
            raise LogCorrupt(f"{file!r} has no batch at {position}")
        yield header
        position += header.length
