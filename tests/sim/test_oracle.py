"""The oracle itself: each rule by an example that keeps it and one that breaks it."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.handlers.one_broker import OneBroker, record

from replog.core.controller.stored import LOSSES, encode_losses
from replog.log.files import metadata_text
from replog.model.coordination import CONTROLLER_EPOCH, Check, SetData, StoredNode
from replog.model.ids import TopicPartition, topic_id_text
from replog.records.batch import Record, build_batch
from replog.records.header import BatchHeader, iterate
from replog.sim.audit import left_over
from replog.sim.committed import Committed
from replog.sim.disk_troubles import DiskTroubles
from replog.sim.mem_disk import MemDisk
from replog.sim.records_watch import Change, RecordsWatch, Stored
from replog.sim.replicas_watch import ReplicasWatch
from replog.sim.shadows import Names, Shadow
from replog.sim.violation import Violation

KEY = (bytes(16), 0)
PATH = "/brokers/topics/t/partitions/0/state"


def batch(base: int, epoch: int, value: bytes = b"v", count: int = 1) -> bytes:
    records = [Record(0, 1, None, value)] * count
    return build_batch(records, base_offset=base, leader_epoch=epoch)


def header(base: int, epoch: int, value: bytes = b"v", count: int = 1) -> BatchHeader:
    return iterate(batch(base, epoch, value, count))[0]


# ---- logs ---------------------------------------------------------------------------------------


def test_a_shadow_names_prefixes() -> None:
    one, other = Shadow(), Shadow()
    one.extend([header(0, 0), header(1, 0, count=2), header(3, 2)], "one")
    other.extend([header(0, 0), header(1, 0, count=2), header(3, 1)], "other")
    assert one.end == other.end == 4
    assert one.chain_at(3) == other.chain_at(3)
    assert one.chain_at(4) != other.chain_at(4)
    assert one.chain_at(2) is None, "inside a batch"
    assert one.chain_at(0) == 0
    found = one.at(2)
    assert found is not None and (found.base, found.next) == (1, 3)
    one.cut(3)
    other.cut(3)
    assert one.chain == other.chain


@pytest.mark.parametrize("wrong", [header(2, 0), header(0, 0)])
def test_a_log_has_no_gap_and_no_overlap(wrong: BatchHeader) -> None:
    shadow = Shadow()
    shadow.extend([header(0, 0)], "log")
    with pytest.raises(Violation, match="contiguous"):
        shadow.extend([wrong], "log")


def test_epochs_of_batches_never_fall() -> None:
    shadow = Shadow()
    shadow.extend([header(0, 3), header(1, 3)], "log")
    with pytest.raises(Violation, match="never fall"):
        shadow.extend([header(2, 2)], "log")


def test_a_name_stands_for_one_batch_for_ever() -> None:
    names = Names()
    for value, fits in ((b"a", True), (b"a", True), (b"b", False)):
        shadow = Shadow()
        added = shadow.extend([header(0, 0, value)], "log")
        if fits:
            names.name(KEY, added, "log")
        else:
            with pytest.raises(Violation, match="for ever"):
                names.name(KEY, added, "log")


def test_a_name_stands_for_one_prefix() -> None:
    names = Names()
    long, short = Shadow(), Shadow()
    names.name(KEY, long.extend([header(0, 0, b"a"), header(1, 1)], "long"), "long")
    added = short.extend([header(0, 1, b"b"), header(1, 1)], "short")
    with pytest.raises(Violation, match="for ever"):
        names.name(KEY, added[1:], "short")


# ---- records in the coordinator -----------------------------------------------------------------

BEFORE = Stored("t-0", (1, 2, 3), (1, 2), 1, 4, 7, 2, elr=(3,))


def nodes(record: Stored, controller_epoch: int = 2) -> dict[str, StoredNode]:
    topic = {"topic_id": topic_id_text(KEY[0]), "partitions": {"0": list(record.replicas)}}
    state = {
        "leader": record.leader,
        "leader_epoch": record.leader_epoch,
        "partition_epoch": record.partition_epoch,
        "controller_epoch": record.controller_epoch,
        "isr": list(record.isr),
        "elr": list(record.elr),
        "last_known_elr": list(record.suspects),
    }
    return {
        CONTROLLER_EPOCH: StoredNode(str(controller_epoch).encode(), 1, 1),
        "/brokers/topics/t": StoredNode(json.dumps(topic).encode(), 0, 1),
        PATH: StoredNode(json.dumps(state).encode(), 0, 1),
    }


def write(watch: RecordsWatch, record: Stored, *, losses: int = 0) -> list[Change]:
    operations = (Check(CONTROLLER_EPOCH, 1), SetData(PATH, b""))
    after = nodes(record)
    after[LOSSES] = StoredNode(encode_losses(losses, 0), 0, 1)
    return watch.on_write(operations, {}, after)


ALLOWED: dict[str, dict[str, Any]] = {
    "a member of the ISR is elected": {"leader": 2, "isr": (2,), "leader_epoch": 5},
    "a member of the ELR is elected": {"leader": 3, "isr": (3,), "elr": (2,), "leader_epoch": 5},
    "offline": {"leader": -1, "leader_epoch": 5},
    "a follower joins": {"isr": (1, 2, 3), "elr": ()},
}
FORBIDDEN: dict[str, dict[str, Any]] = {
    "rises with every change of the leader": {"leader": 2},
    "partition epoch rises": {"isr": (1,), "partition_epoch": 7},
    "never fall": {"leader_epoch": 3},
    "only a member of ISR or ELR": {
        "replicas": (1, 2, 3, 4),
        "leader": 4,
        "isr": (4,),
        "leader_epoch": 5,
    },
    "a leader is in the ISR": {"isr": (2,)},
    "never empty": {"isr": (), "leader": -1},
    "nobody joins an ISR by an election": {
        "leader": 2,
        "isr": (2, 3),
        "elr": (),
        "leader_epoch": 5,
    },
    "parts of the assigned replicas": {"isr": (1, 2, 9)},
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_a_controller_may_store(name: str) -> None:
    watch = RecordsWatch()
    write(watch, BEFORE)
    after = replace(BEFORE, partition_epoch=8, **ALLOWED[name])
    assert len(write(watch, after)) == 1
    assert watch.records[KEY] == after
    assert write(watch, after) == [], "no change"


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_what_it_may_not(rule: str) -> None:
    watch = RecordsWatch()
    write(watch, BEFORE)
    changes = {"partition_epoch": 8, **FORBIDDEN[rule]}
    with pytest.raises(Violation, match=rule):
        write(watch, replace(BEFORE, **changes))


def test_a_write_without_the_fence_of_the_controller() -> None:
    with pytest.raises(Violation, match="fenced"):
        RecordsWatch().on_write((SetData(PATH, b""),), {}, nodes(BEFORE))


def test_a_controller_epoch_that_falls() -> None:
    watch = RecordsWatch()
    watch.on_write((), {}, nodes(BEFORE, controller_epoch=5))
    with pytest.raises(Violation, match="controller epoch never falls"):
        watch.on_write((), {}, nodes(BEFORE, controller_epoch=4))


# ---- losses -------------------------------------------------------------------------------------

STRANGER = replace(
    BEFORE, replicas=(1, 2, 3, 4), leader=4, isr=(4,), elr=(), leader_epoch=5, partition_epoch=8
)


def test_an_election_that_may_lose_records_is_counted() -> None:
    watch = RecordsWatch()
    write(watch, replace(BEFORE, replicas=(1, 2, 3, 4)))
    (change,) = write(watch, STRANGER, losses=1)
    assert change.loses
    assert watch.losses == 1


def test_whose_host_restarted_is_a_stranger_to_his_own_isr() -> None:
    suspected = replace(BEFORE, isr=(1,), leader=-1, elr=(), suspects=(1, 2), leader_epoch=5)
    led = replace(suspected, leader=1, suspects=(), leader_epoch=6, partition_epoch=8)
    watch = RecordsWatch()
    write(watch, suspected)
    assert suspected.electable == ()
    with pytest.raises(Violation, match="only a member of ISR or ELR"):
        write(watch, led)
    watch = RecordsWatch()
    write(watch, suspected)
    assert [change.loses for change in write(watch, led, losses=1)] == [True]


def test_what_a_lossy_election_leaves_is_what_is_committed() -> None:
    committed, leader = Committed(), Shadow()
    for batch in Shadow().extend([header(0, 0), header(1, 0), header(2, 1)], "log"):
        committed.log.add(batch)
    leader.extend([header(0, 0), header(1, 2)], "leader")
    committed.cut(leader)
    assert committed.log.end == 1
    assert [committed.was_lost(offset) for offset in range(4)] == [False, True, True, False]


def test_what_a_leader_commits_that_was_replaced_with_loss_is_lost() -> None:
    """Only what it holds below its high watermark, and differs from what is committed."""
    committed, leader = Committed(), Shadow()
    for batch in Shadow().extend([header(0, 0), header(1, 2), header(2, 2)], "log"):
        committed.log.add(batch)
    leader.extend([header(0, 0), header(1, 1), header(2, 1)], "leader")
    committed.commit_in_vain(leader, 0, 2)
    assert [(batch.base, batch.epoch) for batch in committed.lost] == [(1, 1)]


def test_a_leader_of_a_compacted_log_that_was_replaced_with_loss_commits_nothing() -> None:
    committed = Committed(compacted=True)
    committed.commit_end(3, 40)
    committed.lossy_epoch, committed.compacted_end = 4, 0
    committed.commit_end(3, 41)
    assert committed.compacted_end == 0
    committed.commit_end(4, 7)
    assert committed.compacted_end == 7


def test_a_log_is_compacted_from_its_first_swapped_segment_on() -> None:
    """Others may copy it before its pass is over, and then have gaps as well."""
    broker = OneBroker()
    broker.topic("t", record(1))
    (partition,) = broker.node.partitions.all()
    disk = partition.folder.disk
    host = SimpleNamespace(disks=[disk], troubles=DiskTroubles([disk]))
    life: Any = SimpleNamespace(broker_id=1, name="b1.1", node=broker.node, host=host)
    watch = ReplicasWatch({}, 1)
    committed = watch.committed((partition.topic_id, 0))
    watch.look(life, anew=True)
    assert not committed.compacted
    disk.open("t-0/0.log.cleaned", create=True)
    disk.rename("t-0/0.log.cleaned", "t-0/0.log")
    watch.look(life, anew=False)
    assert committed.compacted


@pytest.mark.parametrize(("offset", "fits"), [(0, True), (5, True), (9, False)])
def test_a_log_is_begun_anew_where_a_leader_may_begin(offset: int, fits: bool) -> None:
    """Below all that it had, after a lossy election; or inside a batch, after DeleteRecords."""
    broker = OneBroker()
    broker.topic("t", record(2, 1))
    (partition,) = broker.node.partitions.all()
    host = SimpleNamespace(disks=[], troubles=DiskTroubles([]))
    life: Any = SimpleNamespace(broker_id=1, name="b1.1", node=broker.node, host=host)
    watch = ReplicasWatch({}, 1)
    key = (partition.topic_id, 0)
    watch.committed(key).log.extend([header(base, 0, count=3) for base in (0, 3)], "committed")
    broker.node.partitions.begin_anew(partition, 3)
    for base in (3, 6, 9):
        assert broker.node.partitions.copy(partition, batch(base, 0, count=3))
    watch.look(life, anew=True)
    broker.node.partitions.begin_anew(partition, offset)
    if not fits:
        with pytest.raises(Violation, match="begins with what is committed"):
            watch.look(life, anew=False)
        return
    watch.look(life, anew=False)
    replica = watch.replica(1, key)
    assert replica is not None
    assert (replica.shadow.start, replica.shadow.end) == (offset, offset)
    base = min(offset, 3)
    assert broker.node.partitions.copy(partition, batch(base, 0, count=3))
    watch.look(life, anew=False)
    assert (replica.shadow.start, replica.shadow.end) == (base, base + 3)


def test_a_lossy_election_may_leave_nothing_but_a_place_to_begin() -> None:
    """The start of the log was on stable storage, and all that was behind it is lost."""
    committed = Committed()
    for batch in Shadow().extend([header(0, 0), header(1, 0)], "log"):
        committed.log.add(batch)
    committed.cut(Shadow(1))
    assert (committed.log.start, committed.log.end) == (1, 1)
    assert committed.was_lost(1)


def test_a_log_that_begins_late_goes_on_from_what_was_before() -> None:
    whole = Shadow()
    whole.extend([header(0, 0), header(1, 0, count=2), header(3, 1)], "whole")
    before = whole.chain_at(1)
    assert before is not None
    late = Shadow(1, before)
    late.extend([header(1, 0, count=2), header(3, 1)], "late")
    assert late.chain == whole.chain
    assert late.chain_at(1) == before
    assert Shadow(1, before + 1).extend([header(1, 0, count=2)], "other")[0].chain != late.chain_at(
        3
    )


# ---- folders ------------------------------------------------------------------------------------


def test_what_names_a_topic_and_is_not_wanted_is_left_over() -> None:
    """Not what a power cut has left without the id, and not what is set aside."""
    disk = MemDisk()
    for name in ("x-0", "x-1", f"x-1.{'0' * 32}-delete"):
        disk.make_directory(name)
        disk.write_file(f"{name}/partition.metadata", metadata_text(bytes(15) + b"1"))
    for name, data in (("x-2", bytes(43)), ("x-3", b"version: 0\ntopic_id: AAAA")):
        disk.make_directory(name)
        disk.write_file(f"{name}/partition.metadata", data)
    assert left_over(disk, [TopicPartition("x", 0)]) == ["x-1"]
