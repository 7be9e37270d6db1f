"""Codecs of record batches, expanded within a limit.

Never on the way of a produced or fetched batch: only who looks at single records comes here (replay
of internal topics, lookup by time, compacted topics' keys, tools).
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import cramjam

from replog.records.errors import UndecodablePayload

# A batch has at most max.message.bytes, but a hostile one expands without end: here we stop.
DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024

_FIRST_GUESS_BYTES: Final = 4096
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_BLOCK_BYTES: Final = 64 * 1024
# Independent blocks of at most 64 KiB, no checksums: the only frames that every Java client reads.
_LZ4_FRAME_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_STORED: Final = 0x80000000
LZ4_LEVEL: Final = 9  # the default of `compression.lz4.level`
_LZ4_CHECKSUM_SIZE: Final = 4
_LZ4_LEVEL_MAX: Final = 12  # of the library; Kafka's takes greater ones for the same
_GZIP_LEVELS: Final[dict[int | None, int]] = {None: 6, -1: 6}
_BLOCK_LENGTH = Struct(">i")
_LZ4_BLOCK_LENGTH = Struct("<I")

Bytes = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


# Bytes that a payload of the codec must begin with. Raw snappy has none.
_FRAME_MAGIC: Final = {1: b"\x1f\x8b", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}


def plausible(codec: int, payload: Bytes) -> bool:
    """Whether `payload` can be of this codec at all, by its first bytes (constant time)."""
    if codec == Compression.NONE:
        return True
    if codec == Compression.SNAPPY:
        return _plausible_snappy(payload)
    magic = _FRAME_MAGIC.get(codec)
    return magic is not None and bytes(payload[: len(magic)]) == magic


def decompress(codec: int, payload: Bytes, limit: int = DECOMPRESSED_BYTES_MAX) -> Bytes:
    """The expanded payload, at most `limit` bytes. Raises UndecodablePayload."""
    if codec == Compression.NONE:
        return payload
    if codec == Compression.SNAPPY:
        return _decompress_snappy(payload, limit)
    expand = _EXPANDERS.get(codec)
    if expand is None:
        raise UndecodablePayload(f"codec {codec} is unknown")
    return _expand(expand, payload, limit)


def compress(codec: int, payload: Bytes, level: int | None = None) -> bytes:
    """`payload` as every client reads it. Raises UndecodablePayload when the codec is unknown.

    `level` is that of Kafka's `compression.<codec>.level`: gzip 1 to 9 (-1: 6), lz4 1 to 17, zstd
    -131072 to 22; without one, the codec's default. Snappy has none.
    """
    match codec:
        case Compression.NONE:
            return bytes(payload)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(payload, level=_GZIP_LEVELS.get(level, level)))
        case Compression.SNAPPY:
            return _compress_snappy(payload)
        case Compression.LZ4:
            return _compress_lz4(payload, LZ4_LEVEL if level is None else level)
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(payload, level=3 if level is None else level))
    raise UndecodablePayload(f"codec {codec} is unknown")


_EXPANDERS: Final[dict[int, Callable[[Any, Any], int]]] = {
    Compression.GZIP: cramjam.gzip.decompress_into,
    Compression.LZ4: cramjam.lz4.decompress_into,
    Compression.ZSTD: cramjam.zstd.decompress_into,
}


def _expand(expand: Callable[[Any, Any], int], payload: Bytes, limit: int) -> memoryview:
    # The formats do not tell their size reliably, and a claimed one is not to be trusted: the
    # output grows fourfold until it is enough. Untouched pages of a large bytearray cost nothing.
    size = min(limit, max(_FIRST_GUESS_BYTES, 4 * len(payload)))
    while True:
        output = bytearray(size)
        try:
            return memoryview(output)[: expand(payload, output)]
        except cramjam.DecompressionError as error:
            if size >= limit:
                raise UndecodablePayload(
                    f"{len(payload)} compressed bytes can't be expanded within {limit}: {error}"
                ) from None
            size = min(limit, 4 * size)


def _snappy_length(payload: Bytes) -> int:
    """The size that a raw block claims; -1 when it begins with no such size."""
    length = shift = 0
    for byte in bytes(payload[:5]):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length
        shift += 7
    return -1


def _plausible_snappy(payload: Bytes) -> bool:
    if bytes(payload[:8]) == _XERIAL_MAGIC:
        return len(payload) >= _XERIAL_HEADER_SIZE
    # A copy of up to 64 bytes takes three: no block expands more than that.
    length = _snappy_length(payload)
    return 0 <= length <= 32 * len(payload) and _plausible_literal(payload, length)


def _plausible_literal(payload: Bytes, length: int) -> bool:
    """Whether a raw block of `length` bytes begins with some of them as they are: there is nothing
    yet that could be copied."""
    front = bytes(payload[:10])
    at = next((i + 1 for i, byte in enumerate(front) if byte < 0x80), len(front))
    if length == 0:
        return at == len(payload)
    if at == len(front) or front[at] & 3:
        return False
    size, more = (front[at] >> 2) + 1, 0
    if size > 60:  # the size is in the next one to four bytes
        more = size - 60
        size = int.from_bytes(front[at + 1 : at + 1 + more], "little") + 1
    return size <= min(length, len(payload) - at - 1 - more)


def _decompress_snappy(payload: Bytes, limit: int) -> Bytes:
    if bytes(payload[:8]) == _XERIAL_MAGIC:
        return _decompress_xerial(payload, limit)
    return _decompress_block(payload, limit)


def _decompress_block(block: Bytes, limit: int) -> bytearray:
    length = _snappy_length(block)
    if not 0 <= length <= min(limit, 32 * len(block)):
        raise UndecodablePayload(
            f"snappy block of {len(block)} bytes claims {length}, at most {limit}"
        )
    output = bytearray(length)
    try:
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise UndecodablePayload(f"snappy block of {len(block)} bytes: {error}") from None
    if written != length:
        raise UndecodablePayload(f"snappy block claims {length} bytes and has {written}")
    return output


def _decompress_xerial(payload: Bytes, limit: int) -> bytearray:
    """The framing of Java's snappy streams: a header, then blocks with their compressed length."""
    output = bytearray()
    position = _XERIAL_HEADER_SIZE
    while position < len(payload):
        if len(payload) - position < 4:
            raise UndecodablePayload("snappy stream is cut off inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(payload, position)
        position += 4
        if not 0 < length <= len(payload) - position:
            raise UndecodablePayload(f"snappy stream is cut off in a block of {length} bytes")
        output += _decompress_block(payload[position : position + length], limit - len(output))
        position += length
    return output


def _compress_snappy(payload: Bytes) -> bytes:
    parts = [_XERIAL_MAGIC, _BLOCK_LENGTH.pack(1), _BLOCK_LENGTH.pack(1)]
    for start in range(0, len(payload), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(payload[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _compress_lz4(payload: Bytes, level: int) -> bytes:
    # As in Kafka the default stands for the fast compressor, any other level for the thorough one.
    if level != LZ4_LEVEL:
        return _compress_lz4_thoroughly(payload, min(level, _LZ4_LEVEL_MAX))
    parts: list[Bytes] = [_LZ4_FRAME_HEADER]
    for start in range(0, len(payload), _LZ4_BLOCK_BYTES):
        plain = payload[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_BLOCK_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_BLOCK_LENGTH.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_BLOCK_LENGTH.pack(0))
    return b"".join(parts)


def _compress_lz4_thoroughly(payload: Bytes, level: int) -> bytes:
    # Only the library's frames have levels. They come with a checksum behind each block, which we
    # leave out: the batch has a CRC of its own, and the frame header is the same for all levels.
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(payload))
    frame = memoryview(bytes(compressor.finish()))
    parts: list[Bytes] = [_LZ4_FRAME_HEADER]
    position = len(_LZ4_FRAME_HEADER)
    while True:
        (length,) = _LZ4_BLOCK_LENGTH.unpack_from(frame, position)
        end = position + _LZ4_BLOCK_LENGTH.size + (length & ~_LZ4_STORED)
        parts.append(frame[position:end])
        if not length:
            return b"".join(parts)
        position = end + _LZ4_CHECKSUM_SIZE
