"""Time index of a segment: (largest timestamp so far, offset of the batch that has it).

An entry (t, o) says: up to and including the batch that ends at o nothing is later than t. On disk
it is a big-endian 64-bit time in milliseconds and the 32-bit offset relative to the segment's base.
"""

from array import array
from bisect import bisect_left, bisect_right
from operator import le, lt
from struct import Struct
from typing import Final

from replog.log.disk import Disk
from replog.log.files import TIME_INDEX_SUFFIX
from replog.log.index_file import IndexFile

ENTRY_SIZE: Final = 12
_ENTRY = Struct(">qI")


class TimeIndex:
    """Entries with strictly rising timestamps and rising offsets."""

    __slots__ = ("_base_offset", "_file", "_offsets", "_timestamps")

    def __init__(self, disk: Disk, stem: str, base_offset: int) -> None:
        self._file = IndexFile(disk, stem + TIME_INDEX_SUFFIX, ENTRY_SIZE)
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("I")

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return len(self._timestamps) * ENTRY_SIZE

    @property
    def last(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry."""
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def create(self) -> None:
        """Begin with an empty file."""
        self._file.create()
        self._timestamps = array("q")
        self._offsets = array("I")

    def load(self) -> bool:
        """Read the file. False when it is missing or its entries are in disorder."""
        data = self._file.load()
        if data is None:
            return False
        entries = list(_ENTRY.iter_unpack(data))
        self._timestamps = array("q", [entry[0] for entry in entries])
        self._offsets = array("I", [entry[1] for entry in entries])
        return all(map(lt, self._timestamps, self._timestamps[1:])) and all(
            map(le, self._offsets, self._offsets[1:])
        )

    def append_if_later(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one is as late."""
        if timestamp < 0 or (self._timestamps and timestamp <= self._timestamps[-1]):
            return
        relative = offset - self._base_offset
        self._timestamps.append(timestamp)
        self._offsets.append(relative)
        self._file.append(_ENTRY.pack(timestamp, relative))

    def offset_before(self, timestamp: int) -> int:
        """An offset before whose batch there is nothing as late as `timestamp`: scan from there."""
        found = bisect_right(self._timestamps, timestamp)
        return self._base_offset + (self._offsets[found - 1] if found else 0)

    def truncate(self, end_offset: int) -> None:
        """Drop entries for `end_offset` and later offsets. Raises DiskError."""
        keep = bisect_left(self._offsets, max(end_offset - self._base_offset, 0))
        del self._timestamps[keep:]
        del self._offsets[keep:]
        self._file.truncate(keep * ENTRY_SIZE)

    def write_pending(self) -> None:
        self._file.write_pending()

    def sync(self) -> None:
        self._file.sync()
