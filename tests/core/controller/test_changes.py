from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller.changes import (
    Change,
    IsrProposal,
    Liveness,
    accept_isr,
    new_partition,
    partitions_held_back,
    reconcile,
    replica_begins_anew,
)
from replog.model.cluster import BrokerRecord, BrokerState
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER
from replog.model.partition import PartitionRecord

CONTROLLER_EPOCH = 7


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    *,
    leader_epoch: int = 3,
    partition_epoch: int = 5,
) -> PartitionRecord:
    return PartitionRecord(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        controller_epoch=CONTROLLER_EPOCH - 1,
    )


def bring_into_line(
    record: PartitionRecord,
    eligible: set[int],
    leaving: set[int] | None = None,
    *,
    min_isr: int = 1,
) -> Change | None:
    liveness = Liveness(frozenset(eligible), frozenset(leaving or ()))
    return reconcile(
        record, liveness, unclean=False, controller_epoch=CONTROLLER_EPOCH, min_isr=min_isr
    )


# (what happens, record, eligible, leaving, leader after, ISR after, leader epochs gone by)
TABLE = [
    ("a follower dies", partition((1, 0, 2), (1, 0, 2), 1), {1, 2}, set(), 1, (1, 2), 0),
    ("the leader dies", partition((0, 2, 1), (0, 2, 1), 0), {1, 2}, set(), 2, (2, 1), 1),
    ("AR order decides", partition((2, 1, 0), (1, 0, 2), 1), {0, 2}, set(), 2, (0, 2), 1),
    ("the last member dies", partition((1, 0, 2), (1,), 1), {0, 2}, set(), NO_LEADER, (1,), 1),
    ("all members die", partition((1, 0, 2), (1, 0), 1), {2}, set(), NO_LEADER, (1, 0), 1),
    (
        "the last member returns",
        partition((1, 0, 2), (1,), NO_LEADER),
        {0, 1, 2},
        set(),
        1,
        (1,),
        1,
    ),
    (
        "one of several last members returns",
        partition((1, 0, 2), (1, 0), NO_LEADER),
        {0, 2},
        set(),
        0,
        (0,),
        1,
    ),
    ("a leader leaves", partition((1, 0), (1, 0), 1), {0}, {1}, 0, (0,), 1),
    ("a follower leaves", partition((1, 0), (1, 0), 1), {1}, {0}, 1, (1,), 0),
    (
        "all members leave, the leader leads on without the dead",
        partition((1, 0, 2), (1, 0, 2), 1),
        set(),
        {1, 0},
        1,
        (1, 0),
        0,
    ),
    (
        "a dead leader is not followed by one who leaves",
        partition((1, 0), (1, 0), 1),
        set(),
        {0},
        NO_LEADER,
        (1, 0),
        1,
    ),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_what_becomes_of_a_partition(
    row: tuple[str, PartitionRecord, set[int], set[int], int, tuple[int, ...], int],
) -> None:
    _, record, eligible, leaving, leader, isr, epochs = row
    change = bring_into_line(record, eligible, leaving)
    assert change is not None
    after = change.record
    assert (after.leader, after.isr) == (leader, isr)
    assert after.leader_epoch == record.leader_epoch + epochs
    assert after.partition_epoch == record.partition_epoch + 1
    assert after.controller_epoch == CONTROLLER_EPOCH
    assert after.replicas == record.replicas
    assert not change.unclean


@pytest.mark.parametrize(
    ("record", "eligible", "leaving"),
    [
        (partition((1, 0, 2), (1, 0, 2), 1), {0, 1, 2}, set()),
        (partition((1, 0, 2), (1,), 1), {0, 1, 2}, set()),  # who is back joins by AlterPartition
        (partition((1, 0, 2), (0,), 0), {0, 1, 2}, set()),  # leadership does not move back
        (partition((1, 0, 2), (1,), NO_LEADER), {0, 2}, set()),  # still nobody who may lead
        (partition((1, 0, 2), (1,), 1), {0, 2}, {1}),  # nobody in sync can take over
    ],
)
def test_nothing_to_do(record: PartitionRecord, eligible: set[int], leaving: set[int]) -> None:
    assert bring_into_line(record, eligible, leaving) is None


def test_an_unclean_election_is_called_so() -> None:
    record = partition((1, 0, 2), (1,), 1)
    liveness = Liveness(frozenset({0, 2}))
    change = reconcile(record, liveness, unclean=True, controller_epoch=CONTROLLER_EPOCH)
    assert change is not None
    assert change.unclean
    assert (change.record.leader, change.record.isr) == (0, (0,))


def test_after_an_unclean_election_nobody_else_holds_what_is_committed() -> None:
    record = replace(partition((1, 0, 2), (1,), NO_LEADER), elr=(2,), last_known_elr=(2,))
    change = reconcile(
        record,
        Liveness(frozenset({0})),
        unclean=True,
        controller_epoch=CONTROLLER_EPOCH,
        min_isr=2,
    )
    assert change is not None and change.unclean
    assert (change.record.leader, change.record.isr) == (0, (0,))
    assert (change.record.elr, change.record.last_known_elr) == ((), ())


def test_a_leader_from_the_elr_leaves_it() -> None:
    record = PartitionRecord(
        replicas=(0, 1, 2), isr=(2,), leader=2, leader_epoch=1, partition_epoch=1, elr=(0, 1)
    )
    change = bring_into_line(record, {0, 1}, min_isr=2)
    assert change is not None
    assert (change.record.leader, change.record.isr, change.record.elr) == (0, (0,), (1, 2))


ids = st.integers(0, 4)


@st.composite
def histories(draw: st.DrawFn) -> tuple[PartitionRecord, list[tuple[set[int], set[int]]]]:
    replicas = tuple(draw(st.permutations(range(5)))[: draw(st.integers(1, 5))])
    record = new_partition(replicas, draw(st.sets(ids)), controller_epoch=1)
    steps = draw(st.lists(st.tuples(st.sets(ids), st.sets(ids)), max_size=8))
    return record, [(eligible, leaving - eligible) for eligible, leaving in steps]


@given(histories())
def test_no_history_of_brokers_breaks_the_shape_of_a_record(
    history: tuple[PartitionRecord, list[tuple[set[int], set[int]]]],
) -> None:
    record, steps = history
    for eligible, leaving in steps:
        change = bring_into_line(record, eligible, leaving)
        if change is None:
            after = record
        else:
            after = change.record
            assert after.partition_epoch == record.partition_epoch + 1
            assert after.leader_epoch >= record.leader_epoch
            assert after.leader == record.leader or after.leader_epoch > record.leader_epoch
        assert after.isr
        assert set(after.isr) <= set(record.isr)  # only a leader's proposal adds a member
        assert after.leader in (NO_LEADER, *after.isr)
        assert after.leader in {NO_LEADER, *eligible, *leaving}
        if set(record.isr) & eligible:
            assert after.leader in eligible
            assert set(after.isr) <= eligible
        assert bring_into_line(after, eligible, leaving) is None
        record = after


# ---- AlterPartition ---------------------------------------------------------------------


def brokers(**states: BrokerState) -> dict[int, BrokerRecord]:
    named = {int(name[1:]): state for name, state in states.items()}
    return {
        b: BrokerRecord(b, 100 + b, (), state=named.get(b, BrokerState.ACTIVE)) for b in range(4)
    }


def propose(
    *members: int | tuple[int, int], by: int = 1, leader_epoch: int = 3, partition_epoch: int = 5
) -> IsrProposal:
    isr = tuple(m if isinstance(m, tuple) else (m, 100 + m) for m in members)
    return IsrProposal(by, leader_epoch, partition_epoch, isr)


CURRENT = partition((1, 0, 2), (1, 0), 1)


@pytest.mark.parametrize(
    ("proposal", "error"),
    [
        (propose(1, 0, 2, leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (propose(1, 0, 2, leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (propose(1, 0, 2, partition_epoch=4), ErrorCode.INVALID_UPDATE_VERSION),
        (propose(1, 0, 2, partition_epoch=6), ErrorCode.NOT_CONTROLLER),
        (propose(1, 0, 2, by=0), ErrorCode.INVALID_REQUEST),
        (propose(0, 2), ErrorCode.INVALID_REQUEST),  # without the leader
        (propose(1, 3), ErrorCode.INVALID_REQUEST),  # not assigned
        (propose(1, 1), ErrorCode.INVALID_REQUEST),
        (propose(), ErrorCode.INVALID_REQUEST),
        (propose(1, 0, (2, 99)), ErrorCode.INELIGIBLE_REPLICA),  # an earlier life of broker 2
        (propose((1, 99), 0, 2), ErrorCode.INELIGIBLE_REPLICA),
        (propose(1, 0, (2, 103)), ErrorCode.NOT_CONTROLLER),  # a life that is not known here yet
    ],
)
def test_proposals_that_are_refused(proposal: IsrProposal, error: ErrorCode) -> None:
    outcome = accept_isr(CURRENT, proposal, brokers(), controller_epoch=CONTROLLER_EPOCH)
    assert isinstance(outcome, Refused)
    assert outcome.error is error


@pytest.mark.parametrize("state", [BrokerState.FENCED, BrokerState.CONTROLLED_SHUTDOWN])
def test_nobody_joins_who_is_not_active(state: BrokerState) -> None:
    outcome = accept_isr(
        CURRENT, propose(1, 0, 2), brokers(b2=state), controller_epoch=CONTROLLER_EPOCH
    )
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.INELIGIBLE_REPLICA


def test_nobody_joins_who_is_not_registered() -> None:
    known = brokers()
    del known[2]
    outcome = accept_isr(CURRENT, propose(1, 0, 2), known, controller_epoch=CONTROLLER_EPOCH)
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.scenario(82)
def test_nobody_joins_without_naming_a_registration() -> None:
    """A leader that leaves epochs out could let in a replica that has lost its log (KIP-903)."""
    outcome = accept_isr(
        CURRENT, propose(1, 0, (2, -1)), brokers(), controller_epoch=CONTROLLER_EPOCH
    )
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize("members", [(1,), (1, 0, 2), (1, 2), (1, (0, -1))])
def test_accepted_proposals_raise_the_partition_epoch_alone(
    members: tuple[int | tuple[int, int], ...],
) -> None:
    outcome = accept_isr(CURRENT, propose(*members), brokers(), controller_epoch=CONTROLLER_EPOCH)
    isr = tuple(m if isinstance(m, int) else m[0] for m in members)
    if isr == CURRENT.isr:
        assert outcome is None
        return
    assert isinstance(outcome, PartitionRecord)
    assert outcome.isr == isr
    assert outcome.leader_epoch == CURRENT.leader_epoch
    assert outcome.partition_epoch == CURRENT.partition_epoch + 1
    assert outcome.leader == CURRENT.leader


def test_a_leader_that_is_leaving_may_still_let_a_successor_in() -> None:
    outcome = accept_isr(
        partition((1, 0, 2), (1,), 1),
        propose(1, 0),
        brokers(b1=BrokerState.CONTROLLED_SHUTDOWN),
        controller_epoch=CONTROLLER_EPOCH,
    )
    assert isinstance(outcome, PartitionRecord)
    assert outcome.isr == (1, 0)


@pytest.mark.scenario(10)
def test_a_proposal_that_raced_an_election_is_fenced() -> None:
    change = bring_into_line(CURRENT, {0, 2})
    assert change is not None
    outcome = accept_isr(change.record, propose(1), brokers(), controller_epoch=CONTROLLER_EPOCH)
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.FENCED_LEADER_EPOCH


# ---- new partitions and leaving ---------------------------------------------------------


def test_a_new_partition_is_led_by_the_first_replica_that_lives() -> None:
    record = new_partition((2, 0, 1), {0, 1}, controller_epoch=4)
    assert (record.leader, record.isr) == (0, (0, 1))
    assert (record.leader_epoch, record.partition_epoch, record.controller_epoch) == (0, 0, 4)


def test_a_new_partition_without_a_live_replica_is_offline() -> None:
    record = new_partition((2, 0), {1}, controller_epoch=4)
    assert (record.leader, record.isr) == (NO_LEADER, (2, 0))


def test_only_partitions_that_a_live_replica_may_take_over_hold_a_leaving_broker_back() -> None:
    records = [
        partition((1, 0), (1,), 1),  # broker 0 may catch up
        partition((1, 2), (1,), 1),  # broker 2 is dead
        partition((1,), (1,), 1),
        partition((0, 1), (0,), 0),
    ]
    assert partitions_held_back(records, 1, {0}) == 1


# (what is so, record, eligible, min ISR, what becomes of it or None: leader, ISR, ELR)
ANEW: list[
    tuple[
        str,
        PartitionRecord,
        set[int],
        int,
        tuple[int, tuple[int, ...], tuple[int, ...]] | None,
    ]
] = [
    ("the leader", partition((1, 0, 2), (1, 0, 2), 1), {0, 1, 2}, 2, (0, (0, 2), ())),
    ("a follower", partition((0, 1, 2), (0, 1, 2), 0), {0, 1, 2}, 2, (0, (0, 2), ())),
    ("below min ISR", partition((0, 1), (0, 1), 0), {0, 1}, 2, (0, (0,), ())),
    ("out of sync", partition((0, 1, 2), (0, 2), 0), {0, 1, 2}, 2, (0, (0, 2), ())),
    ("alone", partition((1, 0, 2), (1,), 1), {0, 1, 2}, 1, None),
    ("others are dead", partition((1, 0), (1, 0), 1), {1}, 1, None),
    (
        "only the ELR is left",
        replace(partition((1, 0, 2), (1,), 1), elr=(2,)),
        {0, 1, 2},
        2,
        (2, (2,), ()),
    ),
    (
        "in the ELR",
        replace(partition((0, 1, 2), (0,), 0), elr=(1,)),
        {0, 1, 2},
        2,
        (0, (0,), ()),
    ),
    (
        "it has failed before",
        replace(partition((0, 1, 2), (0, 2), 0), failed=(1,)),
        {0, 1, 2},
        2,
        (0, (0, 2), ()),
    ),
]


@pytest.mark.parametrize(
    ("record", "eligible", "min_isr", "becomes"),
    [row[1:] for row in ANEW],
    ids=[row[0] for row in ANEW],
)
def test_broker_1_begins_a_damaged_log_anew(
    record: PartitionRecord,
    eligible: set[int],
    min_isr: int,
    becomes: tuple[int, tuple[int, ...], tuple[int, ...]] | None,
) -> None:
    """It is out of ISR and ELR, and no leader epoch in which it fetched goes on."""
    change = replica_begins_anew(
        record,
        1,
        Liveness(frozenset(eligible)),
        controller_epoch=CONTROLLER_EPOCH,
        min_isr=min_isr,
    )
    if becomes is None:
        assert change is None
        return
    assert change is not None and not change.unclean
    after = change.record
    assert (after.leader, after.isr, after.elr) == becomes
    assert after.failed == ()
    assert after.leader_epoch == record.leader_epoch + 1
    assert after.partition_epoch == record.partition_epoch + 1
