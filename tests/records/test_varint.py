"""Zigzag varints: the known encodings, every length, and bytes that do not end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.records.errors import CorruptBatch
from replog.records.varint import append_varint, read_varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_encodings(value: int, encoded: str) -> None:
    output = bytearray()
    append_varint(output, value)
    assert output.hex() == encoded
    assert read_varint(output, 0, len(output)) == (value, len(output))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_comes_back_from_the_middle(value: int, before: bytes, after: bytes) -> None:
    output = bytearray(before)
    append_varint(output, value)
    end = len(output)
    assert read_varint(output + after, len(before), end) == (value, end)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\x80" * 11])
def test_must_end(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(data, 0, len(data))


def test_end_is_respected_although_the_buffer_goes_on() -> None:
    with pytest.raises(CorruptBatch):
        read_varint(b"\x80\x01", 0, 1)
