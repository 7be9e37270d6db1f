"""Snapshots of the producers' state: Kafka's bytes, and which of the files a log believes."""

from random import Random

import pytest
from tests.log.batches import DIRECTORY, append, batch, open_log

from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.partition_log import PartitionLog
from replog.log.producer_snapshot import decode, encode
from replog.model.producers import ProducerEntry
from replog.sim.mem_disk import MemDisk

# As Apache Kafka 4.4 writes them: no producer, one that has ended its transactions, and one in the
# middle of a transaction that began at offset 1.
EMPTY = bytes.fromhex("000148674bc700000000")
IDEMPOTENT = bytes.fromhex(
    "0001bf4a13dd0000000100000000000003ea00000000000c000000000000000c000000000000018b"
    "cfe56800ffffffffffffffffffffffff"
)
OPEN = bytes.fromhex(
    "0001bdd8cb360000000100000000000003e90000000000000000000000000001000000000000018b"
    "cfe56800ffffffff0000000000000001"
)
TIME = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=200, segment_ms=10**15)


def entry(offset: int, *, producer_id: int = 7, sequence: int = 0) -> ProducerEntry:
    return ProducerEntry(producer_id, 0, sequence, offset, 0, TIME)


def snapshot(log: PartitionLog, offset: int, *entries: ProducerEntry) -> None:
    """As a job and the step after it do."""
    work = log.snapshots.begin(offset)
    work(entries)
    log.snapshots.keep(work, frozenset(log.base_offsets))


def newest(log: PartitionLog) -> tuple[int, list[ProducerEntry]] | None:
    return log.snapshots.newest(log.base_offsets[0], log.recovery.reasons)


def names(disk: MemDisk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if ".snapshot" in name]


# ---- the bytes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        (EMPTY, []),
        (IDEMPOTENT, [ProducerEntry(1002, 0, 12, 12, 0, TIME)]),
        (OPEN, [ProducerEntry(1001, 0, 0, 1, 0, TIME, -1, 1)]),
    ],
)
def test_kafkas_bytes(data: bytes, entries: list[ProducerEntry]) -> None:
    assert encode(entries) == data
    assert decode(data, 13) == entries


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it has 0 bytes"),
        (IDEMPOTENT[:9], "it has 9 bytes"),
        (IDEMPOTENT[:-1], "the CRC does not match"),
        (IDEMPOTENT[:30] + b"\1" + IDEMPOTENT[31:], "the CRC does not match"),
        (b"\0\2" + IDEMPOTENT[2:], "version 2 is unknown"),
        (bytes(len(IDEMPOTENT)), "version 0 is unknown"),
    ],
)
def test_what_is_no_snapshot(data: bytes, reason: str) -> None:
    assert decode(data, 13) == reason


def test_entries_that_make_no_sense() -> None:
    assert isinstance(decode(IDEMPOTENT, 13), list)
    assert "below offset 12" in str(decode(IDEMPOTENT, 12))
    assert "makes no sense" in str(decode(encode([entry(1, producer_id=-1)]), 13))
    lying = bytearray(encode([]))
    lying[6:10] = (2**31 - 1).to_bytes(4, "big")
    assert isinstance(decode(bytes(lying), 13), str)


# ---- which one is believed ------------------------------------------------------------------


def test_the_newest_sound_one_is_used_and_broken_ones_go() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(6):
        append(log, batch(1, size=100))
    bases = log.base_offsets
    assert len(bases) > 3
    for base in bases[1:]:
        snapshot(log, base, entry(base - 1))
    newest_path = f"{DIRECTORY}/{bases[-1]:020d}.snapshot"
    file = disk.open(newest_path)
    file.truncate(20)
    log = open_log(disk, SMALL)
    assert newest(log) == (bases[-2], [entry(bases[-2] - 1)])
    assert not disk.exists(newest_path)
    assert any(newest_path in reason for reason in log.recovery.reasons)


def test_without_any_there_is_none() -> None:
    assert newest(open_log(MemDisk())) is None


def test_one_ahead_of_the_log_is_removed_on_opening() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log, batch(3))
    snapshot(log, 3, entry(2))
    log.snapshots.add_unsynced(4, [entry(3)])
    log = open_log(disk)
    assert newest(log) == (3, [entry(2)])
    assert names(disk) == [f"{3:020d}.snapshot"]


def test_one_below_the_first_segment_is_of_no_use() -> None:
    disk = MemDisk()
    log = open_log(disk, log_start_offset=10)
    log.snapshots.add_unsynced(9, [entry(8)])
    assert newest(log) is None
    log.snapshots.add_unsynced(10, [entry(9)])
    assert newest(log) == (10, [entry(9)])


# ---- the log is cut ---------------------------------------------------------------------------


def test_a_cut_removes_what_speaks_of_more_before_power_can_bring_it_back() -> None:
    for seed in range(20):
        disk = MemDisk()
        log = open_log(disk)
        for _ in range(4):
            append(log, batch(1))
        log.flush()
        snapshot(log, 2, entry(1))
        log.snapshots.add_unsynced(4, [entry(3)])
        disk.sync_directory(DIRECTORY)
        log.truncate_to(3)
        append(log, batch(3))
        log.flush()
        disk.power_cut(Random(seed))
        log = open_log(disk)
        assert log.log_end_offset == 6
        assert newest(log) == (2, [entry(1)])


def test_one_that_was_begun_before_a_cut_is_not_kept() -> None:
    disk = MemDisk()
    log = open_log(disk)
    for _ in range(4):
        append(log, batch(1))
    stale = log.snapshots.begin(4)
    log.truncate_to(2)
    append(log, batch(2))
    fresh = log.snapshots.begin(4)
    fresh([entry(3, sequence=5)])
    stale([entry(3)])
    log.snapshots.keep(stale, frozenset([0]))
    assert newest(log) is None
    log.snapshots.keep(fresh, frozenset([0]))
    assert newest(log) == (4, [entry(3, sequence=5)])
    assert names(disk) == [f"{4:020d}.snapshot"]


def test_two_of_one_offset_are_written_at_once() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log, batch(1))
    first, second = log.snapshots.begin(1), log.snapshots.begin(1)
    first([entry(0)])
    second([entry(0)])
    for work in (first, second):
        log.snapshots.keep(work, frozenset([0]))
        assert newest(log) == (1, [entry(0)])
    assert names(disk) == [f"{1:020d}.snapshot"]


def test_beginning_anew_forgets_all() -> None:
    log = open_log(MemDisk())
    for _ in range(4):
        append(log, batch(1))
    snapshot(log, 2, entry(1))
    log.reset_to(2)
    assert newest(log) is None
    assert log.snapshots.offsets == []


# ---- which are kept ----------------------------------------------------------------------------


def test_one_a_segment_and_the_newest_are_kept() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(6):
        append(log, batch(1, size=100))
    for offset in range(1, 7):
        snapshot(log, offset, entry(offset - 1))
    bases = log.base_offsets
    assert log.snapshots.offsets == sorted({*bases[1:], 6})
    assert names(disk) == [f"{offset:020d}.snapshot" for offset in log.snapshots.offsets]


def test_closing_twice_at_one_offset_writes_once() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    log.close()
    log.snapshots.add_unsynced(1, [entry(0)])
    calls: list[str] = []
    disk.before_call = lambda call, path: calls.append(call)
    log = open_log(disk, clean=True)
    log.snapshots.add_unsynced(1, [entry(0)])
    assert calls == []


def test_a_deleted_log_has_no_use_for_what_is_still_written() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    work = log.snapshots.begin(1)
    log.rename_for_deletion(bytes(16))
    work([entry(0)])
    assert disk.list(DIRECTORY) == []


def test_a_disk_that_fails_is_told_of() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    work = log.snapshots.begin(1)

    def fail(call: str, path: str) -> None:
        raise DiskError(f"{path}: {call}")

    disk.before_call = fail
    with pytest.raises(DiskError):
        work([entry(0)])
