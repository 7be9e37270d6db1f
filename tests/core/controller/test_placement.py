from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller.placement import assign_replicas, check_assignment
from replog.model.errors import ErrorCode, Refused


def place(
    brokers: dict[int, str | None], partitions: int, replicas: int, start: int, shift: int
) -> list[tuple[int, ...]]:
    assignment = assign_replicas(
        brokers,
        partitions=partitions,
        replication_factor=replicas,
        start_index=start,
        shift=shift,
    )
    assert not isinstance(assignment, Refused)
    return assignment


def no_racks(count: int) -> dict[int, str | None]:
    return dict.fromkeys(range(count))


def test_the_walk_through_of_three_brokers() -> None:
    assert place(no_racks(3), 3, 3, 1, 1) == [(1, 0, 2), (2, 1, 0), (0, 2, 1)]


def test_the_distance_of_followers_grows_once_every_broker_was_first() -> None:
    assert place(no_racks(5), 10, 3, 0, 0) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_racks_are_alternated() -> None:
    racks: dict[int, str | None] = {0: "r1", 1: "r3", 2: "r3", 3: "r2", 4: "r2", 5: "r1"}
    for replicas in place(racks, 12, 3, 0, 0):
        assert {racks[broker] for broker in replicas} == {"r1", "r2", "r3"}


def test_racks_count_only_when_every_broker_has_one() -> None:
    racks: dict[int, str | None] = {0: "a", 1: "a", 2: None}
    assert place(racks, 3, 3, 1, 1) == place(no_racks(3), 3, 3, 1, 1)


@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=9),
    partitions=st.integers(1, 40),
    start=st.integers(0, 8),
    shift=st.integers(0, 8),
    data=st.data(),
)
def test_replicas_are_different_brokers_on_as_many_racks_as_can_be(
    racks: list[str], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    brokers: dict[int, str | None] = dict(enumerate(racks))
    replicas = data.draw(st.integers(1, len(racks)))
    for chosen in place(brokers, partitions, replicas, start, shift):
        assert len(set(chosen)) == replicas
        assert set(chosen) <= set(brokers)
        racks_used = {brokers[broker] for broker in chosen}
        assert len(racks_used) == min(replicas, len(set(racks)))


@given(
    brokers=st.integers(1, 9),
    rounds=st.integers(1, 5),
    start=st.integers(0, 20),
    shift=st.integers(0, 20),
    data=st.data(),
)
def test_leaders_and_replicas_are_spread_evenly(
    brokers: int, rounds: int, start: int, shift: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, brokers))
    assignment = place(no_racks(brokers), brokers * rounds, replicas, start, shift)
    leaders = Counter(chosen[0] for chosen in assignment)
    held = Counter(broker for chosen in assignment for broker in chosen)
    assert set(leaders.values()) == {rounds}
    assert set(held.values()) == {rounds * replicas}


@pytest.mark.parametrize(
    ("partitions", "replicas", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 4, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_impossible_wishes_are_refused(partitions: int, replicas: int, error: ErrorCode) -> None:
    outcome = assign_replicas(
        no_racks(3),
        partitions=partitions,
        replication_factor=replicas,
        start_index=0,
        shift=0,
    )
    assert isinstance(outcome, Refused)
    assert outcome.error is error


@pytest.mark.parametrize(
    "given_assignment",
    [
        [(0, [1]), (2, [1])],  # a gap
        [(1, [1])],  # does not begin with 0
        [(-1, [1])],
        [(0, [])],
        [(0, [1]), (0, [2])],  # a partition twice
        [(0, [1, 1])],  # a broker twice
        [(0, [99])],
        [(0, [1]), (1, [1, 2])],  # replica counts differ
        [(0, [3])],  # registered, but may not lead
    ],
)
def test_manual_assignments_that_can_not_be(given_assignment: list[tuple[int, list[int]]]) -> None:
    outcome = check_assignment(given_assignment, registered={1, 2, 3}, eligible={1, 2})
    assert isinstance(outcome, Refused)
    assert outcome.error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert outcome.message


def test_a_manual_assignment_is_put_into_order() -> None:
    outcome = check_assignment([(1, [3, 1]), (0, [2, 1])], registered={1, 2, 3}, eligible={1, 2})
    assert outcome == [(2, 1), (3, 1)]
