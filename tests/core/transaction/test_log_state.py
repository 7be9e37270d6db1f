"""Which transactions of a log are open, and below which offset all are decided."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.producer.state import ProducerBatch, ProducerTable, TransactionMarker
from replog.core.transaction.log_state import LogTransactions
from replog.model.producers import AbortedTransaction


def marker(
    producer_id: int, offset: int, *, epoch: int = 0, committed: bool = True
) -> TransactionMarker:
    return TransactionMarker(producer_id, epoch, offset, 1_000 + offset, committed, 7)


def batch(producer_id: int, sequence: int, offset: int, epoch: int = 0) -> ProducerBatch:
    return ProducerBatch(producer_id, epoch, sequence, sequence, offset, offset, 1_000 + offset)


def test_the_first_record_of_an_open_transaction_is_undecided() -> None:
    log = LogTransactions()
    log.note_data(1, 5)
    log.note_data(1, 9)
    log.note_data(2, 7)
    assert log.first_undecided(100) == 5
    log.note_marker(1, 10, committed=True)
    assert log.first_undecided(100) == 7


def test_a_marker_counts_once_the_high_watermark_has_passed_it() -> None:
    log = LogTransactions()
    log.note_data(1, 5)
    log.note_marker(1, 6, committed=True)
    assert log.first_undecided(6) == 5
    assert log.any
    assert log.first_undecided(7) is None
    assert not log.any


def test_of_transactions_decided_above_the_high_watermark_the_oldest_counts() -> None:
    log = LogTransactions()
    log.note_data(1, 3)
    log.note_data(2, 4)
    log.note_marker(2, 5, committed=True)
    log.note_marker(1, 6, committed=True)
    assert log.first_undecided(5) == 3
    assert log.first_undecided(6) == 3
    assert log.first_undecided(7) is None


def test_an_abort_tells_where_the_transaction_was_and_what_was_undecided_then() -> None:
    log = LogTransactions()
    log.note_data(1, 3)
    log.note_data(2, 4)
    assert log.note_marker(1, 6, committed=False) == AbortedTransaction(1, 3, 6, 4)
    assert log.note_marker(2, 8, committed=False) == AbortedTransaction(2, 4, 8, 9)


def test_a_marker_without_records_here_aborts_nothing() -> None:
    log = LogTransactions()
    assert log.note_marker(1, 6, committed=False) is None
    assert not log.any


def test_a_copy_stays_as_it_was() -> None:
    log = LogTransactions()
    log.note_data(1, 3)
    log.note_marker(1, 4, committed=True)
    log.note_data(2, 5)
    copy = log.copy()
    log.note_marker(2, 6, committed=True)
    log.settle(100)
    assert copy.open == {2: 5}
    assert copy.first_undecided(4) == 3


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("dca")), max_size=40), st.data())
def test_against_a_search_through_the_whole_log(
    events: Sequence[tuple[int, str]], data: st.DataObject
) -> None:
    log = LogTransactions()
    ended: list[tuple[int, int]] = []  # first offset, marker
    opened: dict[int, int] = {}
    aborted = []
    for offset, (producer_id, kind) in enumerate(events):
        if kind == "d":
            log.note_data(producer_id, offset)
            opened.setdefault(producer_id, offset)
            continue
        found = log.note_marker(producer_id, offset, committed=kind == "c")
        first = opened.pop(producer_id, None)
        if first is not None:
            ended.append((first, offset))
        assert (found is not None) == (first is not None and kind == "a")
        if found is not None:
            stable = min(opened.values(), default=offset + 1)
            assert found == AbortedTransaction(producer_id, first or 0, offset, stable)
            aborted.append(found)
    high_watermarks = data.draw(st.lists(st.integers(0, len(events) + 1), max_size=5))
    for high_watermark in sorted(high_watermarks):
        undecided = [first for first, last in ended if last >= high_watermark]
        undecided += opened.values()
        assert log.first_undecided(high_watermark) == min(undecided, default=None)


# ---- with the producers' sequences -----------------------------------------------------------


def test_a_marker_of_a_newer_epoch_fences_and_lets_sequences_begin_anew() -> None:
    table = ProducerTable()
    table.apply(batch(1, 0, 0))
    table.transactions.note_data(1, 0)
    table.apply_marker(marker(1, 1, epoch=1))
    assert table.producers[1].epoch == 1
    assert table.producers[1].batches == ()
    assert table.producers[1].coordinator_epoch == 7
    assert table.check(1, 0, 1, 1) is not None
    assert table.check(1, 1, 0, 0) is None


def test_a_marker_of_the_same_epoch_keeps_the_sequences() -> None:
    table = ProducerTable()
    table.apply(batch(1, 0, 0))
    table.apply_marker(marker(1, 1))
    assert table.producers[1].last_sequence == 0
    assert table.producers[1].last_timestamp == 1_001


@pytest.mark.parametrize("open_too", [False, True])
def test_a_snapshot_tells_of_open_transactions(open_too: bool) -> None:
    table = ProducerTable()
    table.apply(batch(1, 0, 0))
    table.apply(batch(2, 0, 1))
    table.transactions.note_data(2, 1)
    table.transactions.note_data(1, 2)
    if not open_too:
        table.apply_marker(marker(1, 3))
        table.apply_marker(marker(2, 4))
    again = ProducerTable.of(table.entries())
    for producer_id in (1, 2):
        was, is_now = table.producers[producer_id], again.producers[producer_id]
        assert is_now.last_sequence == was.last_sequence == 0
        assert is_now.last_timestamp == was.last_timestamp
        assert is_now.coordinator_epoch == was.coordinator_epoch == (-1 if open_too else 7)
    assert again.transactions.open == ({2: 1, 1: 2} if open_too else {})
    assert list(again.transactions.open) == list(table.transactions.open)


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    table = ProducerTable()
    table.apply(batch(1, 0, 0))
    table.apply(batch(2, 0, 1))
    table.transactions.note_data(1, 0)
    table.expire(10_000)
    assert set(table.producers) == {1}
