"""The two ends of a connection, without the connection: frames in, buffers to send out.

Kafka answers the requests of one connection in their order (a client may send many at once).
`ServerConnection` holds an answer back until those before it have left.
"""

from collections import deque
from typing import Final

from replog.codec import ANY_NUMBER, Buffer, Part, decode, encode
from replog.model.errors import ErrorCode
from replog.model.messages import APIS, Api, Request, Response
from replog.model.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from replog.wire.errors import FrameError, OutOfOrder, UnknownApi, UnsupportedVersion
from replog.wire.frame import SIZE_BYTES
from replog.wire.headers import (
    API_VERSIONS_KEY,
    NO_TAGS,
    has_tagged_response,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
    skip_header_tags,
)
from replog.wire.versions import SERVED, Audience

JOINED_MAX: Final = 64 * 1024  # bytes; a larger first part is not copied to put its size before it
# Bytes of a client's request that carries no records: decoded, it may take 80 times as much memory.
# A commit for 100,000 partitions has 4 MiB.
PLAIN_REQUEST_MAX: Final = 8 * 1024 * 1024
# Elements of all arrays of a client's request: each takes some 10 us to read and to answer, during
# which nobody else is served.
ELEMENTS_MAX: Final = 100_000
CORRELATION_MAX: Final = 0x7FFFFFFF  # ids start again at 0 after it

PRODUCE_KEY: Final = 0
_PEERS: Final = Audience.PEERS
UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class ParsedRequest:
    """A request with what its answer needs.

    `answer` is not None when the request asks for nothing but that: it has to be replied at once.
    `token` names the request on its `ServerConnection`.
    """

    __slots__ = (
        "answer",
        "api_key",
        "client_id",
        "correlation_id",
        "message",
        "token",
        "version",
    )

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        message: Request,
        answer: Response | None = None,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.message = message
        self.answer = answer
        self.token = 0


def parse_request(frame: Buffer, *, peer: bool = False) -> ParsedRequest:
    """The request in a frame. `peer`: the other side proved to be a broker of this cluster.

    Records are views of `frame`. Bytes after the body are ignored, as Kafka does. An unknown
    version of ApiVersions is not an error but has its `answer` (KIP-511). Raises UnknownApi,
    UnsupportedVersion, FrameError and MalformedMessage: the connection is to be closed.
    """
    api_key, version, correlation_id, client_id, at = read_request_header(frame)
    api = SERVED.get(api_key)
    if api is None or (not peer and api.audience is _PEERS):
        raise UnknownApi(f"API key {api_key}")
    if not api.min_understood <= version <= api.max_version:
        if api_key == API_VERSIONS_KEY:
            return _unknown_api_versions(version, correlation_id, client_id)
        raise UnsupportedVersion(f"{api.name} v{version}")
    if len(frame) > PLAIN_REQUEST_MAX and api_key != PRODUCE_KEY and not peer:
        raise FrameError(f"{api.name} of {len(frame)} bytes, the limit is {PLAIN_REQUEST_MAX}")
    if version >= api.flexible_from:
        at = at + 1 if frame[at : at + 1] == NO_TAGS else skip_header_tags(frame, at)
    elements_max = ANY_NUMBER if peer else ELEMENTS_MAX
    message, _ = decode(api.request, version, frame, at, elements_max=elements_max)
    return ParsedRequest(api_key, version, correlation_id, client_id, message)


def _unknown_api_versions(
    version: int, correlation_id: int, client_id: str | None
) -> ParsedRequest:
    """The answer that every client understands: version 0, and which versions there are."""
    api = SERVED[API_VERSIONS_KEY]
    row = ApiVersion(
        api_key=API_VERSIONS_KEY, min_version=api.min_version, max_version=api.max_version
    )
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
    return ParsedRequest(
        API_VERSIONS_KEY, 0, correlation_id, client_id, ApiVersionsRequest(), answer
    )


def encode_response(request: ParsedRequest, response: Response) -> list[Part]:
    """The whole frame that answers `request`, with its size. Raises UnencodableMessage."""
    version = request.version
    tagged = version >= SERVED[request.api_key].tagged_from
    return _framed(encode(response, version, response_header(request.correlation_id, tagged)))


def _framed(parts: list[Part]) -> list[Part]:
    """Puts the size before `parts`, the first of which is bytes: the header and what follows."""
    first = parts[0]
    length = len(first) if len(parts) == 1 else sum(map(len, parts))
    size = length.to_bytes(SIZE_BYTES, "big")
    if isinstance(first, bytes) and len(first) <= JOINED_MAX:
        parts[0] = size + first
    else:
        parts.insert(0, size)
    return parts


class ServerConnection:
    """The broker's end. Tokens are counted from 1 on each connection.

    `peer` is to be set once the other side has proved to be a broker of this cluster; `in_flight`
    counts the requests whose answers have not left.
    """

    __slots__ = ("_open", "_ready", "_tokens", "_turn", "in_flight", "peer")

    def __init__(self, *, peer: bool = False) -> None:
        self.peer = peer
        self.in_flight = 0
        self._tokens = 0  # given out
        self._turn = 1  # the token whose answer leaves next
        self._open: dict[int, ParsedRequest] = {}  # not answered
        self._ready: dict[int, list[Part]] = {}  # answered, but not their turn

    def received(self, frame: Buffer) -> ParsedRequest:
        """The request in `frame`, with a token of its own. Raises as `parse_request` does."""
        request = parse_request(frame, peer=self.peer)
        self._tokens = request.token = token = self._tokens + 1
        self._open[token] = request
        self.in_flight += 1
        return request

    def reply(self, token: int, response: Response) -> list[Part]:
        """What can be sent now, in order; nothing when an earlier request is still open.

        Raises UnencodableMessage, and LookupError when no request with this token is open.
        """
        parts = encode_response(self._open[token], response)
        return self._answered(token, parts)

    def no_reply(self, token: int) -> list[Part]:
        """Nobody waits for an answer (a produce request with acks=0): what can be sent now.

        Raises LookupError when no request with this token is open.
        """
        return self._answered(token, [])

    def _answered(self, token: int, parts: list[Part]) -> list[Part]:
        del self._open[token]
        if token != self._turn:
            self._ready[token] = parts
            return []
        self._turn += 1
        self.in_flight -= 1
        ready = self._ready
        while ready and self._turn in ready:
            parts += ready.pop(self._turn)
            self._turn += 1
            self.in_flight -= 1
        return parts


# A request that waits for its answer: correlation id, API, version, and whether the header of the
# response has tagged fields.
_Sent = tuple[int, Api, int, bool]


class ClientConnection:
    """The asker's end: of a broker that asks a peer, and of Replog's own tools."""

    __slots__ = ("_sent", "correlation_id")

    def __init__(self) -> None:
        self.correlation_id = 0  # of the last request
        self._sent: deque[_Sent] = deque()

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._sent)

    def request(
        self, message: Request, version: int, client_id: str | None, *, answered: bool = True
    ) -> list[Part]:
        """What to send. `answered` is False when no response will come (acks=0).

        `correlation_id` is the request's afterwards. Raises UnencodableMessage, and ValueError
        when the message has no such version.
        """
        api = APIS[message.API_KEY]
        following = (self.correlation_id + 1) & CORRELATION_MAX
        flexible = version >= api.flexible_from
        header = request_header(api.key, version, following, client_id, flexible=flexible)
        parts = _framed(encode(message, version, header))
        self.correlation_id = following
        if answered:
            tagged = has_tagged_response(api.key, version, api.flexible_from)
            self._sent.append((following, api, version, tagged))
        return parts

    def response(self, frame: Buffer) -> tuple[int, Response]:
        """The correlation id of a request and its response. Records are views of `frame`.

        An ApiVersions response by a broker that lacks the version asked for is read in version 0.
        Raises OutOfOrder when it answers no request or not the oldest, and MalformedMessage: the
        connection is of no use then.
        """
        if not self._sent:
            raise OutOfOrder("a response, and nothing was asked")
        expected, api, version, tagged = self._sent[0]
        correlation_id, at = read_response_header(frame, tagged=tagged)
        if correlation_id != expected:
            raise OutOfOrder(f"response to {correlation_id}, expected {expected}")
        if api.key == API_VERSIONS_KEY and frame[at : at + 2] == UNSUPPORTED:
            version = 0
        message, _ = decode(api.response, version, frame, at)
        self._sent.popleft()
        return correlation_id, message
