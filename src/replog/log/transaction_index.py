"""The aborted transactions of a log: `.txnindex` beside each segment that has the marker of one.

Kafka's format: entries of 34 bytes in the order of the markers.

    int16  version, 0
    int64  producer id
    int64  offset of the transaction's first record
    int64  offset of its marker
    int64  last stable offset when the marker was appended

The index spares a reader of committed records the search for markers, and an opening log the
reading of what it had read before. So it must not lack an entry below the newest snapshot of the
producers' state, from which the rest is read anew: it is synced with the segments, before that
snapshot counts.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from replog.codec import MalformedMessage, decode_value
from replog.log import files
from replog.log.disk import Disk, DiskError, DiskFile
from replog.log.scan import SpanWindow
from replog.log.segment import Segment
from replog.model.messages.control_records import EndTxnMarker
from replog.model.producers import AbortedTransaction
from replog.model.records import FileRange
from replog.records.batch import records_of
from replog.records.errors import CorruptBatch
from replog.records.header import HEADER_SIZE, BatchHeader
from replog.records.rewrite import ABORT_MARKER, COMMIT_MARKER, marker_type

SUFFIX: Final = files.TRANSACTION_INDEX_SUFFIX
# Of a compacted segment, until it is certain that this segment counts.
ASIDE_SUFFIX: Final = SUFFIX + ".aside"
ENTRY_SIZE: Final = 34

# Segments whose entries stay in memory: those that readers are at.
LOADED_MAX: Final = 8

_ENTRY = Struct(">hqqqq")
_VERSION: Final = 0

_base_offset = attrgetter("base_offset")
_marker_offset = attrgetter("last_offset")


class Marker(NamedTuple):
    """What a control batch that ends a transaction says."""

    committed: bool
    coordinator_epoch: int


def encode(entries: Collection[AbortedTransaction]) -> bytes:
    """The content of an index with these entries."""
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(data: bytes, base_offset: int) -> list[AbortedTransaction] | str:
    """The entries, or why these can't be those of the segment that begins at `base_offset`."""
    if len(data) % ENTRY_SIZE:
        return f"it has {len(data)} bytes"
    found = []
    previous = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction._make(fields)
        if version != _VERSION:
            return f"version {version} is unknown"
        if entry.last_offset <= previous or entry.producer_id < 0:
            return f"{entry} does not belong there"
        if not 0 <= entry.first_offset < entry.last_offset:
            return f"{entry} ends before it begins"
        previous = entry.last_offset
        found.append(entry)
    return found


class _Unsound(Exception):
    """A file of the index can't be believed."""


class AbortedTransactions:
    """The index of one log. `segments` are the log's own, which changes them."""

    __slots__ = (
        "_aside",
        "_bases",
        "_directory",
        "_disk",
        "_loaded",
        "_prepared",
        "_segments",
        "_unsynced",
    )

    def __init__(self, disk: Disk, directory: str, segments: Sequence[Segment]) -> None:
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._bases: list[int] = []  # of the segments that have an index, rising
        self._loaded: dict[int, list[AbortedTransaction]] = {}
        self._unsynced: set[int] = set()
        self._aside: set[int] = set()  # bases whose index has another name still
        self._prepared: list[AbortedTransaction] | None = None

    def load(self, names: Collection[str], reasons: list[str]) -> bool:
        """Look at the files there are. False when one of them can't be believed: all are gone then,
        and the log has to be read from its beginning to make them anew. Raises DiskError."""
        aside = [name for name in names if name.endswith(ASIDE_SUFFIX)]
        try:
            found = {name: self._read(name) for name in names if name.endswith(SUFFIX)}
            if aside:
                self._merge(found, {name: self._read(name) for name in aside})
            else:
                self._take(found)
        except _Unsound as error:
            reasons.append(f"the index of aborted transactions is made anew: {error}")
            for name in names:
                if name.endswith((SUFFIX, ASIDE_SUFFIX)):
                    self._disk.remove(f"{self._directory}/{name}")
            self._bases.clear()
            return False
        # Bytes of the log that a power cut took may have left their entries behind.
        self.cut(self._segments[-1].next_offset)
        return True

    def _read(self, name: str) -> list[AbortedTransaction]:
        path = f"{self._directory}/{name}"
        base_offset = files.base_offset_of(name.removesuffix(".aside"), SUFFIX)
        entries = decode(self._disk.read_file(path) or b"", base_offset or 0)
        if isinstance(entries, str):
            raise _Unsound(f"{path}: {entries}")
        return entries

    def _take(self, found: Mapping[str, Collection[AbortedTransaction]]) -> None:
        segments = {segment.base_offset for segment in self._segments}
        for name, entries in found.items():
            base_offset = files.base_offset_of(name, SUFFIX)
            if base_offset not in segments:
                self._disk.remove(f"{self._directory}/{name}")  # it was compacted away
            elif base_offset is not None and entries:  # Kafka makes empty ones, too
                self._bases.append(base_offset)
        self._bases.sort()

    def _merge(
        self,
        found: Mapping[str, Collection[AbortedTransaction]],
        aside: Mapping[str, Collection[AbortedTransaction]],
    ) -> None:
        """A crash came while a compacted segment took the place of others. Nobody knows how far
        that had got, so each entry that is anywhere is held against the log."""
        known = {
            entry.last_offset: entry
            for entries in (*found.values(), *aside.values())
            for entry in entries
        }
        wanted: dict[str, list[AbortedTransaction]] = {}
        for offset in sorted(known):
            segment = self._segment_of(offset)
            if _has_marker(segment, offset):
                wanted.setdefault(segment.stem + SUFFIX, []).append(known[offset])
        for path, entries in wanted.items():
            self._disk.write_file(path, encode(entries))
        for name in found:
            if f"{self._directory}/{name}" not in wanted:
                self._disk.remove(f"{self._directory}/{name}")
        self._disk.sync_directory(self._directory)
        for name in aside:
            self._disk.remove(f"{self._directory}/{name}")
        for entries in wanted.values():
            self._bases.append(self._segment_of(entries[0].last_offset).base_offset)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._bases)

    # ---- reading -------------------------------------------------------------------------------

    def within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those with records or marker at `first_offset` or behind it that begin before
        `end_offset`, in the order of their markers. Raises DiskError."""
        found = []
        for entry in self._entries_from(first_offset):
            if entry.last_offset >= first_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                break  # whatever is decided later begins behind it
        return found

    def _entries_from(self, offset: int) -> Iterator[AbortedTransaction]:
        at = max(bisect_right(self._bases, offset) - 1, 0)
        for base_offset in self._bases[at:]:
            yield from self._entries(base_offset)

    def within_range(self, offset: int, data: FileRange, upto: int) -> list[AbortedTransaction]:
        """`within` for the whole batches of `data`, read from `offset` on, all below `upto`.

        Raises DiskError, LogCorrupt."""
        end = data.position + data.length
        at = max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)
        while at < len(self._segments):
            segment = self._segments[at]
            if segment.file is data.file:
                if end < segment.size:
                    end = segment.boundary_at_most(data.position, end)
                    upto = min(upto, SpanWindow(segment.file, segment.size).at(end)[0])
                else:
                    upto = min(upto, segment.next_offset)
                break
            at += 1  # compaction left nothing of the first
        return self.within(offset, upto)

    def _entries(self, base_offset: int) -> list[AbortedTransaction]:
        entries = self._loaded.pop(base_offset, None)
        if entries is None:
            data = self._disk.read_file(self._path(base_offset)) or b""
            entries = [AbortedTransaction._make(fields[1:]) for fields in _ENTRY.iter_unpack(data)]
            if len(self._loaded) >= LOADED_MAX:
                del self._loaded[next(iter(self._loaded))]
        self._loaded[base_offset] = entries  # used last, so the last to leave
        return entries

    def marker(self, header: BatchHeader) -> Marker | None:
        """What the control batch of `header`, which is in the log, says of a transaction; None
        when it is no such marker, or can't be read. Raises DiskError, LogCorrupt."""
        segment = self._segment_of(header.base_offset)
        position = segment.position_of(header.base_offset)
        data = segment.file.read(position, header.length)
        try:
            kind = marker_type(data, BatchHeader(data, 0))
            if kind not in (ABORT_MARKER, COMMIT_MARKER):
                return None
            record = next(records_of(data, BatchHeader(data, 0)))
            value = decode_value(EndTxnMarker, record.value or b"", newer=True)
        except (CorruptBatch, MalformedMessage):
            return None
        return Marker(kind == COMMIT_MARKER, value.coordinator_epoch)

    def _segment_of(self, offset: int) -> Segment:
        at = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[max(at - 1, 0)]

    # ---- writing -------------------------------------------------------------------------------

    def add(self, entry: AbortedTransaction) -> None:
        """A marker is in the log that aborts. Does nothing when it is known. Raises DiskError."""
        base_offset = self._segment_of(entry.last_offset).base_offset
        if base_offset not in self._bases:
            self._write(base_offset, ())
            insort(self._bases, base_offset)
        entries = self._entries(base_offset)
        if not entries or entries[-1].last_offset < entry.last_offset:
            file = self._open(base_offset)
            try:
                file.append((encode((entry,)),))
            finally:
                file.close()
            entries.append(entry)
        elif all(known.last_offset != entry.last_offset for known in entries):
            # A power cut took it, and left one behind it.
            self._write(base_offset, sorted([*entries, entry], key=_marker_offset))
        else:
            return
        self._unsynced.add(base_offset)

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset`: later markers are forgotten for good. Raises DiskError."""
        self.settle_aside()
        changed = False
        while self._bases:
            base_offset = self._bases[-1]
            entries = self._entries(base_offset)
            kept = [entry for entry in entries if entry.last_offset < end_offset]
            if len(kept) == len(entries):
                break
            changed = True
            if kept:
                self._write(base_offset, kept)
                self._unsynced.add(base_offset)
                break
            self._disk.remove(self._path(base_offset))
            self.forget(base_offset)
        if changed:
            # What came back after a power cut would hide records of a later transaction.
            self.sync()
            self._disk.sync_directory(self._directory)

    def forget(self, base_offset: int) -> None:
        """The segment's files have left the log."""
        if base_offset in self._bases:
            self._bases.remove(base_offset)
        self._loaded.pop(base_offset, None)
        self._unsynced.discard(base_offset)
        self._aside.discard(base_offset)

    def sync(self) -> None:
        """All entries are on stable storage when this returns. On any thread. Raises DiskError."""
        unsynced = list(self._unsynced)
        for base_offset in unsynced:
            self._unsynced.discard(base_offset)  # before: more may be added meanwhile
            path = self._path(base_offset)
            try:
                file = self._disk.open(path)
            except DiskError:
                if self._disk.exists(path):
                    raise
                continue  # it has left the log meanwhile
            try:
                file.sync()
            finally:
                file.close()
        if unsynced:
            self._disk.sync_directory(self._directory)

    def _write(self, base_offset: int, entries: Collection[AbortedTransaction]) -> None:
        file = self._open(base_offset)
        try:
            file.truncate(0)
            if entries:
                file.append((encode(entries),))
        finally:
            file.close()
        self._loaded.pop(base_offset, None)

    def _open(self, base_offset: int) -> DiskFile:
        return self._disk.open(self._path(base_offset), create=True)

    def _path(self, base_offset: int) -> str:
        suffix = ASIDE_SUFFIX if base_offset in self._aside else SUFFIX
        return files.stem(self._directory, base_offset) + suffix

    # ---- compaction ----------------------------------------------------------------------------

    def prepare(self, old: Sequence[Segment], markers: Collection[int]) -> None:
        """A compacted segment is about to stand for `old`; `markers` are the offsets of the control
        records that are left in it. An entry whose marker is gone must go with it: a reader that
        waits for the marker would take later transactions of that producer for aborted.

        The new index lies aside, durable, until it is certain which segment counts: `settle_aside`.
        Raises DiskError.
        """
        self.settle_aside()
        self._prepared = None
        bases = [s.base_offset for s in old if s.base_offset in self._bases]
        if bases:
            self._prepared = [
                entry
                for base_offset in bases
                for entry in self._entries(base_offset)
                if entry.last_offset in markers
            ]
            path = files.stem(self._directory, old[0].base_offset) + ASIDE_SUFFIX
            self._disk.write_file(path, encode(self._prepared))

    def replaced(self, base_offset: int) -> None:
        """The compacted segment has its name, those before it are forgotten."""
        if self._prepared is not None:
            self._aside.add(base_offset)
            if self._prepared:
                insort(self._bases, base_offset)
                self._loaded[base_offset] = self._prepared
            self._prepared = None

    def settle_aside(self) -> None:
        """The names of compacted segments are on stable storage: now their indexes get theirs.
        Raises DiskError."""
        if not self._aside:
            return
        self._disk.sync_directory(self._directory)
        for base_offset in sorted(self._aside):
            path = files.stem(self._directory, base_offset)
            # A copy, since a rename may lose both names when power goes.
            data = self._disk.read_file(path + ASIDE_SUFFIX)
            if data:
                self._disk.write_file(path + SUFFIX, data)
            else:
                self._disk.remove(path + SUFFIX)
                self._disk.sync_directory(self._directory)
            self._disk.remove(path + ASIDE_SUFFIX)
        self._aside.clear()


def _has_marker(segment: Segment, offset: int) -> bool:
    """Whether the segment has a control batch, which nothing has emptied, at `offset`."""
    position = segment.position_of(offset)
    if position >= segment.size:
        return False
    header = BatchHeader(segment.file.read(position, HEADER_SIZE), 0)
    return header.base_offset == offset and header.control and header.count > 0
