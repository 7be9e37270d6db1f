"""Connections of clients: whole, in pieces, garbage, slow, too many."""

import logging
import random
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.stub import (
    Client,
    MemoryFile,
    RealFile,
    Server,
    StubNode,
    ask,
    logged,
    named,
    serving,
)

from replog.log.disk import DiskError
from replog.model.errors import InvariantBroken
from replog.model.inputs import Tick
from replog.model.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from replog.model.messages.fetch import FetchRequest, FetchResponse
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from replog.model.messages.update_cluster import UpdateClusterRequest
from replog.model.outputs import RangeInvalidated, Reply
from replog.model.records import FileRange
from replog.runtime.limits import RANGE_JOINED_BYTES, Limits

FETCH_VERSION = 17


@pytest.mark.parametrize("use_uvloop", [True, False])
def test_a_request_is_answered_under_either_loop(use_uvloop: bool) -> None:
    with serving(use_uvloop=use_uvloop) as server, Client(server.port) as client:
        assert client.ask("hello") == "hello"
        event = server.node.received[0]
        assert (event.client_id, event.client_host) == ("test", "127.0.0.1")
        assert event.listener == "PLAINTEXT" and event.peer is None


def test_a_request_that_comes_in_pieces_is_one_request() -> None:
    rng = random.Random(5)
    with serving() as server, Client(server.port) as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = client.encode(ask("a")) + client.encode(ask("b" * 300))
        at = 0
        while at < len(data):
            step = rng.choice((1, 2, 3, 50, 200))
            client.sock.sendall(data[at : at + step])
            at += step
            time.sleep(0.001)
        assert [client.name(), client.name()] == ["a", "b" * 300]


def test_replies_leave_in_the_order_of_requests_whatever_is_answered_first() -> None:
    with serving() as server, Client(server.port) as client:
        names = ["one", "park", "two", "park", "release", "three"]
        client.send(*(ask(n) for n in names))
        assert [client.name() for _ in names] == [
            "one",
            "parked",
            "two",
            "parked",
            "release",
            "three",
        ]


def test_requests_in_flight_are_taken_up_to_the_limit_and_the_rest_later() -> None:
    limits = Limits(requests_in_flight=3)
    with serving(limits=limits) as server, Client(server.port) as client:
        client.send(*(ask("park") for _ in range(5)))
        server.node.wait(lambda n: len(n.parked) == 3)
        time.sleep(0.1)
        assert len(server.node.parked) == 3, "one past the limit waits"
        parked = server.node.parked[0]
        server.carry(Reply(parked.connection, parked.token, named("first")))
        server.node.wait(lambda n: len(n.parked) == 4)
        assert client.name() == "first"


def test_no_answer_is_sent_where_none_is_expected() -> None:
    with serving() as server, Client(server.port) as client:
        client.send(ask("park"), ask("after"))
        server.node.wait(lambda n: len(n.received) == 2)
        parked = server.node.parked[0]
        server.carry(Reply(parked.connection, parked.token, None))
        client.wire._sent.popleft()  # the client knows that `park` gets no answer
        assert client.name() == "after"


def test_a_version_that_nobody_knows_is_answered_without_the_node() -> None:
    with serving() as server, Client(server.port) as client:
        body = struct.pack(">hhih", 18, 99, 1, -1) + b"\0"
        client.wire.request(ApiVersionsRequest(), 4, None)
        client.sock.sendall(struct.pack(">i", len(body)) + body)
        answer = client.receive()
        assert isinstance(answer, ApiVersionsResponse) and answer.error_code == 35
        assert server.node.received == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 1001), id="one past the limit"),
        pytest.param(struct.pack(">i", 0), id="empty"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 1, -1), id="unknown key"),
        pytest.param(struct.pack(">ihhih", 10, 3, 999, 1, -1), id="unknown version"),
        pytest.param(struct.pack(">ihhih", 10, 3, 1, 1, 500), id="client id beyond the frame"),
    ],
)
def test_garbage_closes_that_connection_with_one_line_and_no_other(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(limits=Limits(frame_bytes=1000)) as server, Client(server.port) as good:
        assert good.ask("before") == "before"
        with Client(server.port) as bad:
            bad.sock.sendall(data)
            assert bad.is_closed()
        assert good.ask("after") == "after"
        server.node.wait(lambda n: len(n.closed()) == 1)
    assert logged(caplog, "closed:") == 1


def test_a_request_at_the_size_limit_is_served() -> None:
    with serving(limits=Limits(frame_bytes=1000)) as server, Client(server.port) as client:
        spare = 1000 - (len(client.encode(ask(""))) - 4)
        client.wire = type(client.wire)()
        name = "n" * (spare - 1)  # a longer name takes a second byte for its length
        data = client.encode(ask(name))
        assert len(data) - 4 == 1000
        client.sock.sendall(data)
        assert client.name() == name


def test_control_characters_do_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    from replog.runtime.connection import printable

    assert printable("a\nb\x1b[31m\u2028") == "a\\x0ab\\x1b[31m\\x2028"
    assert len(printable("x" * 10_000)) < 600


def test_messages_between_brokers_do_not_exist_for_strangers() -> None:
    with serving() as server, Client(server.port) as client:
        client.sock.sendall(client.encode(UpdateClusterRequest(), 0))
        assert client.is_closed()
        assert server.node.received == []


def test_a_step_that_raises_ends_that_connection_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving() as server, Client(server.port) as good:
        for _ in range(2):
            with Client(server.port) as bad:
                bad.send(ask("boom"))
                assert bad.is_closed()
        assert good.ask("still") == "still"
    tracebacks = [r for r in caplog.records if r.exc_info]
    assert len(tracebacks) == 1, "in full once for each place"
    assert logged(caplog, "failed again") == 1


def test_a_broken_invariant_ends_the_process_with_70() -> None:
    node = StubNode()
    with serving(node) as server, Client(server.port) as client:

        def broken(*_: object) -> None:
            raise InvariantBroken("two leaders in one epoch")

        node.step = broken  # type: ignore[assignment,method-assign]
        client.send(ask("any"))
        assert client.is_closed()
        server._thread.join(20)
        assert server.host.exit_code == 70


def test_an_answer_that_can_not_be_encoded_closes_the_connection() -> None:
    with serving() as server, Client(server.port) as client:
        client.send(ask("park"))
        server.node.wait(lambda n: len(n.parked) == 1)
        parked = server.node.parked[0]
        server.carry(Reply(parked.connection, parked.token, named(object())))  # type: ignore[arg-type]
        assert client.is_closed()


# ---- big answers ----------------------------------------------------------------------------


def _files(tmp_path: Path, data: bytes) -> dict[str, RealFile | MemoryFile]:
    return {"sendfile": RealFile(tmp_path / "f", data), "memory": MemoryFile(data)}


@pytest.mark.parametrize("kind", ["sendfile", "memory", "buffer"])
def test_ranges_and_buffers_arrive_alike(tmp_path: Path, kind: str) -> None:
    data = random.Random(1).randbytes(9_000_000)
    limit = RANGE_JOINED_BYTES
    spans = [(10, 8_499_990), (0, 1), (5, limit), (7, limit + 1), (9, limit - 1)]
    node = StubNode()
    if kind == "buffer":
        node.ranges = [memoryview(data)[at : at + size] for at, size in spans]
    else:
        node.ranges = [FileRange(_files(tmp_path, data)[kind], *span) for span in spans]
    with serving(node) as server, Client(server.port) as client:
        for _ in range(2):
            client.sock.sendall(client.encode(FetchRequest(), FETCH_VERSION))
            client.send(ask("between"))
            assert _records(client) == [data[at : at + size] for at, size in spans]
            assert client.name() == "between"
    if kind == "sendfile":
        files = [r.file for r in node.ranges if isinstance(r, FileRange)]
        reads = [f.reads for f in files if isinstance(f, RealFile)]
        assert reads == [0, 2, 2, 0, 2], "small ranges are read, large ones are not"


def test_where_sendfile_is_refused_the_range_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(95, "not supported")

    monkeypatch.setattr("os.sendfile", refuse)
    file = RealFile(tmp_path / "f", b"z" * 100_000)
    node = StubNode()
    node.ranges = [FileRange(file, 5, 90_000)]
    with serving(node) as server, Client(server.port) as client:
        client.sock.sendall(client.encode(FetchRequest(), FETCH_VERSION))
        assert _records(client) == [b"z" * 90_000]
    assert file.reads > 0


def _records(client: Client) -> list[bytes]:
    answer = client.receive()
    assert isinstance(answer, FetchResponse)
    return [bytes(p.records or b"") for p in answer.responses[0].partitions]  # type: ignore[arg-type]


def _stuck(server: Server, client: Client) -> None:
    """Ask for more than socket buffers hold, and read none of it."""
    client.sock.sendall(client.encode(FetchRequest(), FETCH_VERSION))
    server.node.wait(lambda n: len(n.received) >= 1)


@pytest.mark.parametrize("length", [6, 100_000])
def test_a_file_that_is_shorter_than_its_range_ends_the_connection(
    tmp_path: Path, length: int
) -> None:
    for file in _files(tmp_path, bytes(length - 1)).values():
        node = StubNode()
        node.ranges = [FileRange(file, 0, length)]
        with serving(node) as server, Client(server.port) as client:
            client.sock.sendall(client.encode(FetchRequest(), FETCH_VERSION))
            assert client.is_closed()


@pytest.mark.parametrize("length", [6, 100_000])
def test_a_file_that_can_not_be_read_ends_the_connection(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def read(self, position: int, length: int) -> bytes:
            raise DiskError("t-0/0.log: input/output error")

    node = StubNode()
    node.ranges = [FileRange(Broken(), 0, length)]
    with serving(node) as server, Client(server.port) as client, Client(server.port) as other:
        client.sock.sendall(client.encode(FetchRequest(), FETCH_VERSION))
        assert client.is_closed()
        assert other.ask("x") == "x"
    assert logged(caplog, "input/output error") == 1


def test_a_truncation_closes_who_still_has_to_get_the_range_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = RealFile(tmp_path / "f", bytes(60_000_000))
    node = StubNode()
    node.ranges = [FileRange(file, 0, 60_000_000)]
    with serving(node) as server, Client(server.port) as slow, Client(server.port) as other:
        _stuck(server, slow)
        assert other.ask("x") == "x"
        server.carry(RangeInvalidated(file, 60_000_000))
        server.barrier()
        assert server.connections() == 2, "the range ends before the truncation"
        server.carry(RangeInvalidated(file, 59_999_999))
        server.barrier()
        assert other.ask("z") == "z"
        assert server.connections() == 1
        assert slow.is_closed()
    assert logged(caplog, "truncated") == 1


def test_who_does_not_take_replies_is_not_read_from(tmp_path: Path) -> None:
    file = RealFile(tmp_path / "f", bytes(30_000_000))
    node = StubNode()
    node.ranges = [FileRange(file, 0, 30_000_000)]
    with serving(node, Limits(output_bytes=1000)) as server, Client(server.port) as client:
        client.sock.sendall(b"".join(client.encode(FetchRequest(), FETCH_VERSION) for _ in "123"))
        node.wait(lambda n: len(n.received) == 1)
        time.sleep(0.1)
        assert len(node.received) == 1
        for _ in range(3):
            assert len(_records(client)[0]) == 30_000_000
        assert len(node.received) == 3


# ---- limits ---------------------------------------------------------------------------------


def test_connections_are_taken_up_to_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(connections=3, connections_reserved=0)
    with serving(limits=limits) as server:
        clients = [Client(server.port) for _ in range(3)]
        assert [c.ask("in") for c in clients] == ["in"] * 3
        with Client(server.port) as late:
            assert late.is_closed()
        clients.pop().sock.close()
        server.node.wait(lambda n: len(n.closed()) == 1)
        with Client(server.port) as again:
            assert again.ask("in") == "in"
        for client in clients:
            client.sock.close()
    assert logged(caplog, "connections refused") == 1


def test_connections_of_one_address_are_taken_up_to_the_limit() -> None:
    limits = Limits(connections_per_ip=2, connections_reserved=0)
    with serving(limits=limits) as server, Client(server.port) as one, Client(server.port) as two:
        assert (one.ask("1"), two.ask("2")) == ("1", "2")
        with Client(server.port) as three:
            assert three.is_closed()


def test_reserved_places_are_for_brokers_only(caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(connections=1, connections_reserved=1, reserved_ms=200, sweep_ms=50)
    with serving(limits=limits) as server, Client(server.port) as client:
        assert client.ask("x") == "x"
        with Client(server.port) as stranger:
            stranger.send(ask("y"))
            assert stranger.is_closed()
        with Client(server.port) as silent:
            assert silent.is_closed()
    assert logged(caplog, "reserved for brokers") == 1
    assert logged(caplog, "no broker's handshake came") == 1


def test_half_a_request_is_waited_for_only_so_long(caplog: pytest.LogCaptureFixture) -> None:
    limits = Limits(half_frame_ms=300, sweep_ms=50)
    with serving(limits=limits) as server, Client(server.port) as slow, Client(server.port) as idle:
        slow.sock.sendall(slow.encode(ask("x"))[:-1])
        assert slow.is_closed()
        assert idle.ask("y") == "y", "who has nothing under way may be silent"
    assert logged(caplog, "half a request") == 1


def test_dripping_bytes_do_not_extend_the_time_for_a_request() -> None:
    limits = Limits(half_frame_ms=400, sweep_ms=50)
    with serving(limits=limits) as server, Client(server.port) as slow:
        data = slow.encode(ask("x" * 1000))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for byte in data:
                slow.sock.sendall(bytes([byte]))
                time.sleep(0.02)


def test_idle_connections_are_closed_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    with serving(limits=Limits(idle_ms=300, sweep_ms=50)) as server, Client(server.port) as client:
        assert client.ask("x") == "x"
        assert client.is_closed()
    assert logged(caplog, "closed:") == 0


def test_large_requests_wait_while_all_together_hold_too_much() -> None:
    limits = Limits(
        request_bytes=300_000, request_bytes_small=1_000, sweep_ms=50, half_frame_ms=1_500
    )
    limits = replace(limits, half_frame_bytes_per_s=10**9)
    with (
        serving(limits=limits) as server,
        Client(server.port) as one,
        Client(server.port) as two,
        Client(server.port) as small,
    ):
        halves = struct.pack(">i", 1_000_000) + bytes(250_000)
        one.sock.sendall(halves)
        two.sock.sendall(halves)
        wait_for(lambda: server.host.request_bytes > 300_000)
        one.sock.setblocking(False)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += one.sock.send(bytes(100_000))
        except BlockingIOError:
            pass
        time.sleep(0.2)
        assert server.host.request_bytes < 1_200_000, "nobody reads on"
        assert small.ask("s") == "s", "small requests pass"
        server.node.wait(lambda n: len(n.closed()) == 2)
        assert server.host.request_bytes == 0, "who can't be served in time makes room"
        with Client(server.port) as three:
            assert three.ask("t" * 30_000) == "t" * 30_000


def test_memory_of_large_requests_is_kept_for_the_next_and_given_back_when_idle() -> None:
    with serving(limits=Limits(sweep_ms=30)) as server, Client(server.port) as client:
        assert len(client.ask("n" * 16_000)) == 16_000
        assert server.host.request_bytes == 0, "the first 64 KiB are everybody's"
        for _ in range(2):
            client.sock.sendall(client.encode(_produce(400_000), 12))
            client.receive()
            assert server.host.request_bytes >= 300_000
        wait_for(lambda: server.host.request_bytes == 0)
        assert client.ask("on") == "on"


def test_a_slow_line_is_given_time_for_what_it_sends() -> None:
    limits = Limits(half_frame_ms=100, sweep_ms=20, half_frame_bytes_per_s=20_000)
    with serving(limits=limits) as server, Client(server.port) as slow:
        data = slow.encode(_produce(20_000), 12)
        for at in range(0, len(data), 2_000):  # 40 kB/s for half a second
            slow.sock.sendall(data[at : at + 2_000])
            time.sleep(0.05)
        slow.receive()


def _produce(size: int) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=memoryview(bytes(size)))]
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=data)])


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_limits_take_their_default_from_one_place() -> None:
    assert replace(Limits()) == Limits()
    assert Limits().frame_bytes == 104_857_600, "as Kafka's socket.request.max.bytes"


def test_a_tick_comes_when_it_is_due(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    node = StubNode()
    with serving(node) as server, Client(server.port) as client:
        started = time.monotonic()
        node.deadline_ms = started * 1000 + 150
        client.ask("sets the alarm")
        node.deadline_ms += 100  # later than the alarm that is set
        node.wait(lambda n: any(isinstance(e, Tick) for e in n.events))
        assert time.monotonic() - started >= 0.24
        assert sum(isinstance(e, Tick) for e in node.events) == 1
