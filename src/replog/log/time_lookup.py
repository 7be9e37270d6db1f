"""From a time to an offset, exactly: time index, then headers, then the records of one batch."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replog.log.errors import LogCorrupt
from replog.log.segment import Segment
from replog.records.batch import Record, records_of
from replog.records.errors import CorruptBatch
from replog.records.header import NO_TIMESTAMP, BatchHeader, crc_ok


class TimeAndOffset(NamedTuple):
    """One record's place; `timestamp` in milliseconds since 1970."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_time(
    segments: Sequence[Segment], timestamp: int, start_offset: int
) -> TimeAndOffset | None:
    """The first record from `start_offset` on that is not earlier than `timestamp`."""
    for segment in segments:
        if segment.next_offset <= start_offset or segment.last_timestamp() < timestamp:
            continue
        scan_from = max(segment.indexes.times.offset_before(timestamp), start_offset)
        for header in segment.headers(segment.position_of(scan_from)):
            if header.max_timestamp < timestamp:
                continue
            for record in _records(segment, header):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimeAndOffset(record.offset, record.timestamp, header.leader_epoch)
    return None


def find_latest(segments: Sequence[Segment], start_offset: int) -> TimeAndOffset | None:
    """The first record from `start_offset` on that has the largest timestamp of them all."""
    held = [segment for segment in segments if segment.next_offset > start_offset]
    latest = max((segment.last_timestamp() for segment in held), default=NO_TIMESTAMP)
    if latest == NO_TIMESTAMP:
        return None
    found = find_time(held, latest, start_offset)
    if found is None and start_offset > held[0].base_offset:
        # What was deleted from the first segment had the largest one: look at what is left.
        return _latest_of(held, start_offset)
    return found


def _latest_of(segments: Sequence[Segment], start_offset: int) -> TimeAndOffset | None:
    best: TimeAndOffset | None = None
    for segment in segments:
        for header in segment.headers(segment.position_of(start_offset)):
            if best is not None and header.max_timestamp <= best.timestamp:
                continue
            for record in _records(segment, header):
                if record.offset < start_offset or record.timestamp < 0:
                    continue
                if best is None or record.timestamp > best.timestamp:
                    best = TimeAndOffset(record.offset, record.timestamp, header.leader_epoch)
    return best


def _records(segment: Segment, header: BatchHeader) -> Iterator[Record]:
    """The records of the batch at `header`; none when its payload can't be read."""
    data = segment.file.read(header.position, header.length)
    read = BatchHeader(data, 0)
    try:
        yield from records_of(data, read)
    except CorruptBatch as error:
        if not crc_ok(data, read):
            raise LogCorrupt(f"{segment.file!r} at {header.position}: {error}") from error
        return  # a client wrote it so, and every replica has it: nobody can look inside
