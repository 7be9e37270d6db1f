"""DescribeReplicas: what this broker holds, as leader and as follower."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record, topic_id

from replog.model.errors import ErrorCode
from replog.model.messages.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    DescribeReplicasTopic,
)

T = 1_700_000_000_000


@pytest.fixture
def broker() -> OneBroker:
    one = OneBroker()
    one.topic("led", record(1, 2, 3), record(2))
    one.topic("copied", record(2, 1, epoch=4))
    one.produce("led", T, T)
    return one


def ask(broker: OneBroker, *topics: tuple[str, list[int]] | None) -> DescribeReplicasResponse:
    asked = [
        DescribeReplicasTopic(name=topic[0], partitions=topic[1])
        for topic in topics
        if topic is not None
    ]
    message = DescribeReplicasRequest(topics=asked if topics else None)
    return broker.ask(message, DescribeReplicasResponse)


def only(answer: DescribeReplicasResponse) -> DescribedReplica:
    (topic,) = answer.topics
    (replica,) = topic.partitions
    return replica


def test_all_replicas_here(broker: OneBroker) -> None:
    broker.node.broker_epoch = 55
    broker.node.cluster.controller_epoch = 6
    broker.node.cluster.version = 7
    answer = ask(broker)
    assert (answer.broker_id, answer.broker_epoch) == (1, 55)
    assert (answer.controller_id, answer.controller_epoch, answer.image_version) == (3, 6, 7)
    held = [(t.name, t.topic_id, [p.index for p in t.partitions]) for t in answer.topics]
    assert held == [("copied", topic_id("copied"), [0]), ("led", topic_id("led"), [0])]


def test_a_leader_tells_of_its_followers(broker: OneBroker) -> None:
    broker.now_ms += 250
    replica = only(ask(broker, ("led", [0])))
    assert (replica.error_code, replica.role, replica.leader_id) == (0, "leader", 1)
    assert (replica.leader_epoch, replica.latest_epoch, replica.isr) == (0, 0, [1, 2, 3])
    assert (replica.log_start_offset, replica.log_end_offset) == (0, 2)
    assert replica.high_watermark == 0
    followers = [
        (f.broker_id, f.log_end_offset, f.caught_up_ms_ago) for f in replica.caught_up_ms_ago
    ]
    assert followers == [(2, -1, 250), (3, -1, 250)]


def test_a_follower(broker: OneBroker) -> None:
    replica = only(ask(broker, ("copied", [])))
    assert (replica.role, replica.leader_id, replica.leader_epoch) == ("follower", 2, 4)
    assert (replica.log_end_offset, replica.latest_epoch, replica.isr) == (0, -1, [2, 1])
    assert replica.caught_up_ms_ago == []


@pytest.mark.parametrize(
    ("name", "index", "error"),
    [
        ("led", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("led", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nosuch", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_no_replica_here(broker: OneBroker, name: str, index: int, error: ErrorCode) -> None:
    replica = only(ask(broker, (name, [index])))
    assert (replica.error_code, replica.role, replica.index) == (error, "none", index)
    assert (replica.log_end_offset, replica.high_watermark) == (-1, -1)
