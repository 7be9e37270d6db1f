"""A TCP connection to a server that loses what a test wants lost."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator

CHUNK_BYTES = 1 << 16


class LossyLink:
    """Listens on loopback and passes everything on to one address."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lost_replies = 0
        self._marker: bytes | None = None
        self._open = threading.Event()
        self._open.set()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        """Where clients are to connect."""
        return f"127.0.0.1:{self.port}"

    def lose_reply_to(self, marker: bytes) -> None:
        """The next request with these bytes in it arrives; then the connection breaks."""
        self._marker = marker

    def cut(self) -> None:
        """Break all connections, and accept none that lasts, until `heal`."""
        self._open.clear()
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._break(*pair)

    def heal(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=5)

    # ---- inside -----------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open.is_set():
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            thread = threading.Thread(target=self._carry, args=(client, server), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with self._lock:
            self._pairs.add((client, server))
        try:
            for source, data in self._chunks(client, server):
                lost = source is client and self._marker is not None and self._marker in data
                (server if source is client else client).sendall(data)
                if lost:
                    self._marker = None
                    server.recv(CHUNK_BYTES)  # so it was carried out
                    self.lost_replies += 1
                    return
        except OSError:
            pass  # either end is gone
        finally:
            with self._lock:
                self._pairs.discard((client, server))
            client.close()
            server.close()

    @staticmethod
    def _chunks(*ends: socket.socket) -> Iterator[tuple[socket.socket, bytes]]:
        with selectors.DefaultSelector() as selector:
            for end in ends:
                end.settimeout(10)
                selector.register(end, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    assert isinstance(key.fileobj, socket.socket)
                    data = key.fileobj.recv(CHUNK_BYTES)
                    if not data:
                        return
                    yield key.fileobj, data

    @staticmethod
    def _break(*ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
