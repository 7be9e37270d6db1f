"""The table of producers as plain values, and back."""

import pytest

from replog.core.producer.state import (
    BATCHES_KEPT,
    SEQUENCE_END,
    ProducerBatch,
    ProducerTable,
    last_sequence,
)
from replog.model.producers import ProducerEntry


def batch(
    producer_id: int, sequence: int, count: int, offset: int, epoch: int = 0
) -> ProducerBatch:
    return ProducerBatch(
        producer_id,
        epoch,
        sequence,
        last_sequence(sequence, count),
        offset,
        offset + count - 1,
        1_000 + offset,
    )


def table(*batches: ProducerBatch) -> ProducerTable:
    made = ProducerTable()
    for each in batches:
        made.apply(each)
    return made


@pytest.mark.parametrize(
    "made",
    [
        table(),
        table(batch(1, 0, 3, 0)),
        table(batch(1, 0, 3, 0), batch(2, 7, 1, 3, epoch=4), batch(1, 3, 2, 4)),
        table(*[batch(1, 10 * i, 10, 100 * i) for i in range(BATCHES_KEPT + 3)]),
        table(batch(1, SEQUENCE_END - 2, 5, 0)),
        table(batch(1, 0, 3, 0), batch(1, 0, 1, 3, epoch=1)),
    ],
    ids=["nobody", "one", "two producers", "more batches than are kept", "wrapped", "new epoch"],
)
def test_there_and_back(made: ProducerTable) -> None:
    assert ProducerTable.of(made.entries()).producers == made.producers


def test_whoever_keeps_the_last_entry_keeps_the_last_batch() -> None:
    """Kafka does: it keeps one entry a producer."""
    made = table(batch(1, 0, 2, 0), batch(2, 0, 1, 2), batch(1, 2, 2, 3))
    made.transactions.note_data(1, 3)
    kept = {entry.producer_id: entry for entry in made.entries()}
    assert kept[1] == ProducerEntry(1, 0, 3, 4, 1, 1_003, -1, 3)
    assert kept[2] == ProducerEntry(2, 0, 0, 2, 0, 1_002, -1, -1)


def test_a_producer_of_which_no_batch_is_known_keeps_its_epoch() -> None:
    made = ProducerTable.of([ProducerEntry(1, 5, -1, -1, 0, 77)])
    assert made.producers[1].epoch == 5
    assert made.producers[1].batches == ()
    assert made.entries() == [ProducerEntry(1, 5, -1, -1, 0, 77)]


def test_entries_of_an_older_epoch_are_passed_over() -> None:
    made = ProducerTable.of(
        [ProducerEntry(1, 5, 3, 9, 0, 7), ProducerEntry(1, 4, 8, 10, 0, 8)],
    )
    assert made.producers[1].epoch == 5
    assert made.producers[1].last_sequence == 3


def test_a_copy_stays_as_it_was() -> None:
    made = table(batch(1, 0, 3, 0))
    copy = made.copy()
    before = copy.entries()
    made.apply(batch(1, 3, 1, 3))
    made.apply(batch(2, 0, 1, 4))
    assert copy.entries() == before
