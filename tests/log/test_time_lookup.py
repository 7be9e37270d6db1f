"""From times to offsets: inside batches, across segments, with times that go back and forth."""

import pytest
from crc32c import crc32c
from tests.log.batches import append, batch, open_log

from replog.log.config import LogConfig
from replog.log.errors import LogCorrupt
from replog.log.partition_log import PartitionLog
from replog.log.time_lookup import TimeAndOffset
from replog.records.batch import Compression, Record, build_batch
from replog.sim.mem_disk import MemDisk

T = 1_700_000_000_000


def log_with(*batches: list[int], codec: int = 0, config: LogConfig | None = None) -> PartitionLog:
    log = open_log(MemDisk(), config)
    for number, times in enumerate(batches):
        records = [Record(0, T + time, b"k", b"v") for time in times]
        append(log, bytearray(build_batch(records, compression=codec)), epoch=number)
    return log


# Times of offsets 0 to 4.
PLAIN = ([0, 100], [1_000, 1_050], [500])


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (-10, (0, 0, 0)),
        (0, (0, 0, 0)),
        (1, (1, 100, 0)),
        (100, (1, 100, 0)),
        (101, (2, 1_000, 1)),
        (500, (2, 1_000, 1)),  # offset 4 has this very time, but comes later
        (1_001, (3, 1_050, 1)),
        (1_050, (3, 1_050, 1)),
        (1_051, None),
    ],
)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("segment_bytes", [100, 10**9])
def test_the_first_record_that_is_not_earlier(
    time: int, expected: tuple[int, int, int] | None, codec: int, segment_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=1)
    found = log_with(*PLAIN, codec=codec, config=config).offset_for_time(T + time)
    if expected is None:
        assert found is None
    else:
        offset, at, epoch = expected
        assert found == TimeAndOffset(offset, T + at, epoch)


def test_the_latest_time_and_the_first_that_has_it() -> None:
    assert log_with(*PLAIN).offset_for_latest_time() == TimeAndOffset(3, T + 1_050, 1)
    assert log_with([0, 0], [0]).offset_for_latest_time() == TimeAndOffset(0, T, 0)
    assert open_log(MemDisk()).offset_for_latest_time() is None
    assert open_log(MemDisk()).offset_for_time(0) is None


def test_records_without_times() -> None:
    log = open_log(MemDisk())
    append(log, bytearray(build_batch([Record(0, -1, None, b"v")])))
    assert log.offset_for_latest_time() is None
    assert log.offset_for_time(0) is None
    append(log, batch(time=7))
    assert log.offset_for_time(0) == TimeAndOffset(1, 7, 0)


def test_what_was_deleted_is_not_found() -> None:
    disk = MemDisk()
    log = open_log(disk)
    for times in ([1_000, 1_050], [5, 9], [7]):
        append(log, bytearray(build_batch([Record(0, T + t, b"k", b"v") for t in times])))
    log.close()
    disk.crash()
    again = open_log(disk, clean=True, recovery_point=5, log_start_offset=1)
    assert again.offset_for_time(T) == TimeAndOffset(1, T + 1_050, 0)
    assert again.offset_for_latest_time() == TimeAndOffset(1, T + 1_050, 0)
    again = open_log(disk, clean=True, recovery_point=5, log_start_offset=2)
    assert again.offset_for_time(T + 6) == TimeAndOffset(3, T + 9, 0)
    assert again.offset_for_latest_time() == TimeAndOffset(3, T + 9, 0)
    again = open_log(disk, clean=True, recovery_point=5, log_start_offset=5)
    assert again.offset_for_latest_time() is None


def test_a_payload_that_nobody_can_read_hides_its_records_only() -> None:
    log = log_with([0])
    garbage = bytearray(build_batch([Record(0, T + 10, b"k", b"v" * 50)]))
    garbage[22] = Compression.SNAPPY
    garbage[17:21] = crc32c(garbage[21:]).to_bytes(4, "big")  # a client wrote it so
    append(log, garbage, epoch=1)
    append(log, batch(time=T + 20), epoch=2)
    assert log.offset_for_time(T + 5) == TimeAndOffset(2, T + 20, 2)


def test_a_payload_that_has_rotted_hides_nothing() -> None:
    log = log_with([0])
    rotten = bytearray(build_batch([Record(0, T + 10, b"k", b"v" * 50)]))
    rotten[22] = Compression.SNAPPY
    append(log, rotten, epoch=1)
    append(log, batch(time=T + 20), epoch=2)
    with pytest.raises(LogCorrupt):
        log.offset_for_time(T + 5)


def test_only_a_few_sealed_segments_stay_in_memory() -> None:
    log = log_with(*[[n] for n in range(40)], config=LogConfig(segment_bytes=100))
    assert len(log.segments) == 40
    for n in range(40):
        assert log.offset_for_time(T + n) == TimeAndOffset(n, T + n, n)
    loaded = [segment for segment in log._segments[:-1] if segment.loaded]
    assert len(loaded) <= 4
