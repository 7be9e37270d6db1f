"""Batches that lose some of their records, or all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    CorruptBatch,
    Producer,
    Record,
    build_batch,
    crc_ok,
    iterate,
    read_records,
)
from replog.records.rewrite import (
    ABORT_MARKER,
    COMMIT_MARKER,
    delete_horizon,
    emptied,
    expand,
    marker_type,
    placeholder,
    rebuilt,
    spans,
)

RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(0, 2**40),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(
            tuple
        ),
    ),
    min_size=1,
    max_size=150,
)


@given(records=RECORDS, compression=st.integers(0, 4), chosen=st.data(), horizon=st.booleans())
def test_what_is_kept_is_what_it_was(
    records: list[Record], compression: int, chosen: st.DataObject, horizon: bool
) -> None:
    batch = build_batch(
        records,
        base_offset=2**33,
        leader_epoch=3,
        producer=Producer(5, 2, 2**31 - 1),
        compression=compression,
        attributes=TRANSACTIONAL_BIT,
    )
    (header,) = iterate(batch)
    payload = expand(batch, header)
    found = spans(payload, header)
    whole = list(read_records(batch))
    assert [(s[2], s[4], s[5]) for s in found] == [
        (r.offset, r.key, r.value is not None) for r in whole
    ]
    picked = chosen.draw(st.sets(st.sampled_from(range(len(records))), min_size=1))
    kept = [found[i] for i in sorted(picked)]
    smaller = rebuilt(header, payload, kept, horizon=2**41 if horizon else None)
    assert list(read_records(smaller)) == [whole[i] for i in sorted(picked)]
    (after,) = iterate(smaller)
    assert crc_ok(smaller, after) and after.count == len(picked)
    for name in ("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch"):
        assert getattr(after, name) == getattr(header, name)
    assert (after.base_sequence, after.last_sequence) == (2**31 - 1, header.last_sequence)
    assert after.max_timestamp == max(whole[i].timestamp for i in picked)
    assert (after.compression, after.transactional) == (compression, True)
    assert delete_horizon(after) == (2**41 if horizon else None)
    # Once more, which keeps the time that was set.
    again = rebuilt(after, expand(smaller, after), spans(expand(smaller, after), after)[:1])
    assert list(read_records(again)) == [whole[min(picked)]]
    assert delete_horizon(iterate(again)[0]) == delete_horizon(after)


@pytest.mark.parametrize("horizon", [None, 2**62])
@pytest.mark.parametrize(("base", "later"), [(2**63 - 3, 5), (-(2**63) + 3, -5)])
def test_times_whose_sum_begins_anew(base: int, later: int, horizon: int | None) -> None:
    batch = bytearray(build_batch([Record(0, 9, b"k", None), Record(0, 9 + later, b"k", None)]))
    batch[27:35] = base.to_bytes(8, "big", signed=True)
    (header,) = iterate(bytes(batch))
    payload = expand(batch, header)
    _, second = read_records(batch)
    smaller = rebuilt(header, payload, spans(payload, header)[1:], horizon=horizon)
    assert list(read_records(smaller)) == [second]
    assert iterate(smaller)[0].max_timestamp == second.timestamp


def test_the_time_of_appending_stays() -> None:
    batch = build_batch([Record(0, 9, b"k", b"v")] * 2, attributes=LOG_APPEND_TIME_BIT)
    (header,) = iterate(batch)
    payload = expand(batch, header)
    (after,) = iterate(rebuilt(header, payload, spans(payload, header)[:1], horizon=1_000))
    assert after.log_append_time and after.max_timestamp == header.max_timestamp


def test_an_emptied_batch_tells_who_wrote_it_and_how_far() -> None:
    batch = build_batch(
        [Record(0, 9, b"k", b"v")] * 3,
        base_offset=7,
        leader_epoch=4,
        producer=Producer(5, 2, 10),
        compression=3,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )
    empty = emptied(iterate(batch)[0])
    (header,) = iterate(empty)
    assert crc_ok(empty, header) and list(read_records(empty, control=True)) == []
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (7, 9, 4)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (5, 2, 12)
    assert header.transactional and header.control and header.max_timestamp == 9
    nobody = placeholder(iterate(batch)[0])
    (header,) = iterate(nobody)
    assert crc_ok(nobody, header) and list(read_records(nobody)) == []
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (7, 9, 4)
    assert (header.producer_id, header.base_sequence, header.max_timestamp) == (-1, -1, -1)
    assert not header.transactional and not header.control


@pytest.mark.parametrize("kind", [ABORT_MARKER, COMMIT_MARKER, 2, 7])
def test_markers_tell_their_type(kind: int) -> None:
    key = b"\0\0" + kind.to_bytes(2, "big")
    batch = build_batch([Record(0, 1, key, b"")], attributes=CONTROL_BIT)
    assert marker_type(batch, iterate(batch)[0]) == kind
    empty = emptied(iterate(batch)[0])
    assert marker_type(empty, iterate(empty)[0]) is None


def test_a_control_record_without_a_type_is_refused() -> None:
    batch = build_batch([Record(0, 1, b"\0", b"")], attributes=CONTROL_BIT)
    with pytest.raises(CorruptBatch):
        marker_type(batch, iterate(batch)[0])


@given(data=st.binary(max_size=60), count=st.integers(0, 5))
def test_bytes_that_are_no_records_are_refused_or_read(data: bytes, count: int) -> None:
    (header,) = iterate(build_batch([Record(0, 1, b"k", b"v")]))
    header.count = count
    try:
        found = spans(data, header)
    except CorruptBatch:
        return
    assert len(found) == count and (found[-1][1] if found else 0) == len(data)
