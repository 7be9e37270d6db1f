"""Offset index of a segment: (last offset of a batch, position of that batch) every few kilobytes.

On disk an entry is two big-endian 32-bit numbers, the offset relative to the segment's base. In
memory there is an array of each: a lookup is a binary search in C. A third one has the base offsets
of the batches as far as they are known, from appends or from a look at the batch itself.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from struct import Struct
from typing import Final

from replog.log.disk import Disk
from replog.log.files import INDEX_SUFFIX
from replog.log.index_file import IndexFile

ENTRY_SIZE: Final = 8
_ENTRY = Struct(">II")
_UNKNOWN: Final = 0xFFFFFFFF  # base offset of a batch that nobody has looked at; none is so large


class OffsetIndex:
    """Entries with strictly rising offsets and positions."""

    __slots__ = ("_base_offset", "_bases", "_file", "_offsets", "_positions")

    def __init__(self, disk: Disk, stem: str, base_offset: int) -> None:
        self._file = IndexFile(disk, stem + INDEX_SUFFIX, ENTRY_SIZE)
        self._base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")
        self._bases = array("I")

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return len(self._offsets) * ENTRY_SIZE

    @property
    def last_position(self) -> int:
        """Position of the last batch that has an entry, 0 without one."""
        return self._positions[-1] if self._positions else 0

    def create(self) -> None:
        """Begin with an empty file."""
        self._file.create()
        self._offsets = array("I")
        self._positions = array("I")
        self._bases = array("I")

    def load(self, log_size: int) -> bool:
        """Read the file. False when it is missing or can't belong to a log of `log_size` bytes."""
        data = self._file.load()
        if data is None:
            return False
        numbers = array("I")
        numbers.frombytes(data)
        if sys.byteorder == "little":
            numbers.byteswap()
        self._offsets, self._positions = numbers[0::2], numbers[1::2]
        self._bases = array("I", [_UNKNOWN]) * len(self._offsets)
        return (
            _rises(self._offsets)
            and _rises(self._positions)
            and (not self._positions or 0 < self._positions[-1] < log_size)
        )

    def append(self, last_offset: int, position: int, base_offset: int) -> None:
        """Add an entry for the batch at `position`, which has these offsets."""
        relative = last_offset - self._base_offset
        self._offsets.append(relative)
        self._positions.append(position)
        self._bases.append(base_offset - self._base_offset)
        self._file.append(_ENTRY.pack(relative, position))

    def position_before(self, offset: int) -> int:
        """Position of a batch at or before the one that holds `offset`: scan from there."""
        found = bisect_right(self._offsets, offset - self._base_offset)
        return self._positions[found - 1] if found else 0

    def entry_at_most(self, limit: int) -> tuple[int, int, int]:
        """(position, last offset, base offset) of the last entry whose position is not above
        `limit`; without one the position is 0. The base offset is -1 while it is not known."""
        found = bisect_right(self._positions, limit) - 1
        if found < 0:
            return 0, 0, -1
        first, base = self._base_offset, self._bases[found]
        known = -1 if base == _UNKNOWN else first + base
        return self._positions[found], first + self._offsets[found], known

    def learn_base(self, position: int, base_offset: int) -> None:
        """The batch at `position`, which has an entry, was looked at."""
        found = bisect_left(self._positions, position)
        self._bases[found] = base_offset - self._base_offset

    def offset_at(self, position: int) -> int | None:
        """The offset of the entry for exactly this position; None without one."""
        found = bisect_left(self._positions, position)
        if found == len(self._positions) or self._positions[found] != position:
            return None
        return self._base_offset + self._offsets[found]

    def truncate(self, log_size: int) -> None:
        """Drop the entries of batches at or behind `log_size`. Raises DiskError."""
        keep = bisect_left(self._positions, log_size)
        del self._offsets[keep:]
        del self._positions[keep:]
        del self._bases[keep:]
        self._file.truncate(keep * ENTRY_SIZE)

    def write_pending(self) -> None:
        self._file.write_pending()

    def sync(self) -> None:
        self._file.sync()


def _rises(numbers: "array[int]") -> bool:
    return all(map(lt, numbers, numbers[1:]))
