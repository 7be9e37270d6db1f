"""Producers' sequences over restarts: a start reads little, and knows what it knew before."""

from random import Random

import pytest
from tests.node.lone import WALL_MS, Lone, batch, record

from replog.log.config import LogConfig
from replog.log.producer_snapshot import decode
from replog.log.scan import walk_headers
from replog.model.errors import ErrorCode
from replog.sim.mem_disk import MemDisk

PRODUCER = 4_000
ROLLS = {"segment.ms": "25"}  # every third batch begins a segment


def write(lone: Lone, sequence: int, *, producer_id: int = PRODUCER) -> int:
    data = batch(b"v", producer=(producer_id, 0, sequence), timestamp=WALL_MS + 10 * sequence)
    answer = lone.produce("t", data)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.base_offset


@pytest.fixture
def lone() -> Lone:
    made = Lone()
    made.topic("t", record(1), **ROLLS)
    return made


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Positions of the batch headers that starts read."""
    seen: list[int] = []

    def counting(file: object, position: int, end: int) -> object:
        for header in walk_headers(file, position, end):  # type: ignore[arg-type]
            seen.append(header.base_offset)
            yield header

    monkeypatch.setattr("replog.log.segment.walk_headers", counting)
    return seen


@pytest.mark.parametrize("clean", [True, False])
def test_the_window_of_duplicates_outlives_a_restart(lone: Lone, clean: bool) -> None:
    offsets = {sequence: write(lone, sequence) for sequence in range(20)}
    lone.run_jobs()
    before = lone.partition("t").producers.producers
    lone.restart("t", clean=clean)
    assert lone.partition("t").producers.producers == before
    for sequence in range(15, 20):
        assert write(lone, sequence) == offsets[sequence]
    refused = lone.produce("t", batch(b"v", producer=(PRODUCER, 0, 25)))
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert write(lone, 20) == 20


def test_a_clean_start_reads_nothing_but_the_snapshot(lone: Lone, walked: list[int]) -> None:
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    lone.restart("t")
    bases = lone.partition("t").log.base_offsets
    assert len(bases) > 3
    base = bases[-1]
    assert all(offset >= base for offset in walked), "sealed segments were read"


def test_a_start_after_a_kill_reads_no_sealed_segment_but_the_end_of_the_last(
    lone: Lone, walked: list[int]
) -> None:
    """Which may have indexes that nobody has flushed: `recovery`. Here its end is all of it."""
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    *_, last_sealed, _ = lone.partition("t").log.base_offsets
    assert last_sealed >= 10
    lone.restart("t", clean=False)
    assert all(offset >= last_sealed for offset in walked), "other sealed segments were read"


def test_without_snapshots_all_is_read(lone: Lone) -> None:
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    before = lone.partition("t").producers.producers
    for name in lone.disk.list("t-0"):
        if name.endswith(".snapshot"):
            lone.disk.remove(f"t-0/{name}")
    lone.restart("t", clean=False)
    assert lone.partition("t").producers.producers == before


@pytest.mark.parametrize(
    "damage", [b"", b"\0\1garbage", bytes(60)], ids=["empty", "garbage", "zeros"]
)
def test_broken_snapshots_are_told_of_and_not_believed(lone: Lone, damage: bytes) -> None:
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    before = lone.partition("t").producers.producers
    spoiled = [name for name in lone.disk.list("t-0") if name.endswith(".snapshot")]
    assert len(spoiled) > 2
    for name in spoiled:
        lone.disk.write_file(f"t-0/{name}", damage)
    lone.restart("t", clean=False)
    assert lone.partition("t").producers.producers == before
    assert any("is not used" in text for text in lone.reports)


def test_a_snapshot_holds_what_is_below_it_and_nothing_more(lone: Lone) -> None:
    """One fetched answer may fill a segment and begin the next."""
    leader = Lone(MemDisk())
    leader.topic("t", record(1))
    for sequence in range(12):
        write(leader, sequence)
    fetched = leader.partition("t").log.read(0, 1 << 20, upto=12, min_one=True)
    data = fetched.range.read()  # type: ignore[union-attr]
    lone.topic("t", record(2, 1, epoch=1))
    follower = lone.partition("t")
    follower.log.config = LogConfig(segment_bytes=400)
    assert lone.node.partitions.copy(follower, data)
    lone._take(lone.node._take_outputs())
    lone.run_jobs()
    base = follower.log.base_offsets[-1]
    found = follower.log.snapshots.newest(0, [])
    assert found is not None and found[0] == base
    assert [entry.last_offset for entry in found[1]] == [*range(base - 5, base)]


def test_a_cut_goes_back_to_an_older_snapshot(lone: Lone) -> None:
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    partition = lone.partition("t")
    lone.node.partitions.truncate(partition, 10)
    assert partition.log_end_offset == 10
    assert [b.base_sequence for b in partition.producers.producers[PRODUCER].batches] == [
        *range(5, 10)
    ]
    assert all(offset <= 10 for offset in partition.log.snapshots.offsets)


def test_a_cut_while_a_snapshot_is_written(lone: Lone) -> None:
    for sequence in range(20):
        write(lone, sequence)
    partition = lone.partition("t")
    assert lone.jobs
    lone.node.partitions.truncate(partition, 1)
    write(lone, 1)
    lone.run_jobs(last_first=True)
    assert partition.log.snapshots.offsets == []
    lone.restart("t", clean=False)
    assert lone.partition("t").producers.producers == partition.producers.producers


def test_state_is_kept_beyond_deleted_segments(lone: Lone) -> None:
    """A producer goes on where it was although all that it wrote is gone (KIP-360)."""
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    base = lone.partition("t").log.base_offsets[-1]
    lone.restart("t")
    lone.disk.crash()
    for name in lone.disk.list("t-0"):
        digits = name.split(".")[0]
        if name.endswith((".log", ".index", ".timeindex")) and int(digits) < base:
            lone.disk.remove(f"t-0/{name}")
    lone.start()
    lone.topic("t", record(1, epoch=2))
    partition = lone.partition("t")
    assert partition.log.base_offsets == [base]
    assert partition.producers.producers[PRODUCER].last_sequence == 19


@pytest.mark.parametrize("power", [False, True])
def test_segments_leave_when_a_snapshot_of_their_producers_is_on_disk(power: bool) -> None:
    """Killed between any two jobs, or without power: who wrote what is gone is still known."""
    left = 0
    for seed in range(100):
        chance = Random(seed)
        lone = Lone()
        lone.topic("t", record(1), **ROLLS)
        write(lone, 0, producer_id=PRODUCER + 1)
        for sequence in range(20):
            write(lone, sequence)
        partition = lone.partition("t")
        partition.log.flush()
        before = partition.producers.producers[PRODUCER + 1].batches
        lone.node.upkeep.move_start(partition, 20)
        for _ in range(chance.randrange(20)):
            if lone.jobs:
                lone.run_job(chance.randrange(len(lone.jobs)))
            else:
                lone.tick(61_000)
        if power:
            lone.disk.power_cut(chance)
        lone.restart("t", clean=False)
        again = lone.partition("t")
        assert again.producers.producers[PRODUCER + 1].batches == before, f"seed {seed}"
        left += again.log.base_offsets[0] > 0
    assert left > 20


def test_who_wrote_what_is_gone_is_known_when_the_end_is_gone_too() -> None:
    """Power takes the end of the log, with all snapshots that are behind it."""
    left = 0
    for seed in range(20):
        lone = Lone()
        lone.topic("t", record(1), **ROLLS)
        write(lone, 0, producer_id=PRODUCER + 1)
        for sequence in range(12):
            write(lone, sequence)
        before = lone.partition("t").producers.producers[PRODUCER + 1].batches
        lone.partition("t").log.flush()
        lone.restart("t", clean=False)  # killed before a snapshot was written
        partition = lone.partition("t")
        for _ in range(3):
            lone.run_jobs()
            lone.tick(11_000)
        write(lone, 12)  # not flushed
        lone.node.upkeep.move_start(partition, partition.log.base_offsets[-1])
        for _ in range(5):
            lone.run_jobs()
            lone.tick(100)
        left += len(partition.log.base_offsets) == 1
        lone.disk.power_cut(Random(seed))
        lone.restart("t", clean=False)
        again = lone.partition("t")
        assert again.producers.producers[PRODUCER + 1].batches == before, f"seed {seed}"
    assert left == 20


def test_a_snapshot_that_power_took_is_written_anew(lone: Lone) -> None:
    for sequence in range(12):
        write(lone, sequence)
    lone.run_jobs()
    bases = lone.partition("t").log.base_offsets
    for base in bases[1:]:
        lone.disk.remove(f"t-0/{base:020}.snapshot")
    lone.restart("t", clean=False)
    snapshots = lone.partition("t").log.snapshots
    assert [base for base in snapshots.offsets if base in bases] == bases[1:]
    for base in bases[1:]:
        found = snapshots.newest(0, [], upto=base)
        assert found is not None and found[0] == base
        assert found[1][-1][:4] == (PRODUCER, 0, base - 1, base - 1)


@pytest.mark.parametrize("snapshots", [True, False], ids=["from a snapshot", "from the log"])
def test_who_has_written_more_than_is_kept_is_known_as_of_any_offset(
    lone: Lone, *, snapshots: bool
) -> None:
    for sequence in range(20):
        write(lone, sequence)
    lone.run_jobs()
    partition = lone.partition("t")
    assert len(partition.log.base_offsets) > 3
    if not snapshots:
        for offset in partition.log.snapshots.offsets:
            lone.disk.write_file(f"t-0/{offset:020}.snapshot", b"")
    for below in range(1, 20):
        entries = decode(partition.producers_below(below), below)
        assert entries[-1][:4] == (PRODUCER, 0, below - 1, below - 1)


def test_what_takes_too_long_to_read_in_a_step_is_not_told(
    lone: Lone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replog.node.partition.READ_IN_STEP_MAX", 300)
    lone.partition("t").log.config = LogConfig()
    for sequence in range(20):
        write(lone, sequence)
    partition = lone.partition("t")
    assert decode(partition.producers_below(2), 2)
    assert partition.producers_below(10) == b""
