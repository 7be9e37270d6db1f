"""Pings and nudges between the brokers of a cluster: datagrams.

One thread, apart from the event loop and from the coordinator, so that neither a long step nor a
blocked transaction is taken for death. A datagram is the sender's session, a kind, a number that
rises, for a ping how long ago the event loop turned, and a keyed digest of all that: the key is in
the coordinator, so those who can't read that are ignored, and an old datagram counts for nothing.
"""

import hmac
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from replog.runtime.coordination.port import SessionSettings
from replog.runtime.coordination.suspicion import Suspicion

Address = tuple[str, int]

LOCAL: Final = "127.0.0.1"
PING: Final = 1  # the sender lives
NUDGE: Final = 2  # the sender has written: look
_BODY: Final = struct.Struct("!8sBQI")
_DIGEST_BYTES: Final = 16
_AGE_MS_MAX: Final = 0xFFFFFFFF


def now_ms() -> float:
    """Monotonic milliseconds."""
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True)
class PingHandlers:
    """What the thread tells the backend; called on the thread."""

    on_nudge: Callable[[], None]
    on_suspects: Callable[[list[tuple[str, str]]], None]


class Pings:
    """The datagram socket of one process and the thread that serves it.

    `presume`: who was never heard is taken to have been heard when it was first held. Between
    machines that would be wrong, since datagrams may have no way at all.
    """

    def __init__(self, key: bytes, bind: Address = (LOCAL, 0), *, presume: bool = True) -> None:
        self._key = key
        self._presume = presume
        family = socket.AF_INET6 if ":" in bind[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind(bind)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.session = ""  # hexadecimal; "" while there is none, and then no ping leaves
        self.loop_turned_ms = now_ms()
        self._peers: dict[str, Address] = {}  # by session
        self._last_number: dict[str, int] = {}  # by session: of the newest datagram
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._suspicion: Suspicion | None = None

    def start(self, settings: SessionSettings, handlers: PingHandlers) -> None:
        """Serve the socket on a thread until `close`."""
        self._suspicion = Suspicion(
            silence_ms=settings.silence_ms,
            stall_ms=settings.stall_ms,
            gap_ms=max(2 * settings.ping_ms, settings.silence_ms / 2),
            presume=self._presume,
        )
        self._thread = threading.Thread(
            target=self._run,
            args=(self._suspicion, settings.ping_ms, handlers),
            name="pings",
            daemon=True,
        )
        self._thread.start()

    def set_peers(self, peers: dict[str, Address]) -> None:
        """Where to send to, by session: numeric addresses."""
        with self._lock:
            self._peers = dict(peers)
            known = self._last_number
            self._last_number = {session: known.get(session, 0) for session in peers}

    def hold(self, sessions: Iterable[str]) -> None:
        """These sessions are held to their pings."""
        with self._lock:
            if self._suspicion is not None:
                self._suspicion.members(sessions, now_ms())

    def still_suspected(self, session: str) -> bool:
        """Look again just before acting: the suspect may have answered meanwhile."""
        with self._lock:
            if self._suspicion is None or self._suspicion.turn(now_ms()):
                return False
            return any(name == session for name, _ in self._suspicion.suspects(now_ms()))

    def deaf(self) -> bool:
        """Whether it is more likely us who is cut off than those who are silent."""
        with self._lock:
            return self._suspicion is None or self._suspicion.deaf(now_ms())

    def listen_anew(self) -> None:
        """From now on it counts who is heard: see `hears_half`."""
        with self._lock:
            if self._suspicion is not None:
                self._suspicion.listen_anew()

    def hears_half(self) -> bool:
        """Whether half of those that can be heard were so since `listen_anew`."""
        with self._lock:
            return self._suspicion is None or self._suspicion.hears_half()

    def nudge(self) -> None:
        """Tell every other session that something was written."""
        self._send(NUDGE, 0)

    def close(self) -> None:
        """Stop the thread and give the port back."""
        self._closed = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)
        self._socket.close()

    def _run(self, suspicion: Suspicion, ping_ms: int, handlers: PingHandlers) -> None:
        next_ping = now_ms()
        while not self._closed:
            self._socket.settimeout(max(0.001, (next_ping - now_ms()) / 1000))
            nudged = self._receive(suspicion)
            if nudged:
                handlers.on_nudge()
            now = now_ms()
            with self._lock:
                if suspicion.turn(now):
                    self.loop_turned_ms = now  # it could not turn while all of us was stopped
            if now < next_ping:
                continue
            next_ping = now + ping_ms
            self._send(PING, min(_AGE_MS_MAX, max(0, int(now - self.loop_turned_ms))))
            with self._lock:
                suspects = suspicion.suspects(now)
            if suspects:
                handlers.on_suspects(suspects)

    def _receive(self, suspicion: Suspicion) -> bool:
        """Take one datagram, if one comes in time; True when it was a nudge."""
        try:
            data = self._socket.recv(64)
        except OSError:
            return False  # none came in time, or an earlier one of ours was refused
        body = data[: _BODY.size]
        if len(data) != _BODY.size + _DIGEST_BYTES or not self._is_ours(body, data[_BODY.size :]):
            return False
        session, kind, number, age_ms = _BODY.unpack(body)
        if kind == PING:
            self._take_ping(suspicion, session.hex(), number, age_ms)
        return bool(kind == NUDGE)

    def _take_ping(self, suspicion: Suspicion, session: str, number: int, age_ms: int) -> None:
        with self._lock:
            # Of a session that is not known yet, or sent again by somebody?
            if number > self._last_number.get(session, number):
                self._last_number[session] = number
                suspicion.heard(session, age_ms, now_ms())

    def _is_ours(self, body: bytes, digest: bytes) -> bool:
        return hmac.compare_digest(self._digest(body), digest)

    def _digest(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_DIGEST_BYTES]

    def _send(self, kind: int, age_ms: int) -> None:
        if kind == PING and not self.session:
            return
        session = bytes.fromhex(self.session) if self.session else bytes(8)
        with self._lock:
            addresses = list(self._peers.values())
            body = _BODY.pack(session, kind, time.monotonic_ns(), age_ms)
        data = body + self._digest(body)
        for address in addresses:
            try:
                self._socket.sendto(data, address)
            except OSError:
                pass  # its death is noticed elsewhere, and nudges are only hints
