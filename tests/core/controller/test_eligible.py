"""ELR and suspects, rule by rule; what they mean on real nodes is in tests/node."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller.changes import Liveness, reconcile
from replog.core.controller.election import elect
from replog.core.controller.eligible import (
    best_of,
    electable,
    led_by_suspect,
    may_have_lost,
    only_suspects,
    settle,
    suspect,
)
from replog.model.cluster import BrokerLife
from replog.model.ids import NO_LEADER
from replog.model.partition import PartitionRecord

EPOCH = 7


def record(
    isr: tuple[int, ...],
    *,
    leader: int | None = None,
    elr: tuple[int, ...] = (),
    suspects: tuple[int, ...] = (),
    replicas: tuple[int, ...] = (0, 1, 2),
) -> PartitionRecord:
    return PartitionRecord(
        replicas=replicas,
        isr=isr,
        leader=isr[0] if leader is None else leader,
        leader_epoch=3,
        partition_epoch=5,
        elr=elr,
        last_known_elr=suspects,
    )


# (what happens, before, ISR after, leader after, m, ELR after)
SETTLED = [
    ("above m nobody stays", record((0, 1, 2)), (0, 1), 0, 2, ()),
    ("below m who leaves stays", record((0, 1)), (0,), 0, 2, (1,)),
    ("all who leave at once stay", record((0, 1, 2)), (0,), 0, 2, (1, 2)),
    ("with m = 1 nobody ever stays", record((0, 1, 2)), (0,), 0, 1, ()),
    ("m is never more than there are replicas", record((0,), replicas=(0,)), (0,), 0, 3, ()),
    ("who stayed stays on", record((0, 1), elr=(2,)), (0,), 0, 3, (1, 2)),
    ("who joins is in the ISR instead", record((0,), elr=(1, 2)), (0, 1), 0, 3, (2,)),
    ("enough again: it is over", record((0,), elr=(1, 2)), (0, 1), 0, 2, ()),
    ("the next leader comes from it", record((0,), elr=(1,)), (1,), 1, 2, (0,)),
    ("without a leader it stays as it is", record((0,), elr=(1,)), (0,), NO_LEADER, 2, (1,)),
]


@pytest.mark.parametrize("row", SETTLED, ids=[row[0] for row in SETTLED])
def test_who_is_eligible(
    row: tuple[str, PartitionRecord, tuple[int, ...], int, int, tuple[int, ...]],
) -> None:
    _, before, isr, leader, m, elr = row
    after = settle(before, before.merge(controller_epoch=EPOCH, isr=isr, leader=leader), m)
    assert after.elr == elr
    assert after.isr == isr


def test_who_is_not_assigned_or_has_a_failed_log_is_not_eligible() -> None:
    before = record((0, 1, 2))
    moved = replace(before, isr=(0,), replicas=(0, 1), failed=(1,))
    assert settle(before, moved, 2).elr == ()


# ---- restarts ---------------------------------------------------------------------------

BEFORE = BrokerLife(10, "boot", "folder", "process")


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        (BrokerLife(11, "boot", "folder", "process"), None),  # a new session
        (BrokerLife(11, "boot", "folder", "other"), None),  # kill -9
        (BrokerLife(11, "later", "folder", "other"), "tail"),  # power cut
        (BrokerLife(11, "later", "folder", "other", 10), None),  # stopped in good order before
        (BrokerLife(11, "later", "folder", "other", 9), "tail"),  # an earlier run did
        (BrokerLife(11, "boot", "new", "other"), "disk"),
        (BrokerLife(11, "boot", "new", "other", 10), "disk"),
        (BrokerLife(11, "boot", "folder,new", "other"), None),  # one more folder
        (BrokerLife(11, "", "folder", "other"), None),  # not known
        (BrokerLife(11, "boot", "", "other"), None),
        (None, None),
    ],
)
def test_what_a_broker_that_comes_back_may_lack(now: BrokerLife | None, lost: str | None) -> None:
    assert may_have_lost(BEFORE, now) == lost
    assert may_have_lost(None, now) is None


def test_a_suspect_leaves_isr_and_elr() -> None:
    after = suspect(record((0, 1)), 1, controller_epoch=EPOCH)
    assert after is not None
    assert (after.isr, after.elr, after.last_known_elr) == ((0,), (), (1,))
    after = suspect(record((0,), elr=(1, 2)), 1, controller_epoch=EPOCH)
    assert after is not None
    assert (after.isr, after.elr, after.last_known_elr) == ((0,), (2,), (1,))
    assert after.partition_epoch == 6
    assert suspect(record((0,)), 1, controller_epoch=EPOCH) is None


def test_the_last_suspect_stays_recorded_and_is_not_elected() -> None:
    offline = record((0, 1), leader=NO_LEADER)
    one = suspect(offline, 0, controller_epoch=EPOCH)
    assert one is not None and one.isr == (1,) and not only_suspects(one)
    both = suspect(one, 1, controller_epoch=EPOCH)
    assert both is not None and both.isr == (1,) and only_suspects(both)
    assert electable(both) == ((), ())
    assert elect(both, {0, 1, 2}, unclean=False).leader == NO_LEADER
    # Their logs are compared before anybody else is allowed to lead.
    assert elect(both, {0, 1, 2}, unclean=True).leader == NO_LEADER
    assert elect(both, {2}, unclean=True).leader == 2


def test_somebody_beyond_doubt_leads_before_suspects_are_compared() -> None:
    doubtful = record((0,), leader=NO_LEADER, elr=(1,), suspects=(0,))
    assert not only_suspects(doubtful)
    change = reconcile(
        doubtful,
        Liveness(frozenset({0, 1})),
        unclean=False,
        controller_epoch=EPOCH,
        min_isr=2,
    )
    assert change is not None
    after = change.record
    assert (after.leader, after.isr, after.elr) == (1, (1,), ())
    assert after.last_known_elr == (0,)


@pytest.mark.parametrize(
    ("ends", "best"),
    [
        ({0: (3, 10), 1: (3, 12), 2: (3, 11)}, 1),
        ({0: (3, 99), 1: (4, 12)}, 1),  # the later epoch counts first
        ({2: (3, 10), 1: (3, 10)}, 1),  # AR order among equals
    ],
)
def test_the_greatest_log_leads(ends: dict[int, tuple[int, int]], best: int) -> None:
    assert best_of(ends, record((0,), leader=NO_LEADER)) == best


def test_it_begins_anew() -> None:
    after = led_by_suspect(
        record((2,), leader=NO_LEADER, suspects=(0, 1, 2)), 1, controller_epoch=EPOCH
    )
    assert (after.leader, after.isr, after.elr, after.last_known_elr) == (1, (1,), (), ())
    assert after.leader_epoch == 4


# ---- any history ------------------------------------------------------------------------

ids = st.integers(0, 2)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("alive"), st.frozensets(ids)),
        st.tuples(st.just("suspect"), ids),
        st.tuples(st.just("join"), ids),
    ),
    max_size=12,
)


@given(steps, st.integers(1, 3))
def test_no_history_breaks_the_shape(history: list[tuple[str, object]], m: int) -> None:
    now = record((0, 1, 2))
    alive: frozenset[int] = frozenset({0, 1, 2})
    for what, value in history:
        before = now
        if what == "alive":
            alive = value if isinstance(value, frozenset) else alive
        elif what == "suspect" and isinstance(value, int):
            for now_alive in (alive - {value}, alive | {value}):
                change = reconcile(
                    now, Liveness(now_alive), unclean=False, controller_epoch=EPOCH, min_isr=m
                )
                now = now if change is None else change.record
                if value not in now_alive:
                    now = suspect(now, value, controller_epoch=EPOCH) or now
            alive |= {value}
        elif isinstance(value, int) and now.online and value in alive and value not in now.isr:
            joined = now.merge(controller_epoch=EPOCH, isr=(*now.isr, value))
            now = settle(now, joined, m)
        change = reconcile(now, Liveness(alive), unclean=False, controller_epoch=EPOCH, min_isr=m)
        now = now if change is None else change.record
        assert now.isr and len(set(now.isr)) == len(now.isr)
        assert not set(now.isr) & set(now.elr)
        assert not set(now.elr) & set(now.last_known_elr)
        if now.online:
            assert now.leader in now.isr and now.leader in alive
            assert not set(now.isr) & set(now.last_known_elr)
            assert len(now.isr) < min(m, 3) or not (now.elr or now.last_known_elr)
        if now.leader != before.leader and now.online:
            held = {*before.isr, *before.elr}
            assert now.leader in held
        assert now.partition_epoch >= before.partition_epoch
