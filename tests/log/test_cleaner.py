"""Compaction of one log: what goes, what stays and why, in which bytes."""

import random
import tracemalloc
from hashlib import blake2b

import pytest
from tests.log.batches import append, everything, fetch, headers, open_log, split
from tests.log.compaction import (
    NOW,
    compact,
    flush,
    keyed,
    left,
    rules,
    seal,
    values,
    write,
)

from replog.log.cleaner import CleaningPass
from replog.log.cleaner_map import BYTES_PER_KEY, KeyMap, keys_within
from replog.log.cleaner_plan import CompactionSettings, plan
from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.records.batch import (
    LOG_APPEND_TIME_BIT,
    Record,
    build_batch,
    crc_ok,
    iterate,
    read_records,
)
from replog.records.header import stamp_timestamp
from replog.records.rewrite import delete_horizon
from replog.sim.mem_disk import MemDisk, ShortWrite

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=100, cleanup_policy=("compact",))


def a_log(config: LogConfig = CONFIG) -> tuple[MemDisk, PartitionLog]:
    disk = MemDisk()
    return disk, open_log(disk, config)


# Keys -------------------------------------------------------------------------------------------


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    disk, log = a_log()
    write(log, [("a", "1"), ("b", "1")], [("a", "2")], [("c", "1"), ("a", "3"), ("b", "2")])
    seal(log)
    work = compact(disk, log)
    assert work is not None and work.stats.records_dropped == 3
    assert left(log) == [(3, "c", "1"), (4, "a", "3"), (5, "b", "2")]
    assert log.cleaned_to == log.log_end_offset == 6


def test_what_is_not_sealed_or_not_committed_stays_as_it_is() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", "2")])
    seal(log)
    write(log, [("a", "3")])
    assert compact(disk, log, stable=1) is None
    assert left(log) == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]
    compact(disk, log)
    assert left(log) == [(1, "a", "2"), (2, "a", "3")]


def test_a_segment_that_is_not_on_stable_storage_is_left_alone() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", "2")])
    log.roll()
    assert compact(disk, log) is None
    flush(log)
    assert compact(disk, log) is not None


def test_nothing_is_rewritten_where_nothing_changes() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("b", "1")])
    seal(log)
    before = disk.lives, [segment.file for segment in log.segments]
    work = compact(disk, log)
    assert work is not None and work.stats.bytes_before == 0
    assert before == (disk.lives, [segment.file for segment in log.segments])
    assert not [name for name in disk.list(log.directory) if name.endswith(".cleaned")]


def test_a_segment_ends_where_it_ended_though_its_last_records_went() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("b", "1")], [("b", "2")])
    seal(log)
    write(log, [("b", "3")], [("c", "1")])
    seal(log)
    compact(disk, log)
    assert left(log) == [(0, "a", "1"), (3, "b", "3"), (4, "c", "1")]
    # Both became one segment, so nothing had to stand in for offset 2.
    assert [(h.base_offset, h.last_offset, h.count) for h in headers(log)] == [
        (0, 0, 1),
        (3, 3, 1),
        (4, 4, 1),
    ]
    write(log, [("c", "2")])
    seal(log)
    write(log, [("d", "1")])
    compact(disk, log)
    assert [s.next_offset for s in log.segments] == [6, 7]
    # And again, with nothing new in it: the end still stands.
    write(log, [("c", "3"), ("a", "2")])
    seal(log)
    compact(disk, log)
    assert left(log) == [(3, "b", "3"), (6, "d", "1"), (7, "c", "3"), (8, "a", "2")]
    assert all(crc_ok(stored.data, iterate(stored.data)[0]) for stored in everything(log))


def test_an_end_without_records_is_an_empty_batch_of_nobody() -> None:
    disk, log = a_log(LogConfig(segment_bytes=100, cleanup_policy=("compact",)))
    write(log, [("a", "1")], [("a", "2")], [("a", "3")])  # a segment each
    seal(log)
    compact(disk, log)
    first, second, third = headers(log)
    assert [(h.base_offset, h.count, h.producer_id) for h in (first, second, third)] == [
        (0, 0, -1),
        (1, 0, -1),
        (2, 1, -1),
    ]
    assert fetch(log, 0), "a follower goes on behind it"
    before = [segment.file for segment in log.segments[:-1]]
    append(log, keyed(("b", "1")))
    seal(log)
    compact(disk, log)
    assert [segment.file for segment in log.segments[:3]] == before, "it is not written again"


def test_records_without_a_key_go_and_batches_that_nobody_can_decode_stay() -> None:
    disk, log = a_log()
    append(log, bytearray(build_batch([Record(0, 5, None, b"keyless")])))
    broken = bytearray(keyed(("a", "1"), compression=4))
    broken[61:65] = b"JUNK"
    header = iterate(broken)[0]
    stamp_timestamp(broken, header, max_timestamp=1_000, log_append_time=False)
    append(log, broken)
    write(log, [("a", "2")])
    seal(log)
    compact(disk, log)
    assert [h.base_offset for h in headers(log)] == [1, 2]


@pytest.mark.parametrize("compression", range(5))
def test_batches_keep_their_codec(compression: int) -> None:
    disk, log = a_log(LogConfig(segment_bytes=100_000, cleanup_policy=("compact",)))
    pairs = [(f"k{i}", "v" * 50 + str(i)) for i in range(100)]
    append(log, keyed(*pairs, compression=compression))
    append(log, keyed(*pairs[::2], compression=compression))
    seal(log)
    size = log.size
    compact(disk, log)
    assert log.size < size
    assert {h.compression for h in headers(log)} == {compression}
    assert values(left(log)) == dict(pairs)
    assert [o for o, _, _ in left(log)] == [*range(1, 100, 2), *range(100, 150)]


def test_times_of_records_and_indexes_stay_right() -> None:
    disk, log = a_log()
    for i in range(60):
        append(log, keyed((f"k{i % 20}", f"v{i}"), time=1_000 + i))
    seal(log)
    compact(disk, log)
    for i in range(40, 60):
        found = log.offset_for_time(1_000 + i)
        assert found is not None and (found.offset, found.timestamp) == (i, 1_000 + i)
        assert split(fetch(log, i, 0))[0].base_offset == i
    assert log.offset_for_time(1_060) is None
    # A process that starts anew finds the same by the indexes on disk.
    log.close()
    again = open_log(disk, CONFIG, clean=True)
    assert again.recovery.indexes_rebuilt == 0
    assert [o for o, _, _ in left(again)] == list(range(40, 60))
    found = again.offset_for_time(1_050)
    assert found is not None and found.offset == 50


def test_the_time_of_appending_is_kept() -> None:
    disk = MemDisk()
    config = LogConfig(cleanup_policy=("compact",), message_timestamp_type="LogAppendTime")
    log = open_log(disk, config)
    append(log, keyed(("a", None), ("b", "1"), ("b", "2"), time=77), wall_ms=500)
    seal(log)
    compact(disk, log)
    (stored,) = everything(log)
    assert iterate(stored.data)[0].attributes & LOG_APPEND_TIME_BIT
    assert [(r.offset, r.timestamp) for r in read_records(stored.data)] == [(0, 500), (2, 500)]


# Segments ---------------------------------------------------------------------------------------


def test_small_segments_become_one_and_large_ones_do_not() -> None:
    disk, log = a_log()
    for i in range(100):
        append(log, keyed((f"k{i % 25}", "v" * 60)))
    seal(log)
    count = len(log.segments)
    compact(disk, log)
    sizes = [segment.size for segment in log.segments]
    assert len(sizes) == count, "they were full, and are made smaller one by one"
    append(log, keyed(("x", "1")))
    seal(log)
    compact(disk, log)
    sizes = [segment.size for segment in log.segments[:-1]]
    assert len(sizes) < count - 1
    assert all(size <= CONFIG.segment_bytes for size in sizes)
    assert [o for o, _, _ in left(log)] == list(range(75, 101))


def test_readers_of_what_was_replaced_read_on() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", "2")])
    seal(log)
    read = log.read(0, 10_000, upto=2, min_one=True)
    before = read.range.read()  # type: ignore[union-attr]
    compact(disk, log)
    assert read.range.read() == before  # type: ignore[union-attr]


def test_a_replacement_for_a_log_that_was_cut_is_refused() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", "2")])
    seal(log)
    work = CleaningPass(
        disk,
        log.directory,
        log.segments[:-1],
        first_dirty=0,
        end=2,
        config=log.config,
        rules=rules(),
    )
    while work.ready is None:
        work.advance()
    log.truncate_to(1)
    assert not log.replace(work.ready)
    assert left(log) == [(0, "a", "1")]
    assert not [name for name in disk.list(log.directory) if ".cleaned" in name]


def test_what_was_replaced_does_not_come_back_behind_a_cut() -> None:
    disk, log = a_log(LogConfig(segment_bytes=100, cleanup_policy=("compact",)))
    write(log, [("a", "1")], [("b", "1")], [("c", "1")])
    seal(log)
    log.config = CONFIG  # they may become one segment now
    work = CleaningPass(
        disk,
        log.directory,
        log.segments[:-1],
        first_dirty=0,
        end=3,
        config=log.config,
        rules=rules(),
    )
    while work.ready is None:
        work.advance()
    assert log.replace(work.ready)
    log.truncate_to(1)  # before the replaced ones have left
    disk.crash()
    again = open_log(disk, CONFIG)
    assert left(again) == [(0, "a", "1")]
    assert again.log_end_offset == 1


# Which part, and when ---------------------------------------------------------------------------


def test_a_pass_goes_as_far_as_its_memory_reaches_and_the_next_goes_on() -> None:
    disk, log = a_log()
    pairs = [(f"k{i % 30}", str(i)) for i in range(90)]
    for pair in pairs:
        append(log, keyed(pair))
    seal(log)
    passes = 0
    reached = []
    while (work := compact(disk, log, rules(keys_max=10))) is not None:
        assert work.stats.keys <= 10
        assert values(left(log)) == dict(pairs)
        reached.append(log.cleaned_to)
        passes += 1
    assert reached == sorted(set(reached)) and reached[0] == 10
    assert passes == 9 and log.cleaned_to == 90
    assert [o for o, _, _ in left(log)] == list(range(60, 90))


def test_one_batch_with_more_keys_than_there_is_room_for_is_taken_all_the_same() -> None:
    disk, log = a_log()
    write(log, [(f"k{i}", "1") for i in range(20)], [("k3", "2")])
    seal(log)
    compact(disk, log, rules(keys_max=5))
    assert log.cleaned_to == 20
    compact(disk, log, rules(keys_max=5))
    assert values(left(log))["k3"] == "2" and len(left(log)) == 20


@pytest.mark.parametrize(
    ("settings", "worth"),
    [
        (CompactionSettings(0.5, 0, 2**62), False),
        (CompactionSettings(0.2, 0, 2**62), True),
        (CompactionSettings(0.5, 0, NOW - 1_500), True),  # the dirty record is of the time 1,000
        (CompactionSettings(0.5, 0, NOW - 500), False),
        (CompactionSettings(0.0, NOW - 1_500, 2**62), True),
        (CompactionSettings(0.0, NOW - 500, 2**62), False),
    ],
)
def test_a_log_is_compacted_when_it_is_worth_it(settings: CompactionSettings, worth: bool) -> None:
    _, log = a_log()
    for i in range(4):
        append(log, keyed((f"k{i}", "1")))
        seal(log)
    log.cleaned_to = 3  # a quarter is dirty
    found = plan(log.segments[:-1], settings, first_dirty=3, stable=4, wall_ms=NOW)
    assert (found is not None) == worth


def test_keys_take_no_more_memory_than_is_counted() -> None:
    count = 20_000
    tracemalloc.start()
    keys = KeyMap(count)
    for i in range(count):
        keys.put(b"a key of some length %d" % i, 2**40 + i)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken <= count * BYTES_PER_KEY
    assert keys_within(count * BYTES_PER_KEY) == count and keys_within(0) == 1
    assert not keys.has_room(1) and KeyMap(0).has_room(5)


def test_short_keys_are_no_digests() -> None:
    keys = KeyMap(10)
    long = b"k" * 50
    keys.put(long, 1)
    assert keys.newest(blake2b(long, digest_size=16).digest()) == -1
    assert keys.newest(long) == 1


# Tombstones -------------------------------------------------------------------------------------


@pytest.mark.surface(60)
def test_a_tombstone_lives_for_delete_retention_after_it_was_first_seen() -> None:
    disk, log = a_log()
    write(log, [("a", "1"), ("b", "1")], [("a", None)])
    seal(log)
    compact(disk, log, rules(wall_ms=NOW, delete_retention_ms=100))
    assert left(log) == [(1, "b", "1"), (2, "a", None)]
    header = headers(log)[-1]
    assert delete_horizon(header) == NOW + 100
    data = everything(log)[-1].data
    assert [r.timestamp for r in read_records(data)] == [1_000], "as it was produced"
    for wall_ms, stays in ((NOW + 99, True), (NOW + 100, False)):
        write(log, [("c", str(wall_ms))])
        seal(log)
        compact(disk, log, rules(wall_ms=wall_ms, delete_retention_ms=100))
        assert ((2, "a", None) in left(log)) == stays
        assert values(left(log)) == {"b": "1", "c": str(wall_ms)}


def test_a_tombstones_time_begins_when_what_it_deletes_has_gone() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("b", "1")], [("a", None)])
    seal(log)
    compact(disk, log, rules(keys_max=2))  # does not reach the tombstone
    assert log.cleaned_to == 2 and (0, "a", "1") in left(log)
    assert delete_horizon(headers(log)[-1]) is None


def test_a_newer_value_beats_a_tombstone() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", None)], [("a", "2")])
    seal(log)
    compact(disk, log)
    assert left(log) == [(2, "a", "2")]


# Trouble ----------------------------------------------------------------------------------------


def test_a_broken_batch_ends_the_pass_and_nothing_is_changed() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", "2")])
    seal(log)
    inode = disk.inode(f"{log.directory}/{0:020d}.log")
    inode.data[-1] ^= 1
    work = compact(disk, log)
    assert work is not None and work.failure is not None and "CRC" in work.failure
    assert log.cleaned_to == 0 and len(headers(log)) == 2
    assert not [name for name in disk.list(log.directory) if ".cleaned" in name]


def test_a_disk_that_refuses_ends_the_pass_without_a_trace() -> None:
    disk, log = a_log()
    write(log, [("a", "1")], [("a", "2")])
    seal(log)

    def full(call: str, path: str) -> None:
        if call == "append":
            raise ShortWrite(path)

    disk.before_call = full
    with pytest.raises(ShortWrite):
        compact(disk, log)
    disk.before_call = None
    assert not [name for name in disk.list(log.directory) if ".cleaned" in name]
    assert left(log) == [(0, "a", "1"), (1, "a", "2")]


def test_a_large_log_in_slices_equals_a_dictionary() -> None:
    rng = random.Random(3)
    disk, log = a_log(LogConfig(segment_bytes=400_000, cleanup_policy=("compact",)))
    model: dict[str, str] = {}
    for _ in range(300):
        pairs = [(f"k{rng.randrange(500)}", rng.randbytes(50).hex()) for _ in range(60)]
        model.update(pairs)
        append(log, keyed(*pairs, compression=rng.choice((0, 3, 4))))
    seal(log)
    work = compact(disk, log)
    assert work is not None and work.stats.bytes_read > 2 * 1024 * 1024
    assert values(left(log)) == model and len(left(log)) == len(model)
