"""A node that does what a test says, behind the real loop, sockets and frames."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import uvloop

from replog.model.coordination import Operation
from replog.model.inputs import ConnectionClosed, Input, PeerFailed, PeerReplied, Received, Tick
from replog.model.listeners import Listener as Address
from replog.model.messages import Request, Response
from replog.model.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.model.outputs import Output, Reply
from replog.model.records import FileRange
from replog.runtime.coordination.port import Coordination
from replog.runtime.limits import Limits
from replog.runtime.listener import Listener, listen
from replog.runtime.loop import Cluster, NodeLoop
from replog.wire import ClientConnection, FrameBuffer

SECRET = b"s" * 32
Answer = Callable[["StubNode", Received], list[Output]]


class StubNode:
    """Answers a metadata request with the name that it asks for; `park` waits for `release`."""

    def __init__(self, broker_id: int = 0, broker_epoch: int = 7) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.received: list[Received] = []
        self.events: list[Input] = []
        self.parked: list[Received] = []
        self.deadline_ms = float("inf")
        self.ranges: list[FileRange | memoryview] = []
        self.changed = threading.Condition()

    def next_deadline_ms(self) -> float:
        return self.deadline_ms

    def step(self, event: Input, now_ms: float, wall_ms: int) -> list[Output]:
        with self.changed:
            if isinstance(event, Received):
                self.received.append(event)
            else:
                self.events.append(event)
            self.changed.notify_all()
        if isinstance(event, Tick):
            self.deadline_ms = float("inf")
        return self._answer(event) if isinstance(event, Received) else []

    def _answer(self, event: Received) -> list[Output]:
        if isinstance(event.message, FetchRequest):
            return [reply(event, self._fetched())]
        if not isinstance(event.message, MetadataRequest):
            return [reply(event, event.message.RESPONSE())]  # type: ignore[attr-defined]
        name = name_of(event)
        if name == "boom":
            raise RuntimeError("boom")
        if name == "park":
            self.parked.append(event)
            return []
        if name == "release":
            parked, self.parked = self.parked, []
            return [reply(event, named("release"))] + [reply(p, named("parked")) for p in parked]
        return [reply(event, named(name))]

    def _fetched(self) -> FetchResponse:
        data = [
            PartitionData(partition_index=n, records=cast(Any, r))
            for n, r in enumerate(self.ranges)
        ]
        topic = FetchableTopicResponse(topic_id=b"t" * 16, partitions=data)
        return FetchResponse(responses=[topic])

    def wait(self, what: Callable[["StubNode"], bool], timeout: float = 20) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: what(self), timeout), self.events

    def peer_answers(self) -> list[PeerReplied | PeerFailed]:
        return [e for e in self.events if isinstance(e, PeerReplied | PeerFailed)]

    def closed(self) -> list[ConnectionClosed]:
        return [e for e in self.events if isinstance(e, ConnectionClosed)]


def reply(event: Received, message: Response | None) -> Output:
    return Reply(event.connection, event.token, message)


def ask(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def named(name: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=name)


def name_of(event: Received) -> str:
    assert isinstance(event.message, MetadataRequest)
    topics = event.message.topics or []
    return topics[0].name or "" if topics else ""


class NoCoordination:
    """A broker without a coordinator."""

    def loop_turned(self) -> None: ...

    def write(self, token: int, operations: Sequence[Operation], session: str | None) -> None: ...

    def read(self, token: int, roots: Sequence[str]) -> None: ...


class Server:
    """A stub node that serves on a port, its loop on a thread."""

    def __init__(
        self, node: StubNode, limits: Limits, *, cluster: Cluster, use_uvloop: bool = True
    ) -> None:
        self.node = node
        self.loop = uvloop.new_event_loop() if use_uvloop else asyncio.new_event_loop()
        coordination = cast(Coordination, NoCoordination())
        self.host = NodeLoop(self.loop, node, coordination, cluster, limits)
        sock = listen(Address("PLAINTEXT", "127.0.0.1", 0), 50)
        self.port: int = sock.getsockname()[1]
        self._listener = Listener(self.host, sock, "PLAINTEXT", self.host.places)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._listener.start()
        self.host.start([])
        self.loop.run_forever()
        self._listener.close()
        self.host.close()
        self.loop.close()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Run something on the loop's thread, as a turn of its own."""

        def turn() -> None:
            self.host.begin_turn()
            function(*arguments)
            self.host.end_turn()

        self.loop.call_soon_threadsafe(turn)

    def carry(self, *outputs: Output) -> None:
        self.call(self.host._carry, list(outputs))

    def barrier(self) -> None:
        """What was carried and called before is done when this returns."""
        done = threading.Event()
        self.call(done.set)
        assert done.wait(20)

    def connections(self) -> int:
        return len(self.host._connections)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.host.stop, 0)
            self._thread.join(20)
        assert not self._thread.is_alive()


@contextmanager
def serving(
    node: StubNode | None = None,
    limits: Limits | None = None,
    *,
    cluster_id: str = "cluster",
    secret: bytes = SECRET,
    use_uvloop: bool = True,
) -> Iterator[Server]:
    server = Server(
        node or StubNode(),
        limits or Limits(),
        cluster=Cluster(cluster_id, secret),
        use_uvloop=use_uvloop,
    )
    try:
        yield server
    finally:
        server.stop()


class Client:
    """A blocking client that can also send bytes that no client should."""

    def __init__(self, port: int, timeout: float = 20) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.wire = ClientConnection()
        self.buffer = FrameBuffer(1 << 30)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def encode(self, message: Request, version: int = 12) -> bytes:
        return b"".join(cast(list[bytes], self.wire.request(message, version, "test")))

    def send(self, *messages: Request) -> None:
        self.sock.sendall(b"".join(self.encode(message) for message in messages))

    def receive(self) -> Response:
        while (frame := self.buffer.next_frame()) is None:
            count = self.sock.recv_into(self.buffer.writable())
            if not count:
                raise ConnectionError("closed")
            self.buffer.wrote(count)
        return self.wire.response(frame)[1]

    def ask(self, name: str) -> str:
        self.send(ask(name))
        return self.name()

    def name(self) -> str:
        response = self.receive()
        assert isinstance(response, MetadataResponse)
        return response.cluster_id or ""

    def is_closed(self) -> bool:
        """Wait for the server to close; what it still sends is dropped."""
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True


class RealFile:
    """A file with a descriptor, as the log has them."""

    def __init__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self.descriptor = os.open(path, os.O_RDWR)
        self.reads = 0

    def fileno(self) -> int:
        return self.descriptor

    def read(self, position: int, length: int) -> bytes:
        self.reads += 1
        return os.pread(self.descriptor, length, position)


class MemoryFile:
    """A file without a descriptor, as the simulated disk has them."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, position: int, length: int) -> bytes:
        return self.data[position : position + length]


def logged(caplog: Any, text: str) -> int:
    """Lines that contain `text`."""
    return sum(text in r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING)
