"""A broker's storage dies at every single disk call of a long story, once killed and a few times
without power; then it starts again.

The story appends, rolls, syncs, writes checkpoints and snapshots, copies, truncates, begins anew,
compacts, deletes old segments and whole topics, and stops in order. A reference run tells what the
logs held after each step. What must hold after each start (by the numbers of the promises):

1. bounds, order and epochs of every log;
2. the same epoch and offset never name two different batches;
19. a kill loses nothing, a power cut nothing that was synced, and what is left has no hole;
20. a log's start stays where it was said to be, and no deleted topic returns under a new id.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.log.batches import Stored, everything
from tests.node.lone import WALL_MS, Lone, batch, record, topic_id

from replog.core.producer.state import ProducerTable
from replog.model.cluster import TopicRecord
from replog.model.ids import TopicPartition
from replog.model.inputs import StopRequested
from replog.model.partition import PartitionRecord
from replog.node.partition import Partition, producer_batch
from replog.records.batch import Producer, Record, build_batch, crc_ok, iterate, read_records
from replog.sim.mem_disk import CrashNow, MemDisk

POWER_CUTS = int(os.environ.get("REPLOG_POWER_CUTS", "2"))  # at each point, with other losses
NEW_ID = b"made again".ljust(16, b".")
ROLLS = {"segment.ms": "25", "file.delete.delay.ms": "10"}  # every third batch begins a segment
TOPICS: dict[str, dict[str, str]] = {
    "plain": {**ROLLS, "flush.messages": "4"},
    "synced": {**ROLLS, "replog.durability": "fsync"},
    "keys": {**ROLLS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "aged": {**ROLLS, "retention.bytes": "400"},
    "anew": ROLLS,
    "gone": {"file.delete.delay.ms": "10"},
}
SETTINGS = {
    "log__cleaner__backoff__ms": "100",
    "log__preallocate": "true",
    "log__retention__check__interval__ms": "1000",
    "replica__high__watermark__checkpoint__interval__ms": "400",
}


@dataclass
class Told:
    """What the outside world was told, and would be again after a start."""

    topics: dict[str, TopicRecord] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)  # ends of durable writes
    starts: dict[str, int] = field(default_factory=dict)  # log starts that outlive a power cut


class Story:
    """One run of the script on a disk."""

    def __init__(self, disk: MemDisk) -> None:
        self.lone = Lone(disk, **SETTINGS)
        self.told = Told()
        self.sequence: dict[str, int] = {}

    # ---- what steps are made of -----------------------------------------------------------------

    def topic(self, name: str, partition: PartitionRecord, topic: bytes | None = None) -> None:
        configs = TOPICS[name]
        made = TopicRecord(name, topic or topic_id(name), [partition], configs)
        self.told.topics[name] = made
        cluster = self.lone.node.cluster
        cluster.put_topic(TopicRecord(name, made.topic_id, [partition], configs))
        self.lone.node.partitions.apply([TopicPartition(name, 0)], [])
        self.lone._take(self.lone.node._take_outputs())

    def write(self, name: str, key: bytes = b"k", acks: int = 1) -> None:
        sequence = self.sequence.get(name, 0)
        self.sequence[name] = sequence + 1
        data = bytearray(
            build_batch(
                [Record(0, WALL_MS + 10 * sequence, key, b"%s %d" % (name.encode(), sequence))],
                producer=Producer(7, 0, sequence),
            )
        )
        token = self.lone.send(name, data, acks=acks)
        if acks == -1:
            self.lone.run_jobs()
        answer = self.lone.answer(token)
        assert answer.error_code == 0, answer
        if acks == -1:
            self.told.acknowledged[name] = answer.base_offset + 1

    def copy(self, name: str, epoch: int, count: int) -> None:
        """Batches of another leader arrive."""
        partition = self.lone.partition(name)
        for _ in range(count):
            end = partition.log_end_offset
            value = b"epoch %d offset %d" % (epoch, end)
            data = batch(value, timestamp=WALL_MS + 10 * end)
            data[0:8] = end.to_bytes(8, "big")
            data[12:16] = epoch.to_bytes(4, "big")
            assert self.lone.node.partitions.copy(partition, bytes(data))
        self.take()

    def truncate(self, name: str, offset: int) -> None:
        self.lone.node.partitions.truncate(self.lone.partition(name), offset)
        self.take()

    def begin_anew(self, name: str, offset: int) -> None:
        self.lone.node.partitions.begin_anew(self.lone.partition(name), offset)
        self.take()

    def delete(self, name: str) -> None:
        gone = self.told.topics.pop(name)
        self.lone.node.cluster.remove_topic(name)
        self.lone.node.partitions.apply([], [(name, gone.topic_id)])
        self.take()

    def move_start(self, name: str, offset: int) -> None:
        def durable(error: str | None) -> None:
            assert error is None
            self.told.starts[name] = offset

        self.lone.node.upkeep.move_start(self.lone.partition(name), offset, durable)
        self.take()
        self.jobs()

    def take(self) -> None:
        self.lone._take(self.lone.node._take_outputs())

    def jobs(self) -> None:
        self.lone.run_jobs()

    def time(self, ms: float) -> None:
        self.lone.tick(ms)
        self.jobs()


def script() -> list[Callable[[Story], Any]]:
    """Small steps: a crash is somewhere in one of them."""
    steps: list[Callable[[Story], Any]] = []
    add = steps.append
    for name in TOPICS:
        add(lambda s, n=name: s.topic(n, record(1)))
    for _ in range(7):
        add(lambda s: s.write("plain"))
    add(lambda s: s.jobs())
    for index in range(5):
        add(lambda s: s.write("synced", acks=-1))
        add(lambda s, i=index: s.write("keys", b"key %d" % (i % 2)))
        add(lambda s: s.write("aged"))
        add(lambda s: s.write("gone"))
        add(lambda s: s.write("anew"))
    add(lambda s: s.jobs())
    add(lambda s: s.time(400))  # checkpoints, compaction
    # Leadership goes and comes, and takes a part of the log with it.
    add(lambda s: s.topic("plain", record(1, 2, leader=2, epoch=3)))
    add(lambda s: s.copy("plain", 3, 4))
    add(lambda s: s.truncate("plain", 8))
    add(lambda s: s.jobs())
    add(lambda s: s.copy("plain", 4, 2))
    add(lambda s: s.truncate("plain", 4))
    add(lambda s: s.copy("plain", 4, 5))
    add(lambda s: s.jobs())
    add(lambda s: s.topic("plain", record(1, epoch=5)))

    def lead_again(story: Story) -> None:
        """The producer goes on behind what is left of its batches."""
        producers = story.lone.partition("plain").producers.producers
        story.sequence["plain"] = producers[7].last_sequence + 1
        story.write("plain")

    add(lead_again)
    add(lambda s: s.write("plain"))
    add(lambda s: s.jobs())
    add(lambda s: s.topic("anew", record(1, 2, leader=2, epoch=2)))
    add(lambda s: s.begin_anew("anew", 40))
    add(lambda s: s.copy("anew", 2, 5))
    add(lambda s: s.jobs())
    for index in range(8):
        add(lambda s, i=index: s.write("keys", b"key %d" % (i % 3)))
        add(lambda s: s.write("aged"))
    add(lambda s: s.jobs())
    for _ in range(3):
        add(lambda s: s.time(400))
    add(lambda s: s.move_start("synced", 3))
    add(lambda s: s.time(1_000))
    add(lambda s: s.write("synced", acks=-1))
    add(lambda s: s.delete("gone"))
    add(lambda s: s.topic("gone", record(1), NEW_ID))
    add(lambda s: s.write("gone"))
    add(lambda s: s.time(100))
    add(lambda s: s.lone.step(StopRequested()))
    return steps


# ---- the reference ----------------------------------------------------------------------------


@dataclass
class View:
    """A log after a step: its batches, and how far a power cut can't reach."""

    batches: list[Stored]
    durable_end: int
    topic_id: bytes

    @property
    def names(self) -> dict[tuple[int, int], bytes]:
        return {(b.epoch, b.base_offset): b.data for b in self.batches}


def views(lone: Lone) -> dict[str, View]:
    found = {}
    for partition in lone.node.partitions.all():
        log = partition.log
        found[partition.tp.topic] = View(everything(log), log.recovery_point, partition.topic_id)
    return found


@cache
def reference() -> tuple[list[dict[str, View]], list[Told], int]:
    """(what the logs hold after each step, what was told, how many disk calls there are)."""
    calls = 0

    def count(call: str, path: str) -> None:
        nonlocal calls
        calls += 1

    disk = MemDisk()
    story = Story(disk)
    disk.before_call = count
    seen: list[dict[str, View]] = [{}]
    told: list[Told] = [Told()]
    steps = script()
    for step in steps[:-1]:
        step(story)
        seen.append(views(story.lone))
        told.append(copy_of(story.told))
    partitions = {name: story.lone.partition(name) for name in TOPICS}
    assert partitions["keys"].log.cleaned_to > 0, "nothing was compacted"
    assert partitions["aged"].log_start_offset > 0, "nothing was deleted"
    assert all(len(partitions[name].log.base_offsets) > 1 for name in ("plain", "anew"))
    assert story.told.starts == {"synced": 3}
    steps[-1](story)
    seen.append(seen[-1])
    told.append(copy_of(story.told))
    return seen, told, calls


def copy_of(told: Told) -> Told:
    return Told(dict(told.topics), dict(told.acknowledged), dict(told.starts))


@cache
def ever_written() -> dict[str, dict[tuple[bytes, int, int], bytes]]:
    """By topic: topic id, epoch and offset -> the batch, over the whole story."""
    written: dict[str, dict[tuple[bytes, int, int], bytes]] = {}
    for seen in reference()[0]:
        for name, view in seen.items():
            names = written.setdefault(name, {})
            for (epoch, offset), data in view.names.items():
                known = names.setdefault((view.topic_id, epoch, offset), data)
                assert known == data or name == "keys"
    return written


# ---- one crash ----------------------------------------------------------------------------------


def crash_at(call: int, power_cut: int | None) -> tuple[Story, int]:
    """The story up to its `call`-th disk call; and the number of steps that were ended."""
    disk = MemDisk()
    story = Story(disk)
    left = call

    def before_call(name: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise CrashNow(f"{name} {path}", written=call * 7 % 80)

    disk.before_call = before_call
    ended = 0
    try:
        for step in script():
            step(story)
            ended += 1
        raise AssertionError(f"there is no call {call}")
    except CrashNow:
        pass
    disk.before_call = None
    if power_cut is None:
        disk.crash()
    else:
        disk.power_cut(Random(power_cut * 1_000_003 + call))
    return story, ended


def start_again(story: Story, ended: int) -> None:
    """A new process, which hears of the topics that there are now."""
    told = reference()[1]
    story.lone.start()
    now = told[ended + 1].topics  # the coordinator knows before the broker does
    before = told[ended].topics
    for name, topic in now.items():
        was = before.get(name)
        if was is not None and was.topic_id != topic.topic_id:
            story.lone.node.partitions.apply([], [(name, was.topic_id)])
        story.topic(name, record(1, epoch=50), topic.topic_id)
    for name, topic in before.items():
        if name not in now:
            story.lone.node.partitions.apply([], [(name, topic.topic_id)])
    story.take()


def check(story: Story, ended: int, *, killed: bool) -> None:
    for name, topic in story.told.topics.items():
        partition = story.lone.node.partitions.get(TopicPartition(name, 0))
        assert partition is not None, f"{name} is offline: {story.lone.reports}"
        assert partition.topic_id == topic.topic_id
        found = everything(partition.log)
        check_bounds(partition, found, gaps=name == "keys")
        check_names(name, topic.topic_id, found)
        check_nothing_lost(name, partition, found, ended, killed=killed)
        check_producers(partition)


def check_bounds(partition: Partition, found: list[Stored], *, gaps: bool) -> None:
    """Promise 1."""
    log = partition.log
    assert 0 <= log.log_start_offset <= partition.high_watermark <= log.log_end_offset
    end, epoch = log.base_offsets[0], -1
    for index, stored in enumerate(found):
        if not gaps:
            assert stored.base_offset == end or index == 0
        assert stored.base_offset >= end
        assert stored.epoch >= epoch
        assert crc_ok(stored.data, iterate(stored.data)[0])
        end, epoch = stored.next_offset, stored.epoch
    assert end == log.log_end_offset or (gaps and end <= log.log_end_offset) or not found
    entries = log.epoch_entries()
    assert entries == sorted(set(entries))
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(entries))
    assert all(start <= log.log_end_offset for _, start in entries)
    for stored in found:
        assert log.epoch_at(stored.base_offset) == stored.epoch


def check_names(name: str, topic: bytes, found: list[Stored]) -> None:
    """Promise 2, and the second half of 20: nothing of a topic's former life."""
    written = ever_written()[name]
    for stored in found:
        key = (topic, stored.epoch, stored.base_offset)
        if name == "keys":
            values = {r.value for data in written.values() for r in read_records(data)}
            assert {r.value for r in read_records(stored.data)} <= values
        else:
            assert written.get(key) == stored.data, f"{name}: {key}"


def check_nothing_lost(
    name: str, partition: Partition, found: list[Stored], ended: int, *, killed: bool
) -> None:
    """Promises 19 and 20."""
    seen, told, _ = reference()
    before, after = seen[ended].get(name), seen[ended + 1].get(name)
    start = partition.log_start_offset
    assert start >= told[ended].starts.get(name, 0), "records that were deleted are back"
    if before is None or after is None or before.topic_id != partition.topic_id:
        return
    if name == "keys":
        check_newest_values(partition, found, before, after, killed=killed)
        return
    here = {(b.epoch, b.base_offset) for b in found}
    both = before.names.keys() & after.names.keys()
    safe = [b for b in before.batches if (b.epoch, b.base_offset) in both]
    if not killed:
        limit = min(before.durable_end, after.durable_end)
        acknowledged = told[ended].acknowledged.get(name, 0)
        assert acknowledged <= before.durable_end
        safe = [b for b in safe if b.next_offset <= max(limit, acknowledged)]
    missing = [b for b in safe if (b.epoch, b.base_offset) not in here and b.next_offset > start]
    assert not missing, f"{name}: {[(b.epoch, b.base_offset) for b in missing]}"


def check_newest_values(
    partition: Partition, found: list[Stored], before: View, after: View, *, killed: bool
) -> None:
    """Of a compacted log: each key has the value that it had, or a later one."""
    here = newest(found, 2**62)
    limit = 2**62 if killed else min(before.durable_end, after.durable_end)
    for key, (offset, value) in newest(before.batches, limit).items():
        assert key in here, f"key {key!r} is gone"
        assert here[key][0] >= offset
        if here[key][0] == offset:
            assert here[key][1] == value
    assert partition.log_end_offset >= min(limit, before.durable_end)


def newest(batches: list[Stored], below: int) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {
        found.key: (found.offset, found.value)
        for stored in batches
        if stored.next_offset <= below
        for found in read_records(stored.data)
    }


def check_producers(partition: Partition) -> None:
    """What snapshots and tail say is what the whole log says, as far as that goes."""
    replayed = ProducerTable()
    log = partition.log
    for header in log.headers_from(log.base_offsets[0]):
        if header.producer_id >= 0 and header.base_sequence >= 0:
            replayed.apply(producer_batch(header))
    for producer_id, producer in replayed.producers.items():
        known = partition.producers.producers[producer_id]
        assert known.batches[-1] == producer.batches[-1]
        assert known.batches[-len(producer.batches) :] == producer.batches


def goes_on(story: Story) -> None:
    """The broker writes on, stops in order, and finds everything as it was."""
    lone = story.lone
    expected = {}
    for name in story.told.topics:
        assert lone.produce(name, batch(b"afterwards")).error_code == 0
        expected[name] = everything(lone.partition(name).log)
    lone.run_jobs()
    lone.step(StopRequested())
    lone.disk.crash()
    lone.start()
    for name, topic in story.told.topics.items():
        story.topic(name, record(1, epoch=60), topic.topic_id)
        log = lone.partition(name).log
        assert everything(log) == expected[name]
        assert log.recovery.batches_scanned == 0


# ---- all of them --------------------------------------------------------------------------------

SLICES = 8


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(SLICES))
def test_every_point(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, calls = reference()
    points = range(1 + part, calls + 1, SLICES)
    for call in points:
        for power_cut in (None, *range(POWER_CUTS)):
            story, ended = crash_at(call, power_cut)
            where = f"call {call}, {'killed' if power_cut is None else f'power cut {power_cut}'}"
            try:
                start_again(story, ended)
                check(story, ended, killed=power_cut is None)
                goes_on(story)
            except AssertionError as error:
                raise AssertionError(f"{where}, in step {ended}: {error}") from error
    with capsys.disabled():
        print(
            f"\n{len(points)} of {calls} crash points, "
            f"each with a kill and {POWER_CUTS} power cuts: sound",
        )


def test_the_story_is_long_enough() -> None:
    _, _, calls = reference()
    assert calls > 500
