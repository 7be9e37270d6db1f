"""The second round: nobody gets an assignment that is not stored, and nobody waits for ever."""

import pytest
from tests.core.group.driver import Driver

from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode


def completing(count: int = 2) -> tuple[Driver, list[str]]:
    """A group whose members have joined and not synced; the leader first."""
    d = Driver(initial_delay_ms=10)
    tickets = [d.join() for _ in range(count)]
    d.wait(10 * count)
    return d, [d.joined(ticket).member_id for ticket in tickets]


def test_members_get_their_parts_when_the_assignment_is_stored() -> None:
    d, (leader, follower) = completing()
    waiting = d.sync(follower)
    leading = d.sync(leader, {leader: b"x", follower: b"y", "stranger": b"z"})
    assert d.waits(waiting)
    assert d.waits(leading), "it is not in the log yet"
    assert d.group.state is GroupState.COMPLETING_REBALANCE
    d.store()
    assert d.group.state is GroupState.STABLE
    assert (d.synced(leading).assignment, d.synced(waiting).assignment) == (b"x", b"y")
    assert d.synced(leading).protocol_name == "range"
    kept = {m.member_id: m.assignment for m in d.stored[-1].group.members}
    assert kept == {leader: b"x", follower: b"y"}


def test_whoever_the_leader_forgot_gets_nothing() -> None:
    d, (leader, follower) = completing()
    d.sync(leader, {leader: b"x"})
    d.store()
    assert d.synced(d.sync(follower)).assignment == b""


def test_a_follower_alone_ends_nothing() -> None:
    d, (_, follower) = completing()
    assert d.waits(d.sync(follower, {follower: b"mine"}))
    assert not d.writes


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_does_not_fit(how: dict[str, object], error: ErrorCode) -> None:
    d, (leader, _) = completing()
    assert d.synced(d.sync(leader, **how)).error is error  # type: ignore[arg-type]
    assert not d.writes


def test_a_sync_that_names_the_protocol_rightly() -> None:
    d, (leader, _) = completing()
    assert d.waits(d.sync(leader, protocol_type="consumer", protocol_name="range"))


@pytest.mark.parametrize("name", [None, "range", "other"])
def test_before_a_protocol_is_chosen_any_may_be_named(name: str | None) -> None:
    d = Driver(initial_delay_ms=10)
    d.join()
    (member,) = d.group.members
    early = d.sync(member.member_id, protocol_type="consumer", protocol_name=name)
    assert d.synced(early).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_stranger_has_no_assignment() -> None:
    d, _ = completing()
    assert d.synced(d.sync("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_ends_the_waiting() -> None:
    d, (leader, follower) = completing()
    waiting = d.sync(follower)
    d.join(leader, {"range": b"changed"})
    assert d.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.synced(d.sync(follower)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_that_comes_too_late_is_not_handed_out() -> None:
    d, (leader, follower) = completing()
    d.sync(leader, {leader: b"old", follower: b"old"})
    d.join(leader, {"range": b"changed"})
    again = d.join(follower)
    assert d.joined(again).generation == 2
    d.store()
    assert d.group.state is GroupState.COMPLETING_REBALANCE
    assert d.waits(d.sync(follower)), "the assignment of generation 1 is not that of 2"


def test_the_leader_repeats_its_sync_before_it_is_stored() -> None:
    d, (leader, follower) = completing()
    first = d.sync(leader, {leader: b"x", follower: b"y"})
    second = d.sync(leader, {leader: b"x", follower: b"y"})
    assert d.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(d.writes) == 1
    d.store()
    assert d.synced(second).assignment == b"x"


def test_an_assignment_that_can_not_be_stored_begins_a_rebalance() -> None:
    d, (leader, follower) = completing()
    waiting = [d.sync(follower), d.sync(leader, {leader: b"x"})]
    d.store(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [d.synced(t).error for t in waiting] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert d.group.state is GroupState.PREPARING_REBALANCE
    d.join(leader)
    assert d.joined(d.join(follower)).generation == 2


def test_whoever_never_syncs_holds_up_nobody() -> None:
    d, (leader, follower) = completing()
    d.sync(leader, {leader: b"x"})
    d.store()
    for _ in range(8):
        d.wait(7000)
        for member in (leader, follower):
            assert d.heartbeat(member) is ErrorCode.NONE
    d.wait(4000)
    assert d.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stable_member_may_ask_again() -> None:
    d = Driver()
    (member,) = d.stable()
    assert d.synced(d.sync(member)).assignment == member.encode()
