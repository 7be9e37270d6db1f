"""Headers: fields, walking a buffer of batches, stamping in place."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.records.batch import Producer, Record, build_batch
from replog.records.errors import CorruptBatch
from replog.records.header import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_ok,
    iterate,
    size_of,
    stamp,
    stamp_log_append_time,
    stamp_timestamp,
)

# One record, key "k", value "v", written by hand from the layout.
GOLDEN = bytes.fromhex(
    "0000000000000007"  # base offset
    "0000003a"  # length: 58
    "00000003"  # leader epoch
    "02"  # magic
    "00000000"  # CRC, put in below
    "0000"  # attributes
    "00000000"  # last offset delta
    "0000018bcfe56800"  # base timestamp 1700000000000
    "0000018bcfe56800"  # max timestamp
    "ffffffffffffffff"  # producer id
    "ffff"  # producer epoch
    "ffffffff"  # base sequence
    "00000001"  # records
    "10000000026b027600"  # the record: 8 bytes
)


def records(count: int) -> list[Record]:
    return [Record(0, 1_000 + i, b"key", b"value" * i) for i in range(count)]


def test_golden_bytes() -> None:
    built = build_batch([Record(0, 1_700_000_000_000, b"k", b"v")], base_offset=7, leader_epoch=3)
    assert built[:17] == GOLDEN[:17]
    assert built[21:] == GOLDEN[21:]
    header = BatchHeader(built, 0)
    assert crc_ok(built, header)
    # CRC-32C of the 49 bytes behind the CRC, worked out bit by bit.
    assert header.crc == _slow_crc(built[21:])


def _slow_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_every_field_is_read() -> None:
    built = build_batch(
        records(3),
        base_offset=100,
        leader_epoch=4,
        producer=Producer(77, 5, 2**31 - 2),
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )
    header = BatchHeader(b"xx" + built, 2)
    assert header.position == 2
    assert header.length == len(built)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert (header.leader_epoch, header.magic, header.count) == (4, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 1_002)
    assert (header.producer_id, header.producer_epoch) == (77, 5)
    assert header.base_sequence == 2**31 - 2
    assert header.last_sequence == 0, "sequences wrap at 2^31"
    assert header.transactional
    assert header.control
    assert not header.log_append_time
    assert header.compression == 0


def test_no_sequence_without_a_producer() -> None:
    assert BatchHeader(build_batch(records(2)), 0).last_sequence == -1


@given(st.lists(st.integers(1, 5), min_size=0, max_size=6), st.integers(0, 200))
def test_iterate_leaves_the_cut_batch_out(counts: list[int], cut: int) -> None:
    batches = [build_batch(records(count)) for count in counts]
    whole = b"".join(batches)
    tail = build_batch(records(4))[: min(cut, len(build_batch(records(4))) - 1)]
    headers = iterate(memoryview(whole + tail))
    assert [header.count for header in headers] == counts
    assert size_of(headers) == len(whole)
    positions = [sum(map(len, batches[:i])) for i in range(len(batches))]
    assert [header.position for header in headers] == positions


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_impossible_lengths(length: int) -> None:
    data = bytearray(build_batch(records(1)))
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptBatch):
        iterate(data)
    with pytest.raises(CorruptBatch):
        iterate(build_batch(records(1)) + data[:20])


def test_the_shortest_length_is_a_header_alone() -> None:
    data = bytearray(build_batch(records(1)))
    struct.pack_into(">i", data, 8, HEADER_SIZE - 12)
    assert iterate(data[:HEADER_SIZE])[0].length == HEADER_SIZE


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats(magic: int) -> None:
    data = bytearray(build_batch(records(1)))
    data[16] = magic
    with pytest.raises(CorruptBatch, match="magic"):
        iterate(data)


def test_zeros_are_no_batch() -> None:
    with pytest.raises(CorruptBatch):
        iterate(bytes(100))


def test_stamping_leaves_the_crc_right() -> None:
    first, second = build_batch(records(2)), build_batch(records(1))
    data = bytearray(first + second)
    stamp(memoryview(data), len(first), 2**40, 9)
    header = iterate(data)[1]
    assert (header.base_offset, header.leader_epoch) == (2**40, 9)
    assert crc_ok(data, header)
    assert data[: len(first)] == first


def test_log_append_time_is_stamped_and_summed() -> None:
    data = bytearray(b"pad" + build_batch(records(2)))
    header = BatchHeader(data, 3)
    stamp_log_append_time(data, header, 5_000)
    again = BatchHeader(data, 3)
    assert again.log_append_time
    assert again.max_timestamp == header.max_timestamp == 5_000
    assert again.base_timestamp == 1_000, "the producer's times stay below it"
    assert again.crc == header.crc
    assert crc_ok(data, again)
    stamp_timestamp(data, again, max_timestamp=6_000, log_append_time=False)
    assert not BatchHeader(data, 3).log_append_time
    assert crc_ok(data, BatchHeader(data, 3))


@given(st.integers(21, 120), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(byte: int, bit: int) -> None:
    data = bytearray(build_batch(records(6)))
    header = BatchHeader(data, 0)
    assert crc_ok(data, header)
    data[byte] ^= 1 << bit
    assert not crc_ok(data, header)
