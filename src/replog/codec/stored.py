"""Data that says its own type or version in two bytes before it.

Keys of internal topics begin with the record type, values and what group members tell each other
with the version of what follows.
"""

import struct
from typing import TypeVar

from replog.codec.compile import decode, encode_bytes
from replog.codec.errors import MalformedMessage
from replog.codec.primitives import ANY_NUMBER, Buffer
from replog.model.messages import Data

D = TypeVar("D", bound=Data)

_PREFIX = struct.Struct(">h")


def prefix_of(buffer: Buffer) -> int:
    """The record type of a key, the version of a value. Raises MalformedMessage below two bytes."""
    if len(buffer) < _PREFIX.size:
        raise MalformedMessage(f"{len(buffer)} bytes, too few for a type or a version")
    prefix: int = _PREFIX.unpack_from(buffer)[0]
    return prefix


def encode_key(key: Data) -> bytes:
    """The key of a record, after its type. Raises UnencodableMessage."""
    return encode_bytes(key, key.VERSIONS[1], _PREFIX.pack(key.RECORD_TYPE))


def decode_key(cls: type[D], buffer: Buffer) -> D:
    """The key of a record. Raises MalformedMessage, also when it is of another type."""
    found = prefix_of(buffer)
    if found != cls.RECORD_TYPE:
        raise MalformedMessage(f"{cls.__name__} has type {cls.RECORD_TYPE}, found {found}")
    return decode(cls, cls.VERSIONS[1], buffer, _PREFIX.size)[0]


def encode_value(value: Data, version: int) -> bytes:
    """The value of a record, after its version. Raises UnencodableMessage."""
    return encode_bytes(value, version, _PREFIX.pack(version))


def decode_value(cls: type[D], buffer: Buffer, *, newer: bool = False) -> D:
    """The value of a record at the version that it names.

    `newer` reads a version above ours as our highest one, which suits data that only ever grows at
    its end. Raises MalformedMessage, also for a version that we do not know.
    """
    version = prefix_of(buffer)
    low, high = cls.VERSIONS
    if newer and version > high:
        version = high
    if not low <= version <= high:
        raise MalformedMessage(f"{cls.__name__} has versions {low} to {high}, found {version}")
    return decode(cls, version, buffer, _PREFIX.size)[0]


def decode_oldest(cls: type[D], buffer: Buffer, *, elements_max: int = ANY_NUMBER) -> D:
    """What the lowest version has of a value, whichever version that names: each begins with the
    fields of the one before. Raises MalformedMessage, also for more elements in all arrays together
    than `elements_max`."""
    prefix_of(buffer)
    return decode(cls, cls.VERSIONS[0], buffer, _PREFIX.size, elements_max=elements_max)[0]
