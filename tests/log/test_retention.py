"""What retention lets go: by time, by size, never past the high watermark; and how it goes."""

from random import Random

import pytest
from tests.log.batches import DIRECTORY, append, batch, everything, fetch, offsets, open_log
from tests.log.compaction import keyed, seal, write

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.log.results import OutOfRange
from replog.log.retention import Due, Retention, due
from replog.sim.mem_disk import MemDisk

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=50)
NOW = 10_000


def filled(*times: int) -> tuple[MemDisk, PartitionLog]:
    """A segment of 200 bytes for each time, the last one active."""
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    for time in times:
        append(log, batch(1, size=128, time=time))
    assert [segment.size for segment in log.segments] == [200] * len(times)
    return disk, log


def may_go(log: PartitionLog, *, ms: int = -1, size: int = -1, committed: int | None = None) -> int:
    found = due(
        log.segments,
        Retention(ms=ms, bytes=size),
        wall_ms=NOW,
        committed=log.log_end_offset if committed is None else committed,
        end_offset=log.log_end_offset,
    )
    return 0 if found is None else found.segments


@pytest.mark.parametrize(
    ("ms", "count"), [(-1, 0), (9_000, 0), (8_999, 1), (7_500, 2), (7_000, 2), (6_999, 3), (0, 3)]
)
def test_segments_go_when_their_newest_record_is_too_old(ms: int, count: int) -> None:
    _, log = filled(1_000, 2_000, 3_000)
    assert may_go(log, ms=ms) == count


def test_a_younger_segment_in_front_keeps_older_ones() -> None:
    _, log = filled(5_000, 1_000, 2_000)
    assert may_go(log, ms=6_000) == 0


def test_a_segment_without_times_goes_with_the_next_one() -> None:
    _, log = filled(-1, 1_000, 9_000)
    assert may_go(log, ms=5_000) == 2
    _, log = filled(1_000, -1)
    assert may_go(log, ms=5_000) == 1, "nobody knows how old the last one is"


@pytest.mark.parametrize(
    ("size", "count"), [(-1, 0), (600, 0), (599, 0), (401, 0), (400, 1), (200, 2), (199, 2), (0, 3)]
)
def test_segments_go_while_the_rest_is_as_large_as_it_should_be(size: int, count: int) -> None:
    _, log = filled(1, 2, 3)
    assert may_go(log, size=size) == count


@pytest.mark.parametrize("committed", [0, 1, 2, 3])
def test_nothing_goes_that_is_not_committed(committed: int) -> None:
    _, log = filled(1, 2, 3)
    assert may_go(log, ms=0, committed=committed) == committed
    assert may_go(log, size=0, committed=committed) == committed


def test_an_empty_active_segment_stays() -> None:
    _, log = filled(1, 2)
    log.roll()
    assert may_go(log, ms=0) == 2
    log.start_at(2)
    log.leave(9, log.log_start_offset)
    assert may_go(log, ms=0) == 0


def test_the_reason_is_told() -> None:
    _, log = filled(1, 2, 9_999)

    def told(retention: Retention) -> Due | None:
        return due(log.segments, retention, wall_ms=NOW, committed=3, end_offset=3)

    by_time, by_size = told(Retention(ms=500)), told(Retention(bytes=200))
    assert by_time is not None and by_time.reason == "retention.ms=500 has passed"
    assert by_size is not None and "retention.bytes=200" in by_size.reason


# The start moves, files leave -------------------------------------------------------------------


def test_records_below_the_start_are_not_read_and_their_files_leave() -> None:
    disk, log = filled(1, 2, 3, 4)
    log.assign_epoch(5, 4)
    append(log, batch(1, size=128, time=5), epoch=5)
    log.start_at(2)
    assert isinstance(log.read(1, 99, upto=5, min_one=True), OutOfRange)
    assert offsets(everything(log)) == [2, 3, 4]
    assert log.epoch_entries() == [(0, 0), (5, 4)], "a restart may yet find the files"
    held = log.segments[1].range(1, 2, 999, True)
    assert held is not None
    before = held.read()
    assert log.below_start() == 2
    left = log.leave(1, log.log_start_offset)
    assert [path.removeprefix(f"{DIRECTORY}/") for path in left] == [
        f"{0:020d}.log.deleted",
        f"{0:020d}.index.deleted",
        f"{0:020d}.timeindex.deleted",
    ]
    assert log.epoch_entries() == [(0, 2), (5, 4)]
    left = log.leave(5, log.log_start_offset)
    assert log.below_start() == 0 and len(log.segments) == 3
    for path in left:
        disk.remove(path)
    assert held.read() == before, "a reply that is under way"
    assert offsets(everything(log)) == [2, 3, 4]


def test_the_start_never_goes_back_nor_past_the_end() -> None:
    _, log = filled(1, 2)
    log.start_at(1)
    log.start_at(0)
    assert log.log_start_offset == 1
    log.start_at(99)
    assert log.log_start_offset == log.log_end_offset == 2
    assert log.below_start() == 1, "the active segment stays"
    append(log, batch(1))
    assert offsets(everything(log)) == [2]


def test_a_start_inside_a_segment_keeps_it() -> None:
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    write(log, [("a", "1"), ("b", "1"), ("c", "1")])
    seal(log)
    log.start_at(2)
    assert log.leave(9, log.log_start_offset) == []
    assert offsets(everything(log)) == [0, 1, 2], "a batch is given whole"
    again = open_log(disk, CONFIG, recovery_point=log.recovery_point, log_start_offset=2)
    assert again.log_start_offset == 2
    assert isinstance(again.read(1, 99, upto=3, min_one=True), OutOfRange)


def test_a_rolled_log_can_lose_everything() -> None:
    disk, log = filled(1, 2)
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    log.start_at(2)
    log.leave(9, log.log_start_offset)
    assert log.size == 0 and log.log_start_offset == 2
    disk.crash()
    again = open_log(disk, CONFIG)
    assert (again.log_start_offset, again.log_end_offset) == (2, 2)
    append(again, batch(1))
    assert fetch(again, 2)


def test_files_that_were_leaving_are_gone_after_a_start() -> None:
    disk, log = filled(1, 2, 3)
    log.start_at(2)
    log.leave(9, log.log_start_offset)
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".deleted")]
    disk.crash()
    open_log(disk, CONFIG)
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".deleted")]


def test_what_comes_back_of_left_segments_takes_no_living_one_along() -> None:
    """Power brings some of the names back and others not: the hole is below the start. That all
    was flushed need not be on disk by then."""
    came_back = 0
    for seed in range(40):
        disk, log = filled(1, 2, 3, 4, 5, 6)
        log.flush()
        log.start_at(log.segments[4].base_offset)
        log.leave(9, log.log_start_offset)
        start, end = log.log_start_offset, log.log_end_offset
        disk.power_cut(Random(seed))
        names = disk.list(DIRECTORY)
        came_back += sum(name.endswith(".log") for name in names) > len(log.segments)
        again = open_log(disk, CONFIG, log_start_offset=start)
        assert (again.log_start_offset, again.log_end_offset) == (start, end)
        assert everything(again) == everything(log)
    assert came_back > 10


def test_a_cut_makes_what_was_compacted_dirty_again() -> None:
    _, log = filled(1, 2, 3)
    log.cleaned_to = 3
    log.truncate_to(1)
    assert log.cleaned_to == 1
    log.reset_to(0)
    assert log.cleaned_to == 0


# Rolling ----------------------------------------------------------------------------------------


def test_jitter_lets_partitions_roll_at_different_times() -> None:
    config = LogConfig(segment_ms=1_000, segment_jitter_ms=400)
    ages = {config.roll_ms(f"t-{i}/00000000000000000000") for i in range(50)}
    assert len(ages) > 30 and all(600 < age <= 1_000 for age in ages)
    assert LogConfig(segment_ms=1_000).roll_ms("t-0/0") == 1_000
    assert 0 < LogConfig(segment_ms=10, segment_jitter_ms=10**9).roll_ms("x") <= 10


def test_a_compacted_segment_is_sealed_in_time_for_its_longest_lag() -> None:
    config = LogConfig(segment_ms=10_000, max_compaction_lag_ms=500, cleanup_policy=("compact",))
    log = open_log(MemDisk(), config)
    append(log, keyed(("a", "1"), time=1_000))
    append(log, keyed(("a", "2"), time=1_500))
    assert len(log.segments) == 1
    append(log, keyed(("a", "3"), time=1_501))
    assert len(log.segments) == 2
