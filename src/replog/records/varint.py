"""Zigzag varints, as records use them inside a batch."""

from typing import Final

from replog.records.errors import CorruptBatch

Bytes = bytes | bytearray | memoryview

_VARINT_BYTES_MAX = 10  # 64 bits in groups of seven


INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


def int64(number: int) -> int:
    """`number` as a field of 64 bits shows it, and Kafka: a sum beyond its end begins anew."""
    return (number - INT64_MIN) % 2**64 + INT64_MIN


def read_varint(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(value, position behind it). Raises CorruptBatch when it does not end before `end`."""
    value = shift = 0
    last = min(end, position + _VARINT_BYTES_MAX)
    while position < last:
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            value |= byte << shift
            return (value >> 1) ^ -(value & 1), position
        value |= (byte & 0x7F) << shift
        shift += 7
    raise CorruptBatch(f"a number at byte {position} does not end")


def append_varint(output: bytearray, value: int) -> None:
    """Adds `value` (64 bits, signed) to `output`."""
    encoded = (value << 1) ^ (value >> 63)
    while encoded > 0x7F:
        output.append((encoded & 0x7F) | 0x80)
        encoded >>= 7
    output.append(encoded)
