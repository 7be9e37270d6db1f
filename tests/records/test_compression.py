"""Codecs: we read what others write, they read what we write, and bombs stay small."""

import gzip
import random

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.records.compression import Compression, compress, decompress, plausible
from replog.records.errors import UndecodablePayload

CODECS = [codec for codec in Compression if codec != Compression.NONE]
TEXT = b"compressible " * 20_000


def others(codec: int, data: bytes) -> bytes:
    """`data` as another implementation compresses it."""
    match codec:
        case Compression.GZIP:
            return gzip.compress(data)
        case Compression.SNAPPY:
            return bytes(snappy.compress(data))
        case Compression.LZ4:
            return bytes(lz4.frame.compress(data))
        case _:
            return zstandard.compress(data)


def others_back(codec: int, data: bytes) -> bytes:
    match codec:
        case Compression.GZIP:
            return gzip.decompress(data)
        case Compression.LZ4:
            return bytes(lz4.frame.decompress(data))
        case _:
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"a", TEXT, bytes(range(256)) * 600], ids=["one", "text", "mix"])
def test_reads_what_others_write(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, memoryview(others(codec, data)))) == data


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_others_read_what_we_write(codec: int) -> None:
    assert others_back(codec, compress(codec, TEXT)) == TEXT


@pytest.mark.parametrize("level", [1, 9, 12, 17])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, len(TEXT)])
def test_lz4_at_each_level_and_block_boundary(level: int, size: int) -> None:
    noise = bytes(range(256)) * 40
    data = (TEXT[: size // 2] + noise * (size // len(noise) + 1))[:size]
    packed = compress(Compression.LZ4, data, level)
    assert packed[:7] == compress(Compression.LZ4, b"")[:7], "one frame header for all"
    assert others_back(Compression.LZ4, packed) == data
    assert bytes(decompress(Compression.LZ4, packed)) == data


def test_lz4_blocks_are_independent() -> None:
    # Java's reader refuses dependent ones: bit 5 of the byte behind the magic.
    assert compress(Compression.LZ4, TEXT)[4] & 0x20


def test_snappy_is_framed_as_java_does() -> None:
    framed = compress(Compression.SNAPPY, TEXT)
    assert framed[:16] == b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2
    parts, position = [], 16
    while position < len(framed):
        length = int.from_bytes(framed[position : position + 4], "big")
        parts.append(snappy.decompress(framed[position + 4 : position + 4 + length]))
        position += 4 + length
    assert b"".join(parts) == TEXT
    assert max(map(len, parts)) == 32 * 1024


@given(st.sampled_from(list(Compression)), st.binary(max_size=5000))
@settings(deadline=None)
def test_round_trip(codec: Compression, data: bytes) -> None:
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed)) == data
    assert plausible(codec, packed) or not data


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT
    with pytest.raises(UndecodablePayload):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("fault", ["cut", "garbage", "nothing"])
def test_undecodable(codec: int, fault: str) -> None:
    packed = compress(codec, TEXT)
    data = {"cut": packed[:-3], "garbage": bytes(range(10)), "nothing": b""}[fault]
    with pytest.raises(UndecodablePayload):
        decompress(codec, data, 1 << 20)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xff\xff\xff\x0f" + bytes(20), id="a block that claims 4 GiB"),
        pytest.param(b"\xff" * 5, id="a size without end"),
        pytest.param(b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2 + b"\x7f\xff\xff\xff", id="block length"),
        pytest.param(b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2 + b"\0\0", id="cut block length"),
        pytest.param(b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2 + b"\0\0\0\0", id="empty block"),
    ],
)
def test_snappy_sizes_are_not_believed(data: bytes) -> None:
    with pytest.raises(UndecodablePayload):
        decompress(Compression.SNAPPY, data)


@given(st.sampled_from(CODECS), st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_expand_or_are_undecodable(codec: Compression, data: bytes) -> None:
    try:
        expanded = decompress(codec, data, 1 << 16)
    except UndecodablePayload:
        return
    assert len(expanded) <= 1 << 16


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_foreign_payloads_are_implausible(codec: int) -> None:
    assert not plausible(codec, bytes(range(10)))
    assert not plausible(codec, b"")


def test_raw_snappy_is_plausible_by_its_size() -> None:
    assert plausible(Compression.SNAPPY, snappy.compress(TEXT))
    assert not plausible(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20))


@pytest.mark.parametrize(
    "block",
    [
        b"this is nothing",  # a literal that is longer than what is there
        b"\x05\x01abcde",  # a copy, of nothing
        b"\x02\x10abcde",  # a literal longer than the block
        b"\x7f\xf0\x40abc",  # its length in a byte of its own, and too long
        b"\x00trailing",
        b"\x05",
        b"",
    ],
)
def test_raw_snappy_begins_with_a_literal(block: bytes) -> None:
    assert not plausible(Compression.SNAPPY, block)
    with pytest.raises(UndecodablePayload):
        decompress(Compression.SNAPPY, block)


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 256, 257, 65_536, 65_537, 70_000])
def test_every_literal_is_plausible(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert plausible(Compression.SNAPPY, snappy.compress(data))


def test_unknown_codecs() -> None:
    for codec in (5, 6, 7):
        assert not plausible(codec, b"whatever")
        with pytest.raises(UndecodablePayload, match="unknown"):
            decompress(codec, b"whatever")
        with pytest.raises(UndecodablePayload, match="unknown"):
            compress(codec, b"whatever")
