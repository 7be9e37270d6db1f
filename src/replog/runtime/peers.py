"""Connections to other brokers: one for each broker, channel and lane, made when they are needed.

A link is dialled without blocking, proves itself and the other side (`handshake`), then carries
requests one after the other; answers come back in that order. What was sent on a link that breaks
fails, and so does what a refused dial was for: at once, since a refusal is news that the node waits
for. Only then does the link back off, from 5 ms to 200 ms.
"""

import errno
import logging
import os
import socket
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections import deque
from enum import Enum
from typing import Final, Protocol

from replog.codec import MalformedMessage, UnencodableMessage
from replog.model.inputs import Input, PeerFailed, PeerReplied
from replog.model.messages import Message, Request
from replog.model.messages.broker_handshake import BrokerHandshakeResponse
from replog.model.outputs import Channel, Send
from replog.runtime.connection import Flushable, printable
from replog.runtime.handshake import Dialler, HandshakeRefused, Self
from replog.runtime.limits import Limits
from replog.runtime.outbox import Outbox
from replog.wire import CLOSING_ERRORS, SERVED, ClientConnection, FrameBuffer

_log = logging.getLogger("replog.network")

BACKOFF_MS_MIN: Final = 5.0
BACKOFF_MS_MAX: Final = 200.0

REFUSED: Final = "connection refused"  # nobody listens there: with a dead session, proof of death


class PeerHost(Protocol):
    """What a link needs of the loop that it lives in."""

    loop: AbstractEventLoop
    limits: Limits
    now_ms: float  # monotonic, of the last step or the beginning of the turn

    def identity(self) -> Self: ...
    def own_epoch(self) -> int: ...
    def begin_turn(self) -> float: ...
    def step(self, event: Input) -> None: ...
    def end_turn(self) -> None: ...
    def mark_dirty(self, item: Flushable) -> None: ...

    def post(self, event: Input) -> None:
        """Give the node an input after those that are under way."""
        ...


class State(Enum):
    """Life of a link.

    Legal transitions: IDLE -> [WAITING ->] [RESOLVING ->] CONNECTING -> HELLO -> PROVING -> READY,
    and any -> IDLE when the connection is dropped.
    """

    IDLE = "idle"
    WAITING = "waiting"  # before the next dial, since the last one failed
    RESOLVING = "resolving"  # the host's name, on another thread
    CONNECTING = "connecting"
    HELLO = "hello"
    PROVING = "proving"
    READY = "ready"


class Link:
    """One connection to one broker for one purpose."""

    def __init__(self, host: PeerHost, broker_id: int, channel: Channel, lane: int) -> None:
        self.state = State.IDLE
        self._host = host
        self._broker_id = broker_id
        self._name = f"{channel.value}-{lane}" if lane else channel.value
        self._address = ("", 0)
        self._client_id = f"broker-{host.identity().broker_id}-{self._name}"
        self._queued: deque[tuple[Send, float]] = deque()  # with the deadline in monotonic ms
        self._sent: deque[tuple[Send, float]] = deque()
        self._sock: socket.socket | None = None
        self._outbox = Outbox()
        self._buffer = FrameBuffer(host.limits.frame_bytes)
        self._wire = ClientConnection()
        self._dialler: Dialler | None = None
        self._own_epoch = 0
        self._generation = 0  # rises when the connection is dropped: callbacks of old ones are void
        self._writing = self._dirty = False
        self._backoff_ms = 0.0
        self._dial_at_ms = 0.0
        self._alarm: TimerHandle | None = None
        self._alarm_ms = float("inf")

    def __repr__(self) -> str:
        host, port = self._address
        return f"broker {self._broker_id} at {host}:{port} ({self._name})"

    # ---- sending ----------------------------------------------------------------------------

    def send(self, send: Send) -> None:
        """Carry `send`, or fail it; the node learns which by a later input."""
        now = self._host.now_ms
        if self.state is not State.IDLE and not self._fits(send):
            self.drop("the broker was registered anew")
        deadline = now + send.timeout_ms
        if deadline < self._alarm_ms:
            self._set_alarm(deadline)
        if self.state is State.READY:
            self._transmit(send, deadline)
            return
        self._queued.append((send, deadline))
        if self.state is State.IDLE:
            self._address = (send.host, send.port)
            self._dial_when_due(now)

    def _fits(self, send: Send) -> bool:
        """Whether this very connection is the one that `send` wants."""
        host, port = self._address
        if send.port != port or send.host != host:
            return False
        if self.state is not State.READY or self._dialler is None:
            return True  # the handshake will tell
        same_self = self._own_epoch == self._host.own_epoch()
        return same_self and self._dialler.peer_epoch == send.broker_epoch

    def _transmit(self, send: Send, deadline: float) -> None:
        if not self._write(send.message):
            self._host.post(PeerFailed(send.token, send.broker_id, "the request can't be encoded"))
            return
        self._sent.append((send, deadline))

    def _write(self, message: Message) -> bool:
        try:
            if not isinstance(message, Request):
                raise UnencodableMessage(f"{type(message).__name__} is no request")
            version = SERVED[message.API_KEY].max_version
            parts = self._wire.request(message, version, self._client_id)
        except (UnencodableMessage, LookupError) as error:
            _log.error("can't send to %r: %s", self, error)
            return False
        self._outbox.put(parts)
        if not self._dirty:
            self._dirty = True
            self._host.mark_dirty(self)
        return True

    def flush(self) -> None:
        """Send what the socket takes; the rest when it takes more."""
        self._dirty = False
        if self._sock is None:
            return
        try:
            drained = self._outbox.flush(self._sock)
        except OSError as error:
            self.drop(f"connection broken: {error.strerror or error}")
            return
        if drained == self._writing:
            self._writing = not drained
            if drained:
                self._host.loop.remove_writer(self._sock)
            else:
                self._host.loop.add_writer(self._sock, self._on_writable)

    def _on_writable(self) -> None:
        self._host.begin_turn()
        self.flush()
        self._host.end_turn()

    # ---- dialling ---------------------------------------------------------------------------

    def _dial_when_due(self, now: float) -> None:
        wait_ms = self._dial_at_ms - now
        if wait_ms <= 0:
            self._dial()
            return
        self.state = State.WAITING
        generation = self._generation
        self._host.loop.call_later(wait_ms / 1000, self._on_waited, generation)

    def _on_waited(self, generation: int) -> None:
        if generation == self._generation and self.state is State.WAITING:
            self._host.begin_turn()
            self._dial()
            self._host.end_turn()

    def _dial(self) -> None:
        host, port = self._address
        family = _numeric_family(host)
        if family is not None:
            self._connect(family, (host, port))
            return
        self.state = State.RESOLVING
        generation = self._generation
        lookup = self._host.loop.run_in_executor(None, _resolve, host, port)
        lookup.add_done_callback(lambda done: self._on_resolved(done, generation))

    def _on_resolved(
        self, lookup: "Future[tuple[socket.AddressFamily, tuple[str, int]]]", generation: int
    ) -> None:
        error = lookup.exception()
        if generation != self._generation or self.state is not State.RESOLVING:
            return
        self._host.begin_turn()
        if error is None:
            self._connect(*lookup.result())
        else:
            self._fail_dial(f"{self._address[0]} can't be resolved: {error}")
        self._host.end_turn()

    def _connect(self, family: socket.AddressFamily, address: tuple[str, int]) -> None:
        self.state = State.CONNECTING
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            self._fail_dial(f"no socket: {error.strerror or error}")
            return
        self._sock = sock
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address)
        if code == 0:
            self._on_connected()
        elif code in (errno.EINPROGRESS, errno.EINTR):
            self._writing = True
            self._host.loop.add_writer(sock, self._on_connect_done)
        else:
            self._fail_dial(_connect_error(code))

    def _on_connect_done(self) -> None:
        if self._sock is None or self.state is not State.CONNECTING:
            return
        self._host.begin_turn()
        self._host.loop.remove_writer(self._sock)
        self._writing = False
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._fail_dial(_connect_error(code))
        else:
            self._on_connected()
        self._host.end_turn()

    def _on_connected(self) -> None:
        if self._sock is None:
            return
        own = self._host.identity()
        self._own_epoch = own.broker_epoch
        self._dialler = Dialler(own, os.urandom(32))
        self._host.loop.add_reader(self._sock, self._on_readable)
        self.state = State.HELLO
        self._write(self._dialler.hello())

    def _fail_dial(self, reason: str) -> None:
        self._backoff_ms = min(BACKOFF_MS_MAX, max(BACKOFF_MS_MIN, 2 * self._backoff_ms))
        self._dial_at_ms = self._host.begin_turn() + self._backoff_ms
        self.drop(reason)

    # ---- receiving --------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._sock is None:
            return
        try:
            count = self._sock.recv_into(self._buffer.writable())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        self._host.begin_turn()
        if count:
            self._buffer.wrote(count)
            self._take_frames()
        else:
            self._closed_by_peer()
        self._host.end_turn()

    def _closed_by_peer(self) -> None:
        if self.state is State.READY:
            self.drop("connection closed by the broker")
        else:
            self._fail_dial("connection closed by the broker during the handshake")

    def _take_frames(self) -> None:
        generation = self._generation
        while generation == self._generation:
            try:
                frame = self._buffer.next_frame()
                if frame is None:
                    return
                _, message = self._wire.response(frame)
            except (*CLOSING_ERRORS, MalformedMessage) as error:
                _log.warning("connection to %r dropped: %s", self, printable(str(error)))
                self._fail_dial(f"unintelligible answer: {error}")
                return
            if self.state is State.READY:
                send, _ = self._sent.popleft()
                self._host.step(PeerReplied(send.token, send.broker_id, message))
            elif isinstance(message, BrokerHandshakeResponse):
                self._shake(message)

    def _shake(self, response: BrokerHandshakeResponse) -> None:
        if self._dialler is None:
            return
        try:
            if self.state is State.HELLO:
                proof = self._dialler.answer(response, self._broker_id)
                self.state = State.PROVING
                self._write(proof)
            else:
                self._dialler.finish(response)
                self._become_ready(self._dialler.peer_epoch)
        except HandshakeRefused as refusal:
            _log.warning("handshake with %r failed: %s", self, printable(str(refusal)))
            self._fail_dial(f"handshake failed: {refusal}")

    def _become_ready(self, peer_epoch: int) -> None:
        self.state = State.READY
        queued, self._queued = self._queued, deque()
        for send, deadline in queued:
            if send.broker_epoch == peer_epoch:
                self._backoff_ms = 0.0
                self._transmit(send, deadline)
            else:
                reason = f"it is registration {peer_epoch}, not {send.broker_epoch}"
                self._host.post(PeerFailed(send.token, send.broker_id, reason))
        if not self._sent:
            self._fail_dial("it is another registration")

    # ---- the end ----------------------------------------------------------------------------

    def drop(self, reason: str) -> None:
        """Close the connection; everything that is under way has failed."""
        self._generation += 1
        self.state = State.IDLE
        if self._sock is not None:
            self._host.loop.remove_reader(self._sock)
            if self._writing:
                self._host.loop.remove_writer(self._sock)
            self._sock.close()
        self._sock = self._dialler = None
        self._writing = False
        self._outbox.clear()
        self._buffer = FrameBuffer(self._host.limits.frame_bytes)
        self._wire = ClientConnection()
        failed = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        for send, _ in failed:
            self._host.post(PeerFailed(send.token, send.broker_id, reason))

    def _set_alarm(self, deadline_ms: float) -> None:
        """See to it that we look at the deadlines by then; an earlier alarm looks and sets anew."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        delay_ms = max(1.0, deadline_ms - self._host.begin_turn())
        self._alarm = self._host.loop.call_later(delay_ms / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_ms = None, float("inf")
        now = self._host.begin_turn()
        earliest = min((d for _, d in (*self._sent, *self._queued)), default=None)
        if earliest is not None and earliest <= now:
            # Answers come in order, so nothing behind the one that is late can overtake it.
            self.drop("timed out")
        elif earliest is not None:
            self._set_alarm(earliest)
        self._host.end_turn()


class Peers:
    """All links of one broker."""

    def __init__(self, host: PeerHost) -> None:
        self._host = host
        self._links: dict[tuple[int, Channel, int], Link] = {}

    def send(self, send: Send) -> None:
        """Exactly one PeerReplied or PeerFailed follows."""
        key = (send.broker_id, send.channel, send.lane)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link(self._host, *key)
        link.send(send)

    def close(self) -> None:
        """Drop all connections."""
        for link in self._links.values():
            link.drop("this broker stops")


def _numeric_family(host: str) -> socket.AddressFamily | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family
    return None


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, address = min(found, key=lambda item: item[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))


def _connect_error(code: int) -> str:
    return REFUSED if code == errno.ECONNREFUSED else f"can't connect: {os.strerror(code)}"
