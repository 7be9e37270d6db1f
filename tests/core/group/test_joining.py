"""The first round of a rebalance: who gets in, who waits, who leads."""

import pytest
from tests.core.group.driver import Driver

from replog.core.group.facts import JoinedMember
from replog.core.group.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_MAX
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
TWO = {"range": b"a", "sticky": b"b"}


def test_a_group_of_one_is_led_by_its_member() -> None:
    d = Driver()
    answer = d.joined(d.join())
    assert answer.error is ErrorCode.NONE
    assert (answer.generation, answer.protocol_type, answer.protocol_name) == (
        1,
        "consumer",
        "range",
    )
    assert answer.leader == answer.member_id == "m1"
    assert answer.members == (JoinedMember("m1", None, b"meta"),)
    assert d.group.state is GroupState.COMPLETING_REBALANCE


def test_a_second_member_makes_the_first_join_again() -> None:
    d = Driver()
    (first,) = d.stable()
    late = d.join()
    assert d.waits(late)
    assert d.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    again = d.join(first)
    assert d.joined(again).generation == d.joined(late).generation == 2
    assert {m.member_id for m in d.joined(again).members} == {first, d.joined(late).member_id}
    assert d.joined(late).members == (), "only the leader learns who is there"


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("", {"range": b""}), ("consumer", {}), ("", {})]
)
def test_a_first_member_must_offer_something(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    d = Driver()
    answer = d.joined(d.join(protocols=protocols, protocol_type=protocol_type))
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert d.group.state is GroupState.EMPTY


@pytest.mark.parametrize(
    ("protocol_type", "protocols", "fits"),
    [
        ("consumer", {"range": b"x"}, True),
        ("consumer", {"other": b"x", "range": b"x"}, True),
        ("consumer", {"other": b"x"}, False),
        ("consumer", {}, False),
        ("connect", {"range": b"x"}, False),
    ],
)
def test_a_later_member_must_have_a_protocol_in_common(
    protocol_type: str, protocols: dict[str, bytes], fits: bool
) -> None:
    d = Driver()
    d.stable()
    ticket = d.join(protocols=protocols, protocol_type=protocol_type)
    if fits:
        assert d.waits(ticket)
    else:
        assert d.joined(ticket).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert d.group.state is GroupState.STABLE


def test_an_emptied_group_takes_another_type() -> None:
    d = Driver()
    (member,) = d.stable()
    d.leave(member)
    assert d.group.state is GroupState.EMPTY
    assert d.group.generation == 2
    answer = d.joined(d.join(protocol_type="connect"))
    assert (answer.generation, answer.protocol_type) == (3, "connect")


# ---- choice of the protocol ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "chosen"),
    [
        ([("a", "b"), ("a", "b"), ("b", "a")], "a"),
        ([("b", "a"), ("a", "b"), ("b", "a")], "b"),
        ([("c", "a", "b"), ("a", "b")], "a"),  # c is not offered by all: the first falls back to a
        ([("range", "roundrobin"), ("roundrobin", "range")], "range"),  # a tie, as seen with Kafka
        ([("roundrobin", "range"), ("range", "roundrobin")], "range"),
    ],
)
def test_the_protocol_is_voted_for(offers: list[tuple[str, ...]], chosen: str) -> None:
    d = Driver(initial_delay_ms=100)
    tickets = [d.join(protocols={name: name.encode() for name in names}) for names in offers]
    d.wait(1000)
    assert {d.joined(ticket).protocol_name for ticket in tickets} == {chosen}
    leader = d.joined(tickets[0])
    assert {m.metadata for m in leader.members} == {chosen.encode()}


# ---- the initial delay ---------------------------------------------------------------------


def test_the_first_rebalance_waits_for_more_members() -> None:
    d = Driver(initial_delay_ms=3000)
    first = d.join()
    d.wait(2999)
    assert d.waits(first)
    d.wait(1)
    assert d.joined(first).generation == 1


def test_each_newcomer_extends_the_initial_delay() -> None:
    d = Driver(initial_delay_ms=3000)
    first = d.join(rebalance_ms=60_000)
    d.wait(2000)
    second = d.join(rebalance_ms=60_000)
    d.wait(3999)
    assert d.waits(first), "the second came within the first delay: 3 s more"
    assert d.waits(second)
    d.wait(1)
    assert d.joined(first).generation == d.joined(second).generation == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    d = Driver(initial_delay_ms=3000)
    first = d.join(rebalance_ms=7000)
    for _ in range(6):
        d.wait(1000)
        d.join(rebalance_ms=7000)
    d.wait(999)
    assert d.waits(first)
    d.wait(1)
    assert len(d.joined(first).members) == 7


def test_later_rebalances_do_not_wait_the_initial_delay() -> None:
    d = Driver(initial_delay_ms=3000)
    first = d.join()
    d.wait(3000)
    member = d.joined(first).member_id
    late = d.join()
    again = d.join(member)
    assert d.joined(again).generation == d.joined(late).generation == 2


# ---- ids before membership (KIP-394) -------------------------------------------------------


def test_the_member_id_comes_first() -> None:
    d = Driver()
    told = d.joined(d.join(id_first=True))
    assert (told.error, told.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "m1")
    assert d.group.state is GroupState.EMPTY
    assert not d.group.idle
    answer = d.joined(d.join("m1", id_first=True))
    assert (answer.error, answer.member_id, answer.generation) == (ErrorCode.NONE, "m1", 1)


def test_an_id_that_is_not_used_lapses_with_the_session() -> None:
    d = Driver()
    d.join(id_first=True, session_ms=6000)
    d.wait(5999)
    assert not d.group.idle
    d.wait(1)
    assert d.group.idle
    assert d.joined(d.join("m1")).error is UNKNOWN


def test_a_rebalance_waits_for_ids_that_were_given() -> None:
    d = Driver()
    (first,) = d.stable()
    d.join(id_first=True, session_ms=6000)
    assert d.group.state is GroupState.STABLE, "an id alone changes nothing"
    again = d.join(first)
    assert d.waits(again)
    d.wait(6000)
    assert d.joined(again).generation == 2


def test_ids_are_not_given_without_end() -> None:
    d = Driver()
    tickets = [d.join(id_first=True) for _ in range(PENDING_MEMBERS_MAX)]
    assert d.joined(tickets[-1]).error is ErrorCode.MEMBER_ID_REQUIRED
    one_more = d.joined(d.join(id_first=True))
    assert one_more.error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("state", ["empty", "stable"])
def test_an_id_that_nobody_gave_is_unknown(state: str) -> None:
    d = Driver()
    if state == "stable":
        d.stable()
    answer = d.joined(d.join("nobody"))
    assert (answer.error, answer.member_id) == (UNKNOWN, "nobody")


# ---- joining again -------------------------------------------------------------------------


def test_before_the_sync_an_unchanged_member_is_told_again() -> None:
    d = Driver()
    first = d.joined(d.join())
    again = d.joined(d.join(first.member_id))
    assert (again.generation, again.members) == (1, first.members)


def test_before_the_sync_a_changed_member_begins_anew() -> None:
    d = Driver()
    member = d.joined(d.join()).member_id
    answer = d.joined(d.join(member, {"range": b"other"}))
    assert answer.generation == 2
    assert answer.members[0].metadata == b"other"


def test_a_stable_follower_that_did_not_change_disturbs_nobody() -> None:
    d = Driver()
    leader, follower = d.stable(2)
    answer = d.joined(d.join(follower))
    assert (answer.error, answer.generation, answer.leader) == (
        ErrorCode.NONE,
        d.group.generation,
        leader,
    )
    assert answer.members == ()
    assert d.group.state is GroupState.STABLE


def test_a_stable_follower_that_changed_begins_a_rebalance() -> None:
    d = Driver()
    _, follower = d.stable(2)
    assert d.waits(d.join(follower, {"range": b"new topics"}))
    assert d.group.state is GroupState.PREPARING_REBALANCE


def test_the_leader_may_ask_for_a_rebalance_at_any_time() -> None:
    d = Driver()
    leader, _ = d.stable(2)
    assert d.waits(d.join(leader))
    assert d.group.state is GroupState.PREPARING_REBALANCE


def test_the_same_member_on_another_connection_replaces_its_request() -> None:
    d = Driver()
    leader, _ = d.stable(2)
    earlier = d.join(leader)
    later = d.join(leader)
    assert d.joined(earlier).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert d.waits(later)


# ---- who stays away ------------------------------------------------------------------------


def test_whoever_does_not_rejoin_in_time_is_out() -> None:
    d = Driver()
    leader, follower = d.stable(2, session_ms=300_000)
    again = d.join(follower, {"range": b"x"}, session_ms=300_000)
    d.wait(59_999)
    assert d.waits(again)
    d.wait(1)
    answer = d.joined(again)
    assert answer.leader == follower, "the lead goes to one who is there"
    assert [m.member_id for m in answer.members] == [follower]
    assert d.heartbeat(leader) is UNKNOWN


def test_a_newcomer_that_waits_for_ever_is_given_up() -> None:
    d = Driver()
    (first,) = d.stable(session_ms=900_000, rebalance_ms=1_800_000)
    late = d.join(session_ms=900_000, rebalance_ms=1_800_000)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 100_000):
        assert d.waits(late)
        d.heartbeat(first)
        d.wait(100_000)
    assert (d.joined(late).error, d.joined(late).member_id) == (UNKNOWN, "")


# ---- the largest group ---------------------------------------------------------------------


def test_a_full_group_takes_nobody() -> None:
    d = Driver(max_size=2)
    first, _ = d.stable(2)
    refused = d.joined(d.join())
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert d.group.state is GroupState.STABLE
    d.leave(first)
    assert d.waits(d.join()), "there is room again"


def test_in_a_rebalance_the_last_to_rejoin_is_shed() -> None:
    d = Driver(max_size=1, initial_delay_ms=10)
    first = d.join()
    second = d.joined(d.join())
    assert second.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    d.wait(10)
    assert [m.member_id for m in d.joined(first).members] == ["m1"]
