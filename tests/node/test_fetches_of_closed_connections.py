"""A fetch that waits does so no longer than its connection is open, whatever it was willing to."""

from tests.node.lone import Lone, batch, record, topic_id

from replog.model.inputs import ConnectionClosed
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

WEEKS_MS = 2**31 - 1
CONNECTION = 7  # of `Lone`


def fetch(lone: Lone, token: int, *, session: bool = False) -> None:
    """A consumer that waits for two batches."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    message = FetchRequest(
        max_wait_ms=WEEKS_MS,
        min_bytes=len(batch(b"1")) + 1,
        max_bytes=1_000_000,
        session_epoch=0 if session else -1,
        topics=[FetchTopic(topic="t", topic_id=topic_id("t"), partitions=[wanted])],
    )
    lone.ask(message, token, version=12)


def test_one_that_waits_is_answered_when_there_is_enough() -> None:
    lone = Lone()
    lone.topic("t", record(1))
    fetch(lone, 101)
    lone.produce("t", batch(b"1"))
    assert lone.replies(101) == []
    lone.produce("t", batch(b"2"))
    (answer,) = lone.replies(101)
    assert isinstance(answer, FetchResponse)
    assert lone.node.next_deadline_ms() < lone.now_ms + WEEKS_MS


def test_nothing_is_kept_for_who_is_gone() -> None:
    lone = Lone()
    lone.topic("t", record(1))
    for token in range(101, 105):
        fetch(lone, token)
    lone.node.step(ConnectionClosed(CONNECTION + 1), lone.now_ms, 0)
    assert len(lone.node.waits._fetches[CONNECTION]) == 4, "another connection"
    lone.node.step(ConnectionClosed(CONNECTION), lone.now_ms, 0)
    assert not lone.node.waits._fetches
    assert not lone.node.waits._watchers
    assert lone.node.next_deadline_ms() < lone.now_ms + WEEKS_MS
    lone.produce("t", batch(b"1"))
    lone.produce("t", batch(b"2"))
    assert not any(lone.replies(token) for token in range(101, 105))


def test_a_session_outlives_the_connection() -> None:
    lone = Lone()
    lone.topic("t", record(1))
    fetch(lone, 101, session=True)
    lone.node.step(ConnectionClosed(CONNECTION), lone.now_ms, 0)
    (context,) = lone.node.fetch_sessions._sessions.values()
    assert context.parked is None
    again = FetchRequest(max_bytes=1_000_000, session_id=context.session_id, session_epoch=1)
    lone.ask(again, 102, version=12)
    (answer,) = lone.replies(102)
    assert isinstance(answer, FetchResponse) and answer.error_code == 0
