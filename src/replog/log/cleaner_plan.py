"""When a log is worth compacting, and which part of it may be.

A log is clean up to some offset and dirty behind it. Only sealed segments that are committed, whole
and on stable storage are looked at, and none with records younger than `min.compaction.lag.ms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from replog.log.errors import LogCorrupt
from replog.log.segment import Segment
from replog.records.header import HEADER_SIZE, NO_TIMESTAMP, BatchHeader

_OFFSETS_OF_SEGMENT_MAX: Final = 2**31 - 1  # indexes hold them as 32-bit numbers
_INDEX_ENTRY_BYTES_MAX: Final = 12


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """What a topic configures. Times in milliseconds."""

    min_dirty_ratio: float  # `min.cleanable.dirty.ratio`
    min_lag_ms: int  # `min.compaction.lag.ms`
    max_lag_ms: int  # `max.compaction.lag.ms`


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One log that may be compacted up to `end`; clean below `first_dirty`."""

    first_dirty: int
    end: int  # the base offset of the first segment that must not be touched
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # a dirty record is older than `max.compaction.lag.ms`

    @property
    def dirty_ratio(self) -> float:
        """How much of what can be compacted is dirty: 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def plan(
    segments: Sequence[Segment],
    settings: CompactionSettings,
    *,
    first_dirty: int,
    stable: int,
    wall_ms: int,
) -> CompactionPlan | None:
    """Whether the log is worth a pass now; `segments` are the sealed ones, oldest first.

    `stable`: records below are committed and on stable storage. Raises DiskError, LogCorrupt.
    """
    inside = _old_enough(
        stable_segments(segments, stable), settings.min_lag_ms, first_dirty, wall_ms
    )
    dirty = [segment for segment in inside if segment.next_offset > first_dirty]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    clean_bytes = sum(segment.size for segment in inside) - dirty_bytes
    overdue = _first_time(dirty) < wall_ms - settings.max_lag_ms
    found = CompactionPlan(first_dirty, inside[-1].next_offset, clean_bytes, dirty_bytes, overdue)
    return found if overdue or found.dirty_ratio > settings.min_dirty_ratio else None


def stable_segments(segments: Sequence[Segment], stable: int) -> list[Segment]:
    """The sealed ones at the front that hold only what is committed and on stable storage."""
    found = []
    for segment in segments:
        if segment.next_offset > stable or segment.dirty or segment.entries_dirty:
            break
        found.append(segment)
    return found


def _old_enough(
    segments: Sequence[Segment], min_lag_ms: int, first_dirty: int, wall_ms: int
) -> Sequence[Segment]:
    if min_lag_ms > 0:
        for index, segment in enumerate(segments):
            young = segment.last_timestamp() > wall_ms - min_lag_ms
            if young and segment.next_offset > first_dirty:
                return segments[:index]
    return segments


def _first_time(segments: Sequence[Segment]) -> int:
    """The time of the first batch that has one."""
    for segment in segments:
        if segment.first_timestamp is None and segment.size:
            data = segment.file.read(0, HEADER_SIZE)
            if len(data) < HEADER_SIZE:
                raise LogCorrupt(f"{segment.stem}.log ends inside its first header")
            segment.first_timestamp = BatchHeader(data, 0).max_timestamp
        if segment.first_timestamp is not None and segment.first_timestamp != NO_TIMESTAMP:
            return segment.first_timestamp
    return segments[-1].last_timestamp()


def groups(
    segments: Sequence[Segment],
    *,
    segment_bytes: int,
    index_bytes: int,
    index_interval_bytes: int,
) -> list[list[Segment]]:
    """Adjacent segments that become one: together they are no larger than one may be."""
    found: list[list[Segment]] = []
    size_max = min(segment_bytes, _size_with_index_of(index_bytes, index_interval_bytes))
    size = 0
    for segment in segments:
        if (
            found
            and size + segment.size <= size_max
            and segment.next_offset - 1 - found[-1][0].base_offset <= _OFFSETS_OF_SEGMENT_MAX
        ):
            found[-1].append(segment)
            size += segment.size
        else:
            found.append([segment])
            size = segment.size
    return found


def _size_with_index_of(index_bytes: int, index_interval_bytes: int) -> int:
    """What a segment may hold so that neither index can get larger than `index_bytes`."""
    return index_bytes // _INDEX_ENTRY_BYTES_MAX * max(index_interval_bytes, HEADER_SIZE)
