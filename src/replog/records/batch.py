"""Single records: building a batch of them, and reading them out of one.

Whole batches (headers, CRC, stamping) are in `header`; its names can be had from here too. Produced
and fetched batches never pass through this file: it serves internal topics, lookups by time,
compacted topics' keys, tests and tools.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from replog.records.compression import DECOMPRESSED_BYTES_MAX, Compression, compress, decompress
from replog.records.errors import CorruptBatch, UndecodablePayload
from replog.records.header import (
    CONTROL_BIT,
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
    crc_ok,
    iterate,
    size_of,
    stamp,
    stamp_log_append_time,
    stamp_timestamp,
)
from replog.records.varint import INT64_MAX, INT64_MIN, append_varint, int64, read_varint

__all__ = [
    "CONTROL_BIT",
    "HEADER_SIZE",
    "LOG_APPEND_TIME_BIT",
    "NO_PRODUCER",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "TRANSACTIONAL_BIT",
    "BatchHeader",
    "Compression",
    "CorruptBatch",
    "Header",
    "Producer",
    "Record",
    "UndecodablePayload",
    "build_batch",
    "crc_ok",
    "iterate",
    "read_records",
    "records_of",
    "size_of",
    "stamp",
    "stamp_log_append_time",
    "stamp_timestamp",
]

_SUMMED = Struct(">hiqqqhii")  # attributes .. number of records: what the CRC covers of the header
_FRONT = Struct(">qiibI")

# length, attributes, timestamp and offset delta, key and value length, number of headers
RECORD_SIZE_MIN: Final = 7

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record. `timestamp` in milliseconds since 1970, -1 for none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Producer(NamedTuple):
    """Who wrote a batch, for idempotence: id, epoch and the sequence of the first record."""

    producer_id: int
    epoch: int
    base_sequence: int


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, -1, NO_SEQUENCE)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: Producer = NO_PRODUCER,
    compression: int = Compression.NONE,
    attributes: int = 0,
) -> bytes:
    """One batch of `records` (at least one), at consecutive offsets from `base_offset` on.

    The records' own `offset` is not looked at. `attributes` may hold LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT and CONTROL_BIT. Raises ValueError without a record.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp
    payload = bytearray()
    for delta, record in enumerate(records):
        _append_record(payload, record, delta, base_timestamp)
    packed = compress(compression, bytes(payload))
    summed = _SUMMED.pack(
        attributes | compression,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp for record in records),
        producer.producer_id,
        producer.epoch,
        producer.base_sequence,
        len(records),
    )
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    crc = crc32c(packed, crc32c(summed))
    return _FRONT.pack(base_offset, length, leader_epoch, MAGIC, crc) + summed + packed


def read_records(buffer: Bytes, *, control: bool = False) -> Iterator[Record]:
    """Every record of the whole batches in `buffer`, in order; those of control batches on demand.

    CRCs are not looked at: bytes from a log were checked on their way in. Raises CorruptBatch (or
    UndecodablePayload, which is one) at the batch that can't be read.
    """
    for header in iterate(buffer):
        if control or not header.control:
            yield from records_of(buffer, header)


def records_of(
    buffer: Bytes, header: BatchHeader, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The records of one batch, at most `limit` bytes of them. Raises CorruptBatch."""
    start = header.position
    packed = memoryview(buffer)[start + HEADER_SIZE : start + header.length]
    payload = decompress(header.compression, packed, limit)
    position, end = 0, len(payload)
    for _ in range(header.count):
        record, position = _read_record(payload, position, end, header)
        yield record
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {header.count} records")


def _append_record(payload: bytearray, record: Record, delta: int, base_timestamp: int) -> None:
    body = bytearray(1)  # attributes, of which none is in use
    append_varint(body, record.timestamp - base_timestamp)
    append_varint(body, delta)
    _append_sized(body, record.key)
    _append_sized(body, record.value)
    append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_sized(body, name.encode())
        _append_sized(body, value)
    append_varint(payload, len(body))
    payload += body


def _append_sized(output: bytearray, value: bytes | None) -> None:
    if value is None:
        append_varint(output, -1)
    else:
        append_varint(output, len(value))
        output += value


def _read_record(
    payload: Bytes, position: int, end: int, header: BatchHeader
) -> tuple[Record, int]:
    length, position = read_varint(payload, position, end)
    stop = position + length
    if length < RECORD_SIZE_MIN - 1 or stop > end:
        raise CorruptBatch(f"a record of {length} bytes, {end - position} are left")
    timestamp_delta, position = read_varint(payload, position + 1, stop)
    offset_delta, position = read_varint(payload, position, stop)
    key, position = _read_sized(payload, position, stop)
    value, position = _read_sized(payload, position, stop)
    headers, position = _read_headers(payload, position, stop)
    if position != stop:
        raise CorruptBatch(f"{stop - position} bytes of a record have no meaning")
    if header.attributes & LOG_APPEND_TIME_BIT:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            timestamp = int64(timestamp)
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), stop


def _read_sized(payload: Bytes, position: int, stop: int) -> tuple[bytes | None, int]:
    length, position = read_varint(payload, position, stop)
    if length < 0:
        return None, position
    end = position + length
    if end > stop:
        raise CorruptBatch(f"a field of {length} bytes, {stop - position} are left")
    return bytes(payload[position:end]), end


def _read_headers(payload: Bytes, position: int, stop: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(payload, position, stop)
    if count == 0:
        return (), position
    if not 0 < count <= (stop - position) // 2:  # each header takes two bytes at least
        raise CorruptBatch(f"{count} headers in {stop - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_sized(payload, position, stop)
        value, position = _read_sized(payload, position, stop)
        if name is None:
            raise CorruptBatch("a header without a name")
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position
