"""Finding batches in a segment file by their headers, with few and bounded reads."""

import struct
from collections.abc import Iterator
from typing import Final

from replog.log.disk import DiskFile
from replog.log.errors import LogCorrupt
from replog.records.header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

# Enough to find a batch behind an index entry with one read, when batches are small.
LOOKUP_BYTES: Final = 8192
# For whoever walks a whole log: large enough to be limited by memory, not by calls.
WALK_BYTES: Final = 256 * 1024

# base offset, length, (epoch,) magic, (CRC, attributes,) last offset delta
_SPAN = struct.Struct(">qi4xb6xi")
_SPAN_SIZE: Final = _SPAN.size

Span = tuple[int, int, int]  # of a batch: base offset, size in bytes, last offset


class SpanWindow:
    """Where the batches of a file begin and end, and which offsets they hold."""

    __slots__ = ("_data", "_end", "_file", "_start")

    def __init__(self, file: DiskFile, end: int) -> None:
        self._file = file
        self._end = end  # nothing valid is at or behind this position
        self._data = b""
        self._start = 0

    def at(self, position: int) -> Span:
        """The batch at `position`.

        Raises LogCorrupt when there is none: batches are checked before they get here.
        """
        index = position - self._start
        if index < 0 or index + _SPAN_SIZE > len(self._data):
            self._data = self._file.read(position, LOOKUP_BYTES)
            self._start = position
            index = 0
        return _span(self._file, self._data, index, position, self._end)


def span_at(file: DiskFile, position: int, end: int) -> Span:
    """The one batch at `position`, where nothing at or behind `end` is valid. Raises LogCorrupt."""
    return _span(file, file.read(position, _SPAN_SIZE), 0, position, end)


def _span(file: DiskFile, data: bytes, index: int, position: int, end: int) -> Span:
    try:
        base_offset, length, magic, delta = _SPAN.unpack_from(data, index)
    except struct.error:
        raise LogCorrupt(f"{file!r} ends inside the batch at {position}") from None
    size = length + LOG_OVERHEAD
    if size < HEADER_SIZE or position + size > end or magic != MAGIC or delta < 0:
        raise LogCorrupt(f"{file!r} has no batch at {position}")
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
