"""Folders that another program left in the middle of compaction, or ours in a way that no crash of
one process can make."""

from collections.abc import Sequence

import pytest
from tests.log.batches import DIRECTORY, append, open_log
from tests.log.compaction import keyed, left, seal, write

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.sim.mem_disk import MemDisk

SMALL = LogConfig(segment_bytes=100, cleanup_policy=("compact",))
CONFIG = LogConfig(segment_bytes=5_000, cleanup_policy=("compact",))
SUFFIXES = (".log", ".index", ".timeindex")


def four_segments() -> tuple[MemDisk, PartitionLog]:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    write(log, [("a", "1")], [("a", "2")], [("b", "1")], [("c", "1")])
    seal(log)
    log.flush()
    return disk, log


def cleaned(*pairs: tuple[int, str, str]) -> dict[str, bytes]:
    """Files of a segment that begins at 0 with one batch a record."""
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    for offset, key, value in pairs:
        if offset > log.log_end_offset:
            other = open_log(MemDisk(), CONFIG, log_start_offset=offset)
            append(other, keyed((key, value)))
            read = other.read(offset, 999, upto=offset + 1, min_one=True)
            log.append_as_follower(read.range.read())  # type: ignore[union-attr]
        else:
            append(log, keyed((key, value)))
    log.close()
    return {suffix: file_of(disk, suffix) for suffix in SUFFIXES}


def file_of(disk: MemDisk, suffix: str) -> bytes:
    return disk.read_file(f"{DIRECTORY}/{0:020d}{suffix}") or b""


def put(disk: MemDisk, data: dict[str, bytes], ending: str, suffixes: Sequence[str]) -> None:
    for suffix in suffixes:
        disk.write_file(f"{DIRECTORY}/{0:020d}{suffix}{ending}", data[suffix])


def names(disk: MemDisk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.count(".") > 1]


SWAPPED = cleaned((1, "a", "2"), (2, "b", "1"))


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_a_swap_takes_the_place_of_all_that_it_reaches_over(gone: int, clean: bool) -> None:
    disk, log = four_segments()
    for base in range(gone):
        for suffix in SUFFIXES:
            disk.remove(f"{DIRECTORY}/{base:020d}{suffix}")
    put(disk, SWAPPED, ".swap", SUFFIXES)
    disk.crash()
    again = open_log(disk, CONFIG, recovery_point=log.recovery_point, clean=clean)
    assert left(again) == [(1, "a", "2"), (2, "b", "1"), (3, "c", "1")]
    assert [segment.base_offset for segment in again.segments] == [0, 3, 4]
    assert again.recovery.reasons and not names(disk)


def test_a_swap_beside_an_unfinished_one_is_undone() -> None:
    disk, log = four_segments()
    put(disk, SWAPPED, ".swap", SUFFIXES)
    put(disk, SWAPPED, ".cleaned", SUFFIXES)
    disk.crash()
    again = open_log(disk, CONFIG, recovery_point=log.recovery_point)
    assert left(again) == [(0, "a", "1"), (1, "a", "2"), (2, "b", "1"), (3, "c", "1")]
    assert not names(disk)


@pytest.mark.parametrize("ending", [".swap", ".cleaned"])
def test_indexes_left_behind_by_their_log_make_those_in_place_doubtful(ending: str) -> None:
    disk, log = four_segments()
    put(disk, SWAPPED, "", (".log",))
    put(disk, {**SWAPPED, ".index": b"\0\0\0\1\0\0\0\1"}, "", (".index",))
    put(disk, SWAPPED, ending, (".index", ".timeindex"))
    disk.crash()
    again = open_log(disk, CONFIG, recovery_point=log.recovery_point)
    assert left(again) == [(1, "a", "2"), (2, "b", "1"), (3, "c", "1")]
    assert file_of(disk, ".index") == b"" and not names(disk)


def test_a_batch_that_is_not_sound_removes_no_segment() -> None:
    disk, log = four_segments()
    data = bytearray(SWAPPED[".log"])
    data[-1] ^= 1
    put(disk, {".log": bytes(data)}, "", (".log",))
    disk.crash()
    before = disk.list(DIRECTORY)
    open_log(disk, CONFIG, recovery_point=log.recovery_point)
    assert f"{1:020d}.log" in before and f"{1:020d}.log" in disk.list(DIRECTORY)


def test_segments_that_follow_each_other_all_stay() -> None:
    disk, log = four_segments()
    disk.crash()
    again = open_log(disk, CONFIG, recovery_point=log.recovery_point)
    assert [segment.base_offset for segment in again.segments] == [0, 1, 2, 3, 4]
    assert again.recovery.reasons == []
