"""DescribeGroups, ListGroups, DeleteGroups and OffsetDelete on a broker that coordinates groups."""

import pytest
from tests.node.group_broker import GroupBroker
from tests.node.handlers.one_broker import record

from replog.codec import encode_value
from replog.model.errors import ErrorCode
from replog.model.messages.consumer_protocol import ConsumerProtocolSubscription
from replog.model.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from replog.model.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from replog.model.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from replog.model.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from replog.model.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from replog.model.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

SHARED = record(1, 2)
GONE = ErrorCode.GROUP_ID_NOT_FOUND


def describe(b: GroupBroker, group: str = "g", version: int = 6) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    (described,) = b.call(request, DescribeGroupsResponse, version).groups
    return described


def listed(b: GroupBroker, *states: str, types: tuple[str, ...] = ()) -> dict[str, str]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    response = b.call(request, ListGroupsResponse)
    assert response.error_code == 0
    return {group.group_id: group.group_state for group in response.groups}


def delete(b: GroupBroker, *groups: str) -> dict[str, int]:
    response = b.call(DeleteGroupsRequest(groups_names=list(groups)), DeleteGroupsResponse)
    return {result.group_id: result.error_code for result in response.results}


def delete_request(*partitions: int, topic: str = "t", group: str = "g") -> OffsetDeleteRequest:
    places = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    asked = [OffsetDeleteRequestTopic(name=topic, partitions=places)]
    return OffsetDeleteRequest(group_id=group, topics=asked)


def joining(metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def join_saying(b: GroupBroker, metadata: bytes) -> str:
    """The id of a new member, alone in its group, that has said `metadata`."""
    return b.joined(b.send(joining(metadata), 3)).member_id


def forgotten(response: OffsetDeleteResponse) -> list[int]:
    if response.error_code:
        return [response.error_code]
    return [p.error_code for topic in response.topics for p in topic.partitions]


def test_a_stable_group_shows_what_its_members_said_and_got() -> None:
    b = GroupBroker()
    member = b.member()
    described = describe(b)
    assert (described.error_code, described.group_state) == (0, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert described.authorized_operations == 3400
    (shown,) = described.members
    assert (shown.member_id, shown.client_host) == (member, "/127.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (b"meta", b"x")


def test_while_a_group_rebalances_the_last_assignment_is_shown() -> None:
    b = GroupBroker()
    b.member()
    b.join()
    described = describe(b)
    assert described.group_state == "PreparingRebalance"
    assert described.protocol_data == ""
    assert [m.member_assignment for m in described.members] == [b"x", b""]
    assert [m.member_metadata for m in described.members] == [b"", b""]


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, GONE)])
def test_an_unknown_group_is_dead(version: int, error: int) -> None:
    described = describe(GroupBroker(), "nobody", version)
    assert (described.group_state, described.error_code) == ("Dead", error)


def test_elsewhere_the_groups_have_another_coordinator() -> None:
    b = GroupBroker(record(2, 1))
    assert describe(b).error_code == ErrorCode.NOT_COORDINATOR
    assert listed(b) == {}
    assert delete(b, "g") == {"g": ErrorCode.NOT_COORDINATOR}
    response = b.call(delete_request(0), OffsetDeleteResponse)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), {"g": "Stable", "h": "Empty"}),
        (("stable",), (), {"g": "Stable"}),
        (("EMPTY", "dead"), (), {"h": "Empty"}),
        ((), ("Classic",), {"g": "Stable", "h": "Empty"}),
        ((), ("consumer",), {}),
        (("nonsense",), (), {}),
    ],
)
def test_filters_take_any_case(
    states: tuple[str, ...], types: tuple[str, ...], found: dict[str, str]
) -> None:
    b = GroupBroker()
    b.member()
    b.commit(5, group="h")
    assert listed(b, *states, types=types) == found


def test_only_groups_without_members_are_deleted() -> None:
    b = GroupBroker()
    b.member("busy")
    b.commit(5, group="old")
    assert delete(b, "busy", "old", "nobody") == {
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "old": 0,
        "nobody": GONE,
    }
    assert listed(b) == {"busy": "Stable"}
    assert b.fetch("old") == [-1]


def test_a_deleted_group_stays_deleted_after_a_restart() -> None:
    b = GroupBroker()
    b.commit(5, partitions=(0, 1))
    assert delete(b, "g") == {"g": 0}
    b.restart(record(1, epoch=1))
    assert listed(b) == {}
    assert b.fetch(partitions=(0, 1)) == [-1, -1]


def test_an_id_of_a_deleted_group_is_known_no_more() -> None:
    b = GroupBroker()
    pending = b.joined(b.join(version=4)).member_id
    assert delete(b, "g") == {"g": 0}
    assert (listed(b), delete(b, "g")) == ({}, {"g": GONE})
    assert b.joined(b.join(pending, version=4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_comes_while_a_group_is_deleted_keeps_its_id() -> None:
    b = GroupBroker(SHARED)
    b.commit(5)
    b.follower_has_all()
    b.follower_has_all()
    deletion = b.send(DeleteGroupsRequest(groups_names=["g"]))
    b.join()
    pending = b.joined(b.join(version=4)).member_id
    assert b.waits(deletion)
    b.follower_has_all()
    b.follower_has_all()
    assert not b.waits(deletion)
    assert b.waits(b.join(pending, version=4)), "for the other one to join again"


def test_a_group_without_positions_or_members_is_empty() -> None:
    b = GroupBroker()
    pending = b.joined(b.join(version=4)).member_id
    b.call(LeaveGroupRequest(member_id=pending, group_id="g"), LeaveGroupResponse, 2)
    b.commit(5, group="h")
    assert forgotten(b.call(delete_request(0, group="h"), OffsetDeleteResponse)) == [0]
    assert listed(b) == {"g": "Empty", "h": "Empty"}
    assert delete(b, "g", "h") == {"g": 0, "h": 0}
    assert listed(b) == {}


def test_a_commit_that_is_on_its_way_is_deleted_too() -> None:
    b = GroupBroker(SHARED)
    b.follower_has_all()
    first = b.commit(5, partitions=(0,))
    b.follower_has_all()
    assert b.committed(first) == [0]
    second = b.commit(7, partitions=(1,))
    deletion = b.send(DeleteGroupsRequest(groups_names=["g"]))
    assert b.waits(second) and b.waits(deletion)
    b.follower_has_all()
    assert b.committed(second) == [0]
    (result,) = b.answer(deletion, DeleteGroupsResponse).results
    assert result.error_code == 0
    assert b.fetch(partitions=(0, 1)) == [-1, -1]
    assert listed(b) == {}


def test_positions_are_forgotten_one_by_one() -> None:
    b = GroupBroker()
    b.commit(5, partitions=(0, 1))
    response = b.call(delete_request(0, 2, 9), OffsetDeleteResponse)
    assert forgotten(response) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert b.fetch(partitions=(0, 1)) == [-1, 5]


@pytest.mark.parametrize(
    ("metadata", "topic", "error"),
    [
        (b"meta", "t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (["t"], "t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        (["u"], "t", ErrorCode.NONE),
        (["u"], "no-topic", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_positions_of_subscribed_topics_stay(
    metadata: bytes | list[str], topic: str, error: int
) -> None:
    b = GroupBroker()
    if isinstance(metadata, list):
        metadata = encode_value(ConsumerProtocolSubscription(topics=metadata), 1)
    member = join_saying(b, metadata)
    b.sync(member)
    b.commit(5, member_id=member, generation=1)
    response = b.call(delete_request(0, topic=topic), OffsetDeleteResponse)
    assert forgotten(response) == [error]
    assert b.fetch() == [-1 if error == 0 else 5]


@pytest.mark.parametrize("version", [-1, 1, 3, 99])
def test_of_a_subscription_the_fields_of_the_first_version_are_read(version: int) -> None:
    b = GroupBroker()
    first = encode_value(ConsumerProtocolSubscription(topics=["u"]), 0)
    b.sync(join_saying(b, version.to_bytes(2, "big", signed=True) + first[2:]))
    assert forgotten(b.call(delete_request(0), OffsetDeleteResponse)) == [0]
    assert forgotten(b.call(delete_request(0, topic="u"), OffsetDeleteResponse)) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def test_who_joins_is_subscribed_from_the_next_generation_on() -> None:
    b = GroupBroker()
    b.sync(join_saying(b, encode_value(ConsumerProtocolSubscription(topics=["u"]), 1)))
    b.send(joining(encode_value(ConsumerProtocolSubscription(topics=["t"]), 1)), 3)
    assert describe(b).group_state == "PreparingRebalance"
    assert forgotten(b.call(delete_request(0), OffsetDeleteResponse)) == [0]


def test_what_members_are_subscribed_to_is_known_after_a_restart() -> None:
    b = GroupBroker()
    member = join_saying(b, encode_value(ConsumerProtocolSubscription(topics=["u"]), 1))
    b.sync(member, {member: b"x"})
    b.restart(record(1, epoch=1))
    assert listed(b) == {"g": "Stable"}
    assert forgotten(b.call(delete_request(0), OffsetDeleteResponse)) == [0]


def test_a_topic_that_is_not_there_is_named_without_partitions() -> None:
    b = GroupBroker()
    b.commit(5)
    asked = [
        OffsetDeleteRequestTopic(name=name, partitions=[])
        if index is None
        else OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
        )
        for name, index in (("t", None), ("nowhere", None), ("t", 0), ("t", 1))
    ]
    response = b.call(OffsetDeleteRequest(group_id="g", topics=asked), OffsetDeleteResponse)
    assert {topic.name: len(topic.partitions) for topic in response.topics} == {
        "nowhere": 0,
        "t": 2,
    }
    assert len(response.topics) == 2


def test_positions_of_what_is_no_consumer_group_stay_while_it_has_members() -> None:
    b = GroupBroker()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="x", metadata=b"")],
    )
    b.send(request, 3)
    response = b.call(delete_request(0), OffsetDeleteResponse)
    assert response.error_code == ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(("group", "error"), [("", ErrorCode.INVALID_GROUP_ID), ("x", GONE)])
def test_positions_of_no_group(group: str, error: int) -> None:
    response = GroupBroker().call(delete_request(0, group=group), OffsetDeleteResponse)
    assert response.error_code == error
