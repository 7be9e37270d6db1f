"""How much one connection gets done before others have their turn."""

import threading
import time

from tests.runtime.stub import Client, StubNode, ask, name_of, serving

from replog.model.inputs import Input
from replog.model.outputs import Output
from replog.runtime.limits import FRAMES_PER_TURN, TURN_MS


def test_more_requests_at_once_than_a_turn_takes_are_all_answered() -> None:
    count = 5 * FRAMES_PER_TURN + 1
    with serving() as server, Client(server.port) as client:
        client.send(*(ask(str(n)) for n in range(count)))
        assert [client.name() for _ in range(count)] == [str(n) for n in range(count)]


def test_one_client_that_floods_does_not_starve_another() -> None:
    with serving() as server, Client(server.port) as flood, Client(server.port) as other:
        flood.send(*(ask("f") for _ in range(2000)))
        other.send(ask("o"))
        server.node.wait(lambda n: any(name_of(e) == "o" for e in n.received))
        before = next(i for i, e in enumerate(server.node.received) if name_of(e) == "o")
        assert before < 2000
        assert other.name() == "o"


class SlowNode(StubNode):
    """Each request takes longer than the turn of a connection may."""

    def step(self, event: Input, now_ms: float, wall_ms: int) -> list[Output]:
        time.sleep(2 * TURN_MS / 1000)
        return super().step(event, now_ms, wall_ms)


def test_requests_that_take_long_do_not_hold_up_those_of_others() -> None:
    with (
        serving(SlowNode()) as server,
        Client(server.port) as flood,
        Client(server.port) as other,
    ):
        gate = threading.Event()
        server.call(gate.wait, 20)
        flood.send(*(ask(f"flood {number}") for number in range(20)))
        other.send(ask("other"))
        gate.set()
        assert [flood.name() for _ in range(20)] == [f"flood {number}" for number in range(20)]
        assert other.name() == "other"
        order = [name_of(event) for event in server.node.received]
        assert order.index("other") < 5, order
