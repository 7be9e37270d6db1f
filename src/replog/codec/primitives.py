"""Numbers, lengths and varints of the Kafka protocol, for the compiled code and for headers."""

import struct
from collections.abc import Callable
from typing import Any, Final

from replog.codec.errors import MalformedMessage
from replog.model.messages.base import STRING_BYTES_MAX

Buffer = bytes | bytearray | memoryview

# Kinds of fixed width, by what `struct` calls them (big-endian); a uuid is 16 raw bytes.
FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}
SIZES: Final = {kind: struct.calcsize(">" + code) for kind, code in FORMATS.items()}

LENGTH_MAX: Final = 0x7FFFFFFF  # lengths and counts are int32 on the wire, compact ones as well
LONG_TEXT: Final = STRING_BYTES_MAX // 3  # below it no string grows too long by being decoded
ANY_NUMBER: Final = LENGTH_MAX  # of elements, where bytes come from somebody who is trusted
HEADER_TAGS_MAX: Final = 1_000  # tagged fields that nobody knows: clients send none
_VARINT_SHIFT_MAX: Final = 28  # a fifth byte is the last

# Varints of one byte, ready made.
ONE_BYTE: Final = tuple(bytes((n,)) for n in range(128))


def text(data: Buffer) -> str:
    """A string from outside, in UTF-8, that can be told on and stored: not longer than any string
    may be, with what stands for each byte that is no UTF-8. Raises MalformedMessage."""
    found = str(data, "utf-8", "replace")
    if len(data) > LONG_TEXT:
        size = len(found.encode())
        if size > STRING_BYTES_MAX:
            raise MalformedMessage(f"a string of {size} bytes")
    return found


def uvarint(value: int) -> bytes:
    """`value` >= 0 as an unsigned varint."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def continue_uvarint(buffer: Buffer, at: int, first: int) -> tuple[int, int]:
    """The varint whose first byte `first` (> 127) was just before `at`: its value and its end.

    Raises MalformedMessage when it is longer than five bytes or above LENGTH_MAX, IndexError when
    the buffer ends in it.
    """
    value, shift = first & 127, 7
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _VARINT_SHIFT_MAX:
            raise MalformedMessage("a varint of more than five bytes")
    if value > LENGTH_MAX:
        raise MalformedMessage(f"varint {value} is above {LENGTH_MAX}")
    return value, at


def read_uvarint(buffer: Buffer, at: int) -> tuple[int, int]:
    """The varint at `at`: its value and its end. Raises as `continue_uvarint` does."""
    first = buffer[at]
    return (first, at + 1) if first < 128 else continue_uvarint(buffer, at + 1, first)


def skip_tags(buffer: Buffer, at: int) -> int:
    """The end of the tagged fields that begin at `at`, none of which is known.

    Raises MalformedMessage when a size is beyond the buffer or there are very many, IndexError when
    the buffer ends.
    """
    count, at = read_uvarint(buffer, at)
    if count > HEADER_TAGS_MAX:
        raise MalformedMessage(f"{count} tagged fields in a header")
    for _ in range(count):
        _tag, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
        if at > len(buffer):
            raise MalformedMessage(f"a tagged field ends {at - len(buffer)} bytes after the frame")
    return at


def packers(code: str, count: int) -> tuple[Callable[..., bytes], ...]:
    """`pack` for 0 to `count` - 1 numbers of one kind: short arrays are the rule."""
    return tuple(struct.Struct(f">{n}{code}").pack for n in range(count))


def unpackers(code: str, count: int) -> tuple[Callable[[Buffer, int], tuple[Any, ...]], ...]:
    """`unpack_from` for 0 to `count` - 1 numbers of one kind."""
    return tuple(struct.Struct(f">{n}{code}").unpack_from for n in range(count))
