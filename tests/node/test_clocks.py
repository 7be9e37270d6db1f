"""The wall clock jumps: nothing that waits takes note, since every interval is monotonic."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record
from tests.node.test_fetching import produce

from replog.model.inputs import PeerIdentity, Tick
from replog.model.outputs import Reply

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


@pytest.mark.scenario(34)
@pytest.mark.parametrize("jump_ms", [-HOUR_MS, YEAR_MS])
def test_a_jump_ends_no_wait_and_moves_nobody_out_of_an_isr(jump_ms: int) -> None:
    broker = OneBroker(log__message__timestamp__after__max__ms=str(10 * YEAR_MS))
    broker.topic("a", record(1, 2))
    partition = next(iter(broker.node.partitions.all()))
    assert not [o for o in produce(broker, "a", 0, b"x", acks=-1) if isinstance(o, Reply)]
    broker.wall_ms += jump_ms
    for _ in range(3):
        broker.now_ms += 100
        outputs = broker.node.step(Tick(), broker.now_ms, broker.wall_ms)
        assert not [o for o in outputs if isinstance(o, Reply)], "the write still waits"
    leader = partition.leader
    assert leader is not None and leader.isr_state.maximal == (1, 2)
    broker.node.partitions.follower_fetched(partition, PeerIdentity(2, 102), 1)
    outputs = broker.node.step(Tick(), broker.now_ms, broker.wall_ms)
    assert len([o for o in outputs if isinstance(o, Reply)]) == 1, "and is committed as ever"
    assert partition.high_watermark == 1


@pytest.mark.scenario(34)
@pytest.mark.parametrize("jump_ms", [-HOUR_MS, YEAR_MS])
def test_records_keep_their_own_times_and_offsets_their_order(jump_ms: int) -> None:
    broker = OneBroker(log__message__timestamp__after__max__ms=str(10 * YEAR_MS))
    broker.topic("a", record(1))
    first = broker.produce("a", broker.wall_ms)
    broker.wall_ms += jump_ms
    second = broker.produce("a", broker.wall_ms)
    assert (first, second) == (0, 1)
    partition = next(iter(broker.node.partitions.all()))
    found = partition.log.offset_for_time(broker.wall_ms)
    assert found is not None and found[0] == (1 if jump_ms > 0 else 0)
