"""`preallocate`: a new segment has all its room at once, and gives back what it did not need."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.log.batches import DIRECTORY, append, batch, dies_at, everything, offsets, open_log

from replog.log.config import LogConfig
from replog.log.disk import DiskFull
from replog.log.partition_log import PartitionLog
from replog.runtime.os_disk import OsDisk
from replog.sim.mem_disk import CrashNow, MemDisk, ShortWrite

SEGMENT = 500  # bytes: a few batches
CONFIG = LogConfig(segment_bytes=SEGMENT, preallocate=True)


def reserved(disk: MemDisk) -> list[int]:
    """Of the segments, in order."""
    return [disk.inode(path).reserved for path in disk.paths() if path.endswith(".log")]


def fill(log: PartitionLog, segments: int) -> None:
    while len(log.segments) < segments:
        append(log)


def test_only_the_newest_segment_holds_room_that_it_does_not_need() -> None:
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    assert reserved(disk) == [SEGMENT], "the first, before anything is written"
    fill(log, 3)
    assert reserved(disk) == [0, 0, SEGMENT]
    log.reset_to(1_000)
    assert reserved(disk) == [SEGMENT]
    log.close()
    assert reserved(disk) == [0]
    log = open_log(disk, CONFIG, clean=True, recovery_point=1_000)
    assert reserved(disk) == [0], "nothing but a new segment gets it"
    log.config = LogConfig(segment_bytes=SEGMENT)
    fill(log, 3)
    assert reserved(disk) == [0, 0, 0], "the topic's setting has changed"


def test_a_killed_process_leaves_room_that_the_next_one_gives_back() -> None:
    disk = MemDisk()
    append(open_log(disk, CONFIG))
    disk.crash()
    log = open_log(disk, LogConfig(segment_bytes=SEGMENT))
    assert reserved(disk) == [SEGMENT]
    fill(log, 2)
    assert reserved(disk) == [0, 0]


def test_where_there_is_no_room_for_a_segment_the_log_keeps_what_it_has() -> None:
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    append(log)

    def full(call: str, path: str) -> None:
        if call == "reserve":
            raise ShortWrite(path)

    disk.before_call = full
    with pytest.raises(DiskFull):
        fill(log, 2)
    end = log.log_end_offset
    disk.before_call = None
    disk.crash()
    again = open_log(disk, CONFIG)
    assert offsets(everything(again)) == list(range(end))
    append(again)
    assert again.log_end_offset == end + 1


@pytest.mark.parametrize("power", [False, True])
def test_a_death_at_any_call_leaves_whole_batches_and_no_zeros(*, power: bool) -> None:
    """While segments are begun and given up, the log is begun anew, and closed."""
    ends = set()
    for seed in range(4 if power else 1):
        for call in range(1, 400):
            disk = MemDisk()
            log = open_log(disk, CONFIG)
            disk.before_call = dies_at(call)
            died = True
            with suppress(CrashNow):
                fill(log, 3)
                log.truncate_to(log.log_end_offset - 1)
                append(log)
                log.close()
                died = False
            disk.before_call = None
            written = log.log_end_offset
            if power:
                disk.power_cut(Random(seed))
            else:
                disk.crash()
            again = open_log(disk, CONFIG)
            assert offsets(everything(again)) == list(range(again.log_end_offset))
            files = [p for p in disk.paths() if p.startswith(f"{DIRECTORY}/") and p[-4:] == ".log"]
            assert again.size == sum(len(disk.inode(path).data) for path in files)
            if not power:
                assert again.log_end_offset >= written
                assert again.recovery.bytes_truncated <= len(batch())
            append(again)
            assert offsets(everything(again))[-1] == again.log_end_offset - 1
            ends.add(again.log_end_offset)
            if not died:
                break
        assert not died, "it came to its end"
    assert len(ends) > 5


def allocated(path: Path) -> list[tuple[int, bool]]:
    """Size of each segment's file, and whether it has far more room than that."""
    found = [file.stat() for file in sorted((path / DIRECTORY).glob("*.log"))]
    return [(stat.st_size, stat.st_blocks * 512 > stat.st_size + (1 << 20)) for stat in found]


def test_real_files_have_their_room_and_their_own_length(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4 << 20, preallocate=True)
    log = open_log(OsDisk(tmp_path), config)
    append(log)
    size = len(batch())
    if allocated(tmp_path) == [(size, False)]:
        pytest.skip("this file system can't set room aside")
    assert allocated(tmp_path) == [(size, True)]
    log.abandon()  # as a killed process leaves it
    log = open_log(OsDisk(tmp_path), config)
    assert (log.log_end_offset, log.recovery.bytes_truncated) == (1, 0)
    append(log)
    log.roll()
    assert allocated(tmp_path) == [(2 * size, False), (0, True)]
    log.close()
    assert allocated(tmp_path) == [(2 * size, False), (0, False)]
