"""Batches of an idempotent producer that follow one that was refused for want of replicas."""

import pytest
from tests.node.lone import Lone, batch, record, topic_id

from replog.model.errors import ErrorCode
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.model.partition import PartitionRecord
from replog.node.handlers.produce import HELD_BACK_MS

PRODUCER = 7
TOO_FEW = PartitionRecord(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=1)


@pytest.fixture
def lone() -> Lone:
    one = Lone()
    one.topic("t", record(1, 2), min__insync__replicas="2")
    return one


def produce(
    lone: Lone,
    sequence: int,
    *,
    epoch: int = 0,
    producer: int = PRODUCER,
    timeout_ms: int = 1,
) -> ErrorCode:
    """What a batch of one record is answered. It is committed at once when it is taken."""
    written = memoryview(batch(b"v", producer=(producer, epoch, sequence)))
    data = PartitionProduceData(index=0, records=written)
    topic = TopicProduceData(name="t", topic_id=topic_id("t"), partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic])
    lone.ask(request, token=sequence + 1)
    lone.tick(1)
    message = lone.replies(sequence + 1)[-1]
    assert isinstance(message, ProduceResponse)
    return ErrorCode(message.responses[0].partition_responses[0].error_code)


def too_few(lone: Lone) -> None:
    lone.topic("t", TOO_FEW, min__insync__replicas="2")


def enough(lone: Lone) -> None:
    full = record(1, 2)
    lone.topic(
        "t",
        PartitionRecord(
            replicas=full.replicas, isr=full.isr, leader=1, leader_epoch=0, partition_epoch=2
        ),
        min__insync__replicas="2",
    )


TAKEN = ErrorCode.REQUEST_TIMED_OUT  # appended; nobody copies it here


def test_what_follows_a_refused_batch_is_refused_likewise_until_that_one_came_again(
    lone: Lone,
) -> None:
    assert produce(lone, 0) is TAKEN
    too_few(lone)
    assert produce(lone, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    enough(lone)
    assert produce(lone, 2) is ErrorCode.NOT_ENOUGH_REPLICAS, "it was under way already"
    assert produce(lone, 1) is TAKEN
    assert produce(lone, 2) is TAKEN
    assert produce(lone, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_follows_a_refused_batch_does_not_pass_it_where_nothing_is_known_of_its_producer(
    lone: Lone,
) -> None:
    """Clients take the earlier batch for written when a later one was."""
    too_few(lone)
    assert produce(lone, 0) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(lone, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    enough(lone)
    assert produce(lone, 2) is ErrorCode.NOT_ENOUGH_REPLICAS, "it was under way already"
    assert [produce(lone, sequence) for sequence in (0, 1, 2)] == [TAKEN] * 3


def test_a_gap_that_nobody_made_is_a_gap(lone: Lone) -> None:
    assert produce(lone, 0) is TAKEN
    assert produce(lone, 0, producer=8) is TAKEN
    too_few(lone)
    assert produce(lone, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    enough(lone)
    assert produce(lone, 2, producer=8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_that_gave_the_refused_batch_up_is_told_in_the_end(lone: Lone) -> None:
    assert produce(lone, 0) is TAKEN
    too_few(lone)
    assert produce(lone, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    enough(lone)
    lone.tick(HELD_BACK_MS)
    assert produce(lone, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(lone, 0, epoch=1) is TAKEN, "a new epoch begins anew"


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_gap_is_told_to_who_has_no_time_to_wait(lone: Lone, timeout_ms: int) -> None:
    """The time is for copying what was appended: nothing was."""
    assert produce(lone, 0, timeout_ms=timeout_ms) is TAKEN
    assert produce(lone, 2, timeout_ms=timeout_ms) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
