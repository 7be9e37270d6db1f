"""Which produced batches are stored, and the error of each that is not, as Kafka answers it."""

import struct
import zlib
from dataclasses import replace

import pytest
from crc32c import crc32c

from replog.model.errors import ErrorCode
from replog.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Compression,
    Producer,
    Record,
    build_batch,
    read_records,
)
from replog.records.header import HEADER_SIZE, crc_ok, size_of
from replog.records.validate import (
    LOOKED_INTO_RECORDS_MAX,
    WALKED_BYTES_MAX,
    WALKED_RECORDS_MAX,
    LookInside,
    ProduceRules,
    RefusedBatch,
    check_fits,
    look_inside,
    validate_produce,
)

NOW = 1_700_000_000_000
HOUR = 3_600_000
RULES = ProduceRules(max_message_bytes=1_048_588, segment_bytes=2**30, timestamp_after_max_ms=HOUR)
TWO = [Record(0, NOW, None, b"one"), Record(0, NOW, None, b"two")]


def check(
    data: bytes, rules: ProduceRules = RULES, *, zstd_allowed: bool = True
) -> list[BatchHeader] | RefusedBatch:
    return decide(memoryview(bytearray(data)), rules, zstd_allowed=zstd_allowed)


def decide(
    buffer: memoryview, rules: ProduceRules = RULES, *, zstd_allowed: bool = True
) -> list[BatchHeader] | RefusedBatch:
    """What becomes of a batch, after its records were looked at where they must be."""
    verdict = validate_produce(buffer, rules=rules, now_ms=NOW, zstd_allowed=zstd_allowed)
    if not isinstance(verdict, LookInside):
        return verdict
    (header,) = verdict.headers
    refused = look_inside(buffer, header, rules=rules, now_ms=NOW) or check_fits(header, rules)
    return [header] if refused is None else refused


def refused(data: bytes, rules: ProduceRules = RULES) -> tuple[ErrorCode, bool]:
    answer = check(data, rules)
    assert isinstance(answer, RefusedBatch), answer
    assert answer.message
    return answer.error, answer.knows_log_start


def sealed(data: bytes, **fields: tuple[str, int, int]) -> bytes:
    """`data` with (format, position, value) written and the CRC made right again."""
    changed = bytearray(data)
    for form, position, value in fields.values():
        struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def old_message(magic: int) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


GOOD = build_batch(TWO)
ONE = build_batch(TWO[:1])

CORRUPT = (ErrorCode.CORRUPT_MESSAGE, False)
NOT_ONE_BATCH = (ErrorCode.INVALID_RECORD, False)
INVALID = (ErrorCode.INVALID_RECORD, True)
UNKNOWN = (ErrorCode.UNKNOWN_SERVER_ERROR, True)


@pytest.mark.parametrize("codec", list(Compression))
def test_good_batches(codec: Compression) -> None:
    data = build_batch(TWO, compression=codec)
    headers = check(data)
    assert isinstance(headers, list)
    assert [header.count for header in headers] == [2]
    assert size_of(headers) == len(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", NOT_ONE_BATCH, id="nothing"),
        pytest.param(b"\xde\xad\xbe\xef", NOT_ONE_BATCH, id="garbage"),
        pytest.param(GOOD[:-1], NOT_ONE_BATCH, id="a byte is missing"),
        pytest.param(GOOD[:-70], NOT_ONE_BATCH, id="most is missing"),
        pytest.param(sealed(GOOD, a=(">i", 8, 500)), NOT_ONE_BATCH, id="length beyond the end"),
        pytest.param(sealed(GOOD, a=(">i", 8, -1)), CORRUPT, id="negative length"),
        pytest.param(sealed(GOOD, a=(">i", 8, 0)), CORRUPT, id="length zero"),
        pytest.param(sealed(GOOD, a=(">i", 8, 13)), CORRUPT, id="length of no message"),
        pytest.param(sealed(GOOD, a=(">i", 8, 14)), CORRUPT, id="length of no batch"),
        pytest.param(sealed(GOOD, a=(">b", 16, -1)), CORRUPT, id="magic -1"),
        pytest.param(sealed(GOOD, a=(">b", 16, 3)), CORRUPT, id="magic 3"),
        pytest.param(sealed(GOOD, a=(">b", 16, 1)), NOT_ONE_BATCH, id="magic 1"),
        pytest.param(old_message(0), NOT_ONE_BATCH, id="message of format 0"),
        pytest.param(old_message(1), NOT_ONE_BATCH, id="message of format 1"),
        pytest.param(GOOD + GOOD, NOT_ONE_BATCH, id="two batches"),
        pytest.param(GOOD + GOOD[:-1], None, id="a second batch that is not whole"),
        pytest.param(GOOD + bytes(5), None, id="a few bytes of junk"),
        pytest.param(GOOD + bytes(69), CORRUPT, id="much junk"),
        pytest.param(GOOD[:17] + bytes(4) + GOOD[21:], CORRUPT, id="CRC"),
        pytest.param(GOOD[:-1] + b"\1", CORRUPT, id="a flipped bit in the payload"),
        pytest.param(sealed(GOOD, a=(">q", 0, -7)), INVALID, id="base offset"),
        pytest.param(sealed(GOOD, a=(">i", 12, 99)), None, id="leader epoch"),
        pytest.param(sealed(GOOD, a=(">i", 57, 3)), INVALID, id="more records"),
        pytest.param(sealed(GOOD, a=(">i", 57, 0)), INVALID, id="no records"),
        pytest.param(sealed(GOOD, a=(">i", 57, -1)), INVALID, id="less than no records"),
        pytest.param(sealed(GOOD, a=(">i", 23, 5)), INVALID, id="last offset delta"),
        pytest.param(sealed(GOOD, a=(">i", 23, -1)), INVALID, id="negative last offset delta"),
        pytest.param(
            sealed(GOOD[:61], a=(">i", 8, 49), b=(">i", 57, 1), c=(">i", 23, 0)),
            INVALID,
            id="a record and no payload",
        ),
        pytest.param(sealed(ONE, a=(">b", 61, 30)), INVALID, id="length of the only record"),
        pytest.param(sealed(GOOD, a=(">b", 61, 126)), INVALID, id="length of the first record"),
        pytest.param(
            build_batch(TWO[:1], attributes=CONTROL_BIT), INVALID, id="a client's control batch"
        ),
        pytest.param(
            build_batch(TWO, producer=Producer(5, 0, -1)), INVALID, id="producer without sequence"
        ),
        pytest.param(
            build_batch(TWO, producer=Producer(-1, -1, 0)), None, id="sequence without producer"
        ),
        pytest.param(sealed(GOOD, a=(">h", 21, 5)), UNKNOWN, id="codec 5"),
        pytest.param(sealed(GOOD, a=(">h", 21, 7)), UNKNOWN, id="codec 7"),
        pytest.param(sealed(GOOD, a=(">h", 21, 1)), UNKNOWN, id="not gzip"),
        pytest.param(sealed(GOOD, a=(">h", 21, 3)), UNKNOWN, id="not lz4"),
        pytest.param(sealed(GOOD, a=(">h", 21, 4)), UNKNOWN, id="not zstd"),
        pytest.param(sealed(GOOD, a=(">h", 21, 0x80)), None, id="an attribute without meaning"),
    ],
)
def test_error_codes(data: bytes, expected: tuple[ErrorCode, bool] | None) -> None:
    if expected is None:
        assert isinstance(check(data), list)
    else:
        assert refused(data) == expected


def test_what_is_behind_the_batch_is_not_of_it() -> None:
    headers = check(GOOD + b"junk")
    assert isinstance(headers, list)
    assert size_of(headers) == len(GOOD)


def test_zstd_needs_a_newer_produce() -> None:
    data = build_batch(TWO, compression=Compression.ZSTD)
    answer = check(data, zstd_allowed=False)
    assert isinstance(answer, RefusedBatch)
    assert answer.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(check(build_batch(TWO, compression=2), zstd_allowed=False), list)


@pytest.mark.surface(19)
def test_sizes_at_the_limit_and_one_past_it() -> None:
    size = len(GOOD)
    fits = ProduceRules(max_message_bytes=size, segment_bytes=size)
    assert isinstance(check(GOOD, fits), list)
    too_large = ProduceRules(max_message_bytes=size - 1, segment_bytes=size)
    assert refused(GOOD, too_large) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    no_segment = ProduceRules(max_message_bytes=size, segment_bytes=size - 1)
    assert refused(GOOD, no_segment) == (ErrorCode.RECORD_LIST_TOO_LARGE, False)


def at(*times: int) -> bytes:
    return build_batch([Record(0, time, b"k", b"v") for time in times])


def test_too_far_in_the_future() -> None:
    assert isinstance(check(at(NOW + HOUR)), list)
    answer = check(at(NOW, NOW + HOUR + 1, NOW - 1, NOW + 2 * HOUR))
    assert isinstance(answer, RefusedBatch)
    assert answer.error == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all(error.message for error in answer.record_errors)


def test_too_far_in_the_past() -> None:
    rules = ProduceRules(
        max_message_bytes=10_000, segment_bytes=10_000, timestamp_before_max_ms=60_000
    )
    assert isinstance(check(at(NOW - 60_000), rules), list)
    answer = check(at(NOW - 60_001, NOW), rules)
    assert isinstance(answer, RefusedBatch)
    assert answer.error == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0]
    assert isinstance(check(at(-1), rules), list), "no timestamp is never too old"


def test_the_brokers_own_time_does_not_care() -> None:
    rules = ProduceRules(
        max_message_bytes=10_000,
        segment_bytes=10_000,
        log_append_time=True,
        timestamp_before_max_ms=60_000,
        timestamp_after_max_ms=60_000,
    )
    assert isinstance(check(at(0, 2**60), rules), list)
    marked = build_batch(TWO, attributes=LOG_APPEND_TIME_BIT)
    answer = check(marked, rules)
    assert isinstance(answer, RefusedBatch)
    assert answer.error == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


@pytest.mark.surface(22)
@pytest.mark.parametrize("codec", list(Compression))
def test_a_largest_time_that_was_not_filled_in_is_worked_out(codec: Compression) -> None:
    built = build_batch(
        [Record(0, NOW, None, b"a"), Record(0, NOW + 9, None, b"b")], compression=codec
    )
    data = memoryview(bytearray(sealed(built, a=(">q", 35, -1))))
    headers = decide(data)
    assert isinstance(headers, list)
    again = BatchHeader(data, 0)
    assert headers[0].max_timestamp == again.max_timestamp == NOW + 9
    assert crc_ok(data, again)
    assert headers[0].crc == again.crc


def test_times_before_all_time_count_as_none() -> None:
    data = memoryview(bytearray(at(-5, -5)))
    assert isinstance(decide(data), list)
    assert BatchHeader(data, 0).max_timestamp == -1


def test_a_producer_does_not_choose_the_kind_of_time() -> None:
    data = memoryview(bytearray(build_batch(TWO, attributes=LOG_APPEND_TIME_BIT)))
    assert isinstance(decide(data), list)
    assert not BatchHeader(data, 0).log_append_time
    assert crc_ok(data, BatchHeader(data, 0))
    assert [record.timestamp for record in read_records(data)] == [NOW, NOW]


COMPACTED = ProduceRules(max_message_bytes=10_000, segment_bytes=10_000, compacted=True)


@pytest.mark.surface(20)
@pytest.mark.parametrize("codec", list(Compression))
def test_a_compacted_topic_wants_keys(codec: Compression) -> None:
    keyed = [Record(0, NOW, b"k", b"a"), Record(0, NOW, b"", b"b")]
    assert isinstance(check(build_batch(keyed, compression=codec), COMPACTED), list)
    some = [keyed[0], TWO[0], keyed[1], TWO[1]]
    answer = check(build_batch(some, compression=codec), COMPACTED)
    assert isinstance(answer, RefusedBatch)
    assert answer.error == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]


def test_a_compacted_topic_looks_inside() -> None:
    keyed = [Record(0, NOW, b"k", b"v" * WALKED_BYTES_MAX), Record(0, NOW, b"k", b"b")]
    headers_claimed = sealed(build_batch(keyed), a=(">b", len(build_batch(keyed)) - 1, 6))
    assert isinstance(check(headers_claimed), list), "elsewhere nobody looks"
    assert refused(headers_claimed, COMPACTED) == INVALID
    cut = bytearray(build_batch(keyed, compression=Compression.GZIP))
    cut[-6] ^= 0xFF  # the checksum of what was compressed
    assert refused(sealed(bytes(cut)), COMPACTED) == UNKNOWN


# ---- few small records are walked, many are not, and what takes long is left to others ----------


def broken_record(count: int, size: int) -> bytes:
    """`count` records of which the last says that it has a header, and has none."""
    data = build_batch([Record(0, NOW, b"k", b"v" * size)] * count)
    return sealed(data, a=(">b", len(data) - 1, 2))


@pytest.mark.parametrize(
    ("count", "size", "is_refused"),
    [
        (1, 10, True),
        (WALKED_RECORDS_MAX, 10, True),
        (WALKED_RECORDS_MAX + 1, 10, False),
        (1, WALKED_BYTES_MAX - 100, True),
        (1, WALKED_BYTES_MAX, False),
    ],
)
def test_few_small_records_are_walked(count: int, size: int, is_refused: bool) -> None:
    data = broken_record(count, size)
    if is_refused:
        assert refused(data) == INVALID
    else:
        assert isinstance(check(data), list)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("count", [LOOKED_INTO_RECORDS_MAX, LOOKED_INTO_RECORDS_MAX + 1])
def test_what_takes_long_is_left_to_the_caller(codec: Compression, count: int) -> None:
    records = [Record(0, NOW, b"k", b"v")] * count
    buffer = memoryview(bytearray(build_batch(records, compression=codec)))
    assert isinstance(validate_produce(buffer, rules=RULES, now_ms=NOW), list)
    verdict = validate_produce(buffer, rules=COMPACTED, now_ms=NOW)
    at_once = codec == Compression.NONE and count == LOOKED_INTO_RECORDS_MAX
    assert isinstance(verdict, list if at_once else LookInside)


def test_a_bomb_is_not_expanded_beyond_the_limit() -> None:
    data = build_batch([Record(0, NOW, b"k", bytes(5_000_000))], compression=Compression.ZSTD)
    buffer = memoryview(bytearray(data))
    header = BatchHeader(buffer, 0)
    assert look_inside(buffer, header, rules=COMPACTED, now_ms=NOW) is None
    refused = look_inside(buffer, header, rules=COMPACTED, now_ms=NOW, limit=1_000_000)
    assert refused is not None and refused.error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_largest_timestamp_above_all_records_is_put_right_where_they_are_walked() -> None:
    data = bytearray(build_batch(TWO))
    struct.pack_into(">q", data, 35, NOW + 5)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    (header,) = validate_produce(memoryview(data), rules=RULES, now_ms=NOW)  # type: ignore[misc]
    assert header.max_timestamp == BatchHeader(data, 0).max_timestamp == NOW
    assert crc_ok(data, header)


def test_nothing_is_no_zstd_of_records() -> None:
    data = bytearray(build_batch(TWO, compression=Compression.ZSTD)[:HEADER_SIZE])
    struct.pack_into(">i", data, 8, HEADER_SIZE - 12)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    assert refused(bytes(data))[0] == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [c for c in Compression if c != Compression.NONE])
def test_what_a_batch_may_expand_to_at_the_limit_and_one_past_it(codec: Compression) -> None:
    data = build_batch([Record(0, NOW, None, b"v" * 500)], compression=codec)
    size = len(build_batch([Record(0, NOW, None, b"v" * 500)])) - HEADER_SIZE
    assert isinstance(check(data, replace(RULES, decompressed_bytes_max=size)), list)
    answer = check(data, replace(RULES, decompressed_bytes_max=size - 1))
    assert isinstance(answer, RefusedBatch) and answer.error is ErrorCode.INVALID_RECORD
    assert f"expands to {size} bytes" in (answer.message or "")


def test_a_batch_that_is_not_compressed_does_not_expand() -> None:
    assert isinstance(check(build_batch(TWO), replace(RULES, decompressed_bytes_max=1)), list)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize(("base", "later"), [(2**63 - 3, 5), (-(2**63) + 3, -5)])
@pytest.mark.parametrize("largest", [2**63 - 1, 0, -(2**63)])
def test_a_time_beyond_all_fields(base: int, later: int, largest: int, codec: Compression) -> None:
    """Kafka's sum begins anew there. Whatever becomes of the batch, it can be written and read."""
    two = [Record(0, NOW, b"k", b"v"), Record(0, NOW + later, b"k", b"v")]
    data = build_batch(two, compression=codec)
    data = sealed(data, base=(">q", 27, base), largest=(">q", 35, largest))
    rules = replace(RULES, timestamp_after_max_ms=2**63 - 1, log_append_time=False)
    for each in (rules, replace(rules, compacted=True), RULES):
        check(data, each)
    assert refused(data)[0] is ErrorCode.INVALID_TIMESTAMP
    _, second = read_records(data)
    assert second.timestamp == (-(2**63) + 2 if later > 0 else 2**63 - 2)
