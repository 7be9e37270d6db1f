"""What stands before the body of a request and of a response.

A request of an API with flexible versions has header version 2 (with tagged fields) at these and 1
below; the client id is never compact. A response has header version 1 and 0 accordingly, except
that ApiVersions always has 0: its reader cannot know yet what the broker speaks (KIP-511). Header
version 0 of requests belonged to one message between brokers that no Kafka serves any more.
"""

import struct
from typing import Final

from replog.codec import Buffer, MalformedMessage
from replog.codec.primitives import skip_tags, text

API_VERSIONS_KEY: Final = 18

_START: Final = struct.Struct(">hhih")  # API key, version, correlation id, length of the client id
_CORRELATION: Final = struct.Struct(">i")
_CORRELATION_AND_NO_TAGS: Final = struct.Struct(">ix")
NO_TAGS: Final = b"\0"  # the tagged fields of who has none


def read_request_header(frame: Buffer) -> tuple[int, int, int, str | None, int]:
    """The header as far as all its versions agree: API key, version, correlation id, client id,
    and where it ends; tags are not read yet. Raises MalformedMessage."""
    try:
        api_key, version, correlation_id, length = _START.unpack_from(frame)
    except struct.error as error:
        raise MalformedMessage(f"a request of {len(frame)} bytes is no header") from error
    if length < 0:
        return api_key, version, correlation_id, None, _START.size
    end = _START.size + length
    if end > len(frame):
        raise MalformedMessage(f"client id of {length} bytes in a request of {len(frame)}")
    client_id = text(frame[_START.size : end])
    return api_key, version, correlation_id, client_id, end


def skip_header_tags(frame: Buffer, at: int) -> int:
    """Where the body begins in a flexible version. Raises MalformedMessage."""
    try:
        return at + 1 if frame[at] == 0 else skip_tags(frame, at)
    except IndexError as error:
        raise MalformedMessage("the tagged fields of the header end too early") from error


def request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, *, flexible: bool
) -> bytes:
    """The header of a request."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    start = _START.pack(api_key, version, correlation_id, length)
    return start + name + NO_TAGS if flexible else start + name


def has_tagged_response(api_key: int, version: int, flexible_from: int) -> bool:
    """Whether the header of a response has tagged fields."""
    return version >= flexible_from and api_key != API_VERSIONS_KEY


def response_header(correlation_id: int, tagged: bool) -> bytes:
    """The header of a response, version 1 if `tagged`, else 0."""
    return (_CORRELATION_AND_NO_TAGS if tagged else _CORRELATION).pack(correlation_id)


def read_response_header(frame: Buffer, *, tagged: bool) -> tuple[int, int]:
    """The correlation id of a response, and where its body begins. Raises MalformedMessage."""
    if len(frame) < _CORRELATION.size:
        raise MalformedMessage(f"a response of {len(frame)} bytes is no header")
    correlation_id: int = _CORRELATION.unpack_from(frame)[0]
    end = _CORRELATION.size
    if not tagged:
        return correlation_id, end
    if frame[end : end + 1] == NO_TAGS:
        return correlation_id, end + 1
    return correlation_id, skip_header_tags(frame, end)
