"""Transactional ids on a broker: an identity is stored before its producer learns of it."""

import pytest
from tests.node.group_broker import GroupBroker
from tests.node.handlers.one_broker import record

from replog.codec import decode_value, encode_key, encode_value
from replog.model.coordination import WriteDone
from replog.model.errors import ErrorCode
from replog.model.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from replog.model.inputs import CoordinatorRead, CoordinatorWritten, PeerIdentity
from replog.model.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from replog.model.messages.transaction_records import TransactionLogKey, TransactionLogValue
from replog.model.outputs import CoordinatorWrite, Output, ReadCoordinator
from replog.model.partition import PartitionRecord
from replog.node import transactional_ids
from replog.records.batch import Record, build_batch, read_records
from replog.sim.mem_coordination import MemTree

STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
FENCED = ErrorCode.PRODUCER_FENCED
Given = tuple[int, int]


class Broker(GroupBroker):
    """Broker 1 with a coordinator in memory, leading the only partition of transactional ids."""

    def __init__(self, state: PartitionRecord | None = None, **given: str) -> None:
        super().__init__(None, **given)
        self.tree = MemTree()
        self.asked: list[Output] = []
        self.state(state or record(1))

    def state(self, state: PartitionRecord) -> None:
        self.topic(TRANSACTION_STATE_TOPIC, state)
        self.wait(0)

    def _note(self, outputs: list[Output]) -> None:
        super()._note(outputs)
        self.asked += [o for o in outputs if isinstance(o, CoordinatorWrite | ReadCoordinator)]

    def coordinate(self) -> None:
        """Answer what the coordinator was asked."""
        while self.asked:
            output = self.asked.pop(0)
            event: CoordinatorRead | CoordinatorWritten
            if isinstance(output, ReadCoordinator):
                event = CoordinatorRead(output.token, self.tree.read(output.roots))
            else:
                assert isinstance(output, CoordinatorWrite)
                result, _ = self.tree.write(None, output.operations)
                assert isinstance(result, WriteDone)
                event = CoordinatorWritten(output.token, result)
            self._note(self.node.step(event, self.now_ms, self.wall_ms))

    def init(self, named: Given = (-1, -1), *, name: str = "x", version: int = 4) -> int:
        token = self.send(
            InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=60_000,
                producer_id=named[0],
                producer_epoch=named[1],
            ),
            version,
        )
        self.coordinate()
        return token

    def given(self, token: int) -> Given | ErrorCode:
        answer = self.answer(token, InitProducerIdResponse)
        if answer.error_code:
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
            return ErrorCode(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def ids_follower_has_all(self) -> None:
        partition = self.node.partitions.get(STATE)
        assert partition is not None
        self.node.partitions.follower_fetched(
            partition, PeerIdentity(2, 102), partition.log_end_offset
        )
        self.wait(0)


def kept(b: Broker) -> list[Record]:
    """What is in the log."""
    partition = b.node.partitions.get(STATE)
    assert partition is not None
    read = partition.log.read(0, 1 << 20, upto=partition.log_end_offset, min_one=True)
    return list(read_records(read.range.read()))


def test_each_start_of_a_producer_raises_the_epoch() -> None:
    b = Broker()
    assert [b.given(b.init()) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]
    assert b.given(b.init(name="y")) == (1, 0), "another id, another producer"


def test_a_producer_that_was_fenced() -> None:
    b = Broker()
    b.init()
    b.init()
    assert b.given(b.init((0, 0))) == FENCED
    assert b.given(b.init((0, 0), version=3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert b.given(b.init((0, 50))) == FENCED
    assert b.given(b.init((999, 1))) == FENCED
    assert b.given(b.init((0, 1))) == (0, 2)


def test_a_repeated_request_gets_the_same_answer_and_writes_nothing() -> None:
    b = Broker()
    b.init()
    assert b.given(b.init((0, 0))) == (0, 1)
    partition = b.node.partitions.get(STATE)
    assert partition is not None
    end = partition.log_end_offset
    assert b.given(b.init((0, 0))) == (0, 1)
    assert partition.log_end_offset == end


def test_nobody_learns_of_an_identity_that_a_failover_could_lose() -> None:
    b = Broker(record(1, 2))
    token = b.init()
    assert b.waits(token)
    assert b.given(b.init()) == ErrorCode.CONCURRENT_TRANSACTIONS
    b.ids_follower_has_all()
    assert b.given(token) == (0, 0)


def test_a_write_that_times_out_holds_until_its_fate_is_known() -> None:
    b = Broker(record(1, 2))
    token = b.init()
    b.wait(transactional_ids.WRITE_TIMEOUT_MS)
    assert b.given(token) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert b.given(b.init()) == ErrorCode.CONCURRENT_TRANSACTIONS
    b.ids_follower_has_all()
    token = b.init()
    b.ids_follower_has_all()
    assert b.given(token) == (0, 1), "epoch 0 may be in somebody's hands"


def test_a_new_coordinator_goes_on_where_the_old_one_was() -> None:
    b = Broker()
    b.init()
    b.init()
    b.state(record(1, epoch=1))
    assert b.given(b.init()) == (0, 2)
    assert b.given(b.init((0, 0))) == FENCED


def test_losing_the_leadership() -> None:
    b = Broker(record(1, 2))
    token = b.init()
    b.state(record(1, 2, leader=2, epoch=1))
    assert b.given(token) == ErrorCode.NOT_COORDINATOR
    assert b.given(b.init()) == ErrorCode.NOT_COORDINATOR


def test_before_it_is_loaded() -> None:
    b = Broker(record(1, 2))
    b.init()
    b.state(record(1, 2, epoch=1))
    assert b.given(b.init()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    b.ids_follower_has_all()
    assert b.waits(b.init())


def test_ids_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_ids, "IDS_MAX", 1)
    b = Broker()
    assert b.given(b.init()) == (0, 0)
    assert b.given(b.init(name="y")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert b.given(b.init()) == (0, 1)


@pytest.mark.surface(56)
@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_transaction_timeouts_past_the_limits(timeout_ms: int) -> None:
    b = Broker()
    message = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=timeout_ms)
    answer = b.call(message, InitProducerIdResponse, 4)
    assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# ---- ids that nobody uses any more --------------------------------------------------------------

EXPIRY = {
    "transactional__id__expiration__ms": "10000",
    "transaction__remove__expired__transaction__cleanup__interval__ms": "1000",
}


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    b = Broker(**EXPIRY)
    assert b.given(b.init()) == (0, 0)
    b.init(name="used")
    b.wait(9_000)
    assert b.given(b.init(name="used")) == (1, 1)
    b.wait(2_500)
    assert kept(b)[-1].value is None, "a tombstone lets compaction drop the rest"
    assert b.given(b.init((0, 0))) == (2, 0), "it begins anew, whatever its producer names"
    assert b.given(b.init(name="used")) == (1, 2)


def test_it_stays_forgotten_under_the_next_coordinator() -> None:
    b = Broker(**EXPIRY)
    b.init()
    b.wait(12_000)
    b.state(record(1, epoch=1))
    assert b.given(b.init()) == (1, 0)


def test_the_next_coordinator_counts_from_the_last_use() -> None:
    b = Broker(**EXPIRY)
    b.init()
    b.wait(6_000)
    b.state(record(1, epoch=1))
    b.wait(2_000)
    assert b.given(b.init()) == (0, 1)
    b.wait(6_000)
    b.state(record(1, epoch=2))
    b.wait(6_000)
    assert b.given(b.init()) == (1, 0)


def test_nobody_gets_an_id_that_is_about_to_be_forgotten() -> None:
    b = Broker(record(1, 2), **EXPIRY)
    token = b.init()
    b.ids_follower_has_all()
    assert b.given(token) == (0, 0)
    b.wait(11_500)
    assert b.given(b.init()) == ErrorCode.CONCURRENT_TRANSACTIONS
    b.wait(6_000)  # the follower is slow: the write has timed out, and may still take effect
    assert b.given(b.init()) == ErrorCode.CONCURRENT_TRANSACTIONS
    b.ids_follower_has_all()
    token = b.init()
    b.ids_follower_has_all()
    assert b.given(token) == (1, 0)


def test_an_open_transaction_is_never_forgotten() -> None:
    b = Broker(**EXPIRY)
    value = TransactionLogValue(
        producer_id=50, producer_epoch=3, transaction_timeout_ms=1000, transaction_status=1
    )
    key = encode_key(TransactionLogKey(transactional_id="x"))
    batch = bytearray(build_batch([Record(0, b.wall_ms, key, encode_value(value, 1))]))
    partition = b.node.partitions.get(STATE)
    assert partition is not None
    b.node.partitions.append(partition, batch, lambda error, offset: None, 1000)
    b.state(record(1, epoch=1))
    b.wait(20_000)
    assert b.given(b.init()) == ErrorCode.INVALID_TXN_STATE


# ---- what is in the log -----------------------------------------------------------------------


def test_the_record_as_kafka_writes_it() -> None:
    b = Broker()
    b.init()
    (found,) = kept(b)
    assert found.key == encode_key(TransactionLogKey(transactional_id="x"))
    assert found.value is not None
    assert found.value[:2] == b"\x00\x01"
    value = decode_value(TransactionLogValue, found.value)
    assert value.transaction_last_update_timestamp_ms == b.wall_ms
    assert (value.producer_id, value.producer_epoch) == (0, 0)
    assert (value.transaction_status, value.transaction_partitions) == (0, None)
    assert value.transaction_start_timestamp_ms == -1


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, (50, 4)),  # Empty
        (1, ErrorCode.INVALID_TXN_STATE),  # Ongoing: whoever wrote that can finish it, we can't
        (2, ErrorCode.INVALID_TXN_STATE),
        (4, (50, 4)),  # CompleteCommit
        (5, (50, 4)),  # CompleteAbort
    ],
)
def test_ids_of_another_systems_log(status: int, expected: Given | ErrorCode) -> None:
    b = Broker()
    value = TransactionLogValue(
        producer_id=50,
        producer_epoch=3,
        transaction_timeout_ms=1000,
        transaction_status=status,
        transaction_partitions=None,
    )
    records = [
        Record(
            0,
            b.wall_ms,
            encode_key(TransactionLogKey(transactional_id="x")),
            encode_value(value, 1),
        ),
        Record(
            0,
            b.wall_ms,
            encode_key(TransactionLogKey(transactional_id="y")),
            encode_value(value, 0),
        ),
        Record(0, b.wall_ms, encode_key(TransactionLogKey(transactional_id="y")), None),
        Record(0, b.wall_ms, b"\x00\x63", b""),
    ]
    partition = b.node.partitions.get(STATE)
    assert partition is not None
    batch = bytearray(build_batch(records))
    b.node.partitions.append(partition, batch, lambda error, offset: None, 1000)
    b.state(record(1, epoch=1))
    assert b.given(b.init()) == expected
    assert b.given(b.init(name="y")) == (0, 0), "it was forgotten"
