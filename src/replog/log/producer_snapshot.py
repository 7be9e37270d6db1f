"""Snapshots of the producers' state: `<offset>.snapshot`, in Kafka's binary format (version 1).

A snapshot tells the state that the log leads to just below its offset, so that a start reads only
what lies behind the newest one. It is a cache: one that is missing, short or broken costs a longer
read. The one danger is a sound snapshot of a history that was cut off, so those are removed, for
good, before anything else is appended.

    int16  version
    uint32 CRC-32C of all that follows
    int32  number of entries, then of each: producer id int64, epoch int16, last sequence int32,
           last offset int64, offset delta int32, timestamp int64, coordinator epoch int32,
           first offset of the open transaction int64

A producer has one entry for each of its last batches, oldest first: whoever keeps only one of them,
as Kafka does, keeps the last one. So the whole window of duplicates outlives a restart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from replog.log import files
from replog.log.disk import Disk, DiskError
from replog.model.producers import ProducerEntry

VERSION: Final = 1

_FRONT = Struct(">hI")  # version, CRC
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_ENTRIES_AT: Final = _FRONT.size + _COUNT.size


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """The content of a snapshot with these entries."""
    parts = [_COUNT.pack(len(entries))]
    pack = _ENTRY.pack
    parts += [pack(*entry) for entry in entries]
    body = b"".join(parts)
    return _FRONT.pack(VERSION, crc32c(body)) + body


def decode(data: bytes, below: int) -> list[ProducerEntry] | str:
    """The entries, or why the file can't be used; none may speak of an offset from `below` on."""
    if len(data) < _ENTRIES_AT:
        return f"it has {len(data)} bytes"
    version, crc = _FRONT.unpack_from(data)
    if version != VERSION:
        return f"version {version} is unknown"
    if crc32c(memoryview(data)[_FRONT.size :]) != crc:
        return "the CRC does not match"
    (count,) = _COUNT.unpack_from(data, _FRONT.size)
    if count < 0 or len(data) - _ENTRIES_AT < count * _ENTRY.size:
        return f"{count} entries in {len(data)} bytes"
    whole = memoryview(data)[_ENTRIES_AT : _ENTRIES_AT + count * _ENTRY.size]
    entries = [ProducerEntry._make(fields) for fields in _ENTRY.iter_unpack(whole)]
    for entry in entries:
        if entry.producer_id < 0 or entry.last_offset >= below or entry.offset_delta < 0:
            return f"{entry} makes no sense below offset {below}"
    return entries


class SnapshotWrite:
    """The work of writing one snapshot: call it on any thread, then `ProducerSnapshots.keep` it."""

    __slots__ = ("_disk", "abandoned", "cuts", "offset", "path")

    def __init__(self, disk: Disk, path: str, *, offset: int, cuts: int) -> None:
        self._disk = disk
        self.path = path
        self.offset = offset
        self.cuts = cuts
        self.abandoned = False

    def __call__(self, entries: Sequence[ProducerEntry]) -> None:
        """Waits for the device. Raises DiskError, but not for a log that is gone by now."""
        try:
            write(self._disk, self.path, encode(entries))
        except DiskError:
            if not self.abandoned:
                raise


class SnapshotSync:
    """The work of making one snapshot durable: call it on any thread, then `note_synced`."""

    __slots__ = ("_directory", "_disk", "cuts", "offset")

    def __init__(self, disk: Disk, directory: str, *, offset: int, cuts: int) -> None:
        self._disk = disk
        self._directory = directory
        self.offset = offset
        self.cuts = cuts

    def __call__(self) -> None:
        """Waits for the device. Raises DiskError."""
        path = files.stem(self._directory, self.offset) + files.SNAPSHOT_SUFFIX
        if self._disk.exists(path):  # or the log was cut, and this counts for nothing
            file = self._disk.open(path)
            try:
                file.sync()
            finally:
                file.close()
        self._disk.sync_directory(self._directory)


def write(disk: Disk, path: str, data: bytes) -> None:
    """A durable file aside, of which nobody takes notice before it is renamed."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.append((data,))
        file.sync()
    finally:
        file.close()


class ProducerSnapshots:
    """The snapshots of one log. `offsets` are those on disk, rising."""

    __slots__ = ("_begun", "_cuts", "_directory", "_disk", "_kept", "_under_way", "offsets")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._cuts = 0  # of the log so far: a snapshot begun before one may tell of what is gone
        self._begun = 0  # snapshots so far
        self._under_way: list[SnapshotWrite] = []
        self.offsets: list[int] = []
        self._kept: set[int] = set()  # those that no power cut takes

    def load(self, end_offset: int) -> None:
        """Learn which there are; remove those that speak of a log that went beyond `end_offset`."""
        names = self._disk.list(self._directory)
        found = (files.base_offset_of(name, files.SNAPSHOT_SUFFIX) for name in names)
        self.offsets = sorted(offset for offset in found if offset is not None)
        self.cut(end_offset)

    def newest(
        self, first_offset: int, reasons: list[str], *, upto: int | None = None
    ) -> tuple[int, list[ProducerEntry]] | None:
        """The newest sound snapshot, of offset `upto` at most: its offset, its entries; or None.

        Those below `first_offset`, where the log's first batch lies, are of no use: what came in
        between is gone. Broken ones are removed, and `reasons` tells why. Raises DiskError.
        """
        left = len(self.offsets) if upto is None else bisect_right(self.offsets, upto)
        while left and self.offsets[left - 1] >= first_offset:
            left -= 1
            offset = self.offsets[left]
            data = self._disk.read_file(self._path(offset))
            entries = decode(data or b"", offset)
            if not isinstance(entries, str):
                return offset, entries
            reasons.append(f"{self._path(offset)} is not used: {entries}")
            self._remove(self.offsets.pop(left))
        return None

    def begin(self, offset: int) -> SnapshotWrite:
        """The work of writing the state below `offset`, for another thread; then `keep`."""
        self._begun += 1  # another one of this offset may still be written, or of before a cut
        aside = f"{self._path(offset)}.{self._begun}.tmp"
        work = SnapshotWrite(self._disk, aside, offset=offset, cuts=self._cuts)
        self._under_way.append(work)
        return work

    def keep(self, work: SnapshotWrite, segments: Collection[int]) -> None:
        """`work` ended without an error: the snapshot counts from now on, unless the log was cut.

        Of the others, those stay that belong to a segment, by its base offset in `segments`: the
        log may be cut back to it. Raises DiskError.
        """
        self._under_way.remove(work)
        if work.cuts != self._cuts:
            self._disk.remove(work.path)
            return
        self._disk.rename(work.path, self._path(work.offset))
        self._kept.discard(work.offset)
        self._add(work.offset)
        for offset in [o for o in self.offsets[:-1] if o not in segments]:
            self.offsets.remove(offset)
            self._remove(offset)

    def is_kept(self, offset: int) -> bool:
        """Whether there is a snapshot of `offset` that no power cut takes."""
        return offset in self._kept

    def begin_sync(self, offset: int) -> SnapshotSync:
        """The work of making the snapshot of `offset`, which there is, outlive a power cut, for
        another thread; then `note_synced`."""
        return SnapshotSync(self._disk, self._directory, offset=offset, cuts=self._cuts)

    def note_synced(self, work: SnapshotSync) -> None:
        """`work` ended without an error: its snapshot stays, if nothing was cut since."""
        if work.cuts == self._cuts and work.offset in self.offsets:
            self._kept.add(work.offset)

    def adopt(self, offset: int, data: bytes) -> None:
        """The log is about to begin at `offset`, with this snapshot, which another replica made.
        Durable when this returns: nothing in the log will tell it. Raises DiskError."""
        path = self._path(offset)
        write(self._disk, path + ".tmp", data)
        self._disk.rename(path + ".tmp", path)
        self._disk.sync_directory(self._directory)
        self._add(offset)
        self._kept.add(offset)

    def add_unsynced(self, offset: int, entries: Sequence[ProducerEntry]) -> None:
        """The state where the log is closed, or a segment begins, unless there is a snapshot of
        that. Not synced: power that goes now costs a longer start. Raises DiskError."""
        if offset not in self.offsets:
            files.write_unsynced(self._disk, self._path(offset), encode(entries))
            self._add(offset)

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset`: what speaks of more goes for good. Raises DiskError."""
        self._cuts += 1
        keep = bisect_right(self.offsets, end_offset)
        if keep < len(self.offsets):
            gone, self.offsets = self.offsets[keep:], self.offsets[:keep]
            for offset in gone:
                self._remove(offset)
            # One that came back after a power cut would be believed once the log is that long.
            self._disk.sync_directory(self._directory)

    def abandon(self) -> None:
        """The log is given up: what is still being written has no place to go."""
        for work in self._under_way:
            work.abandoned = True

    def _add(self, offset: int) -> None:
        place = bisect_right(self.offsets, offset)
        if not place or self.offsets[place - 1] != offset:
            self.offsets.insert(place, offset)

    def _remove(self, offset: int) -> None:
        self._kept.discard(offset)
        self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return files.stem(self._directory, offset) + files.SNAPSHOT_SUFFIX
