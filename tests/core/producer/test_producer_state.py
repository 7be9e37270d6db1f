"""Sequences of idempotent producers: what is taken, what is a repetition, what is refused."""

import pytest

from replog.core.producer.state import (
    BATCHES_KEPT,
    SEQUENCE_END,
    Duplicate,
    ProducerBatch,
    ProducerTable,
    last_sequence,
)
from replog.model.errors import ErrorCode, Refused


def batch(sequence: int, *, count: int = 1, epoch: int = 0, offset: int = 0) -> ProducerBatch:
    return ProducerBatch(
        producer_id=9,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_sequence=last_sequence(sequence, count),
        base_offset=offset,
        last_offset=offset + count - 1,
        max_timestamp=1,
    )


def table(*batches: ProducerBatch) -> ProducerTable:
    made = ProducerTable()
    for each in batches:
        made.apply(each)
    return made


def refused_with(verdict: object) -> ErrorCode | None:
    return verdict.error if isinstance(verdict, Refused) else None


@pytest.mark.scenario(66)
def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert table().check(9, 3, 77, 77) is None


def test_the_next_sequence_is_taken_and_a_gap_is_not() -> None:
    known = table(batch(0, count=3))
    assert known.check(9, 0, 3, 3) is None
    assert refused_with(known.check(9, 0, 4, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_overlap_is_refused() -> None:
    known = table(batch(0, count=3))
    assert refused_with(known.check(9, 0, 2, 4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.scenario(65)
def test_each_of_the_last_five_is_a_duplicate_with_its_first_offset() -> None:
    known = table(*(batch(n, offset=100 + n) for n in range(BATCHES_KEPT)))
    for n in range(BATCHES_KEPT):
        verdict = known.check(9, 0, n, n)
        assert isinstance(verdict, Duplicate)
        assert verdict.batch.base_offset == 100 + n


@pytest.mark.scenario(65)
def test_an_older_repetition_is_refused_never_appended() -> None:
    known = table(*(batch(n) for n in range(BATCHES_KEPT + 1)))
    assert refused_with(known.check(9, 0, 0, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_zero_and_forgets_the_old_batches() -> None:
    known = table(batch(0), batch(1))
    assert known.check(9, 1, 0, 0) is None
    assert refused_with(known.check(9, 1, 2, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    known.apply(batch(0, epoch=1, offset=50))
    assert refused_with(known.check(9, 0, 2, 2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(known.check(9, 1, 0, 0), Duplicate)


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    assert last_sequence(SEQUENCE_END - 1, 3) == 1
    known = table(batch(SEQUENCE_END - 1, count=3))
    assert known.check(9, 0, 2, 2) is None
