"""A batch in another codec says the same, to everybody, and bombs stay small."""

import pytest

from replog.records.batch import (
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Compression,
    Producer,
    Record,
    build_batch,
    read_records,
)
from replog.records.compression import DECOMPRESSED_BYTES_MAX
from replog.records.errors import UndecodablePayload
from replog.records.header import crc_ok
from replog.records.recompress import (
    EXPANDED_BYTES_ALWAYS,
    EXPANSION_MAX,
    expanded_bytes_max,
    recompress,
)

RECORDS = [
    Record(0, 1_000 + i, b"key%d" % i, b"value " * 50 * i, (("h", b"x"), ("n", None)))
    for i in range(40)
]
LEVELS = {
    Compression.NONE: [None],
    Compression.GZIP: [None, -1, 1, 9],
    Compression.SNAPPY: [None],
    Compression.LZ4: [None, 1, 9, 12, 17],
    Compression.ZSTD: [None, -131072, -5, 3, 22],
}


def built(codec: int) -> bytearray:
    return bytearray(
        build_batch(
            RECORDS,
            base_offset=5,
            leader_epoch=3,
            producer=Producer(77, 2, 9),
            compression=codec,
            attributes=TRANSACTIONAL_BIT,
        )
    )


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize(
    ("target", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels]
)
def test_it_says_the_same(source: Compression, target: Compression, level: int | None) -> None:
    data = built(source)
    made = recompress(data, BatchHeader(data, 0), target, level)
    header = BatchHeader(made, 0)
    assert header.compression == target
    assert header.length == len(made)
    assert crc_ok(made, header)
    assert list(read_records(made)) == list(read_records(data))
    before, after = BatchHeader(data, 0), header
    for name in set(BatchHeader.__slots__) - {"attributes", "crc", "length", "position"}:
        assert getattr(after, name) == getattr(before, name), name
    assert after.attributes & ~7 == before.attributes & ~7


def test_other_attributes_stay() -> None:
    data = bytearray(build_batch(RECORDS, attributes=LOG_APPEND_TIME_BIT))
    made = recompress(data, BatchHeader(data, 0), Compression.ZSTD, None)
    assert BatchHeader(made, 0).log_append_time


def test_a_batch_in_the_middle_of_a_buffer() -> None:
    data = bytearray(b"x" * 7) + built(Compression.GZIP) + bytearray(b"y" * 7)
    made = recompress(data, BatchHeader(data, 7), Compression.LZ4, None)
    assert list(read_records(made)) == list(read_records(built(Compression.NONE)))


def test_a_higher_level_makes_it_smaller() -> None:
    data = built(Compression.NONE)
    header = BatchHeader(data, 0)
    for codec, low, high in ((Compression.GZIP, 1, 9), (Compression.ZSTD, -1000, 19)):
        assert len(recompress(data, header, codec, high)) < len(
            recompress(data, header, codec, low)
        )


def test_what_is_no_payload_of_the_codec() -> None:
    data = built(Compression.GZIP)
    del data[-20:]
    data[61 + 20 :] = b"junk" * 30
    header = BatchHeader(data, 0)
    header.length = len(data)
    with pytest.raises(UndecodablePayload):
        recompress(data, header, Compression.ZSTD, None)


def test_a_bomb_is_not_expanded() -> None:
    size = EXPANDED_BYTES_ALWAYS + 1
    data = bytearray(build_batch([Record(0, 1, b"k", bytes(size))], compression=Compression.ZSTD))
    assert len(data) < 10_000
    with pytest.raises(UndecodablePayload, match=str(EXPANDED_BYTES_ALWAYS)):
        recompress(data, BatchHeader(data, 0), Compression.GZIP, 1)


def test_bounds_in_ratio_and_absolutely() -> None:
    assert expanded_bytes_max(0) == EXPANDED_BYTES_ALWAYS
    assert expanded_bytes_max(500_000) == EXPANSION_MAX * 500_000
    assert expanded_bytes_max(10**9) == DECOMPRESSED_BYTES_MAX
