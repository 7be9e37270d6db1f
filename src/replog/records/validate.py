"""May a produced batch be stored? Decided from its header, its CRC and its size.

The payload is neither expanded nor walked on the usual way. Single records are looked at only where
a rule can't be held otherwise: keys on a compacted topic, and the few batches whose header says
that a timestamp is out of bounds or that the largest one was not filled in. That may take long, and
then it is left to the caller (`LookInside`), who does it elsewhere. A few small plain records are
walked by their lengths always, since that costs next to nothing.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from replog.model.errors import ErrorCode, Refused
from replog.records.batch import RECORD_SIZE_MIN, records_of
from replog.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    decompress,
    plausible,
)
from replog.records.errors import CorruptBatch, UndecodablePayload
from replog.records.header import (
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    crc_ok,
    stamp_timestamp,
)
from replog.records.varint import INT64_MAX, INT64_MIN, read_varint
from replog.records.walk import check_records

NO_LIMIT_MS: Final = 2**63 - 1
NO_LIMIT_BYTES: Final = 2**31 - 9  # Kafka's default: the longest array that a JVM has

# Plain batches that are walked by their lengths: at most 10 us for these, 2 us for a single record.
WALKED_BYTES_MAX: Final = 4096
WALKED_RECORDS_MAX: Final = 8

# A plain batch of so few records is looked into at once (5 us a record); what is compressed may
# expand to anything, and is not.
LOOKED_INTO_RECORDS_MAX: Final = 100

# Kafka's smallest message, of the oldest format: a shorter one is corrupt, whatever its magic says.
_LENGTH_MIN: Final = 14
_PREFIX_SIZE: Final = MAGIC_AT + 1
_PREFIX = Struct(">qiib")  # base offset, length, leader epoch, magic


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """What one topic's configuration asks of produced batches. Sizes in bytes, times in ms."""

    max_message_bytes: int
    segment_bytes: int
    decompressed_bytes_max: int = NO_LIMIT_BYTES
    compacted: bool = False
    log_append_time: bool = False
    timestamp_before_max_ms: int = NO_LIMIT_MS
    timestamp_after_max_ms: int = NO_LIMIT_MS

    def bounds(self, now_ms: int) -> tuple[int, int]:
        """The earliest and the latest timestamp that a producer may give a record now."""
        return now_ms - self.timestamp_before_max_ms, now_ms + self.timestamp_after_max_ms


class RecordError(NamedTuple):
    """Why one record made its batch fail (KIP-467)."""

    batch_index: int  # of the record in the batch, from 0
    message: str


@dataclass(frozen=True, slots=True)
class RefusedBatch(Refused):
    """A produced batch that is not stored.

    Kafka answers some refusals with the log start offset and others, made before the log is looked
    at, with -1: `knows_log_start` tells them apart.
    """

    record_errors: tuple[RecordError, ...] = ()
    knows_log_start: bool = True


@dataclass(frozen=True, slots=True)
class LookInside:
    """The header is good; whether the batch is stored its records tell: ask `look_inside`."""

    headers: list[BatchHeader]


def validate_produce(
    buffer: memoryview, *, rules: ProduceRules, now_ms: int, zstd_allowed: bool = True
) -> list[BatchHeader] | RefusedBatch | LookInside:
    """The header of the one batch in `buffer`, or why it is refused, or that it can't be told yet.

    `zstd_allowed` is false for Produce below v7 (KIP-110). Bytes after the batch that are too few
    to begin another one are ignored: store up to `size_of(headers)`. A wrong largest timestamp that
    the header gives away is put right in `buffer` (which must be writable).
    """
    header = _only_batch(buffer)
    if isinstance(header, RefusedBatch):
        return header
    if header.compression == Compression.ZSTD and not zstd_allowed:
        return _early(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or newer")
    if header.base_offset != 0:
        return _invalid(f"the base offset is {header.base_offset}, 0 expected")
    if header.length > rules.max_message_bytes:
        return _early(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.length} bytes, max.message.bytes is {rules.max_message_bytes}",
        )
    if not crc_ok(buffer, header):
        return _early(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
    refused = _check_header(header) or _check_payload(buffer, header)
    if refused is None and _records_matter(header, rules, now_ms):
        if header.compression != Compression.NONE or header.count > LOOKED_INTO_RECORDS_MAX:
            return LookInside([header])
        refused = look_inside(buffer, header, rules=rules, now_ms=now_ms)
    refused = refused or check_fits(header, rules)
    return [header] if refused is None else refused


def check_fits(header: BatchHeader, rules: ProduceRules) -> RefusedBatch | None:
    """Whether the log takes a batch of this size, as it came or after it was compressed anew."""
    if header.length > rules.max_message_bytes:
        return _early(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.length} bytes, max.message.bytes is {rules.max_message_bytes}",
        )
    if header.length > rules.segment_bytes:
        return _early(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {header.length} bytes, segment.bytes is {rules.segment_bytes}",
        )
    return None


def _early(error: ErrorCode, message: str) -> RefusedBatch:
    return RefusedBatch(error, message, knows_log_start=False)


def _invalid(message: str) -> RefusedBatch:
    return RefusedBatch(ErrorCode.INVALID_RECORD, message)


def _only_batch(buffer: memoryview) -> BatchHeader | RefusedBatch:
    """The header of the first batch, when it is whole and no second one follows."""
    length = _batch_length(buffer, 0)
    if isinstance(length, RefusedBatch):
        return length
    if length is None:
        return _early(ErrorCode.INVALID_RECORD, "there is no whole batch")
    magic = buffer[MAGIC_AT]
    if magic != MAGIC:
        return _early(ErrorCode.INVALID_RECORD, f"magic {magic} is not taken, only {MAGIC}")
    if length < HEADER_SIZE:
        return _early(ErrorCode.CORRUPT_MESSAGE, f"{length} bytes are too few for a batch")
    if length < len(buffer):
        second = _batch_length(buffer, length)
        if isinstance(second, RefusedBatch):
            return second
        if second is not None:
            return _early(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    return BatchHeader(buffer, 0)


def _batch_length(buffer: memoryview, position: int) -> int | RefusedBatch | None:
    """Size of the batch at `position`; None when it is not whole."""
    left = len(buffer) - position
    if left < LOG_OVERHEAD:
        return None
    if left < _PREFIX_SIZE:
        length = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        magic = MAGIC
    else:
        _, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if length < _LENGTH_MIN:
        return _early(ErrorCode.CORRUPT_MESSAGE, f"a length of {length} is too small for a batch")
    if not 0 <= magic <= MAGIC:
        return _early(ErrorCode.CORRUPT_MESSAGE, f"magic {magic} is unknown")
    if left < _PREFIX_SIZE or left < LOG_OVERHEAD + length:
        return None
    return LOG_OVERHEAD + length


def _check_header(header: BatchHeader) -> RefusedBatch | None:
    if header.compression > Compression.ZSTD:
        return RefusedBatch(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"codec {header.compression} is unknown"
        )
    count = header.count
    if count <= 0 or header.last_offset_delta != count - 1:
        return _invalid(f"{count} records with last offset delta {header.last_offset_delta}")
    if header.attributes & CONTROL_BIT:
        return _invalid("clients can't write control batches")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        return _invalid(f"sequence {header.base_sequence} of producer {header.producer_id}")
    return None


def _check_payload(buffer: memoryview, header: BatchHeader) -> RefusedBatch | None:
    """What can be told of the payload in constant time: the codec's mark, or the sizes."""
    payload = buffer[HEADER_SIZE : header.length]
    codec = header.compression
    if codec != Compression.NONE:
        if plausible(codec, payload):
            return None
        if codec == Compression.ZSTD and not payload:  # which zstd takes for nothing compressed
            return _invalid(f"{header.count} records in nothing")
        return RefusedBatch(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the payload is no {Compression(codec).name.lower()}"
        )
    if len(payload) < header.count * RECORD_SIZE_MIN:
        return _invalid(f"{header.count} records in {len(payload)} bytes")
    try:
        if header.count <= WALKED_RECORDS_MAX and len(payload) <= WALKED_BYTES_MAX:
            latest = header.base_timestamp + check_records(bytes(payload), header.count)
            if not INT64_MIN <= latest <= INT64_MAX:
                return RefusedBatch(
                    ErrorCode.INVALID_TIMESTAMP, f"a timestamp of {latest}, which no field holds"
                )
            if header.max_timestamp > latest and not header.log_append_time:
                stamp_timestamp(buffer, header, max_timestamp=latest, log_append_time=False)
            return None
        length, start = read_varint(payload, 0, len(payload))
    except CorruptBatch as error:
        return _invalid(str(error))
    left = len(payload) - start
    if length > left or (header.count == 1 and length != left):
        return _invalid(f"the first record has {length} bytes, {left} are left")
    return None


def _records_matter(header: BatchHeader, rules: ProduceRules, now_ms: int) -> bool:
    """Whether the header alone can't tell: keys of a compacted topic, and odd timestamps."""
    earliest, latest = rules.bounds(now_ms)
    out_of_bounds = not rules.log_append_time and (
        header.max_timestamp > latest or NO_TIMESTAMP != header.base_timestamp < earliest
    )
    marked = bool(header.attributes & LOG_APPEND_TIME_BIT)
    unset = header.max_timestamp < max(header.base_timestamp, NO_TIMESTAMP)
    packed = header.compression and rules.decompressed_bytes_max < NO_LIMIT_BYTES
    return bool(out_of_bounds or marked or unset or rules.compacted or packed)


def look_inside(
    buffer: memoryview,
    header: BatchHeader,
    *,
    rules: ProduceRules,
    now_ms: int,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> RefusedBatch | None:
    """Hold every record of a batch against the rules; None when it may be stored.

    Slow: it expands the payload, to at most `limit` bytes, and reads each record. What the header
    says wrongly of the largest timestamp is put right in `buffer`. Only the records are checked.
    """
    try:
        return _too_much(buffer, header, rules, limit) or _look_inside(
            buffer, header, rules, now_ms, limit
        )
    except UndecodablePayload as error:
        return RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    except CorruptBatch as error:
        return _invalid(str(error))


def _too_much(
    buffer: memoryview, header: BatchHeader, rules: ProduceRules, limit: int
) -> RefusedBatch | None:
    """Whether the records take more room than the topic allows once they are expanded."""
    most = rules.decompressed_bytes_max
    if header.compression == Compression.NONE or most >= limit:
        return None
    size = len(decompress(header.compression, buffer[HEADER_SIZE : header.length], limit))
    if size <= most:
        return None
    return _invalid(f"the batch expands to {size} bytes, max.decompressed.message.bytes is {most}")


def _look_inside(
    buffer: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int, limit: int
) -> RefusedBatch | None:
    earliest, latest = rules.bounds(now_ms)
    keyless: list[RecordError] = []
    untimely: list[RecordError] = []
    largest = NO_TIMESTAMP
    marked = bool(header.attributes & LOG_APPEND_TIME_BIT)
    for index, record in enumerate(records_of(buffer, header, limit=limit)):
        time = record.timestamp
        largest = max(largest, time)
        if rules.compacted and record.key is None:
            keyless.append(RecordError(index, "A compacted topic takes no record without a key"))
        if rules.log_append_time:
            if marked:
                untimely.append(RecordError(index, "A producer can't set LogAppendTime"))
        elif time != NO_TIMESTAMP and not earliest <= time <= latest:
            untimely.append(
                RecordError(index, f"Timestamp {time} is not between {earliest} and {latest}")
            )
    if keyless:
        return _refused_records(ErrorCode.INVALID_RECORD, keyless)
    if untimely:
        return _refused_records(ErrorCode.INVALID_TIMESTAMP, untimely)
    if not rules.log_append_time and (marked or largest != header.max_timestamp):
        stamp_timestamp(buffer, header, max_timestamp=largest, log_append_time=False)
    return None


def _refused_records(error: ErrorCode, errors: list[RecordError]) -> RefusedBatch:
    message = f"{len(errors)} of the batch's records are refused: {errors[0].message}"
    return RefusedBatch(error, message, record_errors=tuple(errors))
