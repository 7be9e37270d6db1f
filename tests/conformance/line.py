"""One connection to a broker, on which anything can be sent."""

import socket
from typing import Final

from replog.codec import decode, encode_bytes
from replog.model.messages import APIS, Request, Response
from replog.wire import FrameBuffer
from replog.wire.headers import (
    API_VERSIONS_KEY,
    has_tagged_response,
    read_response_header,
    request_header,
)

ANSWER_S: Final = 15.0  # as long as the slowest broker may take for an answer
FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
CLIENT_ID: Final = "conformance"

Address = tuple[str, int]


class Closed(Exception):
    """The broker closed the connection."""


class Unanswered(Exception):
    """The connection lives, and the answer to the next request came first."""


class Line:
    """Sends requests and reads answers, in their order."""

    def __init__(self, address: Address) -> None:
        self._sock = socket.create_connection(address, timeout=ANSWER_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = FrameBuffer(FRAME_BYTES_MAX)
        self._correlation_id = 0

    def frame(self, message: Request, version: int, client_id: str | None = CLIENT_ID) -> bytes:
        """The request with its header, without its size."""
        api = APIS[message.API_KEY]
        self._correlation_id += 1
        flexible = version >= api.flexible_from
        header = request_header(
            api.key, version, self._correlation_id, client_id, flexible=flexible
        )
        return encode_bytes(message, version, header)

    def send(self, frame: bytes) -> None:
        """Raises Closed."""
        self.send_raw(len(frame).to_bytes(4, "big") + frame)

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are. Raises Closed."""
        try:
            self._sock.sendall(data)
        except ConnectionError as error:
            raise Closed from error

    def answer(self, api_key: int, version: int) -> Response:
        """The next answer, as one to such a request. Raises Closed."""
        frame = self._next_frame()
        api = APIS[api_key]
        tagged = has_tagged_response(api_key, version, api.flexible_from)
        _, at = read_response_header(frame, tagged=tagged)
        if api_key == API_VERSIONS_KEY and frame[at : at + 2] == b"\0\x23":
            version = 0  # UNSUPPORTED_VERSION is told in the layout that everybody reads
        return decode(api.response, version, frame, at)[0]

    def must_stay_silent(self) -> None:
        """Raises Unanswered when the broker skips the last request, and Closed.

        It is asked something else: answers come in order.
        """
        request = APIS[API_VERSIONS_KEY].request()
        self.send(self.frame(request, 0))
        frame = self._next_frame()
        if read_response_header(frame, tagged=False)[0] == self._correlation_id:
            raise Unanswered
        self._next_frame()

    def close(self) -> None:
        self._sock.close()

    def _next_frame(self) -> memoryview:
        while (frame := self._buffer.next_frame()) is None:
            try:
                count = self._sock.recv_into(self._buffer.writable())
            except ConnectionError as error:
                raise Closed from error
            if not count:
                raise Closed
            self._buffer.wrote(count)
        return frame
