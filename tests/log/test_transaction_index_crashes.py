"""A crash at every disk call of appends, cuts and compaction of a log with aborted transactions:
after the start, the index has the markers that the log has, and no other."""

from collections.abc import Callable
from random import Random

import pytest
from tests.log.batches import append, headers, open_log
from tests.log.compaction import DAY, NOW, compact, flush, keyed, rules
from tests.log.transactions import marker

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.model.producers import AbortedTransaction
from replog.node.partition import replay_producers
from replog.records.batch import TRANSACTIONAL_BIT, Producer
from replog.sim.mem_disk import CrashNow, MemDisk

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=50, cleanup_policy=("compact",))
CONFIG = LogConfig(segment_bytes=1_500, index_interval_bytes=50, cleanup_policy=("compact",))


def transaction(log: PartitionLog, n: int, *, committed: bool, first: int = -1) -> None:
    """Records and the marker of producer `n` % 3; what it aborts goes into the index."""
    producer_id = n % 3
    data = keyed(
        (f"k{n % 5}", f"v{n}"),
        producer=Producer(producer_id, 0, n // 3),
        attributes=TRANSACTIONAL_BIT,
    )
    begun = append(log, data).first_offset
    append(log, keyed((f"k{n % 4}", "plain")))
    offset = append(log, marker(producer_id, committed=committed)).first_offset
    if not committed:
        log.aborted.add(AbortedTransaction(producer_id, begun, offset, offset + 1))


def filled(seed: int) -> tuple[MemDisk, PartitionLog]:
    rng = Random(seed)
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for n in range(14):
        transaction(log, n, committed=rng.random() < 0.4)
    log.roll()
    flush(log)
    log.flush()
    log.config = CONFIG
    return disk, log


def known(log: PartitionLog) -> dict[int, AbortedTransaction]:
    return {entry.last_offset: entry for entry in log.aborted.within(0, 10_000)}


def markers(log: PartitionLog) -> set[int]:
    return {h.base_offset for h in headers(log) if h.control and h.count}


def scanned(log: PartitionLog) -> dict[int, AbortedTransaction]:
    """What the batches say, of a log that nobody has compacted."""
    begun: dict[int, int] = {}
    found = {}
    for header in headers(log):
        if not header.transactional:
            continue
        if not header.control:
            begun.setdefault(header.producer_id, header.base_offset)
            continue
        first, offset = begun.pop(header.producer_id), header.base_offset
        said = log.aborted.marker(header)
        assert said is not None
        if not said.committed:
            found[offset] = AbortedTransaction(header.producer_id, first, offset, offset + 1)
    return found


def crash_everywhere(
    make: Callable[[], tuple[MemDisk, PartitionLog]],
    work: Callable[[MemDisk, PartitionLog], None],
    wanted: Callable[[PartitionLog], dict[int, AbortedTransaction]],
    *,
    power: bool,
) -> int:
    """Returns the number of points; `wanted` tells what the index of a log must have."""
    at = 0
    while True:
        at += 1
        disk, log = make()
        recovery_point = log.recovery_point
        counter = _Counter(at)
        disk.before_call = counter
        died = False
        try:
            work(disk, log)
        except CrashNow:
            died = True
        disk.before_call = None
        if power:
            disk.power_cut(Random(at))
        else:
            disk.crash()
        again = open_log(disk, CONFIG, recovery_point=recovery_point)
        replay_producers(again, [])
        assert known(again) == wanted(again), f"crash at call {at}: {counter.last}"
        if not died:
            return at


class _Counter:
    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0
        self.last = ""

    def __call__(self, call: str, path: str) -> None:
        self.calls += 1
        self.last = f"{call} {path}"
        if self.calls == self.at:
            raise CrashNow(self.last, written=self.calls * 7 % 60)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("seed", range(3))
def test_compaction(seed: int, power: bool) -> None:
    everything = known(filled(seed)[1])

    def wanted(log: PartitionLog) -> dict[int, AbortedTransaction]:
        there = markers(log)
        return {offset: entry for offset, entry in everything.items() if offset in there}

    def compacted() -> tuple[MemDisk, PartitionLog]:
        """Records have gone, then markers have got a time when they may go."""
        disk, log = filled(seed)
        for n in (14, 15):
            compact(disk, log)
            transaction(log, n, committed=True)
            log.roll()
            flush(log)
            log.flush()
        return disk, log

    def compact_now(disk: MemDisk, log: PartitionLog) -> None:
        compact(disk, log)

    def compact_later(disk: MemDisk, log: PartitionLog) -> None:
        compact(disk, log, rules(wall_ms=NOW + DAY // 2))

    disk, log = compacted()
    compact_later(disk, log)
    assert len(known(log)) < len(everything), "no marker has left: the test shows nothing"
    assert known(log) == wanted(log)
    points = crash_everywhere(lambda: filled(seed), compact_now, wanted, power=power)
    points += crash_everywhere(compacted, compact_later, wanted, power=power)
    print(f"{points} crash points")
    assert points > 20


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power cut"])
def test_appends_and_cuts(power: bool) -> None:
    def work(disk: MemDisk, log: PartitionLog) -> None:
        for n in range(20, 24):
            transaction(log, n, committed=False)
        log.truncate_to(log.log_end_offset - 5)
        for n in range(24, 28):  # offsets that were others'
            transaction(log, n, committed=n % 2 > 0)
        flush(log)
        log.flush()

    points = crash_everywhere(lambda: filled(1), work, scanned, power=power)
    print(f"{points} crash points")
    assert points > 30
