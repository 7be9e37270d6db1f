"""A broker that has just started serves clients before a controller has told it of the cluster."""

import random

from tests.node.lone import WALL_MS, batch, topic_id

from replog.model.cluster import Endpoint
from replog.model.config import BrokerConfig
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages import Message
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
from replog.model.outputs import Reply
from replog.node.node import Node, NodeSetup
from replog.sim.mem_disk import MemDisk


def ask(message: Message) -> Message | None:
    setup = NodeSetup(
        config=BrokerConfig({"node.id": "1"}),
        cluster_id="new",
        endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
        api_ranges=(),
        boot_id="boot",
    )
    node = Node(setup, MemDisk(), random.Random(1), now_ms=0, wall_ms=WALL_MS)
    node.start()
    request = Received(1, 1, 12, message, listener="PLAINTEXT", client_host="127.0.0.1")
    (answer,) = node.step(request, 0, WALL_MS)  # and no topic is made
    assert isinstance(answer, Reply)
    return answer.message


def test_no_topic_is_said_not_to_exist() -> None:
    asked = [
        MetadataRequestTopic(name="t"),
        MetadataRequestTopic(topic_id=topic_id("u"), name=None),
    ]
    answer = ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True))
    assert isinstance(answer, MetadataResponse)
    assert [t.error_code for t in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    assert answer.brokers == []


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
