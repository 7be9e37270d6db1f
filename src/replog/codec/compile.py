"""Encoders and decoders of messages, compiled from their schemas on first use."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from replog.codec.decoding import write_decoder
from replog.codec.encoding import write_encoder
from replog.codec.errors import MalformedMessage, UnencodableMessage
from replog.codec.layout import has_records, layout_of
from replog.codec.primitives import ANY_NUMBER, Buffer
from replog.codec.source import Source
from replog.model.messages import Message, Request
from replog.model.messages.base import OWN_APIS_FROM
from replog.model.records import FileRange

M = TypeVar("M", bound=Message)
Part = Buffer | FileRange

_DecodeFunction = Callable[[Buffer, int, int, int], tuple[Any, int]]
_EncodeFunction = Callable[[Message, bytes], list[Part]]

# With the type that the function's buffer must have.
_Decoder = tuple[_DecodeFunction, type[bytes] | type[memoryview], Source]

_decoders: dict[tuple[type[Message], int], _Decoder] = {}
_encoders: dict[tuple[type[Message], int], tuple[_EncodeFunction, Source]] = {}


def decode(
    cls: type[M], version: int, buffer: Buffer, offset: int = 0, *, elements_max: int = ANY_NUMBER
) -> tuple[M, int]:
    """The message of that class and version at `offset`, and where it ends.

    What follows it is not looked at. Fields that the version lacks have their default. Records are
    slices of `buffer`, everything else is copied. Text that is not UTF-8 is read with replacement
    characters, as Kafka's brokers do. Raises MalformedMessage, also when all arrays together have
    more than `elements_max` elements, and ValueError when there is no such version.
    """
    found = _decoders.get((cls, version))
    if found is None:
        found = _compile_decoder(cls, version)
    function, wanted, source = found
    if type(buffer) is not wanted:
        buffer = wanted(buffer)
    try:
        message, end = function(buffer, offset, len(buffer), elements_max)
    except (struct.error, IndexError) as error:
        path = source.path_of(error.__traceback__)
        raise MalformedMessage(f"{source.file}: {path}: ends too early") from error
    except MalformedMessage as error:
        path = source.path_of(error.__traceback__)
        raise MalformedMessage(f"{source.file}: {path}: {error}") from error
    return message, end


def encode(message: Message, version: int, prefix: bytes = b"") -> list[Part]:
    """The parts of `message` in order, after `prefix`: small fields joined, records as they are.

    In a request or stored data, a field that `version` lacks must be ignorable or at its default;
    in a response it is dropped. Raises UnencodableMessage, and ValueError when there is no such
    version.
    """
    cls = message.__class__
    found = _encoders.get((cls, version))
    if found is None:
        found = _compile_encoder(cls, version)
    function, source = found
    try:
        return function(message, prefix)
    except (struct.error, TypeError, AttributeError, ValueError) as error:
        path = source.path_of(error.__traceback__)
        raise UnencodableMessage(f"{source.file}: {path}: {error}") from error


def encode_bytes(message: Message, version: int, prefix: bytes = b"") -> bytes:
    """All of `encode` in one. Raises UnencodableMessage for records that are in a file."""
    parts = encode(message, version, prefix)
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return parts[0]
    buffers = [part for part in parts if not isinstance(part, FileRange)]
    if len(buffers) != len(parts):
        raise UnencodableMessage(f"{type(message).__name__} v{version}: records are in a file")
    return b"".join(buffers)


def prepare(cls: type[Message], version: int) -> None:
    """Compiles both directions now, so that they are there after a fork and at the first request.

    It takes some milliseconds. Raises ValueError when there is no such version.
    """
    if (cls, version) not in _decoders:
        _compile_decoder(cls, version)
    if (cls, version) not in _encoders:
        _compile_encoder(cls, version)


def _compile_decoder(cls: type[Message], version: int) -> _Decoder:
    layout = layout_of(cls, version)
    views = has_records(layout)
    # What brokers tell each other may hold settings of any length: they were checked before.
    bounded = issubclass(cls, Request) and cls.API_KEY < OWN_APIS_FROM
    source = write_decoder(layout, f"{cls.__name__} v{version}", views, bounded=bounded)
    found: _Decoder = (source.function(), memoryview if views else bytes, source)
    _decoders[cls, version] = found
    return found


def _compile_encoder(cls: type[Message], version: int) -> tuple[_EncodeFunction, Source]:
    source = write_encoder(layout_of(cls, version), f"{cls.__name__} v{version}")
    found: tuple[_EncodeFunction, Source] = (source.function(), source)
    _encoders[cls, version] = found
    return found
