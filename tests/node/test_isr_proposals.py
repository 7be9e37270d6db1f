"""ISR proposals on their way from a leader to the controller."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.node.handlers.one_broker import OneBroker, record, topic_id
from tests.node.town import Town

from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import PeerIdentity, Received
from replog.model.messages import Message
from replog.model.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from replog.model.partition import PartitionRecord

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Answers = list[tuple[ErrorCode, PartitionRecord | None]]


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.create("t", [1, 0, 2], [1, 0, 2])
    town.run(300)
    town.sent.clear()
    return town


def epochs(town: Town, *members: int) -> list[tuple[int, int]]:
    return [(broker, town.node(broker).broker_epoch) for broker in members]


def propose(
    town: Town,
    by: int,
    tp: TopicPartition,
    isr: list[tuple[int, int]],
    *,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> Answers:
    answers: Answers = []

    def on_answer(error: ErrorCode, record: PartitionRecord | None) -> None:
        answers.append((error, record))

    town.node(by).membership.alter_partition(tp, isr, leader_epoch, partition_epoch, on_answer)
    return answers


def proposals(town: Town) -> list[AlterPartitionRequest]:
    return [m for _, _, m in town.sent if isinstance(m, AlterPartitionRequest)]


def test_a_proposal_is_committed_and_everybody_learns(town: Town) -> None:
    answers = propose(town, 1, T0, epochs(town, 1, 2))
    town.run(5)
    [(error, record)] = answers
    assert error is ErrorCode.NONE
    assert record is not None
    assert (record.isr, record.partition_epoch, record.leader_epoch) == ((1, 2), 1, 0)
    assert [town.record(broker, "t").isr for broker in town.brokers] == [(1, 2)] * 3


def test_the_controller_proposes_to_itself(town: Town) -> None:
    town.create("u", [0, 1, 2])
    answers = propose(town, 0, TopicPartition("u", 0), epochs(town, 0, 1))
    town.run(5)
    assert [error for error, _ in answers] == [ErrorCode.NONE]
    assert proposals(town) == []


@pytest.mark.scenario(35)
def test_proposals_of_one_step_travel_together(town: Town) -> None:
    first = propose(town, 1, T0, epochs(town, 1, 0))
    second = propose(town, 1, T1, epochs(town, 1, 2))
    town.run(5)
    assert [error for error, _ in first + second] == [ErrorCode.NONE] * 2
    [message] = proposals(town)
    [topic] = message.topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    assert message.broker_epoch == town.node(1).broker_epoch


def test_no_change_is_answered_with_what_is_there(town: Town) -> None:
    answers = propose(town, 1, T0, epochs(town, 1, 0, 2))
    town.run(5)
    [(error, record)] = answers
    assert error is ErrorCode.NONE
    assert record is not None
    assert record == town.record(0, "t")
    assert record.partition_epoch == 0


@pytest.mark.parametrize(
    ("isr", "leader_epoch", "partition_epoch", "error"),
    [
        ([1, 0], 1, 0, ErrorCode.NOT_CONTROLLER),
        ([1, 0], 0, 1, ErrorCode.NOT_CONTROLLER),
        ([1, 0], -1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        ([1, 0], 0, -1, ErrorCode.INVALID_UPDATE_VERSION),
        ([0], 0, 0, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals_reach_the_leader(
    town: Town, isr: list[int], leader_epoch: int, partition_epoch: int, error: ErrorCode
) -> None:
    answers = propose(
        town,
        1,
        T0,
        epochs(town, *isr),
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )
    town.run(5)
    assert answers == [(error, None)]
    assert town.record(0, "t").partition_epoch == 0


@pytest.mark.scenario(14)
def test_a_member_of_an_earlier_life_is_refused(town: Town) -> None:
    stale = epochs(town, 1, 0, 2)
    town.kill(2)
    town.run(10)
    town.start(2)
    town.run_until(lambda: town.record(1, "t").isr == (1, 0, 2))
    record = town.record(1, "t")
    answers = propose(town, 1, T0, stale, partition_epoch=record.partition_epoch)
    town.run(5)
    assert answers == [(ErrorCode.INELIGIBLE_REPLICA, None)]


def test_a_topic_that_nobody_knows(town: Town) -> None:
    assert propose(town, 1, TopicPartition("x", 0), []) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    ]
    answers = propose(town, 1, TopicPartition("t", 9), epochs(town, 1))
    town.run(5)
    assert answers == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]


@pytest.mark.scenario(11)
def test_a_lost_answer_is_an_unknown_outcome(town: Town) -> None:
    def lose(source: int, target: int, message: Message) -> bool:
        return isinstance(message, AlterPartitionRequest)

    town.lose_send = lose
    answers = propose(town, 1, T0, epochs(town, 1, 2))
    town.run(10_000)
    assert answers == [(ErrorCode.NETWORK_EXCEPTION, None)]


def test_a_proposal_waits_while_there_is_no_controller(town: Town) -> None:
    town.kill(0)
    answers = propose(town, 1, T0, epochs(town, 1, 2))
    town.run(300)
    # By then broker 0 is out, and with it the partition epoch has moved on: a definite answer.
    assert [error for error, _ in answers] in (
        [ErrorCode.INVALID_UPDATE_VERSION],
        [ErrorCode.NETWORK_EXCEPTION],
    )


def test_a_newer_proposal_takes_the_place_of_one_that_waits(town: Town) -> None:
    first = propose(town, 1, T0, epochs(town, 1, 2))
    second = propose(town, 1, T0, epochs(town, 1, 0))
    town.run(5)
    assert first == [(ErrorCode.NETWORK_EXCEPTION, None)]
    assert [error for error, _ in second] == [ErrorCode.NONE]
    assert town.record(0, "t").isr == (1, 0)


def sent_by(
    town: Town, message: AlterPartitionRequest, peer: PeerIdentity | None
) -> Callable[[], AlterPartitionResponse]:
    town._connection += 1
    connection = town._connection
    town.post(town.lives[0], Received(connection, 0, 3, message, peer=peer))
    town.run(5)
    return lambda: town.answer(connection, AlterPartitionResponse)


def test_who_may_propose(town: Town) -> None:
    epoch = town.node(1).broker_epoch
    sound = AlterPartitionRequest(broker_id=1, broker_epoch=epoch)
    assert sent_by(town, sound, PeerIdentity(1, epoch))().error_code == ErrorCode.NONE
    another = sent_by(town, sound, PeerIdentity(2, town.node(2).broker_epoch))()
    assert another.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    former = AlterPartitionRequest(broker_id=1, broker_epoch=epoch - 1)
    answer = sent_by(town, former, PeerIdentity(1, epoch - 1))()
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    sent_by(town, sound, None)
    assert len(town.closed) == 1


def test_who_is_fenced_is_not_proposed() -> None:
    broker = OneBroker()
    broker.broker(2, state=BrokerState.FENCED)
    broker.topic("c", replace(record(1, 2), isr=(1,)))
    (partition,) = broker.node.partitions.all()
    asked = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0)
    fetch = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=102),
        topics=[FetchTopic(topic_id=topic_id("c"), partitions=[asked])],
    )

    def in_sync_with_pending() -> set[int]:
        request = Received(9, 1, 18, fetch, peer=PeerIdentity(2, 102))
        broker.node.step(request, broker.now_ms, broker.wall_ms)
        assert partition.leader is not None
        return set(partition.leader.isr_state.maximal)

    assert in_sync_with_pending() == {1}
    broker.broker(2)
    broker.node.partitions.apply([], [])
    assert in_sync_with_pending() == {1, 2}
