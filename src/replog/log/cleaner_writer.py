"""Writes what is left of compacted segments: `.log.cleaned` with both indexes beside it.

Nothing of it counts until the log file gets its real name. Before that, all three are on stable
storage.
"""

from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Final

from replog.log import files
from replog.log.disk import Disk, DiskError, DiskFile
from replog.log.errors import LogCorrupt
from replog.records.header import NO_TIMESTAMP, BatchHeader

CLEANED_SUFFIX: Final = ".cleaned"
SUFFIXES: Final = (files.LOG_SUFFIX, files.INDEX_SUFFIX, files.TIME_INDEX_SUFFIX)

_WRITE_BYTES: Final = 1024 * 1024  # one write for so much
_POSITION_MAX: Final = 2**31 - 1  # in an index
_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")


@dataclass(frozen=True, slots=True)
class CleanedFiles:
    """A compacted segment that waits for its name. `next_offset` is the first one behind it."""

    stem: str
    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    first_timestamp: int | None
    markers: frozenset[int]  # offsets of the control records that are left

    def discard(self, disk: Disk) -> None:
        """Remove the files. Raises DiskError."""
        for suffix in SUFFIXES:
            disk.remove(self.stem + suffix + CLEANED_SUFFIX)


class CleanedWriter:
    """Batches in, files out. Methods raise DiskError."""

    __slots__ = (
        "_base_offset",
        "_directory",
        "_disk",
        "_entries",
        "_file",
        "_first_timestamp",
        "_index_interval_bytes",
        "_last_time",
        "_markers",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_pending",
        "_since_index",
        "_size",
        "_times",
        "last_offset",
        "stem",
    )

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, *, index_interval_bytes: int
    ) -> None:
        self.stem = files.stem(directory, base_offset)
        self.last_offset = base_offset - 1  # of the last batch that was added
        self._directory = directory
        self._disk = disk
        self._base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._file: DiskFile = self._fresh(files.LOG_SUFFIX)
        self._pending = bytearray()
        self._size = 0
        self._since_index = 0
        self._entries = bytearray()
        self._times = bytearray()
        self._last_time = NO_TIMESTAMP
        self._first_timestamp: int | None = None
        self._markers: set[int] = set()
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset

    def _fresh(self, suffix: str) -> DiskFile:
        file = self._disk.open(self.stem + suffix + CLEANED_SUFFIX, create=True)
        if file.size():
            file.truncate(0)
        return file

    def add(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        """One more batch; `header` is that of these very bytes. Raises LogCorrupt when full."""
        position = self._size
        if position > _POSITION_MAX:
            raise LogCorrupt(f"{self.stem}: what is left is too much for one segment")
        if not position:
            self._first_timestamp = header.max_timestamp
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        if self._since_index > self._index_interval_bytes:
            relative = header.last_offset - self._base_offset
            self._entries += _OFFSET_ENTRY.pack(relative, position)
            self._add_time()
            self._since_index = 0
        if header.control and header.count:
            self._markers.add(header.base_offset)
        self._since_index += len(batch)
        self._size += len(batch)
        self.last_offset = header.last_offset
        self._pending += batch
        if len(self._pending) >= _WRITE_BYTES:
            self._write()

    def _add_time(self) -> None:
        if self._max_timestamp > self._last_time:
            self._last_time = self._max_timestamp
            relative = self._max_timestamp_offset - self._base_offset
            self._times += _TIME_ENTRY.pack(self._max_timestamp, relative)

    def _write(self) -> None:
        if self._pending:
            self._file.append((self._pending,))
            self._pending = bytearray()

    def finish(self, next_offset: int) -> CleanedFiles:
        """All is on stable storage when this returns. The next segment begins at `next_offset`."""
        self._add_time()
        self._write()
        self._file.sync()
        self._file.close()
        for suffix, data in (
            (files.INDEX_SUFFIX, self._entries),
            (files.TIME_INDEX_SUFFIX, self._times),
        ):
            file = self._fresh(suffix)
            try:
                file.append((data,))
                file.sync()
            finally:
                file.close()
        self._disk.sync_directory(self._directory)
        return CleanedFiles(
            self.stem,
            self._base_offset,
            next_offset,
            self._size,
            self._max_timestamp,
            self._max_timestamp_offset,
            self._first_timestamp,
            frozenset(self._markers),
        )

    def abandon(self) -> None:
        """Remove what was written so far, as far as the disk lets us."""
        self._file.close()
        for suffix in SUFFIXES:
            with suppress(DiskError):
                self._disk.remove(self.stem + suffix + CLEANED_SUFFIX)
