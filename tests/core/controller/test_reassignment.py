from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller.reassignment import (
    begin,
    cancel,
    check_target,
    complete,
    origin_of,
    target_of,
    under_way,
)
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER
from replog.model.partition import PartitionRecord

ALL = frozenset(range(5))


def record(
    replicas: tuple[int, ...],
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    *,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    elr: tuple[int, ...] = (),
) -> PartitionRecord:
    members = replicas if isr is None else isr
    return PartitionRecord(
        replicas=replicas,
        isr=members,
        leader=members[0] if leader is None else leader,
        leader_epoch=3,
        partition_epoch=5,
        adding=adding,
        removing=removing,
        elr=elr,
    )


def start(
    now: PartitionRecord, *target: int, alive: frozenset[int] = ALL, min_isr: int = 1
) -> PartitionRecord:
    moved = begin(now, target, alive, controller_epoch=7, min_isr=min_isr)
    assert isinstance(moved, PartitionRecord)
    return moved


# (before, target, replicas, adding, removing, leader, leader epochs gone by)
BEGUN = [
    (record((0, 1)), (2, 3), (2, 3, 0, 1), (2, 3), (0, 1), 0, 0),
    (record((0, 1)), (1, 2), (1, 2, 0), (2,), (0,), 0, 0),
    (record((0, 1)), (0, 1, 2), (0, 1, 2), (2,), (), 0, 0),
    # Nothing to copy: over at once.
    (record((0, 1)), (1, 0), (1, 0), (), (), 0, 0),
    (record((0, 1)), (1,), (1,), (), (), 1, 1),
    (record((0, 1)), (0,), (0,), (), (), 0, 1),
    # Not while who is to stay is out of sync.
    (record((0, 1), (0,)), (1,), (1, 0), (), (0,), 0, 0),
    # Another target begins from the origin: who was only being added goes at once.
    (record((2, 0), (0,), adding=(2,), removing=(0,)), (3,), (3, 0), (3,), (0,), 0, 1),
    # Back to where it was is a target like any other.
    (record((2, 0), (0,), adding=(2,), removing=(0,)), (0,), (0,), (), (), 0, 1),
]


@pytest.mark.parametrize("row", BEGUN)
def test_moves_that_begin(row: tuple[object, ...]) -> None:
    before, target, replicas, adding, removing, leader, epochs = row
    assert isinstance(before, PartitionRecord) and isinstance(target, tuple)
    after = start(before, *target)
    assert (after.replicas, after.adding, after.removing) == (replicas, adding, removing)
    assert after.leader == leader
    assert after.leader_epoch == before.leader_epoch + int(str(epochs))
    assert target_of(after) == target
    assert after.partition_epoch > before.partition_epoch


def test_where_it_is_or_goes_already_nothing_changes() -> None:
    assert begin(record((0, 1)), (0, 1), ALL, controller_epoch=7, min_isr=1) is None
    moving = start(record((0, 1)), 2, 3)
    assert begin(moving, (2, 3), ALL, controller_epoch=7, min_isr=1) is None


@pytest.mark.parametrize(
    ("isr", "done"),
    [((0, 1), False), ((0, 1, 2), False), ((0, 1, 2, 3), True), ((2, 3), True)],
)
def test_it_is_over_when_all_targets_are_in_sync(isr: tuple[int, ...], done: bool) -> None:
    moving = record((2, 3, 0, 1), isr, adding=(2, 3), removing=(0, 1))
    after = complete(moving, ALL, controller_epoch=7, min_isr=1)
    assert (after is not None) == done
    if after is not None:
        assert (after.replicas, after.adding, after.removing) == ((2, 3), (), ())
        assert set(after.isr) == {2, 3}
        assert after.leader == 2
        assert after.leader_epoch > moving.leader_epoch  # also when the leader stays


def test_it_is_not_over_while_no_target_can_lead() -> None:
    moving = record((2, 0), (0, 2), adding=(2,), removing=(0,))
    assert complete(moving, {0}, controller_epoch=7, min_isr=1) is None
    assert complete(moving, {0, 2}, controller_epoch=7, min_isr=1) is not None
    assert complete(record((0, 1)), ALL, controller_epoch=7, min_isr=1) is None


def test_a_cancelled_move_leaves_what_was_there() -> None:
    moving = record((2, 3, 0, 1), (0, 1, 2), adding=(2, 3), removing=(0, 1))
    after = cancel(moving, ALL, controller_epoch=7, min_isr=1)
    assert isinstance(after, PartitionRecord)
    assert (after.replicas, after.isr, after.leader) == ((0, 1), (0, 1), 0)
    assert after.leader_epoch == moving.leader_epoch + 1
    assert not under_way(after)


@pytest.mark.parametrize(
    ("now", "alive", "error"),
    [
        (record((0, 1)), ALL, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        # Nobody of the origin is in sync, or alive.
        (
            record((2, 0), (2,), adding=(2,), removing=(0,)),
            ALL,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            record((2, 0), (2, 0), adding=(2,), removing=(0,)),
            frozenset({2}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_cancels_that_are_refused(
    now: PartitionRecord, alive: frozenset[int], error: ErrorCode
) -> None:
    outcome = cancel(now, alive, controller_epoch=7, min_isr=1)
    assert isinstance(outcome, Refused)
    assert outcome.error is error


@pytest.mark.parametrize(
    ("target", "may_change", "error"),
    [
        ((), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((9,), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1,), False, ErrorCode.INVALID_REPLICATION_FACTOR),
        ((1, 2), False, None),
        ((1,), True, None),
    ],
)
def test_targets(target: tuple[int, ...], may_change: bool, error: ErrorCode | None) -> None:
    refused = check_target(record((0, 1)), target, ALL, may_change_factor=may_change)
    assert (None if refused is None else refused.error) is error


def test_the_number_of_replicas_is_that_of_the_target_while_it_moves() -> None:
    moving = start(record((0, 1)), 2, 3, 4)
    assert check_target(moving, (0, 1, 2), ALL, may_change_factor=False) is None
    assert check_target(moving, (0, 1), ALL, may_change_factor=False) is not None


def test_who_may_have_lost_its_tail_does_not_lead_by_being_moved() -> None:
    doubtful = replace(record((0, 1), (0,), NO_LEADER), last_known_elr=(0, 1))
    after = start(doubtful, 0, 1, 2)
    assert (after.leader, after.isr, after.last_known_elr) == (NO_LEADER, (0,), (0, 1))
    after = start(doubtful, 1)
    assert (after.replicas, after.leader, after.isr) == ((1, 0), NO_LEADER, (0,))
    assert complete(after, ALL, controller_epoch=7, min_isr=1) is None


def test_who_is_eligible_moves_along() -> None:
    small = record((0, 1, 2), (0,), elr=(1, 2))
    after = start(small, 0, 2, 3, min_isr=2)
    assert after.elr == (2, 1)  # still assigned, all of them, in AR order
    assert after.replicas == (0, 2, 3, 1)
    done = complete(
        record((0, 2, 3, 1), (0, 2, 3), adding=(3,), removing=(1,)),
        ALL,
        controller_epoch=7,
        min_isr=2,
    )
    assert done is not None and done.elr == ()


targets = st.lists(
    st.permutations(range(5)).flatmap(
        lambda order: st.integers(1, 4).map(lambda length: tuple(order[:length]))
    ),
    min_size=1,
    max_size=6,
)


@given(targets, st.data())
def test_any_series_of_moves_keeps_the_shape(
    wanted: list[tuple[int, ...]], data: st.DataObject
) -> None:
    now = record((0, 1, 2))
    for target in wanted:
        moved = begin(now, target, ALL, controller_epoch=7, min_isr=2)
        if isinstance(moved, PartitionRecord):
            assert set(moved.isr) <= set(now.isr)
            now = moved
        joining = data.draw(st.sets(st.sampled_from(now.replicas)))
        isr = (*now.isr, *(b for b in now.replicas if b in joining and b not in now.isr))
        now = now.merge(controller_epoch=7, isr=isr)
        done = complete(now, ALL, controller_epoch=7, min_isr=2)
        assert (done is not None) == (under_way(now) and set(target_of(now)) <= set(now.isr))
        now = done or now
        assert now.isr and now.leader in now.isr
        assert set(now.isr) <= set(now.replicas)
        assert len(set(now.replicas)) == len(now.replicas)
        assert set(now.adding) <= set(now.replicas) and set(now.removing) <= set(now.replicas)
        assert not set(now.adding) & set(now.removing)
        assert origin_of(now)
