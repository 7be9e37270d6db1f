"""A batch in another codec, for topics whose `compression.type` is not the producer's choice.

Only the payload, its length, the codec and the CRC change: records are neither read nor moved, so
offsets, sequences and timestamps stay as they are.
"""

from struct import Struct
from typing import Final

from crc32c import crc32c

from replog.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from replog.records.header import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Bytes,
)

# What a batch may expand to: a hundred times its size, which honest records hardly reach, or this
# many bytes, which small batches of repeated text do.
EXPANSION_MAX: Final = 100
EXPANDED_BYTES_ALWAYS: Final = 16 * 1024 * 1024

_LENGTH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_LENGTH_AT: Final = 8
_CRC_AT: Final = 17


def expanded_bytes_max(length: int) -> int:
    """How many bytes a compressed payload of `length` bytes may expand to."""
    return min(max(EXPANSION_MAX * length, EXPANDED_BYTES_ALWAYS), DECOMPRESSED_BYTES_MAX)


def recompress(batch: Bytes, header: BatchHeader, codec: int, level: int | None) -> bytearray:
    """The batch of `header`, in `batch`, with its payload in `codec` at `level`.

    Raises UndecodablePayload when the payload is not what the header says, or expands too far.
    """
    start = header.position
    view = memoryview(batch)
    packed = view[start + HEADER_SIZE : start + header.length]
    plain = decompress(header.compression, packed, expanded_bytes_max(len(packed)))
    payload = compress(codec, plain, level)
    made = bytearray(view[start : start + HEADER_SIZE])
    _LENGTH.pack_into(made, _LENGTH_AT, HEADER_SIZE - LOG_OVERHEAD + len(payload))
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    _ATTRIBUTES.pack_into(made, ATTRIBUTES_AT, attributes)
    made += payload
    _CRC.pack_into(made, _CRC_AT, crc32c(memoryview(made)[CRC_COVERS_FROM:]))
    return made
