"""How long a fetch waits, when one session has had several that waited."""

import pytest
from tests.node.lone import Lone, batch, record, topic_id

from replog.model.errors import ErrorCode
from replog.model.inputs import Tick
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic


def fetch(
    lone: Lone,
    token: int,
    wait_ms: int,
    *,
    session_id: int = 0,
    epoch: int = 0,
    offset: int = 0,
    version: int = 12,
) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    message = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", topic_id=topic_id("t"), partitions=[wanted])],
    )
    lone.ask(message, token, version=version)


def session_of(lone: Lone) -> int:
    """A session, begun with a fetch that does not wait."""
    fetch(lone, 100, 0)
    (answer,) = lone.replies(100)
    assert isinstance(answer, FetchResponse) and answer.session_id
    return answer.session_id


def at(lone: Lone, now_ms: float) -> None:
    """Let the node do what is due by then, and nothing else."""
    while (due := lone.node.next_deadline_ms()) <= now_ms:
        lone.now_ms = due
        lone.step(Tick())
    lone.now_ms = now_ms


def a_lone() -> tuple[Lone, float]:
    lone = Lone()
    lone.topic("t", record(1))
    return lone, lone.now_ms


def test_the_second_waits_as_long_as_it_wants_and_not_as_long_as_the_first() -> None:
    lone, began = a_lone()
    session = session_of(lone)
    fetch(lone, 101, 500, session_id=session, epoch=1)
    at(lone, began + 400)
    lone.produce("t", batch(b"1"))
    assert len(lone.replies(101)) == 1, "there is something to read"
    fetch(lone, 102, 500, session_id=session, epoch=2, offset=1)
    at(lone, began + 899)
    assert not lone.replies(102)
    at(lone, began + 900)
    assert len(lone.replies(102)) == 1


def test_one_that_is_less_patient_does_not_wait_for_the_deadline_of_the_one_before() -> None:
    lone, began = a_lone()
    session = session_of(lone)
    fetch(lone, 101, 60_000, session_id=session, epoch=1)
    lone.produce("t", batch(b"1"))
    assert len(lone.replies(101)) == 1
    fetch(lone, 102, 500, session_id=session, epoch=2, offset=1)
    at(lone, began + 499)
    assert not lone.replies(102)
    at(lone, began + 500)
    assert len(lone.replies(102)) == 1


def test_a_session_is_told_of_a_topic_that_it_named_by_id_before_the_broker_knew_it() -> None:
    lone = Lone()
    fetch(lone, 100, 0, version=13)
    (opened,) = lone.replies(100)
    assert isinstance(opened, FetchResponse)
    lone.topic("t", record(1))

    def ask_again(epoch: int, wait_ms: int) -> None:
        same = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=[])
        same.session_id, same.session_epoch = opened.session_id, epoch
        lone.ask(same, 100 + epoch, version=13)

    ask_again(1, 0)
    lone.produce("t", batch(b"1"))  # while no request of the session is here
    ask_again(2, 500)
    assert len(lone.replies(102)) == 1, "there is something to read"


def test_one_whose_session_is_given_up_is_answered_in_its_time() -> None:
    lone, began = a_lone()
    session = session_of(lone)
    fetch(lone, 101, 500, session_id=session, epoch=1)
    fetch(lone, 102, 0, session_id=session, epoch=-1)  # ends it
    assert not lone.replies(101)
    at(lone, began + 500)
    assert len(lone.replies(101)) == 1


@pytest.mark.parametrize("begins_at", [0, 9], ids=["below", "beyond"])
def test_a_consumer_of_a_follower_is_told_at_once_that_the_log_begins_anew(begins_at: int) -> None:
    """It would wait until its time is over; and in a session that looks at changes alone, for
    ever."""
    lone = Lone()
    lone.topic("t", record(2, 1))
    partition = lone.partition("t")
    lone.node.partitions.copy(partition, batch(b"1"))
    partition.follow_high_watermark(1)
    session = session_of(lone)
    fetch(lone, 101, 500, session_id=session, epoch=1, offset=1)
    assert not lone.replies(101)
    lone.node.partitions.begin_anew(partition, begins_at)
    lone.tick(1)
    (answer,) = lone.replies(101)
    assert isinstance(answer, FetchResponse)
    (found,) = answer.responses[0].partitions
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
