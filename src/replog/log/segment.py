"""One segment: a `.log` file with its offset and time index, named by its first possible offset.

A segment knows positions; which offsets may be read or written is `partition_log`'s affair. To find
a position costs one binary search and one read of a few kilobytes, and nothing at all for those who
follow the end: the last batch boundaries that were written or read are remembered.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from replog.log import files
from replog.log.disk import Disk, DiskError, DiskFile
from replog.log.errors import LogCorrupt
from replog.log.offset_index import OffsetIndex
from replog.log.scan import SpanWindow, span_at, walk_headers
from replog.log.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from replog.log.time_index import TimeIndex
from replog.model.records import FileRange
from replog.records.header import HEADER_SIZE, NO_TIMESTAMP, BatchHeader

# Boundaries in one of two generations: enough for every replica and group that follows the end.
_REMEMBERED_MAX: Final = 128


class Indexes(NamedTuple):
    """What leads from offsets and times to positions."""

    offsets: OffsetIndex
    times: TimeIndex


class Segment:
    """Append, find, cut. Methods raise DiskError when the file system refuses."""

    __slots__ = (
        "_disk",
        "_index_interval_bytes",
        "_indexes",
        "_older",
        "_since_index",
        "_younger",
        "base_offset",
        "dirty",
        "entries_dirty",
        "file",
        "first_timestamp",
        "index_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "removed",
        "size",
        "stem",
    )

    def __init__(self, disk: Disk, stem: str, base_offset: int, index_interval_bytes: int) -> None:
        """Use `create` or `open`."""
        self._disk = disk
        self._index_interval_bytes = index_interval_bytes
        self._indexes: Indexes | None = None  # read on first use
        self._younger: dict[int, int] = {}  # offset -> position of the batch that holds it
        self._older: dict[int, int] = {}
        self._since_index = 0  # bytes since the batch of the last index entry, that one included
        self.stem = stem
        self.base_offset = base_offset
        self.file: DiskFile = disk.open(stem + files.LOG_SUFFIX, create=True)
        self.size = self.file.size()
        self.index_bytes = 0  # of the larger index, for the roll at `segment.index.bytes`
        self.next_offset = base_offset  # behind the last record; of a sealed one, the next's base
        self.removed = False
        self.dirty = True  # bytes may not be on stable storage
        self.entries_dirty = True  # index entries may not be either
        self.first_timestamp: int | None = None  # the largest one of the first batch, once known
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset  # last offset of the batch that has it

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int
    ) -> "Segment":
        """A new, empty one; left-over files of its name are emptied."""
        stem = files.stem(directory, base_offset)
        segment = cls(disk, stem, base_offset, index_interval_bytes)
        if segment.size:
            segment.file.truncate(0)
            segment.size = 0
        segment.clear_indexes()
        return segment

    @classmethod
    def open(
        cls, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int
    ) -> "Segment":
        """One that is on disk. Call `load` before appending, or to learn `next_offset`."""
        return cls(disk, files.stem(directory, base_offset), base_offset, index_interval_bytes)

    # Indexes ------------------------------------------------------------------------------------

    @property
    def indexes(self) -> Indexes:
        loaded = self._indexes
        return self.load() if loaded is None else loaded

    def load(self) -> Indexes:
        """Read both indexes, add what they lack, make them anew when they can't be right.

        Learns `next_offset` and `max_timestamp` from them and the batches behind the last entry.
        Raises LogCorrupt when the batches themselves can't be followed to the end of the file.
        """
        offsets = OffsetIndex(self._disk, self.stem, self.base_offset)
        times = TimeIndex(self._disk, self.stem, self.base_offset)
        if not (offsets.load(self.size) and times.load()):
            return self.rebuild_indexes()
        self._indexes = Indexes(offsets, times)
        position = offsets.last_position
        indexed_offset = offsets.offset_at(position)
        try:
            if indexed_offset is not None:
                self._check_entry(SpanWindow(self.file, self.size), position, indexed_offset)
            self.walk_from(position)
        except LogCorrupt:
            if indexed_offset is None:
                raise
            return self.rebuild_indexes()
        return self._indexes

    def rebuild_indexes(self) -> Indexes:
        """Make both indexes from the batches' headers. Raises LogCorrupt as `load` does."""
        indexes = self.clear_indexes()
        self.walk_from(0)
        return indexes

    def clear_indexes(self) -> Indexes:
        """Both are empty afterwards, in memory and on disk."""
        indexes = Indexes(
            OffsetIndex(self._disk, self.stem, self.base_offset),
            TimeIndex(self._disk, self.stem, self.base_offset),
        )
        self._indexes = indexes
        indexes.offsets.create()
        indexes.times.create()
        self.entries_dirty = True
        self.forget()
        return indexes

    def walk_from(self, position: int) -> None:
        """Take note of every batch from `position` (0, or that of the last index entry) on."""
        self.begin_walk(position)
        for header in walk_headers(self.file, position, self.size):
            self.note(header, header.position)

    def begin_recovery(self, recovery_point: int) -> tuple[int, bool]:
        """Where to begin checking: at a batch not behind `recovery_point` that the indexes know.

        Both indexes are cut back to that batch, for `note` to fill them again; the second value
        tells that they could not be used at all.
        """
        self.next_offset = self.base_offset
        offsets = OffsetIndex(self._disk, self.stem, self.base_offset)
        times = TimeIndex(self._disk, self.stem, self.base_offset)
        usable = offsets.load(self.size) and times.load()
        position, last_time = 0, times.last
        if usable and last_time is not None:
            # Either index may lack what the other has: go on where the shorter one ends.
            position = offsets.position_before(min(recovery_point, last_time[1]))
        indexed_offset = offsets.offset_at(position) if usable else None
        if indexed_offset is not None:
            try:
                self._check_entry(SpanWindow(self.file, self.size), position, indexed_offset)
            except LogCorrupt:
                usable, indexed_offset = False, None
        if indexed_offset is None:
            self.clear_indexes()
            self.begin_walk(0)
            return 0, not usable
        self._indexes = Indexes(offsets, times)
        offsets.truncate(position + 1)
        times.truncate(indexed_offset + 1)
        self.begin_walk(position)
        return position, False

    def begin_walk(self, position: int) -> None:
        """Forget what `note` learns of batches from `position` on."""
        # The entry of the batch at `position` is there already, or needs none: it is the first.
        self._since_index = 0
        last = self.indexes.times.last
        self.max_timestamp, self.max_timestamp_offset = last or (NO_TIMESTAMP, self.base_offset)
        self.index_bytes = max(self.indexes.offsets.size, self.indexes.times.size)
        self.first_timestamp = None
        if position:
            self.first_timestamp = BatchHeader(self.file.read(0, HEADER_SIZE), 0).max_timestamp

    def note(self, header: BatchHeader, position: int) -> None:
        """Bookkeeping for one batch that lies at `position`, behind all noted before."""
        last_offset = header.base_offset + header.last_offset_delta
        if not position:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_index > self._index_interval_bytes:
            self._add_entries(header, position)
        self._since_index += header.length
        self.next_offset = max(self.next_offset, last_offset + 1)

    def _add_entries(self, header: BatchHeader, position: int) -> None:
        offsets, times = self.indexes
        offsets.append(header.last_offset, position, header.base_offset)
        times.append_if_later(self.max_timestamp, self.max_timestamp_offset)
        self.entries_dirty = True
        self.index_bytes = max(offsets.size, times.size)
        self._since_index = 0

    def _check_entry(self, window: SpanWindow, position: int, indexed_offset: int) -> None:
        self._compare_entry(window.at(position)[0], indexed_offset)

    def _compare_entry(self, base_offset: int, indexed_offset: int) -> None:
        if not self.base_offset <= base_offset <= indexed_offset:
            raise LogCorrupt(f"{self.stem}.index has {indexed_offset} for the batch {base_offset}")

    def seal(self) -> None:
        """No more appends: the last time is noted, the index files are complete, and room that was
        reserved (`preallocate`) is given back."""
        offsets, times = self.indexes
        size = times.size
        times.append_if_later(self.max_timestamp, self.max_timestamp_offset)
        self.entries_dirty = self.entries_dirty or times.size > size
        offsets.write_pending()
        times.write_pending()
        self.file.release()

    @property
    def loaded(self) -> bool:
        """Its indexes are in memory."""
        return self._indexes is not None

    def unload(self) -> None:
        """Give the memory of a sealed segment's indexes back; they are read again when needed."""
        self._indexes = None

    def last_timestamp(self) -> int:
        """The largest timestamp; of an unloaded segment by a look at the end of its time index."""
        if self._indexes is None and self.max_timestamp == NO_TIMESTAMP and self.size:
            data = self._disk.read_file(self.stem + files.TIME_INDEX_SUFFIX)
            if data and len(data) % TIME_ENTRY_SIZE == 0:
                self.max_timestamp = int.from_bytes(data[-12:-4], "big", signed=True)
            else:
                self.load()
        return self.max_timestamp

    # Bytes --------------------------------------------------------------------------------------

    def append(self, data: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Write `data`, which are exactly the batches of `headers`, at the end with one write.

        Raises DiskError; the file has its old size then, if the disk still lets us cut it.
        """
        position = self.size
        try:
            self.file.append((data,))
        except DiskError:
            with suppress(DiskError):
                self.file.truncate(position)
            raise
        self.size = position + len(data)
        self.dirty = True
        if not position:
            self.first_timestamp = headers[0].max_timestamp
        # What `note` does, for all of them at once: this is the hot path.
        since, interval = self._since_index, self._index_interval_bytes
        for header in headers:
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.base_offset + header.last_offset_delta
            if since > interval:
                self._add_entries(header, position)
                since = 0
            since += header.length
            position += header.length
        self._since_index = since
        last = headers[-1]
        self.next_offset = next_offset = last.base_offset + last.last_offset_delta + 1
        self.remember(next_offset, position)

    def truncate(self, offset: int) -> int | None:
        """Remove the batch that holds `offset` and all behind it.

        Returns the position from which on the file's bytes became invalid; None when none did.
        """
        offsets, times = self.indexes
        position = self.position_of(offset)
        if position >= self.size:
            self.next_offset = min(self.next_offset, offset)
            return None
        base_offset, _, _ = span_at(self.file, position, self.size)
        self.file.truncate(position)
        self.size = position
        self.dirty = self.entries_dirty = True
        self.next_offset = self.base_offset
        self.forget()
        offsets.truncate(position)
        times.truncate(base_offset)
        self.walk_from(offsets.last_position)
        # Not the end of the last batch: compaction may have left a gap in front of `offset`.
        self.next_offset = min(base_offset, offset)
        return position

    def cut_to(self, position: int) -> None:
        """For recovery: keep the first `position` bytes, without a look at what they hold."""
        self.file.truncate(position)
        self.size = position
        self.dirty = True
        self.forget()

    def sync(self) -> None:
        """Bytes and index entries are on stable storage when this returns."""
        self.sync_bytes()
        if self.entries_dirty and not self.removed:
            indexes = self._indexes or Indexes(
                OffsetIndex(self._disk, self.stem, self.base_offset),
                TimeIndex(self._disk, self.stem, self.base_offset),
            )
            indexes.offsets.sync()
            indexes.times.sync()
            self.entries_dirty = False

    def sync_bytes(self) -> None:
        """The log's bytes are on stable storage; its index entries may not be."""
        if self.dirty:
            self.file.sync()
            self.dirty = False

    def remove(self) -> None:
        """Remove the files. Whoever still holds a range of the log file can read it."""
        self.removed = True
        for suffix in (files.LOG_SUFFIX, files.INDEX_SUFFIX, files.TIME_INDEX_SUFFIX):
            self._disk.remove(self.stem + suffix)
        self.file.close()

    # Positions ----------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int:
        """Position of the first batch that ends behind `offset`; the segment's size without one."""
        found = self._younger.get(offset)
        if found is None:
            found = self._older.get(offset)
            if found is None:
                found = self._find(offset)
        return found

    def range(
        self, offset: int, upto: int, max_bytes: int, min_one: bool, *, whole: bool = True
    ) -> FileRange | None:
        """Batches from the one that holds `offset`, none that reaches to `upto` or beyond.

        At most `max_bytes`, except that with `min_one` the first batch comes whatever its size.
        Unless they have to be `whole`, the beginning of one more fills that up.
        """
        start = self.position_of(offset)
        end = self.size if upto >= self.next_offset else self.position_of(upto)
        if end - start > max_bytes:
            cut = start + max_bytes
            if whole:
                cut = self._near_boundary(start, cut) or self.boundary_at_most(start, cut)
            if cut <= start or not whole:
                first = start + span_at(self.file, start, end)[1]
                if first > cut:
                    cut = first if min_one else start
            end = cut
        return FileRange(self.file, start, end - start) if end > start else None

    def headers(self, position: int) -> Iterator[BatchHeader]:
        """Headers from the batch at `position` to the end. Raises LogCorrupt."""
        return walk_headers(self.file, position, self.size)

    def remember(self, offset: int, position: int) -> None:
        """Whoever reads from `offset` finds its batch at `position`."""
        younger = self._younger
        younger[offset] = position
        if len(younger) > _REMEMBERED_MAX:
            self._older = younger
            self._younger = {}

    def forget(self) -> None:
        self._younger.clear()
        self._older.clear()

    def _find(self, offset: int) -> int:
        if offset >= self.next_offset:
            return self.size
        try:
            position = self._scan(self.indexes.offsets.position_before(offset), offset)
        except LogCorrupt:
            # Perhaps only the index leads astray. When it does not, this raises again.
            position = self._scan(self.rebuild_indexes().offsets.position_before(offset), offset)
        self.remember(offset, position)
        return position

    def _scan(self, position: int, offset: int) -> int:
        window = SpanWindow(self.file, self.size)
        indexed = position > 0
        while position < self.size:
            base_offset, size, last_offset = window.at(position)
            if indexed and base_offset > offset:
                raise LogCorrupt(f"{self.stem}.index leads to {base_offset} instead of {offset}")
            indexed = False
            if last_offset >= offset:
                return position
            position += size
        return self.size

    def _near_boundary(self, start: int, limit: int) -> int:
        """A boundary behind `start` that is close enough to `limit` and costs no read, mostly: that
        of a batch with an index entry. 0 when there is none within the bytes between two entries
        and within a sixteenth."""
        offsets = self.indexes.offsets
        position, last_offset, base_offset = offsets.entry_at_most(limit)
        left = limit - position
        if position <= start or left >= self._index_interval_bytes or left * 16 >= limit - start:
            return 0
        if base_offset < 0:
            try:
                base_offset, _, _ = span_at(self.file, position, self.size)
                self._compare_entry(base_offset, last_offset)
            except LogCorrupt:
                return 0  # the index leads astray: who looks for the boundary itself mends it
            offsets.learn_base(position, base_offset)
        self.remember(base_offset, position)
        return position

    def boundary_at_most(self, start: int, limit: int) -> int:
        """The last batch boundary from `start` on that is not behind `limit` (inside the file)."""
        try:
            return self._scan_boundary(start, limit)
        except LogCorrupt:
            self.rebuild_indexes()
            return self._scan_boundary(start, limit)

    def _scan_boundary(self, start: int, limit: int) -> int:
        window = SpanWindow(self.file, self.size)
        position, indexed_offset, _ = self.indexes.offsets.entry_at_most(limit)
        if position > start:
            base_offset, size, _ = window.at(position)
            self._compare_entry(base_offset, indexed_offset)
        else:
            position = start
            base_offset, size, _ = window.at(position)
        while position + size <= limit:
            position += size
            base_offset, size, _ = window.at(position)
        self.remember(base_offset, position)
        return position
