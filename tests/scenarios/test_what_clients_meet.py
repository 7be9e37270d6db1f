"""What clients of Kafka rely on when brokers die, topics are made anew and groups move.

Rows of the table in docs/conformance.md that no other test holds.
"""

import pytest
from tests.node.group_broker import GroupBroker
from tests.node.handlers.one_broker import OneBroker, record
from tests.node.handlers.one_broker import topic_id as id_of
from tests.node.moving import T0, create, elect, members, produce
from tests.node.test_fetching import fetch as fetch_request
from tests.node.test_fetching import produce as produce_to
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    consumed,
    copies_nothing,
    fetch_later,
    fetched,
    isr,
    nothing,
    values,
)

from replog.model.cluster import TopicRecord
from replog.model.errors import ErrorCode
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from replog.model.messages.fetch import FetchResponse
from replog.model.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replog.model.messages.join_group import JoinGroupResponse
from replog.model.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from replog.model.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNCLEAN = 1
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.fixture
def town() -> Town:
    return a_town()


def seen(town: Town, broker: int, name: str = "t") -> tuple[int, int, int]:
    """Error, leader and epoch of partition 0, as a broker's metadata tells them."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    partition = town.ask(broker, request, MetadataResponse).topics[0].partitions[0]
    return partition.error_code, partition.leader_id, partition.leader_epoch


def end_of_epoch(town: Town, broker: int, epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=T0.topic, partitions=[asked])]
    )
    answer = town.ask(broker, request, OffsetForLeaderEpochResponse)
    found = answer.topics[0].partitions[0]
    return found.leader_epoch, found.end_offset


def delete_records(town: Town, before: int) -> tuple[int, int]:
    """Error and new start."""
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=5_000
    )
    answer = town.ask(members(town)[0], request, DeleteRecordsResponse)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.surface(2)
@pytest.mark.parametrize("version", [0, 1])
def test_the_oldest_joins_are_served(version: int) -> None:
    b = GroupBroker()
    joined = b.answer(b.join(version=version), JoinGroupResponse)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id != ""


@pytest.mark.surface(5)
def test_a_client_with_high_floors_gets_all_that_it_asks_for() -> None:
    """The lowest versions of a client that dropped the old ones."""
    b = GroupBroker()
    metadata = b.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), MetadataResponse, 9)
    assert [len(topic.partitions) for topic in metadata.topics] == [3]
    found = b.call(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse, 4)
    assert [c.node_id for c in found.coordinators] == [1]
    member = b.joined(b.join(version=6)).member_id
    member = b.joined(b.join(member, version=6)).member_id
    assert b.synced(b.sync(member, {member: b"x"})).assignment == b"x"
    assert b.committed(b.commit(7, member_id=member, generation=1, version=8)) == [0]
    assert b.fetch() == [7]


@pytest.mark.surface(14)
def test_a_topic_takes_writes_as_soon_as_its_making_is_answered(town: Town) -> None:
    made = CreatableTopic(name="t", num_partitions=1, replication_factor=3)
    request = CreateTopicsRequest(topics=[made], timeout_ms=5_000)
    assert town.ask(0, request, CreateTopicsResponse).topics[0].error_code == 0
    for broker in town.brokers:
        error, leader, _ = seen(town, broker)
        assert error == ErrorCode.NONE and leader in town.brokers
    assert produce(town, b"at once") is ErrorCode.NONE


@pytest.mark.surface(15)
def test_a_topic_that_is_made_anew_is_another_one() -> None:
    broker = OneBroker()
    broker.topic("t", record(1))
    produce_to(broker, "t", 0, b"old")
    opened = broker.ask(fetch_request("t", (0, 0), session_epoch=0), FetchResponse)
    again = TopicRecord("t", b"another topic id", [record(1)], {})
    broker.node.cluster.remove_topic("t")
    broker.node.cluster.put_topic(again)
    broker.node.partitions.apply([T0], [])

    fresh = broker.ask(fetch_request("t", (0, 0)), FetchResponse)
    assert fresh.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    more = fetch_request("t", session_id=opened.session_id, session_epoch=1)
    inside = broker.ask(more, FetchResponse).responses[0].partitions[0]
    assert inside.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert broker.node.cluster.topics["t"].topic_id != id_of("t")


@pytest.mark.surface(15)
def test_a_position_in_a_topic_that_is_gone_is_not_stored() -> None:
    b = GroupBroker()
    topic = OffsetCommitRequestTopic(
        topic_id=b"an id of before!", partitions=[OffsetCommitRequestPartition()]
    )
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    (answered,) = b.call(request, OffsetCommitResponse, 10).topics
    assert [p.error_code for p in answered.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]


@pytest.mark.surface(27)
def test_records_are_deleted_up_to_an_offset_that_is_committed_and_never_back(town: Town) -> None:
    create(town, "t", [1, 2, 0])
    for value in (b"0", b"1", b"2", b"3"):
        assert produce(town, value) is ErrorCode.NONE
    assert delete_records(town, 2) == (ErrorCode.NONE, 2)
    assert delete_records(town, 1) == (ErrorCode.NONE, 2), "gone already"
    assert delete_records(town, 5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert consumed(town, 1, 2) == [b"2", b"3"]
    copies_nothing(town, 0, 2)
    assert produce(town, b"4", acks=1) is ErrorCode.NONE
    town.lose_send = nothing
    town.run_until(lambda: consumed(town, 1, 4) == [b"4"])
    assert delete_records(town, -1) == (ErrorCode.NONE, 5), "all that is committed"


@pytest.mark.surface(32)
def test_an_epoch_never_ends_below_what_was_consumed(town: Town) -> None:
    create(town, "t", [1, 2, 0])
    for round_ in range(3):
        assert produce(town, b"%d" % round_) is ErrorCode.NONE
        leader, *_ = members(town)
        read = len(consumed(town, leader))
        assert read == round_ + 1
        epoch = seen(town, leader)[2]
        town.kill(leader)
        town.run_until(lambda: members(town)[0] not in (-1, leader))  # noqa: B023
        successor, *_ = members(town)
        assert end_of_epoch(town, successor, epoch) == (epoch, read)
        town.start(leader)
        town.run_until(lambda: isr(town) == [0, 1, 2])


@pytest.mark.surface(34)
def test_a_consumer_beyond_the_end_of_an_unclean_leader_is_told_where_histories_part(
    town: Town,
) -> None:
    create(town, "t", [0, 1])
    assert produce(town, b"both") is ErrorCode.NONE
    copies_nothing(town, 1)
    for value in (b"lost 1", b"lost 2"):
        assert produce(town, value, acks=1) is ErrorCode.NONE
    town.run_until(lambda: isr(town) == [0])
    assert consumed(town, 0) == [b"both", b"lost 1", b"lost 2"]
    epoch = seen(town, 0)[2]
    town.kill(0)
    town.run(50)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert end_of_epoch(town, 1, epoch) == (epoch, 1), "where the consumer has to go on"
    connection = fetch_later(town, 1, 3)
    town.run_until(lambda: town.answered(connection))
    assert fetched(town, connection).error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "no silent skip"


@pytest.mark.surface(40)
def test_with_all_replicas_down_there_is_no_leader_and_then_one_of_a_later_epoch() -> None:
    town = a_town(0, 1, 2, 3)
    create(town, "t", [1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    before = seen(town, 0)[2]
    town.kill(1)
    town.run(100)
    town.kill(2)
    town.run(6_000)
    assert seen(town, 0)[:2] == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    town.start(1, 2)
    town.run_until(lambda: seen(town, 0)[1] in (1, 2))
    error, leader, epoch = seen(town, 0)
    assert error == ErrorCode.NONE and epoch > before
    assert values(town, leader) == [b"one"]


@pytest.mark.surface(43)
def test_the_controller_dies_under_load_and_nothing_acknowledged_is_lost(town: Town) -> None:
    create(town, "t", [1, 2, 0])
    acknowledged = []
    for round_ in range(3):
        victim = town.controller
        value = b"%d" % round_
        assert produce(town, value) is ErrorCode.NONE
        acknowledged.append(value)
        town.kill(victim)
        town.run_until(lambda: members(town)[0] not in (-1, victim))  # noqa: B023
        value = b"%d without" % round_
        assert produce(town, value) is ErrorCode.NONE
        acknowledged.append(value)
        assert consumed(town, members(town)[0]) == acknowledged
        town.start(victim)
        town.run_until(lambda: isr(town) == [0, 1, 2])


@pytest.mark.surface(46)
def test_the_metadata_of_a_position_comes_back_as_it_was() -> None:
    b = GroupBroker()
    text = 'ä line\nand {"json": 1}'
    assert b.committed(b.commit(5, metadata=text)) == [0]
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = b.call(OffsetFetchRequest(group_id="g", topics=topics), OffsetFetchResponse, 7)
    assert answer.topics[0].partitions[0].metadata == text


@pytest.mark.surface(48)
def test_while_a_coordinator_loads_the_oldest_fetch_has_the_error_in_each_partition() -> None:
    b = GroupBroker(record(1, 2))
    b.commit(5)
    b.restart(record(1, 2, epoch=1))
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 2])]
    answer = b.call(OffsetFetchRequest(group_id="g", topics=topics), OffsetFetchResponse, 1)
    assert [p.error_code for p in answer.topics[0].partitions] == [LOADING, LOADING]
    b.follower_has_all()
    answer = b.call(OffsetFetchRequest(group_id="g", topics=topics), OffsetFetchResponse, 1)
    assert [(p.error_code, p.committed_offset) for p in answer.topics[0].partitions] == [
        (0, 5),
        (0, -1),
    ]
