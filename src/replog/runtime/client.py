"""A small blocking client for Replog's own tools: one request at a time, to any broker.

It asks each broker which versions it speaks and uses the highest that both know. It retries nothing
but the choice of a bootstrap address: a tool says what happened, and its user decides.
"""

import socket
import time
from collections.abc import Sequence
from typing import Final

from replog.codec import UnencodableMessage
from replog.model.errors import ErrorCode
from replog.model.messages import Request, Response
from replog.model.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from replog.model.messages.metadata import MetadataRequest, MetadataResponse
from replog.wire import (
    CLOSING_ERRORS,
    SERVED,
    Audience,
    ClientConnection,
    FrameBuffer,
    best_version,
)

FRAME_BYTES_MAX: Final = 256 * 1024 * 1024  # no answer that a tool asks for is larger
PORT_MAX: Final = 65535
CLIENT_ID: Final = "replog-tool"

Address = tuple[str, int]


class ClientError(Exception):
    """The cluster can't be asked; the text is one line that names host and port."""


def parse_bootstrap(text: str) -> list[Address]:
    """`host:port,host:port`; raises ClientError."""
    addresses = []
    for item in text.split(","):
        host, colon, port = item.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= PORT_MAX:
            raise ClientError(f"{item.strip()!r} is not HOST:PORT")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


class _Session:
    """One connection to one broker."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._wire = ClientConnection()
        self._buffer = FrameBuffer(FRAME_BYTES_MAX)
        try:
            self._sock = socket.create_connection(address, timeout=timeout_s)
        except OSError as error:
            raise self._error(f"can't connect: {error.strerror or error}") from error
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ranges: dict[int, tuple[int, int]] | None = None

    def call(self, message: Request, version: int | None) -> Response:
        """Ask and wait. Raises ClientError."""
        if version is None:
            version = self._version(message.API_KEY)
        try:
            parts = self._wire.request(message, version, CLIENT_ID)
            request = b"".join(part for part in parts if isinstance(part, bytes | memoryview))
        except (UnencodableMessage, ValueError) as error:
            raise self._error(f"the request can't be encoded: {error}") from error
        try:
            self._sock.settimeout(self._timeout_s)
            self._sock.sendall(request)
            return self._receive()
        except TimeoutError as error:
            raise self._error(f"no answer within {self._timeout_s:g} s") from error
        except CLOSING_ERRORS as error:
            raise self._error(f"unintelligible answer: {error}") from error
        except OSError as error:
            raise self._error(f"connection broken: {error.strerror or error}") from error

    def close(self) -> None:
        self._sock.close()

    def _receive(self) -> Response:
        deadline = time.monotonic() + self._timeout_s
        while (frame := self._buffer.next_frame()) is None:
            self._sock.settimeout(max(0.001, deadline - time.monotonic()))
            count = self._sock.recv_into(self._buffer.writable())
            if not count:
                raise self._error("connection closed without an answer")
            self._buffer.wrote(count)
        return self._wire.response(frame)[1]

    def _version(self, api_key: int) -> int:
        if SERVED[api_key].audience is not Audience.CLIENTS:
            return SERVED[api_key].max_version  # our own: between the same versions of Replog
        if api_key == ApiVersionsRequest.API_KEY:
            return 0
        if self._ranges is None:
            answer = self.call(ApiVersionsRequest(), 0)
            if not isinstance(answer, ApiVersionsResponse) or answer.error_code:
                raise self._error("it does not say which versions it speaks")
            self._ranges = {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}
        low, high = self._ranges.get(api_key, (0, -1))
        version = best_version(api_key, low, high)
        if version is None:
            raise self._error(f"it does not serve {SERVED[api_key].name}")
        return version

    def _error(self, text: str) -> ClientError:
        host, port = self.address
        return ClientError(f"{host}:{port}: {text}")


class AdminClient:
    """Asks a cluster. Not for use by several threads."""

    def __init__(self, bootstrap: str | Sequence[Address], timeout_s: float = 10.0) -> None:
        """`bootstrap` is `host:port,host:port`, or a list of pairs. Raises ClientError."""
        given = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
        self._bootstrap: list[Address] = given
        self._timeout_s = timeout_s
        self._sessions: dict[Address, _Session] = {}

    def __enter__(self) -> "AdminClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self, message: Request, version: int | None = None, broker: int | None = None
    ) -> Response:
        """The answer of that broker, or of the first that can be reached. Raises ClientError."""
        if broker is not None:
            addresses = self.brokers()
            if broker not in addresses:
                raise ClientError(f"broker {broker} is not registered")
            return self.call_at(addresses[broker], message, version)
        failure = ClientError("no bootstrap server is given")
        for address in self._bootstrap:
            try:
                self._session(address)
            except ClientError as error:
                failure = error
                continue
            return self.call_at(address, message, version)
        raise failure

    def call_at(self, address: Address, message: Request, version: int | None = None) -> Response:
        """The answer of the broker that listens at `address`. Raises ClientError."""
        session = self._session(address)
        try:
            return session.call(message, version)
        except ClientError:
            session.close()
            del self._sessions[address]
            raise

    def metadata(self, topics: Sequence[str] | None = ()) -> MetadataResponse:
        """Brokers and controller, with these topics; None for all. Creates nothing."""
        from replog.model.messages.metadata import MetadataRequestTopic

        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        answer = self.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        if not isinstance(answer, MetadataResponse):
            raise ClientError("the answer is no metadata")
        return answer

    def brokers(self) -> dict[int, Address]:
        """Where the registered brokers listen, by id."""
        return {b.node_id: (b.host, b.port) for b in self.metadata().brokers}

    def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _session(self, address: Address) -> _Session:
        session = self._sessions.get(address)
        if session is None:
            session = self._sessions[address] = _Session(address, self._timeout_s)
        return session


def error_name(code: int) -> str:
    """Kafka's name of an error code, for messages to people."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
