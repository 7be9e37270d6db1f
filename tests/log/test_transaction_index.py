"""The index of aborted transactions: what readers are told, and what a crash may do to it."""

import random

import pytest
from tests.log.batches import DIRECTORY, append, batch, fetch, open_log
from tests.log.transactions import data, marker

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.log.results import LogRead
from replog.log.transaction_index import ENTRY_SIZE, SUFFIX, decode, encode
from replog.model.producers import AbortedTransaction
from replog.sim.mem_disk import MemDisk

SMALL = LogConfig(segment_bytes=300)  # three or four batches


def indexes(disk: MemDisk) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(SUFFIX)]


def abort(log: PartitionLog, producer_id: int, first_offset: int, stable: int = -1) -> int:
    """Append a marker and note what it aborts; returns its offset."""
    offset = append(log, marker(producer_id, committed=False)).first_offset
    stable = offset + 1 if stable < 0 else stable
    log.aborted.add(AbortedTransaction(producer_id, first_offset, offset, stable))
    return offset


def filled(disk: MemDisk, transactions: int = 10) -> tuple[PartitionLog, list[AbortedTransaction]]:
    """Three offsets a transaction: two batches and a marker."""
    log = open_log(disk, SMALL)
    for n in range(transactions):
        append(log, data(n, 0))
        append(log, batch())
        abort(log, n, 3 * n)
    return log, [AbortedTransaction(n, 3 * n, 3 * n + 2, 3 * n + 3) for n in range(transactions)]


def test_the_format_is_kafkas() -> None:
    entry = AbortedTransaction(1000, 9, 11, 12)
    whole = bytes.fromhex("0000" + "00000000000003e8" + "0000000000000009" + "000000000000000b")
    assert encode([entry]) == whole + bytes.fromhex("000000000000000c")
    assert decode(encode([entry]), 2) == [entry]


def test_readers_are_told_what_overlaps_their_range() -> None:
    log, entries = filled(MemDisk())
    for first in range(31):
        for end in range(first + 1, 31):
            wanted = [e for e in entries if e.last_offset >= first and e.first_offset < end]
            assert log.aborted.within(first, end) == wanted, (first, end)


def test_a_transaction_over_many_segments_is_found_from_each() -> None:
    log = open_log(MemDisk(), SMALL)
    append(log, data(1, 0))
    for _ in range(20):
        append(log, batch())
    assert len(log.segments) > 4
    abort(log, 1, 0)
    for first in range(21):
        assert [e.producer_id for e in log.aborted.within(first, first + 1)] == [1]
    assert log.aborted.within(22, 30) == []


def test_the_search_ends_where_all_later_ones_lie_behind_the_range() -> None:
    log, entries = filled(MemDisk(), 40)
    base_offsets = log.base_offsets
    assert len(base_offsets) > 9
    assert log.aborted.within(0, 2) == entries[:1]
    assert len(log.aborted._loaded) <= 8
    log.aborted._loaded.clear()
    log.aborted.within(0, 2)
    assert len(log.aborted._loaded) <= 2, "more was read than the range needs"


def test_within_range_is_bounded_by_what_was_read() -> None:
    log, entries = filled(MemDisk())
    for offset in range(30):
        read = log.read(offset, 100, upto=30, min_one=True)
        assert isinstance(read, LogRead) and read.range is not None
        batches = len(fetch(log, offset, 100))
        assert batches
        found = log.aborted.within_range(offset, read.range, 30)
        assert [e for e in found if e.first_offset > offset + 2] == []
        assert entries[offset // 3] in found


def test_it_is_there_after_a_restart() -> None:
    disk = MemDisk()
    log, entries = filled(disk)
    log.close()
    again = open_log(disk, SMALL, recovery_point=30, clean=True)
    assert again.aborted.within(0, 100) == entries


def test_adding_again_changes_nothing() -> None:
    disk = MemDisk()
    log, entries = filled(disk)
    sizes = {name: disk.read_file(f"{DIRECTORY}/{name}") for name in indexes(disk)}
    for entry in entries:
        log.aborted.add(entry)
    assert {name: disk.read_file(f"{DIRECTORY}/{name}") for name in indexes(disk)} == sizes


@pytest.mark.parametrize("cut", range(31))
def test_a_cut_forgets_later_markers_for_good(cut: int) -> None:
    disk = MemDisk()
    log, entries = filled(disk)
    log.truncate_to(cut)
    kept = [e for e in entries if e.last_offset < cut]
    assert log.aborted.within(0, 100) == kept
    disk.power_cut(random.Random(cut))
    again = open_log(disk, SMALL)
    assert [e for e in again.aborted.within(0, 100) if e not in kept] == []


def test_a_log_that_begins_anew_has_none() -> None:
    disk = MemDisk()
    log, _ = filled(disk)
    log.reset_to(100)
    assert not log.aborted
    assert indexes(disk) == []


def test_old_segments_take_theirs_along() -> None:
    disk = MemDisk()
    log, entries = filled(disk)
    log.start_at(20)
    log.leave(log.below_start(), log.log_start_offset)
    first = log.base_offsets[0]
    assert log.aborted.within(20, 100) == [e for e in entries if e.last_offset >= 20]
    assert all(int(name.removesuffix(SUFFIX)) >= first for name in indexes(disk))


@pytest.mark.parametrize(
    "damage",
    [
        b"x",
        bytes(ENTRY_SIZE),
        encode([AbortedTransaction(1, 3, 2, 4)]),
        b"\0\1" + encode([AbortedTransaction(1, 0, 2, 3)])[2:],
    ],
    ids=["cut off", "zeros", "backwards", "newer version"],
)
def test_what_makes_no_sense_is_not_believed(damage: bytes) -> None:
    disk = MemDisk()
    log, _ = filled(disk)
    log.snapshots.add_unsynced(30, [])
    log.close()
    disk.write_file(f"{DIRECTORY}/{indexes(disk)[1]}", damage)
    again = open_log(disk, SMALL, recovery_point=30, clean=True)
    assert not again.aborted
    assert indexes(disk) == []
    assert again.snapshots.offsets == [], "the log would not be read from its beginning"


def test_entries_behind_the_end_of_the_log_are_forgotten() -> None:
    disk = MemDisk()
    log, entries = filled(disk)
    log.close()
    name = f"{DIRECTORY}/{indexes(disk)[-1]}"
    there = disk.read_file(name)
    assert there is not None
    disk.write_file(name, there + encode([AbortedTransaction(77, 29, 31, 32)]))
    again = open_log(disk, SMALL, recovery_point=30, clean=True)
    assert again.aborted.within(0, 100) == entries


def test_an_empty_file_of_another_program_is_none() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    log.close()
    disk.write_file(f"{DIRECTORY}/{0:020d}{SUFFIX}", b"")
    assert not open_log(disk, clean=True, recovery_point=1).aborted


def test_a_hole_is_filled_in_order() -> None:
    """Power may take the index of a segment, and leave that of a later one."""
    disk = MemDisk()
    log, entries = filled(disk)
    log.close()
    disk.remove(f"{DIRECTORY}/{indexes(disk)[0]}")
    again = open_log(disk, SMALL, recovery_point=30, clean=True)
    for entry in entries:
        again.aborted.add(entry)
    assert again.aborted.within(0, 100) == entries
    again.close()
    assert open_log(disk, SMALL, recovery_point=30, clean=True).aborted.within(0, 100) == entries


def test_flushed_with_the_log() -> None:
    disk = MemDisk()
    log, entries = filled(disk)
    log.flush()
    disk.power_cut(random.Random(1))
    assert open_log(disk, SMALL, recovery_point=30).aborted.within(0, 100) == entries


def test_a_marker_that_can_not_be_read_ends_nothing() -> None:
    log = open_log(MemDisk())
    result = append(log, marker(1, committed=True))
    found = log.aborted.marker(result.headers[0])
    assert found is not None and found.committed and found.coordinator_epoch == 3
    odd = data(1, 0)
    result = append(log, odd)
    assert log.aborted.marker(result.headers[0]) is None
