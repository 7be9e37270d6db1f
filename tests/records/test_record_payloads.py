"""Records go in and come out, through every codec; what is broken inside is said, not guessed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    Compression,
    Record,
    UndecodablePayload,
    build_batch,
    read_records,
    records_of,
)
from replog.records.errors import CorruptBatch
from replog.records.header import stamp_timestamp

RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(-1, 2**62),
        key=st.none() | st.binary(max_size=20),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(
            st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3
        ).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


@given(RECORDS, st.sampled_from(list(Compression)), st.integers(0, 2**40))
@settings(deadline=None)
def test_round_trip(records: list[Record], codec: Compression, base_offset: int) -> None:
    built = build_batch(records, base_offset=base_offset, compression=codec)
    header = BatchHeader(built, 0)
    assert header.compression == codec
    assert header.max_timestamp == max(record.timestamp for record in records)
    expected = [record._replace(offset=base_offset + i) for i, record in enumerate(records)]
    assert list(read_records(memoryview(built))) == expected


def test_several_batches_and_control_ones() -> None:
    plain = [Record(0, 5, b"a", b"1"), Record(0, 6, None, None)]
    marker = [Record(0, 7, b"\0\0\0\1", b"\0" * 6)]
    data = (
        build_batch(plain)
        + build_batch(marker, base_offset=2, attributes=CONTROL_BIT)
        + build_batch(plain, base_offset=3)
    )
    assert [record.offset for record in read_records(data)] == [0, 1, 3, 4]
    assert [record.offset for record in read_records(data, control=True)] == [0, 1, 2, 3, 4]


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = bytearray(build_batch([Record(0, 5, None, b"a"), Record(0, 9, None, b"b")]))
    stamp_timestamp(data, BatchHeader(data, 0), max_timestamp=77, log_append_time=True)
    assert [record.timestamp for record in read_records(data)] == [77, 77]
    assert BatchHeader(data, 0).attributes == LOG_APPEND_TIME_BIT


def test_a_batch_has_records() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([])


def broken(payload: bytes, *, count: int = 1, codec: int = 0) -> bytes:
    """A batch with this payload; CRC and sizes of the header are not looked at here."""
    data = bytearray(build_batch([Record(0, 5, b"k", b"v")])[:61]) + payload
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[21:23] = codec.to_bytes(2, "big")
    data[57:61] = count.to_bytes(4, "big")
    return bytes(data)


# length, attributes, timestamp delta, offset delta, key, value, number of headers
SOUND = bytes.fromhex("10000000026b027600")


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(SOUND[:-1], id="cut"),
        pytest.param(SOUND + b"\0", id="a byte more"),
        pytest.param(b"\x12" + SOUND[1:] + b"\0", id="a byte more inside the record"),
        pytest.param(b"\x0a" + SOUND[1:6], id="no room for the fields"),
        pytest.param(b"\x01" + SOUND[1:], id="negative length"),
        pytest.param(bytes.fromhex("10000000ce6b027600"), id="key longer than the record"),
        pytest.param(bytes.fromhex("10000000026b027602"), id="a header that is not there"),
        pytest.param(bytes.fromhex("10000000026b027601"), id="a negative number of headers"),
        pytest.param(bytes.fromhex("14000000026b0276020100"), id="a header without a name"),
        pytest.param(bytes.fromhex("80" * 12), id="a number without end"),
    ],
)
def test_broken_payloads(payload: bytes) -> None:
    with pytest.raises(CorruptBatch):
        list(read_records(broken(payload)))


def test_a_sound_payload_made_the_same_way() -> None:
    assert [record.key for record in read_records(broken(SOUND))] == [b"k"]


@given(st.binary(max_size=80), st.integers(-3, 5), st.integers(0, 7))
@settings(deadline=None)
def test_any_bytes_are_records_or_corrupt(payload: bytes, count: int, codec: int) -> None:
    data = broken(payload, count=count & 0xFFFFFFFF, codec=codec)
    try:
        list(records_of(data, BatchHeader(data, 0), limit=1 << 20))
    except CorruptBatch:
        pass


def test_many_headers_in_few_bytes_are_refused_before_anything_is_made_of_them() -> None:
    payload = bytes.fromhex("18000000026b0276") + b"\xfe\xff\xff\xff\x0f"
    with pytest.raises(CorruptBatch, match="headers"):
        list(read_records(broken(payload)))


def test_unknown_codec() -> None:
    with pytest.raises(UndecodablePayload, match="codec 5"):
        list(read_records(broken(SOUND, codec=5)))
