"""What readers of committed records get: up to where, and what they must leave out."""

import pytest
from tests.log.transactions import data, marker
from tests.node.lone import Lone, batch, record, topic_id

from replog.core.producer.state import ProducerTable
from replog.log.config import LogConfig
from replog.model.errors import ErrorCode
from replog.model.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.model.records import FileRange
from replog.node.partition import replay_producers
from replog.records.batch import iterate


def write(lone: Lone, *batches: bytearray) -> None:
    """As a transaction coordinator will: past the door for clients."""
    for each in batches:
        buffer = memoryview(each)
        lone.node.partitions.write(lone.partition("t"), buffer, iterate(buffer))
    lone._take(lone.node._take_outputs())


def fetch(
    lone: Lone, offset: int, *, committed: bool = True, max_bytes: int = 1 << 20
) -> tuple[PartitionData, list[int]]:
    """The answer, and the offsets of its batches."""
    lone._token += 1
    message = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic="t",
                topic_id=topic_id("t"),
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
                ],
            )
        ],
    )
    lone.ask(message, lone._token)
    (answer,) = lone.replies(lone._token)
    assert isinstance(answer, FetchResponse)
    answered = answer.responses[0].partitions[0]
    assert answered.error_code == ErrorCode.NONE
    records = answered.records
    found = iterate(records.read()) if isinstance(records, FileRange) else []
    return answered, [header.base_offset for header in found]


def aborted(answer: PartitionData) -> list[tuple[int, int]]:
    return [(t.producer_id, t.first_offset) for t in answer.aborted_transactions or ()]


@pytest.fixture
def lone() -> Lone:
    made = Lone()
    made.topic("t", record(1))
    return made


def two_producers(lone: Lone) -> None:
    """Offsets 0 to 8: producer 1 aborts and commits, producer 2 aborts."""
    write(
        lone,
        data(1, 0),  # 0
        data(2, 0),  # 1
        marker(1, committed=False),  # 2
        batch(b"plain"),  # 3
        data(1, 1),  # 4
        marker(1, committed=True),  # 5
        data(2, 1),  # 6
        marker(2, committed=False),  # 7
        batch(b"plain"),  # 8
    )


@pytest.mark.surface(25, 54)
def test_committed_readers_stop_in_front_of_an_open_transaction(lone: Lone) -> None:
    write(lone, batch(b"a"), data(1, 0), batch(b"b"))
    answer, offsets = fetch(lone, 0)
    assert (answer.high_watermark, answer.last_stable_offset) == (3, 1)
    assert offsets == [0]
    assert answer.aborted_transactions == []
    answer, offsets = fetch(lone, 0, committed=False)
    assert offsets == [0, 1, 2]
    assert answer.aborted_transactions is None
    write(lone, marker(1, committed=True))
    answer, offsets = fetch(lone, 0)
    assert (answer.last_stable_offset, offsets) == (4, [0, 1, 2, 3])


@pytest.mark.surface(53, 54)
def test_aborted_transactions_are_named_where_they_overlap(lone: Lone) -> None:
    two_producers(lone)
    answer, offsets = fetch(lone, 0)
    assert offsets == list(range(9))
    assert answer.last_stable_offset == 9
    assert aborted(answer) == [(1, 0), (2, 1)]
    assert aborted(fetch(lone, 3)[0]) == [(2, 1)]
    assert aborted(fetch(lone, 8)[0]) == []
    answer, offsets = fetch(lone, 0, max_bytes=100)
    assert (offsets, aborted(answer)) == ([0], [(1, 0)])
    assert fetch(lone, 0, committed=False)[0].aborted_transactions is None


@pytest.mark.surface(54)
def test_a_marker_above_the_high_watermark_decides_nothing_yet() -> None:
    lone = Lone()
    lone.topic("t", record(1, 2))
    partition, leader = lone.partition("t"), lone.leader("t")
    write(lone, data(1, 0), batch(b"b"), marker(1, committed=False))

    def reached(offset: int) -> int:
        leader.on_follower_fetch(2, offset=offset, broker_epoch=102, now_ms=lone.now_ms)
        return partition.high_watermark

    assert reached(2) == 2
    assert partition.last_stable_offset == 0
    assert reached(3) == 3
    assert partition.last_stable_offset == 3


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("snapshot", [True, False])
def test_all_is_known_after_a_restart(clean: bool, snapshot: bool) -> None:
    lone = Lone()
    lone.topic("t", record(1))
    lone.partition("t").log.config = LogConfig(segment_bytes=1_000)
    two_producers(lone)
    for sequence in range(2, 30):
        write(lone, data(3, sequence, b"v" * 50), marker(3, committed=sequence % 3 > 0))
    write(lone, data(4, 0), data(3, 30))
    lone.run_jobs()
    before, _ = fetch(lone, 0)
    everything = aborted(before)
    known = lone.partition("t").log.aborted.within(0, 1000)
    assert len(known) > 8 and len(lone.partition("t").log.segments) > 3
    if not snapshot:
        for name in lone.disk.list("t-0"):
            if name.endswith((".snapshot", ".txnindex")):
                lone.disk.remove(f"t-0/{name}")
        clean = False
    lone.restart("t", clean=clean)
    partition = lone.partition("t")
    assert partition.log.aborted.within(0, 1000) == known
    assert partition.producers.transactions.open == {4: 65, 3: 66}
    after, _ = fetch(lone, 0)
    assert aborted(after) == everything
    assert after.last_stable_offset == 65


def test_a_cut_log_forgets_what_was_cut(lone: Lone) -> None:
    two_producers(lone)
    partition = lone.partition("t")
    lone.topic("t", record(2, 1, epoch=1))
    lone.node.partitions.truncate(partition, 7)
    assert partition.producers.transactions.open == {2: 1}
    assert [t.producer_id for t in partition.log.aborted.within(0, 100)] == [1]
    assert partition.last_stable_offset == 1
    again = marker(2, committed=True)
    buffer = memoryview(again)
    buffer[:8] = (7).to_bytes(8, "big")
    buffer[12:16] = (1).to_bytes(4, "big")
    assert lone.node.partitions.copy(partition, buffer)
    assert partition.producers.transactions.open == {}
    assert [t.producer_id for t in partition.log.aborted.within(0, 100)] == [1]


def test_a_follower_learns_the_same_from_what_it_copies(lone: Lone) -> None:
    two_producers(lone)
    write(lone, data(9, 0))
    read = lone.partition("t").log.read(0, 1 << 20, upto=100, min_one=True)
    copied = read.range.read()  # type: ignore[union-attr]
    follower = Lone()
    follower.topic("t", record(2, 1))
    partition = follower.partition("t")
    assert follower.node.partitions.copy(partition, copied)
    leader = lone.partition("t")
    assert partition.log.aborted.within(0, 100) == leader.log.aborted.within(0, 100)
    assert partition.producers.producers == leader.producers.producers
    assert partition.producers.transactions.open == {9: 9}


def test_deleted_records_take_their_undecided_transaction_along(lone: Lone) -> None:
    write(lone, batch(b"a"), data(1, 0), batch(b"b"), batch(b"c"))
    partition = lone.partition("t")
    partition.log.start_at(3)
    assert partition.last_stable_offset == 3


def test_replay_from_the_log_alone_is_the_state(lone: Lone) -> None:
    two_producers(lone)
    partition = lone.partition("t")
    again: ProducerTable = replay_producers(partition.log, [])
    assert again.producers == partition.producers.producers
    assert again.transactions.open == partition.producers.transactions.open


@pytest.mark.parametrize(
    ("version", "transactional_id", "error"),
    [
        (9, None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (9, "x", ErrorCode.INVALID_TXN_STATE),
        (11, "x", ErrorCode.TRANSACTION_ABORTABLE),
        (13, "x", ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_clients_can_not_write_transactions_yet(
    lone: Lone, version: int, transactional_id: str | None, error: ErrorCode
) -> None:
    message = ProduceRequest(
        transactional_id=transactional_id,
        acks=1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(
                name="t",
                topic_id=topic_id("t"),
                partition_data=[PartitionProduceData(index=0, records=memoryview(data(1, 0)))],
            )
        ],
    )
    lone.ask(message, 900, version=version)
    (answer,) = lone.replies(900)
    assert isinstance(answer, ProduceResponse)
    answered = answer.responses[0].partition_responses[0]
    assert answered.error_code == error
    if transactional_id is not None:  # or else the whole request is refused, without a word
        assert answered.error_message and "transactions" in answered.error_message
    assert lone.partition("t").log_end_offset == 0
