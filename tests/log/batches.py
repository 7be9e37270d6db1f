"""Batches and logs for the tests of this room."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from replog.log.config import LogConfig
from replog.log.disk import Disk
from replog.log.partition_log import PartitionLog
from replog.log.results import AppendResult, LogRead
from replog.records.batch import BatchHeader, Record, build_batch, iterate, read_records
from replog.sim.mem_disk import CrashNow

TOPIC_ID = bytes(range(1, 17))
DIRECTORY = "t-0"


def records(count: int, *, size: int = 10, time: int = 1_000) -> list[Record]:
    return [Record(0, time + i, b"k%d" % i, b"v" * size) for i in range(count)]


def batch(count: int = 1, *, size: int = 10, time: int = 1_000) -> bytearray:
    return bytearray(build_batch(records(count, size=size, time=time)))


def append(
    log: PartitionLog, buffer: bytearray | None = None, *, epoch: int = 0, wall_ms: int = 5
) -> AppendResult:
    """As a leader does."""
    data = batch() if buffer is None else buffer
    return log.append_as_leader(memoryview(data), iterate(data), epoch, wall_ms)


def open_log(
    disk: Disk,
    config: LogConfig | None = None,
    *,
    recovery_point: int = 0,
    clean: bool = False,
    topic_id: bytes = TOPIC_ID,
    log_start_offset: int = 0,
) -> PartitionLog:
    return PartitionLog.open(
        disk,
        DIRECTORY,
        config or LogConfig(),
        topic_id=topic_id,
        recovery_point=recovery_point,
        clean=clean,
        log_start_offset=log_start_offset,
    )


@dataclass(frozen=True)
class Stored:
    """One batch as a reader sees it."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


def split(data: bytes) -> list[Stored]:
    return [
        Stored(
            header.base_offset,
            header.next_offset,
            header.leader_epoch,
            data[header.position : header.position + header.length],
        )
        for header in iterate(data)
    ]


def fetch(
    log: PartitionLog,
    offset: int,
    max_bytes: int = 1 << 20,
    *,
    upto: int | None = None,
    min_one: bool = True,
) -> bytes:
    read = log.read(
        offset, max_bytes, upto=log.log_end_offset if upto is None else upto, min_one=min_one
    )
    assert isinstance(read, LogRead), read
    return b"" if read.range is None else read.range.read()


def everything(log: PartitionLog) -> list[Stored]:
    """All batches, read as a follower reads."""
    found: list[Stored] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = split(fetch(log, offset))
        assert batches, f"nothing at {offset}, the log ends at {log.log_end_offset}"
        found += batches
        offset = batches[-1].next_offset
    return found


def offsets(batches: Iterable[Stored]) -> list[int]:
    return [record.offset for stored in batches for record in read_records(stored.data)]


def dies_at(call: int, written: int = 0) -> Callable[[str, str], None]:
    """The process ends in the `call`-th disk call from now on."""
    left = call

    def before_call(name: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise CrashNow(f"{name} {path}", written=written)

    return before_call


def headers(log: PartitionLog) -> list[BatchHeader]:
    return list(log.headers_from(log.log_start_offset))
