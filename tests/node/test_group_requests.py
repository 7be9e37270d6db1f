"""The group APIs as clients of each age see them."""

import pytest
from tests.node.group_broker import GroupBroker
from tests.node.handlers.one_broker import record, topic_id

from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, ZERO_TOPIC_ID
from replog.model.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from replog.model.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from replog.model.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from replog.model.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from replog.model.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from replog.model.outputs import Send
from replog.node.handlers.join_group import NAME_LENGTH_MAX

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE

# ---- FindCoordinator -------------------------------------------------------------------------


def find(b: GroupBroker, key: str = "g", key_type: int = 0, version: int = 3) -> tuple[int, ...]:
    """Error, broker and port for one key."""
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    response = b.call(request, FindCoordinatorResponse, version)
    if version < 4:
        return response.error_code, response.node_id, response.port
    (found,) = response.coordinators
    assert found.key == key
    return found.error_code, found.node_id, found.port


@pytest.mark.parametrize("version", [0, 3, 4, 6])
@pytest.mark.parametrize("key_type", [0, 1])
def test_the_leader_of_the_keys_partition_coordinates(version: int, key_type: int) -> None:
    b = GroupBroker(None)
    topic = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)[key_type]
    b.topic(topic, record(1, 2, leader=2))
    assert find(b, key_type=key_type, version=version) == (0, 2, 9093)


@pytest.mark.parametrize("version", [3, 4])
def test_without_a_leader_that_can_be_reached(version: int) -> None:
    b = GroupBroker(record(1, 2, leader=-1))
    assert find(b, version=version) == (NOT_AVAILABLE, -1, -1)
    b.lead(record(1, 2, leader=2, epoch=1))
    b.broker(2, state=BrokerState.FENCED)
    assert find(b, version=version) == (NOT_AVAILABLE, -1, -1)


@pytest.mark.parametrize("key_type", [0, 1])
def test_the_topic_is_made_when_it_is_needed(key_type: int) -> None:
    b = GroupBroker(None)
    b.hear_from_controller()
    request = FindCoordinatorRequest(key="g", key_type=key_type)
    answer = b.ask(request, FindCoordinatorResponse, version=3)
    assert answer.error_code == NOT_AVAILABLE
    assert [o.broker_id for o in b.outputs if isinstance(o, Send)] == [3], "the controller"


@pytest.mark.parametrize("key_type", [2, 3, 9, -1])
@pytest.mark.parametrize("version", [3, 6])
def test_other_kinds_have_no_coordinator(key_type: int, version: int) -> None:
    b = GroupBroker()
    assert find(b, key_type=key_type, version=version) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_several_keys_one_of_them_twice() -> None:
    b = GroupBroker()
    request = FindCoordinatorRequest(coordinator_keys=["g", "h", "g"])
    response = b.call(request, FindCoordinatorResponse, 4)
    assert [(c.key, c.error_code, c.node_id) for c in response.coordinators] == [
        ("g", 0, 1),
        ("h", 0, 1),
        ("g", 0, 1),
    ]


def test_old_versions_say_that_there_is_no_error() -> None:
    b = GroupBroker()
    response = b.call(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 1)
    assert response.error_message == "NONE"


# ---- JoinGroup -------------------------------------------------------------------------------


def join(b: GroupBroker, version: int = 3, **fields: object) -> JoinGroupResponse:
    named = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"x")],
    }
    message = JoinGroupRequest(**(named | fields))  # type: ignore[arg-type]
    return b.call(message, JoinGroupResponse, version)


@pytest.mark.surface(2)
@pytest.mark.parametrize("version", range(10))
def test_an_absent_protocol_in_each_version(version: int) -> None:
    answer = join(GroupBroker(), version, member_id="nobody")
    assert (answer.error_code, answer.member_id) == (UNKNOWN, "nobody")
    assert answer.protocol_name == ("" if version < 7 else None)
    assert (answer.generation_id, answer.leader) == (-1, "")


@pytest.mark.parametrize(
    ("timeout_ms", "good"),
    [(-1, False), (5_999, False), (6_000, True), (8_000, True), (8_001, False)],
)
def test_session_timeouts_at_and_past_the_limits(timeout_ms: int, good: bool) -> None:
    b = GroupBroker(group__max__session__timeout__ms="8000")
    answer = join(b, session_timeout_ms=timeout_ms)
    assert answer.error_code == (0 if good else ErrorCode.INVALID_SESSION_TIMEOUT)


def test_a_protocol_that_is_named_twice_is_answered() -> None:
    twice = [JoinGroupRequestProtocol(name="range")] * 2
    answer = join(GroupBroker(), protocols=twice)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_before_the_rebalance_timeout_the_session_stands_for_it() -> None:
    b = GroupBroker()
    first = join(b, 0, rebalance_timeout_ms=-1, session_timeout_ms=20_000).member_id
    late = b.join(version=0, session_ms=20_000)
    b.wait(15_000)
    b.heartbeat(first)
    b.wait(4_999)
    assert b.waits(late)
    b.wait(1)
    assert b.joined(late).generation_id == 2


@pytest.mark.parametrize(
    ("fields", "start"),
    [({}, "client-"), ({"group_instance_id": "i1"}, "i1-"), ({"group_instance_id": ""}, "-")],
)
def test_member_ids_tell_whose_they_are(fields: dict[str, object], start: str) -> None:
    member = join(GroupBroker(), 5, **fields).member_id
    assert member.startswith(start)
    uuid = member.removeprefix(start)
    assert [len(part) for part in uuid.split("-")] == [8, 4, 4, 4, 12]
    assert uuid[14] == "4" and uuid[19] in "89ab"


def test_long_names_make_no_ids_that_can_not_be_sent() -> None:
    member = join(GroupBroker(), 6, group_instance_id="ä" * 16_000).member_id
    assert len(member) == NAME_LENGTH_MAX + 37
    assert len(member.encode()) < 2**15


# ---- no group id, and who is not there ---------------------------------------------------------


def test_the_empty_group_id_is_for_offsets_only() -> None:
    b = GroupBroker()
    invalid = ErrorCode.INVALID_GROUP_ID
    assert join(b, group_id="").error_code == invalid
    assert b.call(SyncGroupRequest(), SyncGroupResponse, 3).error_code == invalid
    assert b.call(HeartbeatRequest(), HeartbeatResponse).error_code == invalid
    assert b.call(LeaveGroupRequest(), LeaveGroupResponse).error_code == invalid
    assert b.committed(b.commit(5, group="")) == [0]
    assert b.fetch("") == [5]


def test_a_group_that_is_not_there() -> None:
    b = GroupBroker()
    assert b.heartbeat("m") == UNKNOWN
    assert b.synced(b.sync("m")).error_code == UNKNOWN
    assert leave(b, "m", 2) == (UNKNOWN, [])
    assert leave(b, "m", 3) == (0, [UNKNOWN])


@pytest.mark.parametrize(("version", "good"), [(4, True), (5, False)])
def test_from_version_5_on_the_protocol_has_to_be_named(version: int, good: bool) -> None:
    b = GroupBroker()
    member = b.member()
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member)
    answer = b.call(request, SyncGroupResponse, version)
    assert answer.error_code == (0 if good else ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


# ---- LeaveGroup ------------------------------------------------------------------------------


def leave(b: GroupBroker, member: str, version: int) -> tuple[int, list[int]]:
    request = LeaveGroupRequest(
        group_id="g", member_id=member, members=[MemberIdentity(member_id=member)]
    )
    if version < 3:
        request.members = []
    response = b.call(request, LeaveGroupResponse, version)
    return response.error_code, [m.error_code for m in response.members]


@pytest.mark.parametrize(("version", "errors"), [(0, []), (2, []), (3, [0]), (5, [0])])
def test_leaving_in_each_version(version: int, errors: list[int]) -> None:
    b = GroupBroker()
    member = b.member()
    assert leave(b, member, version) == (0, errors)
    assert b.heartbeat(member) == UNKNOWN


# ---- OffsetCommit ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "topic", "partition", "error"),
    [
        (9, {"name": "t"}, 0, 0),
        (9, {"name": "t"}, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, {"name": "t"}, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, {"name": "no"}, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (10, {"topic_id": topic_id("t")}, 0, 0),
        (10, {"topic_id": topic_id("t")}, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (10, {"topic_id": topic_id("no")}, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        (10, {"topic_id": ZERO_TOPIC_ID}, 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_where_offsets_can_be_committed(
    version: int, topic: dict[str, object], partition: int, error: int
) -> None:
    b = GroupBroker()
    place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=5)
    good = OffsetCommitRequestPartition(partition_index=1, committed_offset=6)
    known = {"name": "t"} if version < 10 else {"topic_id": topic_id("t")}
    request = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(**topic, partitions=[place]),  # type: ignore[arg-type]
            OffsetCommitRequestTopic(**known, partitions=[good]),  # type: ignore[arg-type]
        ],
    )
    response = b.call(request, OffsetCommitResponse, version)
    assert [p.error_code for t in response.topics for p in t.partitions] == [error, 0]
    assert b.fetch(partitions=(0, 1)) == [-1 if error else 5, 6], "the others are stored"


@pytest.mark.parametrize(("version", "kept"), [(4, False), (5, True)])
def test_a_clients_own_retention(version: int, kept: bool) -> None:
    b = GroupBroker(offsets__retention__check__interval__ms="1000")
    retention = 1500 if version < 5 else -1
    b.commit(5, version=version, retention_ms=retention)
    b.wait(1_000)
    assert b.fetch() == [5]
    b.wait(1_000)
    assert b.fetch() == [5 if kept else -1]


def test_an_offset_of_nowhere_is_kept_as_it_is() -> None:
    b = GroupBroker()
    assert b.committed(b.commit(-7, metadata=None)) == [0]
    assert b.fetch() == [-7]


# ---- OffsetFetch -----------------------------------------------------------------------------


def committed_broker() -> GroupBroker:
    b = GroupBroker()
    assert b.committed(b.commit(5, partitions=(0, 2))) == [0, 0]
    return b


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_in_the_old_form(version: int) -> None:
    b = committed_broker()
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[2, 1])]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    response = b.call(request, OffsetFetchResponse, version)
    (topic,) = response.topics
    found = [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions]
    assert found == [(2, 5, "m"), (1, -1, "")]


@pytest.mark.parametrize(("version", "topics"), [(2, None), (7, None), (2, [])])
def test_all_topics_or_none_in_the_old_form(version: int, topics: list[object] | None) -> None:
    b = committed_broker()
    request = OffsetFetchRequest(group_id="g", topics=topics)  # type: ignore[arg-type]
    response = b.call(request, OffsetFetchResponse, version)
    found = [p.partition_index for t in response.topics for p in t.partitions]
    assert found == ([0, 2] if topics is None else [])


@pytest.mark.parametrize("version", [1, 2])
def test_version_1_has_no_error_for_the_whole(version: int) -> None:
    b = GroupBroker(record(1, 2, leader=2))
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    response = b.call(request, OffsetFetchResponse, version)
    errors = [p.error_code for t in response.topics for p in t.partitions]
    if version == 1:
        assert errors == [ErrorCode.NOT_COORDINATOR]
    else:
        assert (response.error_code, errors) == (ErrorCode.NOT_COORDINATOR, [])


def test_several_groups_each_with_its_own_answer() -> None:
    b = committed_broker()
    b.commit(9, group="h")
    asked = [
        OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        )
        for group in ("h", "nobody", "g")
    ]
    response = b.call(OffsetFetchRequest(groups=asked), OffsetFetchResponse, 8)
    assert [
        (g.group_id, g.error_code, g.topics[0].partitions[0].committed_offset)
        for g in response.groups
    ] == [("h", 0, 9), ("nobody", 0, -1), ("g", 0, 5)]


def test_topic_ids() -> None:
    b = committed_broker()
    asked = OffsetFetchRequestGroup(
        group_id="g",
        topics=[
            OffsetFetchRequestTopics(topic_id=topic_id("t"), partition_indexes=[0]),
            OffsetFetchRequestTopics(topic_id=topic_id("no"), partition_indexes=[1]),
        ],
    )
    response = b.call(OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, 10)
    (group,) = response.groups
    found = [
        (t.topic_id, p.committed_offset, p.error_code) for t in group.topics for p in t.partitions
    ]
    assert found == [
        (topic_id("t"), 5, 0),
        (topic_id("no"), -1, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    response = b.call(OffsetFetchRequest(groups=[everything]), OffsetFetchResponse, 10)
    assert [t.topic_id for t in response.groups[0].topics] == [topic_id("t")]


# ---- a coordinator that may be none any more -------------------------------------------------


def test_who_may_lead_nothing_any_more_answers_for_no_group() -> None:
    """Its registration is gone: another may have taken commits that it knows nothing of."""
    b = GroupBroker()
    assert b.committed(b.commit(5)) == [ErrorCode.NONE]
    b.node.lease.lost()
    assert b.fetch() == ErrorCode.NOT_COORDINATOR
    assert b.committed(b.commit(6)) == [ErrorCode.NOT_COORDINATOR]
