"""Which segments at the front of a log have served their time (`retention.ms`, `retention.bytes`).

Only whole segments go, oldest first, and only those of which every record is committed. The active
one goes too when it is due: then the log rolls first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from replog.log.segment import Segment
from replog.records.header import NO_TIMESTAMP

NO_LIMIT: Final = -1


@dataclass(frozen=True, slots=True)
class Retention:
    """What a topic keeps; -1 for no limit."""

    ms: int = NO_LIMIT
    bytes: int = NO_LIMIT


@dataclass(frozen=True, slots=True)
class Due:
    """So many segments at the front may go, and why the last of them may."""

    segments: int
    reason: str


def due(
    segments: Sequence[Segment],
    retention: Retention,
    *,
    wall_ms: int,
    committed: int,
    end_offset: int,
) -> Due | None:
    """What may go now; None when nothing may. `committed` is the high watermark, `end_offset` the
    log's end. Raises DiskError, LogCorrupt: an unused segment's time has to be read."""
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    candidates = [segment for segment, end in zip(segments, ends, strict=True) if end <= committed]
    if candidates and candidates[-1] is segments[-1] and not segments[-1].size:
        candidates.pop()  # nothing is in the active one
    by_time = _expired(candidates, retention.ms, wall_ms)
    by_size = _beyond(candidates, retention.bytes, sum(segment.size for segment in segments))
    count = max(by_time, by_size)
    if not count:
        return None
    if by_time >= by_size:
        return Due(count, f"retention.ms={retention.ms} has passed")
    return Due(count, f"the log is larger than retention.bytes={retention.bytes}")


def _expired(segments: Sequence[Segment], retention_ms: int, wall_ms: int) -> int:
    """How many are older. One whose records have no time goes when the next one may."""
    if retention_ms < 0:
        return 0
    count = 0
    for number, segment in enumerate(segments, 1):
        newest = segment.last_timestamp()
        if newest == NO_TIMESTAMP:
            continue
        if wall_ms - newest <= retention_ms:
            break
        count = number
    return count


def _beyond(segments: Sequence[Segment], retention_bytes: int, size: int) -> int:
    """How many the log can lose and still hold `retention_bytes`."""
    if retention_bytes < 0:
        return 0
    surplus = size - retention_bytes
    for count, segment in enumerate(segments):
        surplus -= segment.size
        if surplus < 0:
            return count
    return len(segments)
