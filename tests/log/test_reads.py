"""What readers get, and how little of the files is looked at for it."""

import pytest
from tests.log.batches import (
    DIRECTORY,
    append,
    batch,
    fetch,
    headers,
    offsets,
    open_log,
    split,
)

from replog.log.config import LogConfig
from replog.log.errors import LogCorrupt
from replog.log.results import LogRead, OutOfRange
from replog.sim.mem_disk import MemDisk

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_ms=10**12)


def test_a_range_is_of_the_file_itself() -> None:
    log = open_log(MemDisk())
    append(log, batch(2))
    append(log, batch(2))
    read = log.read(2, 10_000, upto=4, min_one=True)
    assert isinstance(read, LogRead)
    assert read.range is not None
    assert (read.range.position, read.range.length) == (len(batch(2)), len(batch(2)))


def test_reads_end_below_upto() -> None:
    log = open_log(MemDisk())
    for _ in range(3):
        append(log, batch(2))
    assert offsets(split(fetch(log, 0, upto=4))) == [0, 1, 2, 3]
    assert offsets(split(fetch(log, 0, upto=5))) == [0, 1, 2, 3], "not a part of a batch"
    assert fetch(log, 4, upto=5) == b""
    assert fetch(log, 4, upto=4) == b""
    assert fetch(log, 5, upto=2) == b"", "behind what may be read, within the log"
    assert offsets(split(fetch(log, 1, upto=99))) == [0, 1, 2, 3, 4, 5]


@pytest.mark.surface(17)
def test_max_bytes_at_the_limit_and_one_below() -> None:
    log = open_log(MemDisk(), LogConfig(index_interval_bytes=100))
    for _ in range(8):
        append(log)
    size = len(batch())
    assert len(fetch(log, 2, 3 * size)) == 3 * size
    assert len(fetch(log, 2, 3 * size - 1)) == 2 * size
    assert len(fetch(log, 2, size - 1)) == size
    assert fetch(log, 2, size - 1, min_one=False) == b""
    assert len(fetch(log, 2, size, min_one=False)) == size
    assert fetch(log, 2, 0, min_one=False) == b""


def test_what_need_not_be_whole_fills_the_limit_up() -> None:
    log = open_log(MemDisk(), LogConfig(index_interval_bytes=100))
    for _ in range(8):
        append(log)
    size = len(batch())

    def length(max_bytes: int, *, upto: int = 8, min_one: bool = True) -> int:
        read = log.read(2, max_bytes, upto=upto, min_one=min_one, whole=False)
        assert isinstance(read, LogRead)
        return 0 if read.range is None else read.range.length

    for limit in (size, size + 1, 3 * size - 1, 3 * size, 6 * size):
        assert length(limit) == length(limit, min_one=False) == limit
    assert length(3 * size, upto=4) == 2 * size, "nothing of what may not be read"
    assert length(size - 1) == length(0) == size
    assert length(size - 1, min_one=False) == 0


def test_a_range_never_spans_segments() -> None:
    log = open_log(MemDisk(), SMALL)
    for _ in range(12):
        append(log)
    assert len(log.segments) > 2
    first = split(fetch(log, 0))
    assert first[-1].next_offset < log.log_end_offset
    assert split(fetch(log, first[-1].next_offset))[0].base_offset == first[-1].next_offset


def test_out_of_range() -> None:
    log = open_log(MemDisk(), log_start_offset=10)
    append(log)
    for offset in (9, 12):
        assert log.read(offset, 1, upto=11, min_one=True) == OutOfRange(10, 11)
    assert fetch(log, 11) == b""


def test_following_the_end_reads_nothing_from_the_file() -> None:
    disk = MemDisk()
    log = open_log(disk)
    for _ in range(300):
        append(log)
    disk.reads = 0
    for end in range(200, 300):
        read = log.read(end - 1, 1 << 20, upto=end, min_one=True)
        assert isinstance(read, LogRead)
        assert read.range is not None
        assert read.range.length == len(batch())
    assert disk.reads == 0


def test_a_large_read_looks_only_at_its_end() -> None:
    disk = MemDisk()
    log = open_log(disk)
    for _ in range(2_000):
        append(log)
    disk.reads = 0
    offset = 0
    count = 0
    while offset < log.log_end_offset:
        read = log.read(offset, 50_000, upto=log.log_end_offset, min_one=True)
        assert isinstance(read, LogRead)
        assert read.range is not None
        offset += read.range.length // len(batch())
        count += 1
    assert count > 3
    assert disk.reads <= count, "one small read for each"


def test_boundaries_of_large_batches_are_told_by_the_index() -> None:
    disk = MemDisk()
    log = open_log(disk)
    for _ in range(40):
        append(log, batch(size=10_000))
        append(log)  # too small for an entry
    limit = 3 * len(batch(size=10_000) + batch())
    for looks in (0, 1, 0):  # at each boundary: as written, opened anew, and once known
        if looks:
            log = open_log(disk, recovery_point=log.close(), clean=True)
        for segment in log.segments:
            segment.forget()
        found: list[int] = []
        count = disk.reads = 0
        while (offset := found[-1] + 1 if found else 0) < log.log_end_offset:
            read = log.read(offset, limit, upto=log.log_end_offset, min_one=True)
            assert isinstance(read, LogRead) and read.range is not None
            left = log.size - read.range.position
            assert limit * 15 // 16 < read.range.length <= limit or read.range.length == left
            found += offsets(split(read.range.read()))
            count += 1
        assert found == list(range(80))
        assert disk.reads <= 1 + count + looks * count, "and one for where to begin"


def test_headers_of_everything() -> None:
    log = open_log(MemDisk(), SMALL)
    for _ in range(10):
        append(log, batch(2))
    assert [header.base_offset for header in headers(log)] == list(range(0, 20, 2))
    assert [h.base_offset for h in log.headers_from(7)] == list(range(6, 20, 2))
    assert list(log.headers_from(20)) == []


def test_an_index_that_leads_astray_is_made_anew() -> None:
    disk = MemDisk()
    config = LogConfig(index_interval_bytes=1)
    log = open_log(disk, config)
    for _ in range(20):
        append(log)
    recovery_point = log.close()
    disk.crash()
    path = f"{DIRECTORY}/00000000000000000000.index"
    data = bytearray(disk.read_file(path) or b"")
    for entry in range(0, len(data) - 8, 8):  # all but the last, which is looked at when opening
        data[entry + 7] += 1
    disk.write_file(path, bytes(data))
    again = open_log(disk, config, recovery_point=recovery_point, clean=True)
    for offset in range(20):
        assert split(fetch(again, offset, 0))[0].base_offset == offset
    assert len(fetch(again, 0, 5 * len(batch()))) == 5 * len(batch())


def test_bytes_that_rot_below_are_found_when_they_are_needed() -> None:
    disk = MemDisk()
    log = open_log(disk)
    for _ in range(5):
        append(log)
    log.close()
    disk.crash()
    file = disk.open(f"{DIRECTORY}/00000000000000000000.log")
    data = file.read(0, file.size())
    file.truncate(0)
    file.append((data[: len(batch())] + b"\xff" * 30 + data[len(batch()) + 30 :],))
    with pytest.raises(LogCorrupt):
        # A clean stop says that all is well, and the last entry of the index is far away.
        list(open_log(disk, recovery_point=5, clean=True).headers_from(0))
