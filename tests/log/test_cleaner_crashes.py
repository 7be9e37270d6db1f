"""A crash at every disk call of compaction and of the front leaving, then a start: nothing is lost,
nothing that had gone for good comes back, and no file is left over.
"""

from collections.abc import Callable
from itertools import count
from random import Random

import pytest
from tests.log.batches import DIRECTORY, append, everything, fetch, open_log, split
from tests.log.compaction import compact, flush, keyed, left, rules, seal, values

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.records.batch import crc_ok, iterate
from replog.sim.mem_disk import CrashNow, MemDisk

# Written in small segments, of which compaction makes larger ones.
SMALL = LogConfig(segment_bytes=300, index_interval_bytes=50, cleanup_policy=("compact",))
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=50, cleanup_policy=("compact",))
KEYS = 8
Found = list[tuple[int, str, str | None]]


def filled(seed: int, segments: int) -> tuple[MemDisk, PartitionLog, Found]:
    """A log of several sealed segments on stable storage, with batches of all sizes."""
    rng = Random(seed)
    disk = MemDisk()
    log = open_log(disk, SMALL)
    written: Found = []
    while len(log.segments) < segments:
        pairs = [
            (f"k{rng.randrange(KEYS)}", None if rng.random() < 0.2 else rng.randbytes(9).hex())
            for _ in range(rng.randint(1, 4))
        ]
        written += [(log.log_end_offset + i, k, v) for i, (k, v) in enumerate(pairs)]
        append(log, keyed(*pairs, compression=rng.choice((0, 0, 3))))
    flush(log)
    log.flush()
    log.config = CONFIG
    return disk, log, written


class Counter:
    """Crashes at call number `at`, counted from 1; 0 never."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, call: str, path: str) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise CrashNow(f"{call} {path}", written=self.calls * 7 % 60)


def run_until_crash(disk: MemDisk, at: int, work: Callable[..., object], *args: object) -> int:
    """Do `work`, die at call `at`; returns how many calls there were."""
    counter = Counter(at)
    disk.before_call = counter
    try:
        work(*args)
    except CrashNow:
        pass
    finally:
        disk.before_call = None
    return counter.calls


def sound(log: PartitionLog) -> None:
    """Batches in order, with right CRCs, found by any offset."""
    found = everything(log)
    end = log.log_start_offset
    for stored in found:
        assert stored.base_offset >= end or stored is found[0]
        assert crc_ok(stored.data, iterate(stored.data)[0])
        end = stored.next_offset
    assert end == log.log_end_offset
    for offset in range(log.log_start_offset, log.log_end_offset):
        first = split(fetch(log, offset, 0))[0]
        assert first == next(stored for stored in found if stored.next_offset > offset)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("segments", [2, 5, 9])
def test_a_crash_anywhere_in_compaction(segments: int, power: bool) -> None:
    points = 0
    at = 1
    while True:
        disk, log, written = filled(segments, segments)
        end, recovery_point = log.log_end_offset, log.recovery_point
        before = values(written)
        calls = run_until_crash(disk, at, compact, disk, log)
        compacted = left(log) if calls < at else None
        if power:
            disk.power_cut(Random(at))
        else:
            disk.crash()
        again = open_log(disk, CONFIG, recovery_point=recovery_point)
        found = left(again)
        assert again.log_end_offset == end
        assert again.recovery.bytes_truncated == 0
        assert set(found) <= set(written), "what was never written is there"
        assert values(found) == before, f"crash at call {at}"
        if compacted is not None:
            assert found == compacted, "what had gone came back"
        sound(again)
        names = disk.list(DIRECTORY)
        assert not [n for n in names if n.endswith((".cleaned", ".deleted", ".swap", ".tmp"))]
        # And once more, to the end: the state that a crash left is no obstacle.
        compact(disk, again) or seal(again)
        assert values(left(again)) == before
        points += 1
        if compacted is not None:
            break
        at += 1
    print(f"{points} crash points")
    assert points > 10


class BehindSwap:
    """Crashes when the compacted segment has its name, and before that is on stable storage."""

    def __init__(self) -> None:
        self.swapped = False

    def __call__(self, call: str, path: str) -> None:
        if self.swapped and call == "sync_directory":
            raise CrashNow(path)
        self.swapped |= call == "rename" and path.endswith(".timeindex.cleaned")


def start(disk: MemDisk, recovery_point: int) -> PartitionLog:
    return open_log(disk, CONFIG, recovery_point=recovery_point)


def test_a_crash_while_a_start_removes_what_was_replaced() -> None:
    points = 0
    for seed in range(12):
        for at in count(1):
            disk, log, written = filled(4, 6)
            disk.before_call = BehindSwap()
            with pytest.raises(CrashNow):
                compact(disk, log)
            disk.power_cut(Random(seed))
            calls = run_until_crash(disk, at, start, disk, log.recovery_point)
            disk.power_cut(Random(seed + at))
            again = start(disk, log.recovery_point)
            assert values(left(again)) == values(written)
            sound(again)
            points += 1
            if calls < at:
                break
    assert points > 50


def leave_front(disk: MemDisk, log: PartitionLog, offset: int) -> None:
    """As a broker does it when the start at `offset` is on stable storage."""
    log.start_at(offset)
    paths = log.leave(10, log.log_start_offset)
    disk.sync_directory(DIRECTORY)
    for path in paths:
        disk.remove(path)
    disk.sync_directory(DIRECTORY)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
def test_a_crash_anywhere_while_the_front_leaves(power: bool) -> None:
    at = 1
    while True:
        disk, log, written = filled(7, 7)
        recovery_point = log.recovery_point
        first = log.segments[4].base_offset + 1
        calls = run_until_crash(disk, at, leave_front, disk, log, first)
        if power:
            disk.power_cut(Random(at))
        else:
            disk.crash()
        again = open_log(disk, CONFIG, recovery_point=recovery_point, log_start_offset=first)
        assert again.log_start_offset == first
        wanted = [record for record in written if record[0] >= first]
        assert [record for record in left(again) if record[0] >= first] == wanted
        again.leave(10, again.log_start_offset)
        assert again.below_start() == 0 and again.segments[0].base_offset <= first
        assert [record for record in left(again) if record[0] >= first] == wanted
        if calls < at:
            break
        at += 1
    assert at > 10


def test_a_tombstone_that_went_with_its_value_does_not_let_it_back_in() -> None:
    """The order in which two files vanish must not matter."""
    for at in range(1, 200):
        disk = MemDisk()
        log = open_log(disk, LogConfig(segment_bytes=100, cleanup_policy=("compact",)))
        append(log, keyed(("a", "secret")))
        append(log, keyed(("a", None)))
        append(log, keyed(("b", "1")))
        seal(log)
        log.config = CONFIG
        compact(disk, log, rules(delete_retention_ms=0))
        append(log, keyed(("b", "2")))
        seal(log)
        log.flush()
        assert values(left(log)) == {"b": "2"}
        calls = run_until_crash(disk, at, compact, disk, log, rules(wall_ms=2_000_000))
        disk.power_cut(Random(at))
        again = open_log(disk, CONFIG, recovery_point=log.recovery_point)
        assert values(left(again)) == {"b": "2"}, f"crash at call {at}"
        if calls < at:
            return
    raise AssertionError("it never ended")
