"""KIP-345: an instance that comes back in time takes its place again; its former self is fenced."""

import pytest
from tests.core.group.driver import Driver

from replog.core.group.facts import JoinedMember
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode

FENCED = ErrorCode.FENCED_INSTANCE_ID
NONE = ErrorCode.NONE


def with_static_member() -> tuple[Driver, str]:
    d = Driver()
    member = d.joined(d.join(instance_id="i1", id_first=True)).member_id
    d.sync(member, {member: b"x"}, instance_id="i1")
    d.store()
    return d, member


def test_a_static_member_needs_no_second_join() -> None:
    d, member = with_static_member()
    assert d.group.state is GroupState.STABLE
    assert d.group.members.static_id("i1") == member


@pytest.mark.surface(44)
def test_coming_back_is_no_rebalance() -> None:
    d, old = with_static_member()
    ticket = d.join(instance_id="i1")
    assert d.waits(ticket), "its new id is not stored yet"
    d.store()
    answer = d.joined(ticket)
    assert (answer.error, answer.generation, answer.members) == (NONE, 1, ())
    assert answer.member_id != old
    assert answer.leader == old, "or an old client would assign anew"
    assert d.group.state is GroupState.STABLE
    assert d.synced(d.sync(answer.member_id, instance_id="i1")).assignment == b"x"
    assert [m.member_id for m in d.stored[-1].group.members] == [answer.member_id]


def test_a_new_client_is_told_that_it_leads_and_need_not_assign() -> None:
    d, _ = with_static_member()
    ticket = d.join(instance_id="i1", skips=True)
    d.store()
    answer = d.joined(ticket)
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert answer.members == (JoinedMember(answer.member_id, "i1", b"meta"),)


@pytest.mark.surface(44)
def test_the_former_self_is_fenced_everywhere() -> None:
    d, old = with_static_member()
    ticket = d.join(instance_id="i1")
    d.store()
    new = d.joined(ticket).member_id
    assert d.heartbeat(old, instance_id="i1") is FENCED
    assert d.commit(old, 1, "i1") is FENCED
    assert d.joined(d.join(old, instance_id="i1")).error is FENCED
    assert d.synced(d.sync(old, instance_id="i1")).error is FENCED
    assert d.leave(old, instance_id="i1") == [FENCED]
    assert d.heartbeat(old) is ErrorCode.UNKNOWN_MEMBER_ID
    assert d.heartbeat(new, instance_id="i1") is NONE


def test_a_failed_write_gives_the_place_back() -> None:
    d, old = with_static_member()
    ticket = d.join(instance_id="i1", session_ms=7000)
    d.store(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = d.joined(ticket)
    assert (answer.error, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert d.heartbeat(old, instance_id="i1") is NONE
    assert d.group.members.leader == old
    d.wait(9_999)
    assert d.heartbeat(old, instance_id="i1") is NONE, "with its own session timeout"


def test_other_protocols_are_a_rebalance_after_all() -> None:
    d = Driver()
    both = {"range": b"r", "sticky": b"s"}
    member = d.joined(d.join(protocols=both, instance_id="i1")).member_id
    d.sync(member, {member: b"x"})
    d.store()
    ticket = d.join(protocols={"sticky": b"s", "range": b"r"}, instance_id="i1")
    d.store()
    answer = d.joined(ticket)
    assert (answer.generation, answer.protocol_name) == (2, "sticky")


def test_two_lives_at_once() -> None:
    d = Driver(initial_delay_ms=100)
    first = d.join(instance_id="i1")
    second = d.join(instance_id="i1")
    assert d.joined(first).error is FENCED
    d.wait(1000)
    assert [m.instance_id for m in d.joined(second).members] == ["i1"]


def test_whoever_came_back_within_its_first_round_is_alive_while_it_waits() -> None:
    d, leader = with_static_member()
    first = d.join(instance_id="i2", session_ms=6_000)
    second = d.join(instance_id="i2", session_ms=6_000)
    assert d.joined(first).error is FENCED
    d.wait(6_000)
    assert d.waits(second)
    d.join(leader, instance_id="i1")
    assert d.joined(second).error is NONE


def test_replaced_again_before_it_was_stored() -> None:
    d, _ = with_static_member()
    first = d.join(instance_id="i1")
    second = d.join(instance_id="i1")
    assert d.joined(first).error is FENCED
    d.store()
    assert d.joined(second).error is NONE
    assert d.heartbeat(d.joined(second).member_id, instance_id="i1") is NONE


def test_coming_back_in_the_second_round_begins_anew() -> None:
    d = Driver()
    member = d.joined(d.join(instance_id="i1")).member_id
    waiting = d.sync(member, {member: b"x"}, instance_id="i1")
    ticket = d.join(instance_id="i1")
    assert d.synced(waiting).error is FENCED
    assert d.joined(ticket).generation == 2


def test_a_rebalance_does_not_drop_static_members() -> None:
    d = Driver()
    away = d.joined(d.join(instance_id="i1", session_ms=300_000)).member_id
    d.sync(away, {away: b"x"})
    d.store()
    late = d.join(session_ms=300_000)
    d.wait(60_000)
    answer = d.joined(late)
    assert answer.leader == answer.member_id
    assert {m.instance_id for m in answer.members} == {"i1", None}


def test_when_only_absent_static_members_are_left_their_sessions_decide() -> None:
    d = Driver()
    static = d.joined(d.join(instance_id="i1", session_ms=100_000)).member_id
    other = d.join(session_ms=100_000)
    d.join(static, instance_id="i1", session_ms=100_000)
    member = d.joined(other).member_id
    d.sync(static, {})
    d.store()
    d.sync(member)
    d.leave(member)
    d.wait(60_000)
    assert d.group.state is GroupState.PREPARING_REBALANCE
    assert d.heartbeat(static, instance_id="i1") is ErrorCode.REBALANCE_IN_PROGRESS
    d.wait(100_000)
    assert d.group.state is GroupState.EMPTY


@pytest.mark.parametrize(("instance", "error"), [("i1", NONE), ("i2", ErrorCode.UNKNOWN_MEMBER_ID)])
def test_an_administrator_removes_an_instance(instance: str, error: ErrorCode) -> None:
    d, _ = with_static_member()
    assert d.leave("", instance_id=instance) == [error]
    assert (d.group.state is GroupState.EMPTY) is (error is NONE)


def test_an_unknown_instance_with_a_member_id() -> None:
    d = Driver()
    assert d.joined(d.join("nobody", instance_id="i7")).error is ErrorCode.UNKNOWN_MEMBER_ID
