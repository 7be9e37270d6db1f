"""A broker that has just started serves clients before a controller has told it of the cluster."""

import random

import pytest
from tests.node.lone import WALL_MS, batch, topic_id
from tests.node.town import Town

from replog.model.cluster import Endpoint
from replog.model.config import BrokerConfig
from replog.model.errors import ErrorCode
from replog.model.inputs import Received, Tick
from replog.model.messages import Message
from replog.model.messages.describe_cluster import DescribeClusterRequest
from replog.model.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.model.outputs import CloseConnection, Reply
from replog.node.early_requests import WAIT_MS
from replog.node.node import Node, NodeSetup
from replog.sim.mem_disk import MemDisk


def just_started() -> Node:
    setup = NodeSetup(
        config=BrokerConfig({"node.id": "1"}),
        cluster_id="new",
        endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
        api_ranges=(),
        boot_id="boot",
    )
    node = Node(setup, MemDisk(), random.Random(1), now_ms=0, wall_ms=WALL_MS)
    node.start()
    return node


def received(message: Message) -> Received:
    return Received(1, 1, 12, message, listener="PLAINTEXT", client_host="127.0.0.1")


def ask(message: Message) -> Message | None:
    (answer,) = just_started().step(received(message), 0, WALL_MS)
    assert isinstance(answer, Reply)
    return answer.message


QUESTIONS = (
    MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True),
    MetadataRequest(topics=None),
    DescribeClusterRequest(),
    DescribeTopicPartitionsRequest(),
)


@pytest.mark.scenario(86)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question).__name__)
def test_a_question_about_the_cluster_waits_until_there_is_something_to_say(
    question: Message,
) -> None:
    """Told of no broker, librdkafka would have nobody left to ask."""
    town = Town(brokers=(0, 1))
    town.coordinator_down = True
    town.start(0)
    connection = town.ask_later(0, question)
    town.run(WAIT_MS - 1_000)
    assert not town.answered(connection)
    town.coordinator_down = False
    town.run_until(lambda: town.answered(connection))
    answer = town.answer(connection, Message)
    if isinstance(answer, MetadataResponse):
        assert [broker.node_id for broker in answer.brokers] == [0]
    town.run(2 * WAIT_MS)
    assert not [reason for reason in town.closed if "told" in reason]


def test_nobody_waits_for_ever() -> None:
    node = just_started()
    assert node.step(received(QUESTIONS[0]), 0, WALL_MS) == []
    for now_ms, closed in ((WAIT_MS - 1, []), (WAIT_MS, [1]), (2 * WAIT_MS, [])):
        outputs = node.step(Tick(), now_ms, WALL_MS)
        assert [o.connection for o in outputs if isinstance(o, CloseConnection)] == closed


def test_a_write_is_to_be_tried_again() -> None:
    data = PartitionProduceData(index=0, records=memoryview(batch(b"1")))
    topic = TopicProduceData(name="t", partition_data=[data])
    answer = ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]))
    assert isinstance(answer, ProduceResponse)
    (written,) = answer.responses[0].partition_responses
    assert written.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_position_is_to_be_committed_elsewhere_or_later() -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name="t", topic_id=topic_id("t"), partitions=[partition])
    answer = ask(OffsetCommitRequest(group_id="g", topics=[topic]))
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
