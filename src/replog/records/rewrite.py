"""What is left of a batch when some of its records go: for compaction, off the loop.

A batch that loses records keeps its offsets, its sequence numbers and its codec: only the count,
the payload and the largest timestamp change. Records that stay are copied as the bytes they are.

A batch with tombstones, or a transaction's marker without records, carries from its first
compaction on the time at which they may go (KIP-534): bit 6 of the attributes says so, the base
timestamp is that time, and the records' timestamps are relative to it.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from replog.records.batch import RECORD_SIZE_MIN
from replog.records.compression import DECOMPRESSED_BYTES_MAX, Compression, compress, decompress
from replog.records.errors import CorruptBatch
from replog.records.header import (
    CONTROL_BIT,
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Bytes,
)
from replog.records.varint import append_varint, int64, read_varint

DELETE_HORIZON_BIT: Final = 0x40  # the base timestamp is the time at which tombstones may go

ABORT_MARKER: Final = 0
COMMIT_MARKER: Final = 1

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")
_CRC_AT: Final = 17
_NULL: Final = 1  # the length -1 as a varint
_CONTROL_KEY = Struct(">hh")  # version, type


# One record in an expanded payload: where it starts and stops, offset, timestamp delta, key, and
# whether it has a value. A bare tuple: one is made for each record, and a named one takes thrice as
# long.
Span = tuple[int, int, int, int, bytes | None, bool]


def expand(batch: Bytes, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """The expanded payload of a batch, at most `limit` bytes. Raises UndecodablePayload."""
    start = header.position
    packed = memoryview(batch)[start + HEADER_SIZE : start + header.length]
    return bytes(decompress(header.compression, packed, limit))


def spans(payload: bytes, header: BatchHeader) -> list[Span]:
    """Where each record of an expanded payload lies, and its key. Raises CorruptBatch."""
    found: list[Span] = []
    position, base_offset, end = 0, header.base_offset, len(payload)
    try:
        for _ in range(header.count):
            start = position
            # Numbers of one and two bytes, which most are, are read here: a call costs more.
            if (byte := payload[position]) < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := payload[position + 1]) < 0x80:
                byte = byte & 0x7F | high << 7
                length, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                length, position = read_varint(payload, position, end)
            stop = position + length
            if length < RECORD_SIZE_MIN - 1 or stop > end:
                raise CorruptBatch(f"a record of {length} bytes, {end - position} are left")
            position += 1  # attributes, of which none is in use
            if (byte := payload[position]) < 0x80:
                time_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                time_delta, position = read_varint(payload, position, stop)
            if (byte := payload[position]) < 0x80:
                delta, position = (byte >> 1) ^ -(byte & 1), position + 1
            elif (high := payload[position + 1]) < 0x80:
                byte = byte & 0x7F | high << 7
                delta, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                delta, position = read_varint(payload, position, stop)
            if (byte := payload[position]) < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = read_varint(payload, position, stop)
            key = None
            if length >= 0:
                key = payload[position : position + length]
                position += length
            if position >= stop:
                raise CorruptBatch(f"a key of {length} bytes leaves no room for a value")
            found.append(
                (start, stop, base_offset + delta, time_delta, key, payload[position] != _NULL)
            )
            position = stop
    except IndexError:
        raise CorruptBatch(f"{header.count} records are more than there is room for") from None
    _expect_end(position, end)
    return found


def _expect_end(position: int, end: int) -> None:
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after the last record")


def delete_horizon(header: BatchHeader) -> int | None:
    """When tombstones of the batch may go (ms since 1970); None while nothing has set it."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def marker_type(batch: Bytes, header: BatchHeader) -> int | None:
    """ABORT_MARKER, COMMIT_MARKER, or another type of control record; None in an emptied batch.

    Raises CorruptBatch.
    """
    records = spans(expand(batch, header), header)
    if not records:
        return None
    key = records[0][4]
    if key is None or len(key) < _CONTROL_KEY.size:
        raise CorruptBatch(f"the control record at {header.base_offset} has no type")
    _, kind = _CONTROL_KEY.unpack_from(key)
    return int(kind)


def rebuilt(
    header: BatchHeader, payload: bytes, kept: Sequence[Span], *, horizon: int | None = None
) -> bytes:
    """The batch with only the `kept` ones (at least one) of its records.

    `horizon`: the time from which its tombstones may go, where none is set yet.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon is None:
        body = b"".join([payload[start:stop] for start, stop, *_ in kept])
    else:
        attributes |= DELETE_HORIZON_BIT
        body = _shifted(payload, kept, base_timestamp - horizon)
    if attributes & LOG_APPEND_TIME_BIT:
        max_timestamp = header.max_timestamp
    else:
        max_timestamp = max(int64(base_timestamp + span[3]) for span in kept)
    return _pack(
        header,
        compress(header.compression, body),
        attributes=attributes,
        base_timestamp=base_timestamp if horizon is None else horizon,
        max_timestamp=max_timestamp,
        count=len(kept),
    )


def emptied(header: BatchHeader) -> bytes:
    """The batch without any record: it still tells who wrote it, up to which sequence and offset.

    That is what keeps a producer's state alive when its last records are gone.
    """
    kept_bits = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    return _pack(
        header,
        b"",
        attributes=header.attributes & kept_bits | Compression.NONE,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        count=0,
    )


def placeholder(header: BatchHeader) -> bytes:
    """A batch of nobody without records that takes the offsets of `header`.

    It stands at the end of a compacted segment, which so ends where it did before.
    """
    return _pack(
        header,
        b"",
        attributes=Compression.NONE,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        count=0,
        anonymous=True,
    )


def _shifted(payload: bytes, kept: Sequence[Span], by: int) -> bytes:
    """The records with `by` added to their timestamp deltas."""
    output = bytearray()
    for start, stop, _, timestamp_delta, _, _ in kept:
        _, position = read_varint(payload, start, stop)
        body = bytearray(payload[position : position + 1])
        _, position = read_varint(payload, position + 1, stop)
        append_varint(body, int64(timestamp_delta + by))
        body += payload[position:stop]
        append_varint(output, len(body))
        output += body
    return bytes(output)


def _pack(
    header: BatchHeader,
    packed: bytes,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    anonymous: bool = False,
) -> bytes:
    batch = bytearray(HEADER_SIZE + len(packed))
    _HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(packed),
        header.leader_epoch,
        MAGIC,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        NO_PRODUCER_ID if anonymous else header.producer_id,
        -1 if anonymous else header.producer_epoch,
        NO_SEQUENCE if anonymous else header.base_sequence,
        count,
    )
    batch[HEADER_SIZE:] = packed
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_COVERS_FROM:]))
    return bytes(batch)
