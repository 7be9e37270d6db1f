"""Truncation, folders that are deleted or somebody else's, and what is made durable when."""

import copy
from contextlib import suppress
from random import Random

import pytest
from tests.log.batches import (
    DIRECTORY,
    TOPIC_ID,
    append,
    batch,
    dies_at,
    everything,
    fetch,
    offsets,
    open_log,
    records,
    split,
)

from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt, TopicIdMismatch
from replog.log.partition_log import PartitionLog
from replog.log.producer_snapshot import encode
from replog.log.results import LogRead
from replog.model.producers import ProducerEntry
from replog.records.batch import build_batch
from replog.runtime.os_disk import OsDisk
from replog.sim.mem_disk import CrashNow, MemDisk

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_ms=10**12)


def test_truncation_tells_what_changed() -> None:
    log = open_log(MemDisk(), SMALL)
    for _ in range(12):
        append(log)
    log.flush()
    before = everything(log)
    assert log.truncate_to(12) is None
    cut = log.truncate_to(5)
    assert cut is not None
    assert cut.recovery_point_lowered
    assert log.recovery_point == log.log_end_offset == 5
    assert cut.file.size() == cut.position
    assert everything(log) == before[:5]
    again = log.truncate_to(3)
    assert again is not None
    assert again.recovery_point_lowered
    append(log)
    third = log.truncate_to(3)
    assert third is not None
    assert not third.recovery_point_lowered, "what went had not been flushed"


def test_an_epoch_without_records_is_forgotten_by_a_cut_that_takes_none() -> None:
    """A leadership that wrote nothing is no common history, or the next answer names it again."""
    log = open_log(MemDisk(), SMALL)
    append(log)
    log.assign_epoch(7, 1)
    assert log.truncate_to(1) is None
    assert log.epoch_entries() == [(0, 0)]


@pytest.mark.scenario(53)
def test_truncation_below_the_first_segment_begins_anew() -> None:
    log = open_log(MemDisk(), log_start_offset=100)
    append(log, epoch=3)
    assert log.truncate_to(40) is not None
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (40, 40, -1)
    assert append(log).first_offset == 40


def test_a_log_begun_anew() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(12):
        append(log, epoch=2)
    log.reset_to(1_000)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (1_000, 1_000, 0)
    assert log.epoch_entries() == []
    assert [n for n in disk.list(DIRECTORY) if n.endswith(".log")] == ["00000000000000001000.log"]
    append(log, epoch=4)
    assert log.epoch_entries() == [(4, 1_000)]


def test_positions_are_forgotten_with_what_was_cut() -> None:
    log = open_log(MemDisk())
    for _ in range(8):
        append(log)
    assert [split(fetch(log, offset, 0))[0].base_offset for offset in range(8)] == list(range(8))
    log.truncate_to(2)
    append(log, batch(3, size=200))
    append(log, batch(3, size=1))
    bases = [split(fetch(log, offset, 0))[0].base_offset for offset in range(8)]
    assert bases == [0, 1, 2, 2, 2, 5, 5, 5]


def test_a_cut_into_a_hole_of_compaction_ends_the_log_there() -> None:
    log = open_log(MemDisk(), LogConfig(cleanup_policy=("compact",)))
    other = open_log(MemDisk(), log_start_offset=5)
    append(log, batch(2))
    append(other, batch(2))
    log.append_as_follower(fetch(other, 5))
    log.truncate_to(3)
    assert log.log_end_offset == 3
    assert append(log).first_offset == 3
    assert [header.base_offset for header in log.headers_from(0)] == [0, 3]


def test_beginning_anew_interrupted_anywhere() -> None:
    outcomes = set()
    entry = ProducerEntry(7, 0, 4, 999, 0, 1_700_000_000_000)
    for seed in range(12):
        for call in range(1, 40):
            disk = MemDisk()
            log = open_log(disk, SMALL)
            for _ in range(8):
                append(log, epoch=3)
            log.flush()
            disk.before_call = dies_at(call)
            died = True
            with suppress(CrashNow):
                log.reset_to(1_000, encode([entry]))
                died = False
            disk.before_call = None
            disk.power_cut(Random(seed))
            again = open_log(disk, SMALL)
            known = again.snapshots.newest(again.base_offsets[0], [])
            if again.log_start_offset == 1_000:
                assert known == (1_000, [entry]), "never without the producers it came with"
            else:
                assert known is None
            outcomes.add((died, again.log_start_offset, again.log_end_offset))
            if again.log_start_offset == again.log_end_offset:
                assert again.epoch_entries() == [], "of a log that is gone"
            if not died:
                break
    assert {outcome for outcome in outcomes if not outcome[0]} == {(False, 1_000, 1_000)}
    # Died in it: the old log or a part of it, the new one, or nothing yet.
    assert {start for _, start, _ in outcomes} == {0, 1_000}
    assert {end for _, start, end in outcomes if start == 0} >= {0, 3, 8}


def test_a_cut_interrupted_anywhere_leaves_no_hole() -> None:
    ends = set()
    for seed in range(12):
        for call in range(1, 40):
            disk = MemDisk()
            log = open_log(disk, SMALL)
            for _ in range(12):
                append(log)
            recovery_point = log.flush()
            disk.before_call = dies_at(call)
            died = True
            with suppress(CrashNow):
                log.truncate_to(1)
                died = False
            disk.before_call = None
            disk.power_cut(Random(seed))
            # The checkpoint was not written any more: it still speaks of all that was flushed.
            again = open_log(disk, SMALL, recovery_point=recovery_point)
            assert offsets(everything(again)) == list(range(again.log_end_offset))
            ends.add(again.log_end_offset)
            if not died:
                break
    assert ends >= {1, 3, 12}


def test_a_log_without_a_flush_loses_its_tail_only() -> None:
    for seed in range(40):
        disk = MemDisk()
        log = open_log(disk, SMALL)
        for _ in range(20):
            append(log)
        disk.power_cut(Random(seed))
        again = open_log(disk, SMALL)
        assert again.log_start_offset == 0
        assert offsets(everything(again)) == list(range(again.log_end_offset))


def test_a_pending_range_outlives_truncation_of_its_segment_and_removal(tmp_path: object) -> None:
    disk = OsDisk(str(tmp_path))
    log = open_log(disk, SMALL)
    for _ in range(12):
        append(log)
    last = log.read(log.log_end_offset - 1, 1_000, upto=12, min_one=True)
    assert isinstance(last, LogRead)
    assert last.range is not None
    data = last.range.read()
    log.truncate_to(2)
    assert last.range.read() == data, "its segment lost its name, not its bytes"
    log.abandon()
    disk.remove_tree(DIRECTORY)
    del log
    assert last.range.read() == data


def test_a_folder_waits_for_its_removal_under_another_name() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    name = log.rename_for_deletion(bytes(16))
    assert name == f"{DIRECTORY}.{'0' * 32}-delete"
    assert disk.list("") == [name]
    with pytest.raises(DiskError):
        append(log)
    assert open_log(disk).log_end_offset == 0


def test_an_abandoned_log_writes_nothing() -> None:
    log = open_log(MemDisk())
    append(log)
    log.abandon()
    log.abandon()
    with pytest.raises(DiskError):
        append(log)


def test_another_topics_folder() -> None:
    disk = MemDisk()
    append(open_log(disk))
    with pytest.raises(TopicIdMismatch) as mismatch:
        open_log(disk, topic_id=bytes(15) + b"\1")
    assert mismatch.value.found == TOPIC_ID
    assert isinstance(mismatch.value, LogCorrupt)
    assert open_log(disk).log_end_offset == 1


@pytest.mark.parametrize(
    "text", [None, b"", b"version: 0\n", b"version: 1\ntopic_id: x", b"\0" * 43]
)
def test_records_of_an_unknown_topic_are_set_aside(text: bytes | None) -> None:
    disk = MemDisk()
    for _ in range(2):  # the second time, the first folder aside is in the way
        append(open_log(disk))
        disk.crash()
        if text is None:
            disk.remove(f"{DIRECTORY}/partition.metadata")
        else:
            disk.write_file(f"{DIRECTORY}/partition.metadata", text)
        log = open_log(disk)
        assert log.log_end_offset == 0
        assert log.recovery.lost_anything
        assert log.recovery.stray_folder is not None
        assert log.recovery.stray_folder.endswith("-stray")
        assert "00000000000000000000.log" in disk.list(log.recovery.stray_folder)
    assert len(disk.list("")) == 3


def test_without_records_nothing_is_kept_of_a_log_of_an_unknown_topic() -> None:
    """Its files would say where the log of another topic begins, and which epochs it has."""
    disk = MemDisk()
    disk.make_directory(DIRECTORY)
    for name in ("12.log", "12.index", "21.timeindex", "8.snapshot"):
        offset, _, kind = name.partition(".")
        disk.write_file(f"{DIRECTORY}/{offset:>020}.{kind}", b"")
    disk.write_file(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n7 0\n")
    log = open_log(disk)
    assert (log.log_start_offset, log.log_end_offset, log.epoch_entries()) == (0, 0, [])


def test_without_records_an_unreadable_id_is_written_again() -> None:
    disk = MemDisk()
    open_log(disk)
    disk.write_file(f"{DIRECTORY}/partition.metadata", b"")
    log = open_log(disk)
    assert not log.recovery.lost_anything
    assert b"AQID" in (disk.read_file(f"{DIRECTORY}/partition.metadata") or b"")


def test_an_id_with_an_end_of_line_is_read_too() -> None:
    disk = MemDisk()
    append(open_log(disk))
    text = disk.read_file(f"{DIRECTORY}/partition.metadata") or b""
    disk.write_file(f"{DIRECTORY}/partition.metadata", text + b"\n")
    assert open_log(disk).log_end_offset == 1


def test_flush_syncs_what_is_new_and_only_once() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(12):
        append(log)
    synced: list[str] = []
    disk.before_call = lambda call, path: synced.append(path) if "sync" in call else None
    assert log.flush() == 12
    for segment in [name for name in disk.list(DIRECTORY) if name.endswith(".log")]:
        assert synced.count(f"{DIRECTORY}/{segment}") == 1
    assert DIRECTORY in synced
    synced.clear()
    log.flush()
    assert synced == []
    assert append(log).rolled
    log.flush()
    synced.clear()
    append(log)
    log.flush()
    assert synced == [f"{DIRECTORY}/00000000000000000012.log"]


def test_what_was_flushed_before_a_kill_is_not_flushed_again() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(12):
        append(log)
    recovery_point = log.flush()
    append(log)
    disk.crash()
    again = open_log(disk, SMALL, recovery_point=recovery_point)
    synced: list[str] = []
    disk.before_call = lambda call, path: synced.append(path) if call == "sync" else None
    assert again.flush() == 13
    logs = [path[-24:] for path in synced if path.endswith(".log")]
    assert logs == ["00000000000000000012.log"]


def test_sealed_segments_are_flushed_beside_the_step() -> None:
    log = open_log(MemDisk(), SMALL)
    for _ in range(12):
        append(log)
    flush = log.begin_flush(to_end=False)
    append(log)
    flush()
    assert 0 < log.flushed(flush) < 12
    assert log.recovery_point == flush.offset


def test_a_flush_proves_nothing_of_what_was_cut_meanwhile() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(12):
        append(log)
    flush = log.begin_flush(to_end=False)
    log.truncate_to(2)
    names = disk.list(DIRECTORY)
    flush()
    assert log.flushed(flush) == 0
    assert disk.list(DIRECTORY) == names, "no index comes back without its log"


def after_a_kill_and_more(disk: MemDisk, recovery_point: int) -> PartitionLog:
    """The log as the next process opens it, and writes to it in another epoch."""
    disk.crash()
    log = open_log(disk, SMALL, recovery_point=recovery_point)
    for _ in range(3):
        append(log, epoch=2)
    return log


def ends_after_power_cuts(disk: MemDisk, certain_end: int) -> None:
    """Below `certain_end` no power cut, however it comes out, leaves records of another epoch."""
    before = {b.base_offset: b.epoch for b in everything(open_log(copy.deepcopy(disk)))}
    for seed in range(40):
        left = copy.deepcopy(disk)
        left.power_cut(Random(seed))
        for found in everything(open_log(left)):
            if found.base_offset < certain_end:
                assert found.epoch == before[found.base_offset], f"seed {seed}"


def test_what_a_killed_process_had_cut_off_may_come_back_until_the_next_has_synced() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(5):
        append(log)
    log.flush()
    log.truncate_to(3)
    again = after_a_kill_and_more(disk, log.recovery_point)
    assert (again.certain_end, again.log_end_offset) == (3, 6)
    ends_after_power_cuts(disk, again.certain_end)
    flush = again.begin_flush(to_end=True)
    flush()
    again.flushed(flush)
    assert again.certain_end == 6
    ends_after_power_cuts(disk, 6)


def test_what_recovery_cuts_off_does_not_come_back() -> None:
    """Not even when the process is killed before it syncs anything else."""
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(8):
        append(log)
    assert log.base_offsets == [0, 3, 6]
    log.flush()
    torn = disk.inode(log.segments[1].file.path)
    torn.data[-1] ^= 1
    torn.durable = bytes(torn.data)
    disk.crash()
    assert open_log(disk, SMALL).recovery.segments_removed == 1
    for seed in range(40):
        left = copy.deepcopy(disk)
        left.power_cut(Random(seed))
        again = open_log(left, SMALL)
        assert (again.log_end_offset, again.recovery.lost_anything) == (5, False), f"seed {seed}"


def test_times_that_were_cut_off_do_not_come_back_to_a_segment_that_is_full() -> None:
    for seed in range(10):
        disk = MemDisk()
        log = open_log(disk, LogConfig(index_interval_bytes=1))
        for time in (1_000, 1_000, 3_000):
            append(log, batch(time=time))
        log.roll()
        log.flush()
        log.truncate_to(2)
        for _ in range(2):
            log.roll()
            append(log, batch(time=900))
        flushed = log.flush()
        disk.power_cut(Random(seed))
        log = open_log(disk, recovery_point=flushed)
        latest = log.offset_for_latest_time()
        assert latest is not None and latest.timestamp == 1_000, f"seed {seed}"


def test_a_flush_of_a_log_that_is_gone_fails_for_nobody() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    for _ in range(12):
        append(log)
    flush = log.begin_flush(to_end=False)
    log.rename_for_deletion(bytes(16))
    flush()
    other = open_log(disk, SMALL)
    for _ in range(12):
        append(other)
    failing = other.begin_flush(to_end=False)

    def broken(call: str, path: str) -> None:
        raise DiskError("I/O error")

    disk.before_call = broken
    with pytest.raises(DiskError, match="I/O error"):
        failing()


def test_builders_of_these_tests() -> None:
    assert batch(2) == build_batch(records(2))
