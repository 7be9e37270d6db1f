"""Producer ids: never one twice, whatever becomes of brokers and of the coordinator's answers."""

import json

import pytest
from tests.node.handlers.one_broker import OneBroker

from replog.model.coordination import (
    PRODUCER_ID_BLOCK,
    SetData,
    WriteDone,
    WriteError,
    WriteFailed,
)
from replog.model.errors import ErrorCode
from replog.model.inputs import CoordinatorRead, CoordinatorWritten, Received, Tick
from replog.model.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from replog.model.outputs import CoordinatorWrite, Output, ReadCoordinator, Reply
from replog.node import producer_ids
from replog.node.producer_ids import BLOCK_SIZE, WAIT_MS_MAX, WAITERS_MAX
from replog.sim.mem_coordination import MemTree


class Broker(OneBroker):
    """A broker whose talk with the coordinator the test lets through, loses or repeats."""

    def __init__(self, tree: MemTree) -> None:
        super().__init__()
        self.tree = tree
        self.reachable = True
        self.open: list[Output] = []  # questions to the coordinator that are not answered yet
        self.replies: dict[int, InitProducerIdResponse] = {}

    def _note(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Reply):
                assert isinstance(output.message, InitProducerIdResponse)
                self.replies[output.token] = output.message
            elif isinstance(output, CoordinatorWrite | ReadCoordinator):
                self.open.append(output)

    def ask_id(self, **fields: object) -> int:
        """Send an InitProducerId; its token."""
        self._token += 1
        message = InitProducerIdRequest(**({"transactional_id": None} | fields))  # type: ignore[arg-type]
        request = Received(7, self._token, 4, message)
        self._note(self.node.step(request, self.now_ms, self.wall_ms))
        return self._token

    def coordinate(self) -> None:
        """Answer everything that the coordinator is asked, until nothing more comes."""
        while self.open:
            self.answer(self.open.pop(0))

    def answer(self, output: Output, *, lost: bool = False) -> None:
        """Answer one question. `lost`: a write is carried out, and nobody learns of it."""
        if isinstance(output, ReadCoordinator):
            nodes = self.tree.read(output.roots) if self.reachable else None
            self._step(CoordinatorRead(output.token, nodes))
        elif isinstance(output, CoordinatorWrite):
            result, _ = self.tree.write(None, output.operations)
            if lost:
                result = WriteFailed(WriteError.UNKNOWN)
            self._step(CoordinatorWritten(output.token, result))

    def _step(self, event: CoordinatorRead | CoordinatorWritten) -> None:
        self._note(self.node.step(event, self.now_ms, self.wall_ms))

    def wait(self, ms: float) -> None:
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms = min(end, max(self.node.next_deadline_ms(), self.now_ms + 0.5))
            self._note(self.node.step(Tick(), self.now_ms, self.wall_ms))

    def begin_to_stock_up(self) -> None:
        """As when it has registered."""
        self.node.producer_ids.stock_up()
        self.wait(1)

    def stock_up(self) -> None:
        self.begin_to_stock_up()
        self.coordinate()

    def id(self) -> int:
        """Ask and get one."""
        token = self.ask_id()
        self.coordinate()
        reply = self.replies[token]
        assert (reply.error_code, reply.producer_epoch) == (0, 0)
        return reply.producer_id


def stored(tree: MemTree) -> dict[str, object]:
    data: dict[str, object] = json.loads(tree.nodes[PRODUCER_ID_BLOCK].data)
    return data


def test_the_first_block_as_kafka_writes_it() -> None:
    tree = MemTree()
    Broker(tree).stock_up()
    assert tree.nodes[PRODUCER_ID_BLOCK].data == (
        b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    )


def test_ids_of_several_brokers_and_lives_are_different() -> None:
    tree = MemTree()
    seen: list[int] = []
    brokers = [Broker(tree), Broker(tree)]
    for round_number in range(3):
        for broker in brokers:
            seen += [broker.id() for _ in range(BLOCK_SIZE + 10)]
        brokers[round_number % 2] = Broker(tree)  # killed, and started anew
    assert len(seen) == len(set(seen))


def test_a_whole_block_is_in_reserve() -> None:
    tree = MemTree()
    broker = Broker(tree)
    broker.stock_up()
    assert stored(tree)["block_start"] == "0", "before anybody asks"
    broker.stock_up()
    assert stored(tree)["block_start"] == "0", "there is one"
    assert broker.id() == 0
    assert stored(tree)["block_start"] == "1000", "and the next, as soon as this is begun"
    broker.reachable = False
    assert [broker.id() for _ in range(1, 2 * BLOCK_SIZE)] == list(range(1, 2 * BLOCK_SIZE))
    token = broker.ask_id()
    broker.wait(WAIT_MS_MAX)
    broker.coordinate()
    assert broker.replies[token].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_reserve_that_can_not_be_taken_is_taken_later() -> None:
    tree = MemTree()
    broker = Broker(tree)
    broker.reachable = False
    broker.stock_up()
    broker.reachable = True
    broker.wait(100)
    broker.coordinate()
    assert stored(tree)["block_start"] == "0"
    broker.reachable = False
    assert broker.id() == 0


def test_brokers_that_start_together_have_a_reserve_each() -> None:
    tree = MemTree()
    brokers = [Broker(tree) for _ in range(3)]
    for broker in brokers:
        broker.begin_to_stock_up()
    for _ in range(20):
        for broker in brokers:
            broker.wait(100)
            if broker.open:
                broker.answer(broker.open.pop(0))
    for broker in brokers:
        broker.reachable = False
    assert sorted(broker.id() for broker in brokers) == [0, 1000, 2000]


def test_a_lost_answer_loses_a_block_and_gives_none_twice() -> None:
    tree = MemTree()
    broker = Broker(tree)
    token = broker.ask_id()
    broker.answer(broker.open.pop())  # the read
    broker.answer(broker.open.pop(), lost=True)
    assert stored(tree)["block_end"] == "999", "it was carried out"
    assert token not in broker.replies
    broker.wait(100)
    broker.coordinate()
    assert broker.replies[token].producer_id == 1000
    assert Broker(tree).id() == 3000, "the other one has 2000 in reserve"


def test_a_late_write_of_a_former_life_fails() -> None:
    tree = MemTree()
    former = Broker(tree)
    former.ask_id()
    former.answer(former.open.pop())
    late = former.open.pop()
    assert isinstance(late, CoordinatorWrite)
    assert Broker(tree).id() == 0
    result, _ = tree.write(None, late.operations)
    assert isinstance(result, WriteFailed)


def test_somebody_was_faster() -> None:
    tree = MemTree()
    slow, fast = Broker(tree), Broker(tree)
    token = slow.ask_id()
    slow.answer(slow.open.pop())
    assert fast.id() == 0
    slow.coordinate()
    assert token not in slow.replies
    slow.wait(100)
    slow.coordinate()
    assert slow.replies[token].producer_id == 2000


def test_somebody_was_faster_with_a_later_block() -> None:
    tree = MemTree()
    Broker(tree).stock_up()
    slow, fast = Broker(tree), Broker(tree)
    token = slow.ask_id()
    slow.answer(slow.open.pop())
    assert fast.id() == 1000
    slow.coordinate()
    slow.wait(100)
    slow.coordinate()
    assert slow.replies[token].producer_id == 3000


def test_requests_wait_for_the_coordinator_but_not_for_ever() -> None:
    broker = Broker(MemTree())
    broker.reachable = False
    token = broker.ask_id()
    broker.coordinate()
    broker.wait(WAIT_MS_MAX - 1)
    assert token not in broker.replies
    broker.wait(1)
    assert broker.replies[token].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.coordinate()
    broker.reachable = True
    assert broker.id() == 0


def test_as_many_wait_as_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert WAITERS_MAX >= BLOCK_SIZE
    monkeypatch.setattr(producer_ids, "WAITERS_MAX", BLOCK_SIZE + 1)
    broker = Broker(MemTree())
    tokens = [broker.ask_id() for _ in range(BLOCK_SIZE + 1)]
    refused = broker.replies[broker.ask_id()]
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refused.producer_id == -1
    broker.coordinate()
    assert [broker.replies[t].producer_id for t in tokens] == list(range(BLOCK_SIZE + 1))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"block_end":"x"}', b'{"block_end":"-5"}']
)
def test_a_broken_node_gives_no_ids_at_all(data: bytes) -> None:
    """Beginning at 0 again would give every id a second time."""
    tree = MemTree()
    Broker(tree).id()
    result, _ = tree.write(None, [SetData(PRODUCER_ID_BLOCK, data)])
    assert isinstance(result, WriteDone)
    broker = Broker(tree)
    token = broker.ask_id()
    broker.coordinate()
    assert broker.replies[token].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert tree.nodes[PRODUCER_ID_BLOCK].data == data


@pytest.mark.parametrize(
    ("last", "good"), [(2**63 - 1001, True), (2**63 - 1000, False), (2**63 - 1, False)]
)
def test_the_end_of_all_ids(last: int, good: bool) -> None:
    tree = MemTree()
    Broker(tree).id()
    tree.write(None, [SetData(PRODUCER_ID_BLOCK, b'{"block_end":"%d"}' % last)])
    broker = Broker(tree)
    token = broker.ask_id()
    broker.coordinate()
    assert (broker.replies[token].error_code == 0) is good


# ---- the request -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 5, "producer_epoch": 3}, ErrorCode.NONE),  # KIP-360: a new id all the same
        ({"transaction_timeout_ms": 0}, ErrorCode.NONE),
        ({"transaction_timeout_ms": -5}, ErrorCode.NONE),
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_asked(fields: dict[str, object], error: ErrorCode) -> None:
    broker = Broker(MemTree())
    token = broker.ask_id(**fields)
    broker.coordinate()
    reply = broker.replies[token]
    assert reply.error_code == error
    expected = (0, 0) if error is ErrorCode.NONE else (-1, -1)
    assert (reply.producer_id, reply.producer_epoch) == expected
