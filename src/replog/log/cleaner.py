"""Compaction: the newest record of each key stays, older ones go. One pass over one log, in slices.

A pass surveys all sealed segments (transactions, producers), then puts the newest offset of each
key of the dirty part into a map, as far as that has room, then rewrites segments from the log's
start up to there, a group at a time: whatever the map knows a newer record of is left out.
Offsets never change; a rewritten segment ends at the offset at which it ended before.

What stays in spite of that: tombstones, until `delete.retention.ms` after they were first seen
(KIP-534); markers of transactions, for as long after the last batch of their transaction is gone;
the last batch of every active producer, without its records; what can't be decoded.

`advance` runs on any thread and only reads the log's files; the loop's thread gives what `ready`
holds its name, and goes on to the next slice. Whoever loses interest just stops.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from replog.log.cleaner_map import KeyMap
from replog.log.cleaner_plan import groups
from replog.log.cleaner_survey import Survey, walk
from replog.log.cleaner_writer import CleanedFiles, CleanedWriter
from replog.log.config import LogConfig
from replog.log.disk import Disk, DiskError
from replog.log.errors import DamagedBatch, LogCorrupt
from replog.log.segment import Segment
from replog.log.walk import walk_batches
from replog.records.errors import CorruptBatch
from replog.records.header import BatchHeader
from replog.records.rewrite import (
    ABORT_MARKER,
    COMMIT_MARKER,
    Span,
    delete_horizon,
    emptied,
    expand,
    marker_type,
    placeholder,
    rebuilt,
    spans,
)

# Bytes read in one slice: other jobs wait for so much at most.
SLICE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CleanRules:
    """What holds during one pass. Times in milliseconds since 1970, or lengths of time."""

    wall_ms: int
    delete_retention_ms: int  # `delete.retention.ms`
    producer_expiration_ms: int  # `producer.id.expiration.ms`
    keys_max: int  # see `cleaner_map.keys_within`


@dataclass(frozen=True, slots=True)
class Replacement:
    """`files` are to stand for the segments `old`."""

    old: tuple[Segment, ...]
    files: CleanedFiles


@dataclass(slots=True)
class CleanStats:
    """What a pass has done so far. Bytes are those of the rewritten segments."""

    keys: int = 0
    bytes_read: int = 0  # over all phases
    bytes_before: int = 0
    bytes_after: int = 0
    records_dropped: int = 0


class CleaningPass:
    """One pass. `ready` and `done` are what `advance` leaves for the loop's thread."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: Sequence[Segment],
        *,
        first_dirty: int,
        end: int,
        config: LogConfig,
        rules: CleanRules,
    ) -> None:
        """`segments` are what `stable_segments` gives; only those before `end` are rewritten, the
        others are looked at for outcomes of transactions."""
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._first_dirty = first_dirty
        self._end = end
        self._config = config
        self._rules = rules
        self._survey = Survey()
        self._keys = KeyMap(rules.keys_max)
        self._writer: CleanedWriter | None = None
        self._with_data: set[int] = set()  # producers with data of a transaction that goes on
        self._read = 0
        self._steps = self._run()
        self.cleaned_to = first_dirty  # everything below is clean once the pass is done
        self.ready: Replacement | None = None
        self.done = False
        self.failure: str | None = None  # the log itself can't be compacted
        self.damaged = False  # since it is not as it was written
        self.stats = CleanStats()

    def advance(self) -> None:
        """One slice of work. Raises DiskError; the pass is over then."""
        self.ready = None
        try:
            next(self._steps)
        except StopIteration:
            self.done = True
        except (LogCorrupt, CorruptBatch) as error:
            self.done, self.failure = True, str(error)
            self.damaged = isinstance(error, DamagedBatch)
            self.abandon()
        except DiskError:
            self.done = True
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove what has not got its name; the pass is over. Not while `advance` runs."""
        if self.ready is not None:
            with suppress(DiskError):
                self.ready.files.discard(self._disk)
            self.ready = None
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    # ---- phases --------------------------------------------------------------------------------

    def _run(self) -> Iterator[None]:
        yield from self._look()
        if self._end <= self._first_dirty:
            return
        yield from self._map_keys()
        self.stats.keys = len(self._keys)
        inside = [s for s in self._segments if s.base_offset < self.cleaned_to]
        config = self._config
        for group in groups(
            inside,
            segment_bytes=config.segment_bytes,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
        ):
            yield from self._rewrite(group)

    def _look(self) -> Iterator[None]:
        """Survey; what follows on an undecided transaction is out of bounds."""
        for segment in self._segments:
            for header, marker in walk(segment):
                self._survey.note(header, marker)
                if self._slice_is_full(header.length):
                    yield
        undecided = self._survey.first_undecided
        if undecided is not None and undecided < self._end:
            bounds = [s.base_offset for s in self._segments if s.base_offset <= undecided]
            self._end = bounds[-1]

    def _map_keys(self) -> Iterator[None]:
        self.cleaned_to = self._end
        for segment in self._segments:
            if segment.next_offset <= self._first_dirty or segment.base_offset >= self._end:
                continue
            for _, header, batch in walk_batches(segment.file, segment.size):
                if header.next_offset <= self._first_dirty or not self._may_be_superseded(header):
                    continue
                if not self._keys.has_room(header.count):
                    self.cleaned_to = header.base_offset
                    return
                for _, _, offset, _, key, _ in self._records(batch, header)[1]:
                    if key is not None:
                        self._keys.put(key, offset)
                if self._slice_is_full(header.length):
                    yield

    def _may_be_superseded(self, header: BatchHeader) -> bool:
        return not header.control and not self._survey.aborted(header)

    def _records(self, batch: memoryview, header: BatchHeader) -> tuple[bytes, list[Span]]:
        """The expanded payload and its records; none of what nobody can decode."""
        try:
            payload = expand(batch, header)
            return payload, spans(payload, header)
        except CorruptBatch:
            return b"", []  # its CRC is right: a client wrote it so

    def _slice_is_full(self, read: int) -> bool:
        self._read += read
        self.stats.bytes_read += read
        if self._read < SLICE_BYTES:
            return False
        self._read = 0
        return True

    # ---- rewriting -----------------------------------------------------------------------------

    def _rewrite(self, group: Sequence[Segment]) -> Iterator[None]:
        """Make one segment of `group`, unless it is one already in which nothing changes."""
        writer = self._writer = CleanedWriter(
            self._disk,
            self._directory,
            group[0].base_offset,
            index_interval_bytes=self._config.index_interval_bytes,
        )
        changed = len(group) > 1
        last = next((segment for segment in reversed(group) if segment.size), None)
        for segment in group:
            for position, header, batch in walk_batches(segment.file, segment.size):
                left = self._left_of(header, batch)
                if left is None and segment is last and position + header.length == segment.size:
                    left = batch if _is_placeholder(header) else placeholder(header)
                if left is not batch:
                    changed = True
                    self._count_dropped(header, left)
                if left is not None:
                    writer.add(left, BatchHeader(left, 0))
                if self._slice_is_full(header.length):
                    yield
        if changed:
            self._finish(writer, group)
        else:
            writer.abandon()
        self._writer = None
        yield

    def _finish(self, writer: CleanedWriter, group: Sequence[Segment]) -> None:
        cleaned = writer.finish(group[-1].next_offset)
        self.stats.bytes_before += sum(segment.size for segment in group)
        self.stats.bytes_after += cleaned.size
        self.ready = Replacement(tuple(group), cleaned)

    def _count_dropped(self, header: BatchHeader, left: bytes | memoryview | None) -> None:
        kept = 0 if left is None else BatchHeader(left, 0).count
        self.stats.records_dropped += header.count - kept

    def _left_of(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """What stays of a batch: all of it (the very `batch`), a smaller one, or nothing."""
        if header.control:
            return self._left_of_marker(header, batch)
        if header.transactional:  # also one without records, which may stay for its producer
            self._with_data.add(header.producer_id)
        if header.count == 0 or self._survey.aborted(header):
            return self._without_records(header, batch)
        payload, records = self._records(batch, header)
        if not records:
            return batch
        kept = [record for record in records if self._stays(record, header)]
        if not kept:
            return self._without_records(header, batch)
        horizon = None
        # Not before older values of the key have gone: who has read one is to see the tombstone.
        superseding = header.base_offset < self.cleaned_to and delete_horizon(header) is None
        if superseding and not all(record[5] for record in kept):
            horizon = self._rules.wall_ms + self._rules.delete_retention_ms
        if horizon is None and len(kept) == len(records):
            return batch
        return rebuilt(header, payload, kept, horizon=horizon)

    def _stays(self, record: Span, header: BatchHeader) -> bool:
        _, _, offset, _, key, has_value = record
        if offset >= self.cleaned_to:
            return True
        if key is None or self._keys.newest(key) > offset:
            return False
        horizon = delete_horizon(header)
        return has_value or horizon is None or self._rules.wall_ms < horizon

    def _left_of_marker(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """A marker stays while its transaction has batches, and `delete.retention.ms` longer."""
        marker = marker_type(batch, header)
        if marker is None:
            return self._without_records(header, batch)
        if marker not in (ABORT_MARKER, COMMIT_MARKER):
            return batch
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        if had_data or header.base_offset >= self.cleaned_to:
            return batch
        horizon = delete_horizon(header)
        if horizon is None:
            payload, records = self._records(batch, header)
            until = self._rules.wall_ms + self._rules.delete_retention_ms
            return rebuilt(header, payload, records, horizon=until)
        if self._rules.wall_ms < horizon:
            return batch
        return self._without_records(header, batch)

    def _without_records(self, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        active_since = self._rules.wall_ms - self._rules.producer_expiration_ms
        if not self._survey.last_of_producer(header, active_since=active_since):
            return None
        return batch if header.count == 0 else emptied(header)


def _is_placeholder(header: BatchHeader) -> bool:
    return header.count == 0 and header.producer_id < 0
