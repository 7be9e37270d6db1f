"""What leaders and followers append, byte by byte, and where a log rolls."""

import pytest
from tests.log.batches import (
    DIRECTORY,
    append,
    batch,
    everything,
    fetch,
    offsets,
    open_log,
    split,
)

from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import OffsetsNotContiguous
from replog.records.batch import Record, build_batch, iterate
from replog.records.errors import CorruptBatch
from replog.records.header import crc_ok
from replog.sim.mem_disk import MemDisk, ShortWrite

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_ms=10**12)


def test_a_new_log_has_kafkas_files() -> None:
    disk = MemDisk()
    log = open_log(disk)
    assert disk.list(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert disk.read_file(f"{DIRECTORY}/partition.metadata") == (
        b"version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA"
    )
    assert (log.log_start_offset, log.log_end_offset, log.size, log.latest_epoch) == (0, 0, 0, -1)


def test_files_of_a_closed_log_to_the_byte() -> None:
    disk = MemDisk()
    log = open_log(disk, LogConfig(segment_bytes=200, index_interval_bytes=50))
    for _ in range(4):
        append(log, batch(2, size=0), epoch=3)
    size = len(batch(2, size=0))
    assert log.close() == 8
    log_files = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    assert log_files == ["00000000000000000000.log", "00000000000000000004.log"]
    # The second batch is the first behind more than 50 bytes: its last offset, its position.
    assert disk.read_file(f"{DIRECTORY}/00000000000000000000.index") == bytes(
        [0, 0, 0, 3, 0, 0, 0, size]
    )
    # The largest time, 1001, was there first in the batch that ends at offset 1.
    time_entry = (1_001).to_bytes(8, "big") + (1).to_bytes(4, "big")
    assert disk.read_file(f"{DIRECTORY}/00000000000000000000.timeindex") == time_entry
    assert disk.read_file(f"{DIRECTORY}/00000000000000000004.timeindex") == time_entry
    assert disk.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"


def test_a_leader_stamps_the_callers_buffer_and_writes_it_once() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log, batch(3))
    calls: list[str] = []
    disk.before_call = lambda call, path: calls.append(f"{call} {path}")
    buffer = bytearray(b"frame") + batch(2) + b"rest"
    found = iterate(memoryview(buffer)[5:-4])
    for header in found:
        header.position += 5
    result = log.append_as_leader(memoryview(buffer), found, 0, 99)
    assert calls == [f"append {DIRECTORY}/00000000000000000000.log"]
    assert (result.first_offset, result.last_offset, result.bytes) == (3, 4, len(batch(2)))
    assert result.log_append_time_ms == -1
    assert (found[0].base_offset, found[0].leader_epoch) == (3, 0)
    assert (buffer[:5], buffer[-4:]) == (b"frame", b"rest")
    assert fetch(log, 3) == buffer[5:-4]
    assert offsets(everything(log)) == [0, 1, 2, 3, 4]


def test_several_batches_in_one_append() -> None:
    log = open_log(MemDisk())
    buffer = batch(2) + batch(3)
    result = append(log, buffer)
    assert (result.first_offset, result.last_offset) == (0, 4)
    assert [(b.base_offset, b.next_offset) for b in everything(log)] == [(0, 2), (2, 5)]


def test_the_leaders_time() -> None:
    log = open_log(MemDisk(), LogConfig(message_timestamp_type="LogAppendTime"))
    result = append(log, batch(2, time=5), wall_ms=7_777)
    assert result.log_append_time_ms == 7_777
    data = fetch(log, 0)
    header = iterate(data)[0]
    assert (header.log_append_time, header.max_timestamp) == (True, 7_777)
    assert crc_ok(data, header)
    latest = log.offset_for_latest_time()
    assert latest is not None
    assert (latest.offset, latest.timestamp) == (0, 7_777)


def test_epochs_of_a_leader() -> None:
    log = open_log(MemDisk())
    log.assign_epoch(2, 0)
    append(log, batch(3), epoch=2)
    log.assign_epoch(4, 3)
    assert log.epoch_entries()[-1] == (4, 3)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(4) == (4, 3)
    append(log, batch(1), epoch=5)
    assert log.epoch_entries() == [(2, 0), (5, 3)], "epoch 4 wrote nothing"
    assert log.end_offset_for_epoch(5) == (5, 4)
    assert log.epoch_at(2) == 2
    assert log.epoch_at(3) == 5


def test_an_append_that_fails_leaves_nothing_behind() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log, batch(2))
    size = log.size

    def full(call: str, path: str) -> None:
        if call == "append":
            raise ShortWrite(path, written=40)

    disk.before_call = full
    with pytest.raises(DiskError, match="no space"):
        append(log, batch(2))
    disk.before_call = None
    assert (log.log_end_offset, log.size) == (2, size)
    assert disk.open(f"{DIRECTORY}/00000000000000000000.log").size() == size
    append(log, batch(1))
    assert offsets(everything(log)) == [0, 1, 2]


def test_a_roll_that_fails_is_tried_again() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    while len(log.segments) == 1 and log.size + len(batch()) <= 300:
        append(log)
    end = log.log_end_offset

    def full(call: str, path: str) -> None:
        if call == "open" and path.endswith(".log"):
            raise DiskError("no space")

    disk.before_call = full
    with pytest.raises(DiskError):
        append(log)
    assert (log.log_end_offset, len(log.segments)) == (end, 1)
    disk.before_call = None
    assert append(log).rolled
    assert offsets(everything(log)) == list(range(end + 1))


def fetched(count: int, start: int = 0, epoch: int = 0) -> bytes:
    leader = open_log(MemDisk(), log_start_offset=start)
    for _ in range(count):
        append(leader, batch(2), epoch=epoch)
    return fetch(leader, start)


def test_a_follower_keeps_what_it_fetched() -> None:
    data = fetched(3, epoch=7)
    log = open_log(MemDisk())
    result = log.append_as_follower(memoryview(data + data[:30]))
    assert (result.first_offset, result.last_offset, result.bytes) == (0, 5, len(data))
    assert fetch(log, 0) == data
    assert log.epoch_entries() == [(7, 0)]
    again = log.append_as_follower(fetched(1, start=6, epoch=9))
    assert (again.first_offset, again.last_offset) == (6, 7)
    assert log.epoch_entries() == [(7, 0), (9, 6)]


def test_nothing_whole_is_nothing() -> None:
    log = open_log(MemDisk())
    append(log)
    for data in (b"", fetched(1, start=1)[:-1]):
        result = log.append_as_follower(data)
        assert (result.first_offset, result.last_offset, result.bytes) == (1, 0, 0)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("start", [0, 1])
def test_a_follower_takes_only_what_comes_next(start: int) -> None:
    log = open_log(MemDisk())
    append(log, batch(2))
    with pytest.raises(OffsetsNotContiguous) as refusal:
        log.append_as_follower(fetched(1, start=start))
    assert (refusal.value.expected, refusal.value.found) == (2, start)
    assert log.log_end_offset == 2


def test_holes_are_taken_and_counted() -> None:
    """Compaction makes them, and they stay when the topic is no longer compacted."""
    data = fetched(1, start=1) + fetched(1, start=5)
    log = open_log(MemDisk())
    assert append(log, batch(1)).skipped == 0
    result = log.append_as_follower(data)
    assert (result.first_offset, result.last_offset, result.skipped) == (1, 6, 2)
    assert split(fetch(log, 3))[0].base_offset == 5, "an offset in the hole"
    result = log.append_as_follower(fetched(1, start=8) + fetched(1, start=7))
    assert (result.last_offset, result.skipped) == (9, 1)
    with pytest.raises(OffsetsNotContiguous):
        log.append_as_follower(fetched(1, start=7))
    assert log.append_as_follower(fetched(1, start=12)).skipped == 2


def test_a_segment_begins_where_the_log_ended_before_a_hole() -> None:
    """What is missing between two segments counts as lost after a kill, with all that follows."""
    disk = MemDisk()
    log = open_log(disk, LogConfig(segment_bytes=150))
    for start in (0, 5, 9):
        log.append_as_follower(fetched(1, start=start))
    assert log.base_offsets == [0, 2, 7]
    before = everything(log)
    disk.crash()
    again = open_log(disk)
    assert everything(again) == before and again.log_end_offset == 11
    assert fetch(again, 3, 0) == fetched(1, start=5)


def test_a_segment_begins_behind_a_hole_that_its_indexes_could_not_tell() -> None:
    log = open_log(MemDisk(), LogConfig(segment_bytes=150))
    log.append_as_follower(fetched(1))
    far = 2 + 2**31
    data = build_batch([Record(far, 5, None, b"v" * 60, ())], base_offset=far)
    log.append_as_follower(data)
    assert log.base_offsets == [0, far - (2**31 - 1)]
    assert fetch(log, far) == data


def test_damaged_on_the_way() -> None:
    log = open_log(MemDisk())
    data = bytearray(fetched(1) + fetched(1, start=2))
    data[-1] ^= 1
    second = split(bytes(data))[1].data
    assert log.append_as_follower(data).last_offset == 1, "so that the next fetch begins there"
    with pytest.raises(CorruptBatch, match="damaged"):
        log.append_as_follower(second)
    assert log.log_end_offset == 2


def test_no_batch_on_the_way() -> None:
    log = open_log(MemDisk())
    data = bytearray(fetched(1) + fetched(1, start=2))
    second = len(split(bytes(data))[0].data)
    data[second + 16] = 7  # another magic
    assert log.append_as_follower(data).last_offset == 1
    with pytest.raises(CorruptBatch, match="magic 7"):
        log.append_as_follower(data[second:])


def test_a_follower_rolls_where_a_batch_does_not_fit() -> None:
    disk = MemDisk()
    log = open_log(disk, SMALL)
    data = fetched(12)
    writes: list[str] = []
    disk.before_call = lambda call, path: (
        writes.append(path) if call == "append" and path.endswith(".log") else None
    )
    assert log.append_as_follower(data).rolled
    disk.before_call = None
    assert len(writes) == len(set(writes)) == len(log.segments), "one write for each segment"
    sizes = [len(disk.read_file(path) or b"") for path in writes]
    assert all(size <= 300 for size in sizes)
    assert sum(sizes) == len(data)
    assert b"".join(b.data for b in everything(log)) == data


def test_a_batch_larger_than_a_segment_has_its_own() -> None:
    log = open_log(MemDisk(), SMALL)
    log.append_as_follower(fetched(1) + fetched_one(400, 2) + fetched(1, start=3))
    assert len(log.segments) == 3
    assert [b.base_offset for b in everything(log)] == [0, 2, 3]


def fetched_one(size: int, start: int) -> bytes:
    leader = open_log(MemDisk(), log_start_offset=start)
    append(leader, batch(1, size=size))
    return fetch(leader, start)


def test_rolls_by_size_at_the_limit_and_one_past_it() -> None:
    size = len(batch())
    log = open_log(MemDisk(), LogConfig(segment_bytes=3 * size))
    assert not any(append(log).rolled for _ in range(3))
    assert append(log).rolled
    assert len(log.segments) == 2


def test_rolls_by_the_age_of_its_first_records() -> None:
    log = open_log(MemDisk(), LogConfig(segment_ms=100))
    append(log, batch(time=5_000))
    assert not append(log, batch(time=5_100)).rolled
    assert append(log, batch(time=5_101)).rolled
    assert not append(log, batch(time=5_150)).rolled
    assert not append(log, batch(time=10)).rolled, "an old time does not make it older"


def test_rolls_when_an_index_is_full() -> None:
    config = LogConfig(segment_index_bytes=24, index_interval_bytes=1)
    log = open_log(MemDisk(), config)
    rolled = [append(log, batch(time=1_000 + i)).rolled for i in range(6)]
    # Two entries of the time index take 24 bytes; the first batch of a segment has none.
    assert rolled == [False, False, False, True, False, False]


def test_a_reopened_log_knows_the_age_of_its_first_records() -> None:
    disk = MemDisk()
    config = LogConfig(segment_ms=100, index_interval_bytes=1)
    log = open_log(disk, config)
    for step in range(5):
        append(log, batch(time=5_000 + step))
    recovery_point = log.close()
    for clean in (True, False):
        disk.crash()
        again = open_log(disk, config, recovery_point=recovery_point, clean=clean)
        assert not append(again, batch(time=5_100)).rolled
        again.truncate_to(5)
    assert append(again, batch(time=5_101)).rolled
