"""One accepted connection: frames in, requests to the node, replies out in order.

The socket is non-blocking and belongs to this object: received into the frame buffer and parsed in
place. Reading stops, and the client's own window fills, while the client does not take its replies,
has too many requests unanswered, or all clients together hold too much memory or have too much work
in the queue for a thread.
"""

import fcntl
import logging
import os
import socket
import sys
from asyncio import AbstractEventLoop
from typing import Protocol

from replog.codec import UnencodableMessage
from replog.model.inputs import Input, PeerIdentity, Received
from replog.model.messages import Message, Response
from replog.model.messages.broker_handshake import BrokerHandshakeRequest
from replog.runtime.handshake import Acceptor, Self
from replog.runtime.limits import FRAMES_PER_TURN, PEER_DESCRIPTOR_MIN, TURN_MS, Limits
from replog.runtime.outbox import Outbox, RangeLost
from replog.wire import CLOSING_ERRORS, FrameBuffer, ParsedRequest, ServerConnection
from replog.wire.frame import FIRST_CAPACITY

_log = logging.getLogger("replog.network")


class Flushable(Protocol):
    """Something whose output leaves at the end of the turn."""

    def flush(self) -> None: ...


class Host(Protocol):
    """What a connection needs of the loop that it lives in."""

    loop: AbstractEventLoop
    limits: Limits
    now_ms: float  # monotonic, of the last step or the beginning of the turn
    request_bytes: int  # of memory in the buffers of all clients' connections, small ones aside
    requests_waiting: int  # parts of clients' requests for which no thread is free

    def identity(self) -> Self:
        """Who this broker is now."""
        ...

    def own_epoch(self) -> int:
        """Number of this broker's registration now."""
        ...

    def begin_turn(self) -> float:
        """Read the clock; monotonic milliseconds."""
        ...

    def step(self, event: Input) -> None:
        """Give the node an input and carry out what it answers, without sending yet."""
        ...

    def end_turn(self) -> None:
        """Send what this turn has produced, deliver what that has caused, set the next alarm."""
        ...

    def mark_dirty(self, item: Flushable) -> None: ...

    def report_failure(self, what: str, error: Exception) -> None:
        """Something raised that should not: say so, in full once for each place."""
        ...

    def forget(self, connection: "Connection") -> None:
        """The connection is closed."""
        ...

    def adopt(self, sock: socket.socket, listener: str, *, reserved: bool) -> None:
        """Serve a socket that was accepted. Raises OSError when it is broken already."""
        ...

    def proved_peer(self, connection: "Connection") -> None:
        """The connection no longer counts against the limits for clients."""
        ...


class Connection:
    """See the module. `id` is unique in the life of the process."""

    __slots__ = (
        "_acceptor",
        "_accounted",
        "_buffer",
        "_dirty",
        "_half",
        "_host",
        "_own_epoch",
        "_reading",
        "_scheduled",
        "_wire",
        "_writing",
        "client_host",
        "closed",
        "counted",
        "frame_since_ms",
        "id",
        "listener",
        "outbox",
        "peer",
        "reserved",
        "sock",
        "took_reserved",
        "touched_ms",
    )

    def __init__(
        self, host: Host, number: int, sock: socket.socket, *, listener: str, reserved: bool
    ) -> None:
        self.id = number
        self.sock = sock
        self.client_host: str = sock.getpeername()[0]
        self.listener = listener
        self.reserved = reserved  # only a broker's handshake may come first
        self.took_reserved = reserved
        self.counted = True  # against the limits for clients
        self.closed = False
        self.peer: PeerIdentity | None = None
        self.outbox = Outbox()
        self.touched_ms = self.frame_since_ms = host.begin_turn()
        self._host = host
        self._wire = ServerConnection()
        self._buffer = FrameBuffer(host.limits.frame_bytes)
        self._accounted = 0  # in the host's `request_bytes`
        self._half = False  # a part of a frame is there
        self._acceptor: Acceptor | None = None
        self._own_epoch = 0  # of our registration when the peer proved itself
        self._reading = self._writing = self._dirty = self._scheduled = False
        self._watch(True)

    def __repr__(self) -> str:
        who = f"broker {self.peer.broker_id}" if self.peer else "client"
        return f"{who} at {self.client_host}"

    # ---- in ---------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        buffer = self._buffer
        try:
            count = self.sock.recv_into(buffer.writable())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            count = 0
        self.touched_ms = now = self._host.begin_turn()
        if count:
            buffer.wrote(count)
            self._pump(now)
        else:
            self.close()
        self._host.end_turn()

    def _on_scheduled(self) -> None:
        self._scheduled = False
        if not self.closed:
            self._pump(self._host.begin_turn())
            self._host.end_turn()

    def _pump(self, began_ms: float) -> None:
        """Handle the requests that are there, up to a turn's share."""
        host = self._host
        left = FRAMES_PER_TURN
        ready = self._may_read()
        while ready:
            if not left or host.now_ms - began_ms > TURN_MS:
                self._schedule()
                break
            left -= 1
            try:
                frame = self._buffer.next_frame()
                if frame is None:
                    break
                request = self._wire.received(frame)
            except CLOSING_ERRORS as error:
                self.close(str(error))
                return
            except Exception as error:  # noqa: BLE001  # the edge: strangers must not stop the loop
                host.report_failure("a frame", error)
                self.close("its request could not be read; see above")
                return
            self._handle(request)
            ready = not self.closed and self._may_read()
        if not self.closed:
            self._account(progressed=left < FRAMES_PER_TURN - 1)
            self._watch(ready)

    def _handle(self, request: ParsedRequest) -> None:
        if request.answer is not None:
            self.reply(request.token, request.answer)
        elif type(request.message) is BrokerHandshakeRequest:
            self._handshake(request.token, request.message)
        elif self.reserved:
            self.close("its place is reserved for brokers: all others are taken")
        elif self.peer is not None and self._own_epoch != self._host.own_epoch():
            self.close("this broker's registration has changed", logging.INFO)
        else:
            self._host.step(
                Received(
                    self.id,
                    request.token,
                    request.version,
                    request.message,
                    request.client_id,
                    self.client_host,
                    self.listener,
                    self.peer,
                )
            )

    def _handshake(self, token: int, request: BrokerHandshakeRequest) -> None:
        if self._acceptor is None:
            self._acceptor = Acceptor(self._host.identity(), os.urandom(32))
        response = self._acceptor.receive(request)
        self.reply(token, response)
        if response.error_code:
            self.flush()
            self.close(f"handshake of broker {request.broker_id}: {response.error_message}")
        elif self._acceptor.peer is not None:
            self.peer = PeerIdentity(*self._acceptor.peer)
            self._own_epoch = self._acceptor.own.broker_epoch
            self._wire.peer = True
            self.reserved = False
            self._host.proved_peer(self)
            self._take_high_descriptor()

    def _take_high_descriptor(self) -> None:
        """Linux closes what a killed process had open from the highest descriptor down: peers hear
        of the death before the clients do that will ask them who leads now (`node.reach`)."""
        if sys.platform != "linux":
            return
        try:
            number = fcntl.fcntl(self.sock, fcntl.F_DUPFD_CLOEXEC, PEER_DESCRIPTOR_MIN)
        except OSError:
            return  # so many may not be open: then they hear when they hear
        reading = self._reading
        self._watch(False)
        self.sock.close()
        self.sock = socket.socket(fileno=number)
        self.sock.setblocking(False)
        self._watch(reading)

    def _may_read(self) -> bool:
        limits = self._host.limits
        if self._wire.in_flight >= limits.requests_in_flight:
            return False
        if self.outbox.pending > limits.output_bytes:
            return False
        if self.peer is not None:
            return True
        return self._host.requests_waiting < limits.requests_waiting and (
            self._host.request_bytes <= limits.request_bytes
            or self._buffer.buffered <= limits.request_bytes_small
        )

    def _account(self, *, progressed: bool) -> None:
        """Keep the sum of held memory, and when the frame that is under way began."""
        buffer, host = self._buffer, self._host
        if progressed or not self._half:
            self.frame_since_ms = self.touched_ms
        self._half = buffer.buffered > 0
        if not self._half and host.request_bytes > host.limits.request_bytes:
            buffer.shrink()  # else it is kept: fresh pages are slow
        capacity = buffer.capacity
        held = capacity - FIRST_CAPACITY if capacity > FIRST_CAPACITY and self.peer is None else 0
        if held != self._accounted:
            host.request_bytes += held - self._accounted
            self._accounted = held

    def _watch(self, ready: bool) -> None:
        """Read on, unless the next turn is set already or we have to wait (not `ready`)."""
        wanted = ready and not self._scheduled
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                self._host.loop.add_reader(self.sock, self._on_readable)
            else:
                self._host.loop.remove_reader(self.sock)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._host.loop.call_soon(self._on_scheduled)

    # ---- out --------------------------------------------------------------------------------

    def reply(self, token: int, message: Message | None) -> None:
        """Answer a request; the bytes leave at the end of the turn, in the order of requests.

        Those for a broker leave at once: a follower begins with them while we go on here.
        """
        if self.closed:
            return
        try:
            if message is None:
                parts = self._wire.no_reply(token)
            elif isinstance(message, Response):
                parts = self._wire.reply(token, message)
            else:
                raise UnencodableMessage(f"{type(message).__name__} is no response")
        except (UnencodableMessage, LookupError) as error:
            _log.error("can't answer %r: %s", self, error)
            self.close(f"no answer can be given: {error}")
            return
        self.outbox.put(parts)
        if self.peer is not None:
            self.flush()
        elif not self._dirty:
            self._dirty = True
            self._host.mark_dirty(self)

    def flush(self) -> None:
        """Send what the socket takes; the rest when it takes more."""
        self._dirty = False
        if self.closed:
            return
        outbox = self.outbox
        before = outbox.pending
        try:
            drained = outbox.flush(self.sock)
        except RangeLost as error:
            self.close(str(error))
            return
        except OSError:
            self.close()
            return
        if outbox.pending != before:
            self.touched_ms = self._host.now_ms
        if drained == self._writing:
            self._writing = not drained
            if drained:
                self._host.loop.remove_writer(self.sock)
            else:
                self._host.loop.add_writer(self.sock, self._on_writable)
        if not self._reading:
            self.resume()

    def _on_writable(self) -> None:
        self._host.begin_turn()
        self.flush()
        self._host.end_turn()

    def resume(self) -> None:
        """Read on if what made us wait is over. What is in the buffer comes first."""
        if not self.closed and not self._reading and self._may_read():
            self.frame_since_ms = self._host.begin_turn()
            self._schedule()

    # ---- the end ----------------------------------------------------------------------------

    def overdue(self, now_ms: float) -> str | None:
        """Why the connection has lived long enough; None when it may go on."""
        limits = self._host.limits
        if self.reserved and now_ms - self.touched_ms > limits.reserved_ms:
            return "no broker's handshake came"
        if self.peer is not None:
            return None  # silent is not idle: a broker may have nothing to tell
        half_for_ms = now_ms - self.frame_since_ms
        patience_ms = limits.half_frame_ms
        patience_ms += 1000 * self._buffer.buffered // limits.half_frame_bytes_per_s
        if self._half and self._awaits_frame() and half_for_ms > patience_ms:
            return f"half a request for {half_for_ms / 1000:.0f} s"
        if now_ms - self.touched_ms > limits.idle_ms:
            return "idle"
        return None

    def _awaits_frame(self) -> bool:
        """Whether the client alone is to blame that no whole request is there."""
        limits = self._host.limits
        return (
            self._wire.in_flight < limits.requests_in_flight
            and self.outbox.pending <= limits.output_bytes
            and self._host.requests_waiting < limits.requests_waiting
            and not self._scheduled
        )

    def shrink(self) -> None:
        """Give back memory while nothing is under way."""
        if not self._half and self._buffer.capacity:
            self._buffer.shrink()
            self._account(progressed=False)

    def close(self, reason: str | None = None, level: int = logging.WARNING) -> None:
        """Close, saying why in one line when there is a reason that an operator should know."""
        if self.closed:
            return
        self.closed = True
        if reason is not None:
            _log.log(level, "connection of %r closed: %s", self, printable(reason))
        if self._reading:
            self._host.loop.remove_reader(self.sock)
        if self._writing:
            self._host.loop.remove_writer(self.sock)
        self._reading = self._writing = False
        self.sock.close()
        self.outbox.clear()
        self._host.request_bytes -= self._accounted
        self._host.forget(self)


def printable(text: str) -> str:
    """`text` as one line without control characters for a log, cut to a readable length."""
    safe = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:500])
    return safe if len(text) <= 500 else safe + "..."
