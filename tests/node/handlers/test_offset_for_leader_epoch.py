"""OffsetForLeaderEpoch: where the records of an epoch end."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record

from replog.model.errors import ErrorCode
from replog.model.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

T = 1_700_000_000_000


@pytest.fixture
def broker() -> OneBroker:
    """Topic `a`: offsets 0-1 of epoch 0, 2 of epoch 3."""
    one = OneBroker()
    one.topic("a", record(1))
    one.produce("a", T, T)
    one.topic("a", record(1, epoch=3))
    one.produce("a", T)
    return one


def ask(
    broker: OneBroker, epoch: int, *, name: str = "a", index: int = 0, current: int = -1
) -> tuple[int, int, int]:
    partition = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=current, leader_epoch=epoch
    )
    message = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=name, partitions=[partition])]
    )
    (topic,) = broker.ask(message, OffsetForLeaderEpochResponse).topics
    (found,) = topic.partitions
    assert (topic.topic, found.partition) == (name, index)
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.surface(31)
@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (0, (0, 0, 2)),
        (1, (0, 0, 2)),
        (2, (0, 0, 2)),
        (3, (0, 3, 3)),
        (4, (0, -1, -1)),
        (-1, (0, -1, -1)),
    ],
)
def test_ends_of_epochs(broker: OneBroker, epoch: int, answer: tuple[int, int, int]) -> None:
    assert ask(broker, epoch) == answer


@pytest.mark.surface(31)
def test_an_epoch_without_records_ends_where_it_began() -> None:
    one = OneBroker()
    one.topic("a", record(1))
    assert ask(one, 0) == (0, 0, 0)


def test_refusals(broker: OneBroker) -> None:
    broker.topic("follower", record(2, 1))
    broker.topic("elsewhere", record(2))
    assert ask(broker, 0, name="follower") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert ask(broker, 0, name="elsewhere") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert ask(broker, 0, name="nosuch") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert ask(broker, 0, index=1) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert ask(broker, 0, current=2) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert ask(broker, 0, current=4) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ask(broker, 0, current=3) == (0, 0, 2)
