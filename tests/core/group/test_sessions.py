"""Heartbeats, leaving, and what happens to those who do neither."""

from dataclasses import replace

import pytest
from tests.core.group.driver import Driver

from replog.core.group.classic_group import ClassicGroup
from replog.core.group.facts import GroupSettings
from replog.core.group.rebalance import GENERATION_MAX
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION


def test_a_session_lasts_as_long_as_heartbeats_come() -> None:
    d = Driver()
    (member,) = d.stable(session_ms=10_000)
    for _ in range(5):
        d.wait(9_999)
        assert d.heartbeat(member) is NONE
    d.wait(10_000)
    assert d.heartbeat(member) is UNKNOWN
    assert d.group.state is GroupState.EMPTY
    assert d.group.protocol_type == "consumer"
    assert d.writes[-1].group.members == (), "that it is empty is stored"


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [("m1", 1, NONE), ("m1", 0, ILLEGAL), ("m1", 2, ILLEGAL), ("nobody", 1, UNKNOWN)],
)
def test_heartbeat(member: str, generation: int, error: ErrorCode) -> None:
    d = Driver()
    d.stable()
    assert d.heartbeat(member, generation) is error


def test_whoever_waits_for_an_answer_is_alive() -> None:
    d = Driver()
    leader, follower = d.stable(2, session_ms=10_000)
    waiting = d.join(follower, {"range": b"x"}, session_ms=10_000)
    for _ in range(5):
        d.wait(9_000)
        d.heartbeat(leader)
    assert d.waits(waiting)
    d.join(leader)
    assert d.joined(waiting).error is NONE
    d.wait(9_999)
    assert d.heartbeat(follower) is NONE, "the session runs anew from the answer"


def test_to_ask_again_for_the_assignment_is_no_sign_of_life() -> None:
    d = Driver()
    (member,) = d.stable(session_ms=10_000)
    d.wait(9_000)
    assert d.synced(d.sync(member)).error is NONE
    d.wait(1_000)
    assert d.heartbeat(member) is UNKNOWN


def test_the_end_of_a_session_ends_a_rebalance_early() -> None:
    d = Driver()
    leader, follower = d.stable(2, session_ms=10_000)
    again = d.join(follower, {"range": b"x"}, session_ms=10_000)
    d.wait(10_000)
    assert d.joined(again).leader == follower
    assert d.heartbeat(leader) is UNKNOWN


def test_sessions_that_end_together_end_one_after_the_other() -> None:
    d = Driver(initial_delay_ms=100)
    given = [(10_000, 1_000), (10_000, 60_000), (200_000, 1_000)]
    for session_ms, rebalance_ms in given:
        d.join(session_ms=session_ms, rebalance_ms=rebalance_ms)
    d.wait(300)
    for follower in ("m2", "m3"):
        d.sync(follower)
    d.sync("m1", {})
    d.store()
    d.wait(10_000)
    assert [member.member_id for member in d.group.members] == ["m3"]
    d.wait(59_999)
    assert d.group.state is GroupState.PREPARING_REBALANCE, "m2 was there when m1 went"
    d.wait(1)
    assert d.group.state is GroupState.EMPTY


def test_whoever_has_an_id_and_not_come_yet_finds_the_rebalance_of_those_who_died() -> None:
    d = Driver()
    d.stable(2, session_ms=10_000)
    newcomer = d.joined(d.join(id_first=True, session_ms=60_000)).member_id
    d.wait(10_000)
    assert len(d.group.members) == 0
    assert d.group.state is GroupState.PREPARING_REBALANCE
    assert d.joined(d.join(newcomer)).generation == 3


def test_one_rebalance_for_all_who_leave() -> None:
    d = Driver()
    members = d.stable(4)
    assert d.leave(members[1], members[2], "nobody") == [NONE, NONE, UNKNOWN]
    assert d.group.generation == 4
    assert d.group.state is GroupState.PREPARING_REBALANCE
    d.join(members[0])
    assert d.joined(d.join(members[3])).generation == 5


def test_leaving_answers_what_is_parked() -> None:
    d = Driver()
    leader, follower = d.stable(2)
    parked = d.join(follower, {"range": b"x"})
    assert d.leave(follower) == [NONE]
    assert d.joined(parked).error is UNKNOWN
    assert d.joined(d.join(leader)).generation == 3


def test_leaving_during_the_second_round() -> None:
    d = Driver(initial_delay_ms=10)
    tickets = [d.join(), d.join()]
    d.wait(20)
    leader, follower = (d.joined(t).member_id for t in tickets)
    waiting = d.sync(follower)
    assert d.leave(leader) == [NONE]
    assert d.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.joined(d.join(follower)).leader == follower


def test_an_id_can_be_given_back() -> None:
    d = Driver()
    d.join(id_first=True)
    assert d.leave("m1") == [NONE]
    assert d.leave("m1") == [UNKNOWN]
    assert d.group.idle


def test_leaving_twice() -> None:
    d = Driver()
    (member,) = d.stable()
    assert d.leave(member) == [NONE]
    assert d.leave(member) == [UNKNOWN]
    assert d.leave("") == [UNKNOWN]


# ---- committing ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("m1", 1, NONE),
        ("m1", 2, ILLEGAL),
        ("m1", 0, ILLEGAL),
        ("m1", -1, ILLEGAL),
        ("nobody", 1, UNKNOWN),
        ("", 1, UNKNOWN),
        ("", -1, UNKNOWN),  # a simple consumer has no business among members
    ],
)
def test_commit_into_a_stable_group(member: str, generation: int, error: ErrorCode) -> None:
    d = Driver()
    d.stable()
    assert d.commit(member, generation) is error


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [("", -1, NONE), ("nobody", -1, NONE), ("nobody", 0, UNKNOWN), ("", 0, UNKNOWN)],
)
def test_commit_into_an_empty_group(member: str, generation: int, error: ErrorCode) -> None:
    assert Driver().commit(member, generation) is error


def test_commits_in_the_rounds_of_a_rebalance() -> None:
    d = Driver()
    leader, follower = d.stable(2)
    generation = d.group.generation
    d.join(follower, {"range": b"x"})
    assert d.commit(leader, generation) is NONE, "what was read before may still be committed"
    d.join(leader)
    assert d.commit(leader, generation) is ILLEGAL
    assert d.commit(leader, generation + 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life() -> None:
    d = Driver()
    (member,) = d.stable(session_ms=10_000)
    d.wait(9_000)
    assert d.commit(member, 1) is NONE
    d.wait(9_000)
    assert d.heartbeat(member) is NONE


# ---- the end -------------------------------------------------------------------------------


def test_a_group_that_is_unloaded_answers_everybody() -> None:
    d = Driver(initial_delay_ms=10)
    joining = d.join()
    d.take(d.group.die(ErrorCode.NOT_COORDINATOR, d.at()))
    assert d.joined(joining).error is ErrorCode.NOT_COORDINATOR
    assert d.group.state is GroupState.DEAD

    d = Driver()
    d.join()
    syncing = d.sync("m1", {"m1": b"x"})
    d.take(d.group.die(ErrorCode.NOT_COORDINATOR, d.at()))
    assert d.synced(syncing).error is ErrorCode.NOT_COORDINATOR
    d.store()
    assert d.group.state is GroupState.DEAD, "a write that ends later wakes nobody"


def test_generations_begin_anew() -> None:
    """The last one can be stored by a hand, and by Kafka's tools."""
    d = Driver()
    (member,) = d.stable(session_ms=10_000)
    last = replace(d.stored[-1].group, generation=GENERATION_MAX)
    d.group = ClassicGroup.restored("g", GroupSettings(0, 9), last, d.at())
    assert d.heartbeat(member, GENERATION_MAX) is NONE
    d.wait(10_000)
    assert d.group.state is GroupState.EMPTY
    assert d.writes[-1].group.generation == 1
