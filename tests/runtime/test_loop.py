"""What the loop carries out besides replies and sends."""

import logging
import queue
import socket
import threading
import time
from collections.abc import Sequence

import pytest
from tests.runtime.stub import Client, StubNode, ask, named, serving
from tests.runtime.test_jobs import wait_until

from replog.log.disk import DiskError
from replog.model.config import BrokerConfig
from replog.model.coordination import Create, Operation
from replog.model.inputs import Input, JobDone, Received, SessionEnded, SessionStarted
from replog.model.listeners import Listener as Address
from replog.model.outputs import (
    CloseConnection,
    CoordinatorWrite,
    Level,
    Output,
    ReadCoordinator,
    Reconfigured,
    Reply,
    Report,
    RunJob,
    Stopped,
)
from replog.runtime.limits import Limits
from replog.runtime.listener import ListenError, Places, listen


def jobs_done(node: StubNode) -> list[JobDone]:
    return [e for e in node.events if isinstance(e, JobDone)]


def test_a_job_runs_beside_the_loop_and_comes_back_as_an_input() -> None:
    release = threading.Event()
    threads: list[str] = []

    def work() -> None:
        threads.append(threading.current_thread().name)
        release.wait(20)

    with serving() as server, Client(server.port) as client:
        server.carry(RunJob(1, work))
        assert client.ask("meanwhile") == "meanwhile"
        assert jobs_done(server.node) == []
        release.set()
        server.node.wait(lambda n: jobs_done(n) == [JobDone(1, None)])
        assert threads and threads[0].startswith("job")


def test_a_short_job_does_not_wait_for_a_long_one() -> None:
    release = threading.Event()
    with serving() as server:
        server.carry(RunJob(1, lambda: release.wait(20)), RunJob(2, lambda: None))
        server.node.wait(lambda n: [j.token for j in jobs_done(n)] == [2])
        release.set()
        server.node.wait(lambda n: [j.token for j in jobs_done(n)] == [2, 1])


class Worker(StubNode):
    """A request is answered when a job of its own has ended, which waits for `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()
        self.asked: dict[int, Received] = {}
        self.threads: set[str] = set()

    def work(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.release.wait(20)

    def step(self, event: Input, now_ms: float, wall_ms: int) -> list[Output]:
        super().step(event, now_ms, wall_ms)
        if isinstance(event, Received):
            self.asked[len(self.asked)] = event
            return [RunJob(len(self.asked) - 1, self.work, for_request=True)]
        if isinstance(event, JobDone) and event.token in self.asked:
            asked = self.asked[event.token]
            return [Reply(asked.connection, asked.token, named("done"))]
        return []


def test_work_of_requests_has_threads_of_its_own() -> None:
    """num.io.threads: what waits for a device does not take them, nor the other way round."""
    node = Worker()
    with (
        serving(node, Limits(request_threads=2, job_threads=1)) as server,
        Client(server.port) as client,
    ):
        client.send(*(ask("work") for _ in range(5)))
        node.wait(lambda n: len(n.received) == 5)
        server.carry(RunJob(99, lambda: None))
        node.wait(lambda n: JobDone(99, None) in n.events)
        assert jobs_done(node) == [JobDone(99, None)]
        assert node.threads == {"io-0", "io-1"}
        node.release.set()
        assert [client.name() for _ in range(5)] == ["done"] * 5


def test_the_threads_for_requests_change_while_they_work() -> None:
    node = Worker()
    with serving(node, Limits(request_threads=1)) as server, Client(server.port) as client:
        client.send(*(ask("work") for _ in range(3)))
        node.wait(lambda n: len(n.received) == 3)
        server.barrier()
        assert server.host.requests_waiting == 2
        more = {"node.id": "1", "num.io.threads": "3"}
        server.carry(Reconfigured(BrokerConfig(more)))
        server.barrier()
        assert server.host.requests_waiting == 0
        wait_until(lambda: node.threads == {"io-0", "io-1", "io-2"})
        node.release.set()
        assert [client.name() for _ in range(3)] == ["done"] * 3


def test_nothing_is_read_from_clients_while_too_much_work_waits() -> None:
    """queued.max.requests."""
    node = Worker()
    limits = Limits(request_threads=1, requests_waiting=4, half_frame_ms=50, sweep_ms=20)
    with (
        serving(node, limits) as server,
        Client(server.port) as one,
        Client(server.port) as two,
    ):
        one.send(*(ask("work") for _ in range(9)))
        node.wait(lambda n: len(n.received) == 5)
        two.send(ask("work"))
        time.sleep(0.2)
        assert len(node.received) == 5, "one is under way, and four wait"
        node.release.set()
        assert [one.name() for _ in range(9)] == ["done"] * 9
        assert two.name() == "done"
        assert server.host.requests_waiting == 0


def test_a_job_that_fails_says_how(caplog: pytest.LogCaptureFixture) -> None:
    def full() -> None:
        raise DiskError("t-0/0.log: no space left")

    def broken() -> None:
        raise ZeroDivisionError("a bug")

    with serving() as server:
        server.carry(RunJob(1, full))
        server.node.wait(lambda n: jobs_done(n) == [JobDone(1, "t-0/0.log: no space left")])
        assert not caplog.records, "the node decides whether that is news"
        server.carry(RunJob(2, broken))
        server.node.wait(lambda n: len(jobs_done(n)) == 2)
        assert jobs_done(server.node)[1] == JobDone(2, "ZeroDivisionError: a bug")
        assert [r.exc_info is not None for r in caplog.records] == [True]


def test_writes_name_the_session_that_the_node_has_heard_of() -> None:
    calls: queue.Queue[tuple[object, ...]] = queue.Queue()

    class Coordination:
        def loop_turned(self) -> None: ...

        def write(self, token: int, operations: Sequence[Operation], session: str | None) -> None:
            calls.put((token, tuple(operations), session))

        def read(self, token: int, roots: Sequence[str]) -> None:
            calls.put((token, tuple(roots)))

    create = Create("/n", b"")
    with serving() as server:
        server.host._coordination = Coordination()  # type: ignore[assignment]
        server.carry(CoordinatorWrite(1, (create,)), ReadCoordinator(2, ("/n",)))
        assert calls.get(timeout=20) == (1, (create,), None)
        assert calls.get(timeout=20) == (2, ("/n",))
        server.host.post_threadsafe(SessionStarted("s1"))
        server.node.wait(lambda n: SessionStarted("s1") in n.events)
        server.carry(CoordinatorWrite(3, (create,)))
        assert calls.get(timeout=20) == (3, (create,), "s1")
        server.host.post_threadsafe(SessionEnded("gone"))
        server.carry(CoordinatorWrite(4, (create,)))
        assert calls.get(timeout=20) == (4, (create,), None)


def test_reports_are_lines_of_their_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="replog")
    with serving() as server, Client(server.port) as client:
        server.carry(*(Report(level, f"text {level.value}\nno second line") for level in Level))
        server.barrier()
        assert client.ask("x") == "x"
    said = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert said == [(v.name, f"text {v.value}\\x0ano second line") for v in Level]


@pytest.mark.parametrize(("failed", "code"), [(False, 0), (True, 1)])
def test_a_node_that_stops_ends_the_loop(failed: bool, code: int) -> None:
    with serving() as server, Client(server.port) as client:
        client.send(ask("park"))
        server.node.wait(lambda n: len(n.parked) == 1)
        parked = server.node.parked[0]
        last = Reply(parked.connection, parked.token, named("last words"))
        server.carry(last, Stopped("done", failed=failed))
        assert client.name() == "last words", "what was said before is still sent"
        assert client.is_closed()
        server._thread.join(20)
        assert server.host.exit_code == code


def test_a_node_closes_connections_after_what_it_had_answered() -> None:
    with serving() as server, Client(server.port) as client:
        client.send(ask("park"), ask("park"))
        server.node.wait(lambda n: len(n.parked) == 2)
        first, second = server.node.parked
        server.carry(
            Reply(first.connection, first.token, named("first")),
            CloseConnection(second.connection, "acks=0 and it failed"),
        )
        assert client.name() == "first"
        assert client.is_closed()
        server.carry(CloseConnection(second.connection, "again"), Reply(99, 1, named("nobody")))
        server.node.wait(lambda n: len(n.closed()) == 1)


def test_a_bug_in_reading_a_frame_ends_that_connection_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server, Client(server.port) as good, Client(server.port) as bad:
        assert good.ask("x") == "x"
        assert bad.ask("y") == "y"

        def bug(*_: object, **__: object) -> None:
            raise RecursionError("deep")

        monkeypatch.setattr("replog.wire.connection.parse_request", bug)
        bad.send(ask("z"))
        assert bad.is_closed()
        monkeypatch.undo()
        assert good.ask("x") == "x"
    assert [r.exc_info is not None for r in caplog.records] == [True, False]


def test_a_bug_in_a_callback_is_told_and_the_loop_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bug() -> None:
        raise ValueError("bug")

    with serving() as server, Client(server.port) as client:
        server.call(bug)
        server.barrier()
        assert client.ask("x") == "x"
    assert [r.getMessage() for r in caplog.records] == ["a callback failed"]


def test_places_are_counted_by_address_and_given_back() -> None:
    places = Places(Limits(connections=3, connections_per_ip=2, connections_reserved=1))
    assert [places.take("a") for _ in range(4)] == [False, False, True, None]
    assert places.take("b") is False
    assert places.take("c") is None, "in all"
    places.give_back("a", reserved=False)
    assert places.take("c") is False
    places.give_back("a", reserved=True)
    assert places.take("d") is True


def test_sizes_of_socket_buffers_are_set_only_when_asked_for() -> None:
    address = Address("PLAINTEXT", "127.0.0.1", 0)
    with listen(address, 5) as usual, listen(address, 5, (50_000, None)) as asked:
        sizes = [s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for s in (usual, asked)]
        assert sizes[0] != sizes[1] >= 50_000


def test_listening_fails_in_one_line() -> None:
    with listen(Address("A", "127.0.0.1", 0), 5) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(ListenError, match=f"^listener A://127.0.0.1:{port}: port .* in use$"):
            listen(Address("A", "127.0.0.1", port), 5)
    with pytest.raises(ListenError, match=r"^listener A://nowhere.invalid:1: "):
        listen(Address("A", "nowhere.invalid", 1), 5)
    with listen(Address("A", "", 0), 5) as everywhere:
        assert everywhere.getsockname()[0] == "0.0.0.0"
