"""ListOffsets: ends of the log, times, and who may see how far."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record

from replog.model.errors import ErrorCode
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

T = 1_700_000_000_000
LATEST, EARLIEST, MAX, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6
NOTHING = (0, -1, -1, -1)

Answer = tuple[int, int, int, int]  # error, timestamp, offset, epoch


@pytest.fixture
def broker() -> OneBroker:
    """Topic `a`: offsets 0-4 at T, T+100, T+1000, T+1050, T+500."""
    one = OneBroker()
    one.topic("a", record(1))
    one.produce("a", T, T + 100)
    one.produce("a", T + 1000, T + 1050)
    one.produce("a", T + 500)
    return one


def ask(
    broker: OneBroker,
    timestamp: int,
    *,
    name: str = "a",
    index: int = 0,
    version: int = 11,
    replica: int = -1,
    level: int = 0,
    epoch: int = -1,
) -> Answer:
    partition = ListOffsetsPartition(
        partition_index=index, current_leader_epoch=epoch, timestamp=timestamp
    )
    message = ListOffsetsRequest(
        replica_id=replica,
        isolation_level=level,
        topics=[ListOffsetsTopic(name=name, partitions=[partition])],
    )
    answer = broker.ask(message, ListOffsetsResponse, version=version)
    (topic,) = answer.topics
    (found,) = topic.partitions
    assert (topic.name, found.partition_index) == (name, index)
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def test_ends_of_the_log(broker: OneBroker) -> None:
    assert ask(broker, LATEST) == (0, -1, 5, 0)
    assert ask(broker, EARLIEST) == (0, -1, 0, 0)
    assert ask(broker, LOCAL) == (0, -1, 0, 0)
    assert ask(broker, TIERED) == NOTHING
    assert ask(broker, PENDING) == NOTHING


@pytest.mark.surface(22, 24)
@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [
        (0, (0, T, 0, 0)),
        (T, (0, T, 0, 0)),
        (T + 1, (0, T + 100, 1, 0)),
        (T + 100, (0, T + 100, 1, 0)),
        (T + 500, (0, T + 1000, 2, 0)),
        (T + 1050, (0, T + 1050, 3, 0)),
        (T + 1051, NOTHING),
        ((1 << 63) - 1, NOTHING),
        (MAX, (0, T + 1050, 3, 0)),
    ],
)
def test_times(broker: OneBroker, timestamp: int, answer: Answer) -> None:
    assert ask(broker, timestamp) == answer


def test_times_inside_a_compressed_batch() -> None:
    one = OneBroker()
    one.topic("a", record(1))
    one.produce("a", T, T + 10, T + 20, compression=1)
    assert ask(one, T + 5) == (0, T + 10, 1, 0)
    assert ask(one, MAX) == (0, T + 20, 2, 0)


def test_the_largest_timestamp_more_than_once_is_the_first() -> None:
    one = OneBroker()
    one.topic("a", record(1))
    one.produce("a", T, T)
    one.produce("a", T)
    assert ask(one, MAX) == (0, T, 0, 0)


def test_an_empty_log() -> None:
    one = OneBroker()
    one.topic("a", record(1))
    assert ask(one, LATEST) == (0, -1, 0, 0)
    assert ask(one, EARLIEST) == (0, -1, 0, 0)
    assert ask(one, MAX) == NOTHING
    assert ask(one, 0) == NOTHING


@pytest.mark.parametrize(
    ("timestamp", "first"),
    [(LATEST, 1), (EARLIEST, 1), (MAX, 7), (LOCAL, 8), (TIERED, 9), (PENDING, 11)],
)
def test_special_timestamps_by_version(broker: OneBroker, timestamp: int, first: int) -> None:
    for version in range(1, 12):
        error, *_ = ask(broker, timestamp, version=version)
        expected = ErrorCode.NONE if version >= first else ErrorCode.UNSUPPORTED_VERSION
        assert error == expected, version


@pytest.mark.parametrize("timestamp", [-7, -99, -(1 << 63)])
def test_unknown_special_timestamps(broker: OneBroker, timestamp: int) -> None:
    assert ask(broker, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


def test_consumers_see_up_to_the_high_watermark_and_replicas_the_whole_log() -> None:
    one = OneBroker()
    one.topic("a", record(1, 2))
    one.produce("a", T, T + 1)  # broker 2 has not copied it
    assert ask(one, LATEST) == (0, -1, 0, 0)
    assert ask(one, LATEST, level=1) == (0, -1, 0, 0)
    assert ask(one, T) == NOTHING
    assert ask(one, MAX) == NOTHING
    assert ask(one, LATEST, replica=2) == (0, -1, 2, 0)
    assert ask(one, T, replica=-2) == (0, T, 0, 0)


def test_a_follower_answers_a_debugging_replica_id_alone() -> None:
    one = OneBroker()
    one.topic("a", record(2, 1))
    assert ask(one, LATEST)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(one, LATEST, replica=2)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(one, LATEST, replica=-2) == (0, -1, 0, 0)


def test_no_replica_here_and_nothing_of_that_name(broker: OneBroker) -> None:
    broker.topic("b", record(2))
    assert ask(broker, LATEST, name="b")[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(broker, LATEST, name="nosuch")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(broker, LATEST, index=4)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_leader_epochs_fence_and_name_the_end() -> None:
    one = OneBroker()
    one.topic("a", record(1))
    one.produce("a", T)
    one.topic("a", record(1, epoch=3))
    one.produce("a", T + 1)
    assert ask(one, LATEST, epoch=2)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(one, LATEST, epoch=4)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert ask(one, LATEST, epoch=3) == (0, -1, 2, 3)
    assert ask(one, EARLIEST) == (0, -1, 0, 0)
    assert ask(one, T + 1) == (0, T + 1, 1, 3)


def test_a_new_leader_that_does_not_know_what_is_committed_says_so() -> None:
    one = OneBroker()
    one.topic("a", record(1, 2))
    one.produce("a", T)
    one.topic("a", record(1, 2, epoch=1))
    assert ask(one, LATEST)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(one, T)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(one, MAX)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert ask(one, LATEST, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert ask(one, EARLIEST) == (0, -1, 0, 0)
    assert ask(one, LATEST, replica=2) == (0, -1, 1, 1)


def test_a_partition_asked_for_twice_is_refused_once(broker: OneBroker) -> None:
    broker.topic("b", record(1))
    partitions = [
        ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        for timestamp in (LATEST, EARLIEST)
    ]
    message = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name="a", partitions=partitions),
            ListOffsetsTopic(name="b", partitions=partitions[:1]),
        ],
    )
    answer = broker.ask(message, ListOffsetsResponse)
    found = [(t.name, [p.error_code for p in t.partitions]) for t in answer.topics]
    assert found == [("a", [ErrorCode.INVALID_REQUEST]), ("b", [0])]


def test_an_unknown_isolation_level(broker: OneBroker) -> None:
    assert ask(broker, LATEST, level=2)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
