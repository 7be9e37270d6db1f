"""Metadata: brokers and topics as a client is told of them."""

import pytest
from tests.node.handlers.one_broker import CLUSTER_ID, OneBroker, record, topic_id

from replog.codec import decode
from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.ids import ZERO_TOPIC_ID
from replog.model.inputs import PeerFailed, PeerReplied
from replog.model.messages.create_topics import CreateTopicsRequest
from replog.model.messages.forward import ForwardRequest
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.model.outputs import Send
from replog.node.former_brokers import LISTED_MS
from replog.node.reach import DOUBT_MS

UNKNOWN = topic_id("nobody")


@pytest.fixture
def broker() -> OneBroker:
    one = OneBroker()
    one.topic("a", record(1, 2), record(2, 1))
    one.topic("b", record(3))
    return one


def named(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def by_id(*topics: tuple[bytes, str | None]) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=topic_id, name=name) for topic_id, name in topics],
        allow_auto_topic_creation=False,
    )


def ask(broker: OneBroker, message: MetadataRequest, **how: int) -> MetadataResponse:
    return broker.ask(message, MetadataResponse, **how)


def names(answer: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in answer.topics]


def errors(answer: MetadataResponse) -> list[int]:
    return [topic.error_code for topic in answer.topics]


def test_everything_about_a_topic(broker: OneBroker) -> None:
    answer = ask(broker, named("a"))
    assert (answer.cluster_id, answer.controller_id, answer.error_code) == (CLUSTER_ID, 3, 0)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "plaintext.host1", 9092),
        (2, "plaintext.host2", 9093),
        (3, "plaintext.host3", 9094),
    ]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "a", topic_id("a"))
    assert not topic.is_internal
    assert topic.topic_authorized_operations == -(1 << 31)
    assert [
        (p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in topic.partitions
    ] == [(0, 1, 0, [1, 2], [1, 2]), (1, 2, 0, [2, 1], [2, 1])]
    assert all(p.error_code == 0 and p.offline_replicas == [] for p in topic.partitions)


def test_null_asks_for_all_topics_and_an_empty_list_for_none(broker: OneBroker) -> None:
    assert names(ask(broker, MetadataRequest(topics=None))) == ["a", "b"]
    assert names(ask(broker, named(), version=1)) == []


def test_an_empty_list_asks_for_all_topics_in_version_0(broker: OneBroker) -> None:
    assert names(ask(broker, named(), version=0)) == ["a", "b"]


def test_topics_come_once_each_in_the_order_of_the_request(broker: OneBroker) -> None:
    answer = ask(broker, named("b", "nosuch", "a", "b", "a/b"))
    assert names(answer) == ["b", "nosuch", "a", "a/b"]
    assert errors(answer) == [0, 3, 0, 17]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "*", "n" * 250])
def test_a_name_that_cannot_be(broker: OneBroker, name: str) -> None:
    answer = ask(broker, named(name))
    assert errors(answer) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert names(answer) == [name]


def forwarded(broker: OneBroker) -> list[str]:
    """Names of the topics that the controller was just asked to make."""
    found = []
    for output in broker.outputs:
        if isinstance(output, Send) and isinstance(output.message, ForwardRequest):
            assert output.broker_id == 3
            assert output.message.api_key == CreateTopicsRequest.API_KEY
            create, _ = decode(CreateTopicsRequest, output.message.api_version, output.message.body)
            found += [topic.name for topic in create.topics]
    return found


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_an_unknown_topic_is_made_by_the_controller(broker: OneBroker, version: int) -> None:
    message = named("new", "a", "a/b")
    message.allow_auto_topic_creation = True  # what decoding gives to versions without the field
    broker.hear_from_controller()
    answer = ask(broker, message, version=version)
    assert errors(answer) == [3, 0, 17]
    assert forwarded(broker) == ["new"]
    ask(broker, message, version=version)
    assert forwarded(broker) == []  # it is being made


def test_a_topic_is_not_made_against_the_will_of_client_or_operator(broker: OneBroker) -> None:
    broker.hear_from_controller()
    ask(broker, named("new"))
    assert forwarded(broker) == []
    strict = OneBroker(auto__create__topics__enable="false")
    strict.hear_from_controller()
    message = named("new")
    message.allow_auto_topic_creation = True
    assert errors(ask(strict, message)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert forwarded(strict) == []


def test_internal_topics_are_told_apart(broker: OneBroker) -> None:
    broker.topic("__consumer_offsets", record(2))
    assert ask(broker, named("__consumer_offsets")).topics[0].is_internal


def test_operations_are_told_when_asked_for(broker: OneBroker) -> None:
    message = named("a")
    message.include_cluster_authorized_operations = True
    message.include_topic_authorized_operations = True
    answer = ask(broker, message, version=10)
    assert answer.cluster_authorized_operations == 8096
    assert answer.topics[0].topic_authorized_operations == 3576


def test_by_id(broker: OneBroker) -> None:
    answer = ask(broker, by_id((topic_id("a"), "b"), (UNKNOWN, None)))
    assert names(answer) == ["a", None]
    assert errors(answer) == [0, ErrorCode.UNKNOWN_TOPIC_ID]
    assert answer.topics[1].topic_id == UNKNOWN


def test_names_beside_ids_are_passed_over(broker: OneBroker) -> None:
    assert names(ask(broker, by_id((topic_id("a"), None), (ZERO_TOPIC_ID, "b")))) == ["a"]


@pytest.mark.parametrize("version", [10, 11])
def test_by_id_before_version_12(broker: OneBroker, version: int) -> None:
    answer = ask(broker, by_id((topic_id("a"), None)), version=version)
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ([], None, -1)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.topic_id) == (42, "", topic_id("a"))


def test_neither_id_nor_name(broker: OneBroker) -> None:
    answer = ask(broker, by_id((ZERO_TOPIC_ID, None)), version=12)
    assert (answer.brokers, answer.cluster_id) == ([], None)
    assert errors(answer) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert names(answer) == [""]


def test_a_partition_without_leader(broker: OneBroker) -> None:
    broker.topic("a", record(1, 2, leader=-1, epoch=4))
    (partition,) = ask(broker, named("a")).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.leader_epoch) == (-1, 4)
    assert (partition.replica_nodes, partition.isr_nodes) == ([1, 2], [1, 2])


def test_dead_and_fenced_brokers_are_not_shown_and_their_replicas_are_offline(
    broker: OneBroker,
) -> None:
    broker.topic("a", record(1, 2, 3))
    broker.broker(2, state=BrokerState.FENCED)
    del broker.node.cluster.brokers[3]
    answer = ask(broker, named("a"))
    assert [b.node_id for b in answer.brokers] == [1]
    assert answer.topics[0].partitions[0].offline_replicas == [2, 3]


def test_a_client_is_told_the_addresses_of_the_listener_it_came_by(broker: OneBroker) -> None:
    broker.broker(1, listeners=("PLAINTEXT", "OUTSIDE"))
    broker.broker(3, listeners=("PLAINTEXT", "OUTSIDE"))
    answer = broker.ask(named("a"), MetadataResponse, listener="OUTSIDE")
    assert [(b.node_id, b.host) for b in answer.brokers] == [
        (1, "outside.host1"),
        (3, "outside.host3"),
    ]
    first, second = answer.topics[0].partitions
    assert (first.error_code, first.leader_id) == (0, 1)
    assert (second.error_code, second.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)
    old = broker.ask(named("a"), MetadataResponse, listener="OUTSIDE", version=5)
    assert old.topics[0].partitions[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_who_asks_for_a_topic_hears_of_brokers_that_have_just_left(broker: OneBroker) -> None:
    """librdkafka forgets the new leader along with the old one when both come in one answer."""
    broker.hear_from_controller()
    everybody = {b.node_id: (b.host, b.port) for b in ask(broker, named("a")).brokers}
    broker.hear_from_controller(but=2)
    topic = ask(broker, named("a"))
    assert {b.node_id: (b.host, b.port) for b in topic.brokers} == everybody
    assert topic.topics[0].partitions[1].leader_id == -1
    assert topic.topics[0].partitions[0].offline_replicas == [2]
    for message in (named(), MetadataRequest(topics=None)):
        assert [b.node_id for b in ask(broker, message).brokers] == [1, 3]
    broker.now_ms += LISTED_MS - 1
    assert len(ask(broker, named("a")).brokers) == 3
    broker.now_ms += 1
    assert [b.node_id for b in ask(broker, named("a")).brokers] == [1, 3]


def test_a_leader_that_has_just_stopped_answering_is_shown_as_none(broker: OneBroker) -> None:
    """Clients ask sooner than anybody can be elected, and come back only if there is no leader."""
    node = broker.node

    def leaders() -> list[tuple[int, int]]:
        partitions = ask(broker, named("a")).topics[0].partitions
        return [(p.leader_id, p.error_code) for p in partitions]

    def hear(answer: PeerReplied | PeerFailed) -> None:
        node.step(answer, broker.now_ms, broker.wall_ms)

    unknown = (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    hear(PeerFailed(1, 2, "connection closed by the broker"))
    assert leaders() == [(1, 0), unknown]
    broker.now_ms += DOUBT_MS - 1
    hear(PeerFailed(2, 2, "connection refused"))
    assert leaders() == [(1, 0), unknown]
    broker.now_ms += 1  # counted from the first failure: it may be out of our reach alone
    assert leaders() == [(1, 0), (2, 0)]
    hear(PeerReplied(3, 2, MetadataResponse()))
    hear(PeerFailed(4, 2, "connection closed by the broker"))
    assert leaders() == [(1, 0), unknown]
    hear(PeerReplied(5, 2, MetadataResponse()))
    assert leaders() == [(1, 0), (2, 0)]
