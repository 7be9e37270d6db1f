"""Committed offsets: what may be stored, what is kept, and when it may go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.group.driver import START_WALL_MS, Driver

from replog.core.group.offsets import CommittedOffset, Offsets, check_offset, expired
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition

TP = TopicPartition("t", 0)
HOUR = 3_600_000


def committed(at_wall_ms: int = START_WALL_MS, expires: int = -1) -> CommittedOffset:
    return CommittedOffset(5, -1, "", at_wall_ms, expires)


# ---- the store against a plain dict ----------------------------------------------------------

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["t", "u", ""]), st.integers(0, 3))
CHANGES = st.lists(st.tuples(PARTITIONS, st.none() | st.integers()))


@given(CHANGES)
def test_the_last_word_holds(changes: list[tuple[TopicPartition, int | None]]) -> None:
    offsets, model = Offsets(), {}
    for tp, number in changes:
        value = None if number is None else CommittedOffset(number, 0, "", 0)
        offsets.apply(tp, value)
        if value is None:
            model.pop(tp, None)
        else:
            model[tp] = value
    assert dict(offsets.items()) == model
    assert len(offsets) == len(model)
    assert bool(offsets) is bool(model)
    assert all(offsets.get(tp) == model.get(tp) for tp, _ in changes)
    assert all(offsets.topics().values()), "no topic without partitions"


# ---- what may be stored ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "good"),
    [
        (None, True),
        ("", True),
        ("x" * 10, True),
        ("x" * 11, False),
        ("ä" * 10, True),  # counted in UTF-16 units, not in bytes
        ("😀" * 5, True),
        ("😀" * 6, False),
    ],
)
def test_metadata_at_and_past_the_limit(metadata: str | None, good: bool) -> None:
    error = ErrorCode.NONE if good else ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert check_offset(metadata, metadata_max_bytes=10) is error


# ---- when it may go --------------------------------------------------------------------------


def over(d: Driver, kept: CommittedOffset, *, after_ms: int) -> bool:
    offsets = Offsets()
    offsets.apply(TP, kept)
    wall_ms = START_WALL_MS + after_ms
    return expired(d.group, offsets, wall_ms=wall_ms, retention_ms=HOUR) == [TP]


def test_a_simple_consumers_time_runs_from_its_commit() -> None:
    d = Driver()
    assert not over(d, committed(START_WALL_MS + 10), after_ms=HOUR + 9)
    assert over(d, committed(START_WALL_MS + 10), after_ms=HOUR + 10)


def test_a_group_with_members_forgets_nothing() -> None:
    d = Driver()
    d.stable()
    assert not over(d, committed(), after_ms=100 * HOUR)


def test_an_emptied_groups_time_runs_from_its_emptiness() -> None:
    d = Driver()
    (member,) = d.stable()
    d.now_ms = 1000.0
    d.leave(member)
    assert not over(d, committed(), after_ms=HOUR + 999)
    assert over(d, committed(), after_ms=HOUR + 1000)


def test_a_commit_into_an_emptied_group_counts_for_itself() -> None:
    d = Driver()
    (member,) = d.stable()
    d.leave(member)
    late = committed(START_WALL_MS + HOUR)
    assert not over(d, late, after_ms=2 * HOUR - 1)
    assert over(d, late, after_ms=2 * HOUR)


def test_a_clients_own_retention_goes_first() -> None:
    kept = committed(expires=START_WALL_MS + 500)
    assert not over(Driver(), kept, after_ms=499)
    assert over(Driver(), kept, after_ms=500)
    long = committed(expires=START_WALL_MS + 5 * HOUR)
    assert not over(Driver(), long, after_ms=2 * HOUR)
