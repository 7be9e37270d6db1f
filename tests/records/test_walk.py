"""Records told by their lengths: whatever the reader of records takes, and nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.records.batch import Record, build_batch, read_records
from replog.records.errors import CorruptBatch
from replog.records.header import HEADER_SIZE
from replog.records.walk import check_records

SOME = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**40),
        SOME,
        SOME,
        st.lists(st.tuples(st.text(max_size=5), SOME), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


def taken_by_reader(data: bytes) -> bool:
    try:
        list(read_records(data))
    except CorruptBatch:
        return False
    return True


def taken(payload: bytes, count: int) -> bool:
    try:
        check_records(payload, count)
    except CorruptBatch:
        return False
    return True


@given(RECORDS)
def test_records_are_records(records: list[Record]) -> None:
    check_records(build_batch(records)[HEADER_SIZE:], len(records))


@given(RECORDS, st.data())
@settings(max_examples=300)
def test_one_byte_changed(records: list[Record], data: st.DataObject) -> None:
    built = bytearray(build_batch(records))
    at = data.draw(st.integers(HEADER_SIZE, len(built) - 1))
    built[at] = data.draw(st.integers(0, 255))
    payload = bytes(built[HEADER_SIZE:])
    assert taken(payload, len(records)) == taken_by_reader(bytes(built))


@given(st.binary(max_size=60), st.integers(1, 4))
def test_junk_never_raises_anything_else(payload: bytes, count: int) -> None:
    taken(payload, count)


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_cut_off(cut: int) -> None:
    payload = build_batch([Record(0, 1, b"k", b"v" * 20)])[HEADER_SIZE:]
    assert not taken(payload[:-cut], 1)
    assert not taken(payload + b"\0" * cut, 1)
    assert not taken(payload, 2)


def test_any_length_below_zero_is_null() -> None:
    """So it is for the reader, and the docstring says it."""
    payload = bytearray(build_batch([Record(0, 1, None, None, (("h", None),))])[HEADER_SIZE:])
    longer = payload[1:-1] + b"\xff" * 5 + b"\x01"  # for the one byte that says -1
    check_records(bytes([2 * len(longer)]) + longer, 1)
