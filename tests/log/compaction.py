"""Compacting a log in tests, as a broker does it: pass, swap, sync, files removed."""

from collections.abc import Iterable, Sequence

from tests.log.batches import append, everything

from replog.log.cleaner import CleaningPass, CleanRules
from replog.log.cleaner_plan import CompactionSettings, plan, stable_segments
from replog.log.disk import Disk
from replog.log.partition_log import PartitionLog
from replog.records.batch import Producer, Record, build_batch, read_records

NOW = 1_000_000
DAY = 86_400_000
EAGER = CompactionSettings(min_dirty_ratio=0.0, min_lag_ms=0, max_lag_ms=2**62)


def rules(
    *, wall_ms: int = NOW, delete_retention_ms: int = 1_000, keys_max: int = 1_000
) -> CleanRules:
    return CleanRules(
        wall_ms=wall_ms,
        delete_retention_ms=delete_retention_ms,
        producer_expiration_ms=DAY,
        keys_max=keys_max,
    )


def compact(
    disk: Disk,
    log: PartitionLog,
    with_rules: CleanRules | None = None,
    *,
    stable: int | None = None,
    settings: CompactionSettings = EAGER,
) -> CleaningPass | None:
    """One pass; None when there is nothing to do. What is replaced is removed at once."""
    held = with_rules or rules()
    limit = log.log_end_offset if stable is None else stable
    found = plan(
        log.segments[:-1],
        settings,
        first_dirty=max(log.cleaned_to, log.log_start_offset),
        stable=limit,
        wall_ms=held.wall_ms,
    )
    if found is None:
        return None
    work = CleaningPass(
        disk,
        log.directory,
        stable_segments(log.segments[:-1], limit),
        first_dirty=found.first_dirty,
        end=found.end,
        config=log.config,
        rules=held,
    )
    while not work.done:
        work.advance()
        if work.ready is not None:
            assert log.replace(work.ready)
            log.sync_replaced()
            for path in log.leave_replaced():
                disk.remove(path)
    if work.failure is None:
        log.cleaned_to = max(log.cleaned_to, work.cleaned_to)
    return work


def flush(log: PartitionLog) -> None:
    """Segments on stable storage, which compaction asks for."""
    done = log.begin_flush(to_end=False)
    done()
    log.flushed(done)


def seal(log: PartitionLog) -> None:
    """Everything that is there may be compacted afterwards."""
    log.roll()
    flush(log)


def keyed(
    *pairs: tuple[str, str | None],
    time: int = 1_000,
    compression: int = 0,
    producer: Producer | None = None,
    attributes: int = 0,
) -> bytearray:
    """A batch of records with these keys and values."""
    records = [
        Record(0, time, key.encode(), None if value is None else value.encode())
        for key, value in pairs
    ]
    if producer is None:
        return bytearray(build_batch(records, compression=compression, attributes=attributes))
    return bytearray(
        build_batch(records, compression=compression, producer=producer, attributes=attributes)
    )


def write(log: PartitionLog, *batches: Iterable[tuple[str, str | None]]) -> None:
    for pairs in batches:
        append(log, keyed(*pairs))


def left(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    """(offset, key, value) of every record that can be read."""
    return [
        (r.offset, (r.key or b"").decode(), None if r.value is None else r.value.decode())
        for stored in everything(log)
        for r in read_records(stored.data)
    ]


def values(found: Sequence[tuple[int, str, str | None]]) -> dict[str, str]:
    """What a reader from the beginning ends up with."""
    result: dict[str, str] = {}
    for _, key, value in found:
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result
