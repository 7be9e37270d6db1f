"""Pings and nudges between the processes of one machine: datagrams on 127.0.0.1.

One thread, apart from the event loop and from the database, so that neither a long step nor a
blocked transaction is taken for death. A datagram is the cluster's cookie, the sender's session, a
kind, and for a ping how long ago the event loop turned. Anybody on the machine can send one:
those without the cookie (which is in the database) are ignored.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from replog.runtime.coordination.port import SessionSettings
from replog.runtime.coordination.suspicion import Suspicion

LOCAL: Final = "127.0.0.1"
PING: Final = 1  # the sender lives
NUDGE: Final = 2  # the sender has written: look
_DATAGRAM: Final = struct.Struct("!8s8sBI")
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
    """The datagram socket of one process and the thread that serves it."""

    def __init__(self, cookie: bytes) -> None:
        self._cookie = cookie
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((LOCAL, 0))
        self.port: int = self._socket.getsockname()[1]
        self.session = ""  # hexadecimal; "" while there is none, and then no ping leaves
        self.loop_turned_ms = now_ms()
        self._peers: dict[str, int] = {}  # session -> port
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
        )
        self._thread = threading.Thread(
            target=self._run,
            args=(self._suspicion, settings.ping_ms, handlers),
            name="pings",
            daemon=True,
        )
        self._thread.start()

    def set_peers(self, peers: dict[str, int]) -> None:
        """Ports to send to, by session."""
        with self._lock:
            self._peers = dict(peers)

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
        if len(data) != _DATAGRAM.size:
            return False
        cookie, session, kind, age_ms = _DATAGRAM.unpack(data)
        if cookie != self._cookie:
            return False
        if kind == PING:
            with self._lock:
                suspicion.heard(session.hex(), age_ms, now_ms())
        return bool(kind == NUDGE)

    def _send(self, kind: int, age_ms: int) -> None:
        if kind == PING and not self.session:
            return
        session = bytes.fromhex(self.session) if self.session else bytes(8)
        data = _DATAGRAM.pack(self._cookie, session, kind, age_ms)
        with self._lock:
            ports = list(self._peers.values())
        for port in ports:
            try:
                self._socket.sendto(data, (LOCAL, port))
            except OSError:
                pass  # its death is noticed by its lock, and nudges are only hints
