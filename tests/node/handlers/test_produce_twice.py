"""One produce request that names a partition more than once."""

from tests.node.lone import Lone, batch, record, topic_id

from replog.model.inputs import PeerIdentity
from replog.model.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


def send_twice(lone: Lone, token: int) -> None:
    data = [
        PartitionProduceData(index=0, records=memoryview(batch(value))) for value in (b"a", b"b")
    ]
    topic = TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=data)
    lone.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), token)


def answers(lone: Lone, token: int) -> list[PartitionProduceResponse]:
    (message,) = lone.replies(token)
    assert isinstance(message, ProduceResponse)
    return message.responses[0].partition_responses


def fetched(lone: Lone, offset: int) -> None:
    """The follower has everything below `offset`."""
    peer = PeerIdentity(2, 102)
    lone.node.partitions.follower_fetched(lone.partition("t"), peer, offset)
    lone.tick(1)


def test_the_answer_waits_for_both() -> None:
    lone = Lone()
    lone.topic("t", record(1, 2))
    send_twice(lone, 5)
    fetched(lone, 1)
    assert lone.replies(5) == [], "the second is not committed"
    fetched(lone, 2)
    assert [(a.error_code, a.base_offset) for a in answers(lone, 5)] == [(0, 0), (0, 1)]


def test_there_is_one_answer_when_both_are_committed_at_once() -> None:
    lone = Lone()
    lone.topic("t", record(1, 2))
    send_twice(lone, 5)
    fetched(lone, 2)
    assert [(a.error_code, a.base_offset) for a in answers(lone, 5)] == [(0, 0), (0, 1)]


def test_both_time_out() -> None:
    lone = Lone()
    lone.topic("t", record(1, 2))
    send_twice(lone, 5)
    lone.tick(1_000)
    assert [a.error_code for a in answers(lone, 5)] == [7, 7]
    fetched(lone, 2)
    assert len(lone.replies(5)) == 1
