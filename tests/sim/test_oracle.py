"""The oracle itself: each rule by an example that keeps it and one that breaks it."""

import json
from dataclasses import replace

import pytest

from replog.model.coordination import CONTROLLER_EPOCH, Check, SetData, StoredNode
from replog.model.ids import topic_id_text
from replog.records.batch import Record, build_batch
from replog.records.header import BatchHeader, iterate
from replog.sim.records_watch import RecordsWatch, Stored
from replog.sim.shadows import Names, Shadow
from replog.sim.violation import Violation

KEY = (bytes(16), 0)
PATH = "/brokers/topics/t/partitions/0/state"


def header(base: int, epoch: int, value: bytes = b"v", count: int = 1) -> BatchHeader:
    records = [Record(0, 1, None, value)] * count
    return iterate(build_batch(records, base_offset=base, leader_epoch=epoch))[0]


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
    }
    return {
        CONTROLLER_EPOCH: StoredNode(str(controller_epoch).encode(), 1, 1),
        "/brokers/topics/t": StoredNode(json.dumps(topic).encode(), 0, 1),
        PATH: StoredNode(json.dumps(state).encode(), 0, 1),
    }


def write(watch: RecordsWatch, record: Stored) -> list[object]:
    operations = (Check(CONTROLLER_EPOCH, 1), SetData(PATH, b""))
    return list(watch.on_write(operations, {}, nodes(record)))


ALLOWED = {
    "a member of the ISR is elected": {"leader": 2, "isr": (2,), "leader_epoch": 5},
    "a member of the ELR is elected": {"leader": 3, "isr": (3,), "elr": (2,), "leader_epoch": 5},
    "offline": {"leader": -1, "leader_epoch": 5},
    "a follower joins": {"isr": (1, 2, 3), "elr": ()},
}
FORBIDDEN = {
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
    after = replace(BEFORE, partition_epoch=8, **ALLOWED[name])  # type: ignore[arg-type]
    assert len(write(watch, after)) == 1
    assert watch.records[KEY] == after
    assert write(watch, after) == [], "no change"


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_what_it_may_not(rule: str) -> None:
    watch = RecordsWatch()
    write(watch, BEFORE)
    changes = {"partition_epoch": 8, **FORBIDDEN[rule]}
    with pytest.raises(Violation, match=rule):
        write(watch, replace(BEFORE, **changes))  # type: ignore[arg-type]


def test_a_write_without_the_fence_of_the_controller() -> None:
    with pytest.raises(Violation, match="fenced"):
        RecordsWatch().on_write((SetData(PATH, b""),), {}, nodes(BEFORE))


def test_a_controller_epoch_that_falls() -> None:
    watch = RecordsWatch()
    watch.on_write((), {}, nodes(BEFORE, controller_epoch=5))
    with pytest.raises(Violation, match="controller epoch never falls"):
        watch.on_write((), {}, nodes(BEFORE, controller_epoch=4))
