"""An idle connection to every other broker, whose end tells that its process may have ended.

A connection that breaks and is refused when it is made again is proof: the host is up, and nobody
listens where a broker did. A dial that is refused before there ever was a connection proves
nothing, as something between the two may refuse it, and one without an answer neither.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import ECONNREFUSED, EINPROGRESS
from typing import Final

from replog.runtime.coordination.pings import Address

POLL_S: Final = 0.25
REDIAL_S: Final = 1.0  # after a dial that failed; one after a break is made at once
CONNECT_S: Final = 3.0


@dataclass(slots=True)
class _Peer:
    """One session's broker.

    Legal transitions: waiting -> dialling -> connected -> dialling -> ... A dial that fails waits.
    """

    session: str
    address: Address
    was_connected: bool = False  # the last connection was established, so a refusal counts
    sock: socket.socket | None = None
    connected: bool = False
    deadline_s: float = 0.0  # of the dial, or when to dial


class ConnectionWatch:
    """The connections of one process and the thread that waits on them."""

    def __init__(self, on_proof: Callable[[str], None]) -> None:
        """`on_proof(session)` is called on the thread, once for each session proved dead."""
        self._on_proof = on_proof
        self._lock = threading.Lock()
        self._wanted: dict[str, Address] = {}
        self._peers: dict[str, _Peer] = {}
        self._proved: set[str] = set()
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="connection-watch", daemon=True)
        self._thread.start()

    def set_peers(self, peers: Mapping[str, Address]) -> None:
        """Whom to watch, by session: numeric addresses."""
        with self._lock:
            self._wanted = dict(peers)
        self._wake()

    def close(self) -> None:
        """Close all connections and end the thread."""
        self._closed = True
        self._wake()
        self._thread.join(timeout=5)

    def _wake(self) -> None:
        try:
            self._wake_in.send(b"x")
        except OSError:
            pass  # closed already

    # ---- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._take_wanted()
            for key, _ in self._selector.select(POLL_S):
                if key.data is None:
                    self._wake_out.recv(4096)
                else:
                    self._on_ready(key.data)
            now = time.monotonic()
            for peer in list(self._peers.values()):
                if not peer.connected and now >= peer.deadline_s:
                    self._drop(peer)
                    self._dial(peer)
        for peer in self._peers.values():
            self._drop(peer)
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _take_wanted(self) -> None:
        with self._lock:
            wanted = self._wanted
        for session in [s for s, p in self._peers.items() if wanted.get(s) != p.address]:
            self._drop(self._peers.pop(session))
        self._proved &= wanted.keys()
        for session, address in wanted.items():
            if session not in self._peers and session not in self._proved:
                peer = self._peers[session] = _Peer(session, address)
                self._dial(peer)

    def _dial(self, peer: _Peer) -> None:
        family = socket.AF_INET6 if ":" in peer.address[0] else socket.AF_INET
        peer.sock = socket.socket(family, socket.SOCK_STREAM)
        peer.sock.setblocking(False)
        peer.deadline_s = time.monotonic() + CONNECT_S
        error = peer.sock.connect_ex(peer.address)
        if error not in (0, EINPROGRESS):
            self._failed(peer, error)
        else:
            self._selector.register(peer.sock, selectors.EVENT_WRITE, peer)

    def _on_ready(self, peer: _Peer) -> None:
        sock = peer.sock
        if sock is None:
            return
        if peer.connected:
            try:
                if sock.recv(4096):
                    return  # nothing is expected; whatever it is, the broker lives
            except BlockingIOError:
                return
            except OSError:
                pass
            self._drop(peer)
            self._dial(peer)
            return
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._failed(peer, error)
        elif sock.getsockname() == sock.getpeername():
            self._failed(peer, ECONNREFUSED)  # with a free port, a socket may meet itself
        else:
            peer.connected = peer.was_connected = True
            self._selector.modify(sock, selectors.EVENT_READ, peer)

    def _failed(self, peer: _Peer, error: int) -> None:
        self._drop(peer)
        if error == ECONNREFUSED and peer.was_connected:
            del self._peers[peer.session]
            self._proved.add(peer.session)
            self._on_proof(peer.session)
            return
        peer.deadline_s = time.monotonic() + REDIAL_S

    def _drop(self, peer: _Peer) -> None:
        sock, peer.sock = peer.sock, None
        peer.connected = False
        if sock is not None:
            if sock.fileno() in self._selector.get_map():
                self._selector.unregister(sock)
            sock.close()
