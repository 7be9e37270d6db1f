"""One producer at a time under a transactional id, and its newest epoch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.transaction.identity import (
    LAST_EPOCH,
    NamedProducer,
    NeedsId,
    ProducerIdentity,
    initialise,
)
from replog.model.errors import ErrorCode, Refused

FENCED = Refused(ErrorCode.PRODUCER_FENCED)
NEW_ID = 900


def next_of(
    known: ProducerIdentity | None, named: NamedProducer | None = None, new_id: int | None = NEW_ID
) -> ProducerIdentity | NeedsId | Refused:
    return initialise(known, named, timeout_ms=60_000, new_id=new_id)


def identity(
    epoch: int, *, previous_id: int = -1, previous_epoch: int = -1, producer_id: int = 7
) -> ProducerIdentity:
    return ProducerIdentity(producer_id, epoch, 60_000, previous_id, previous_epoch)


@pytest.mark.parametrize("named", [None, NamedProducer(12345, 3)])
def test_the_first_one_gets_a_new_id_whatever_it_names(named: NamedProducer | None) -> None:
    assert next_of(None, named, None) is NeedsId.NEW_PRODUCER_ID
    assert next_of(None, named) == identity(0, producer_id=NEW_ID)


@pytest.mark.parametrize(
    ("known", "named", "expected"),
    [
        # A producer that names nothing takes over.
        (identity(0), None, identity(1)),
        (identity(5, previous_epoch=4), None, identity(6)),
        # One that names the newest goes on from it.
        (identity(5), NamedProducer(7, 5), identity(6, previous_epoch=5)),
        # It repeats a request whose answer it never got.
        (identity(6, previous_epoch=5), NamedProducer(7, 5), identity(6, previous_epoch=5)),
        # It was fenced by one that took over.
        (identity(6), NamedProducer(7, 5), FENCED),
        (identity(7, previous_epoch=6), NamedProducer(7, 5), FENCED),
        # What it names never was, or is another's.
        (identity(6, previous_epoch=5), NamedProducer(7, 7), FENCED),
        (identity(6, previous_epoch=5), NamedProducer(8, 6), FENCED),
        (identity(0, previous_id=8), NamedProducer(8, 0), FENCED),
    ],
)
def test_who_is_next(
    known: ProducerIdentity,
    named: NamedProducer | None,
    expected: ProducerIdentity | Refused,
) -> None:
    assert next_of(known, named, None) == expected


def test_when_the_epochs_are_used_up_a_new_id_begins() -> None:
    assert next_of(identity(LAST_EPOCH - 1), None, None) == identity(LAST_EPOCH)
    assert next_of(identity(LAST_EPOCH), None, None) is NeedsId.NEW_PRODUCER_ID
    assert next_of(identity(LAST_EPOCH)) == identity(0, producer_id=NEW_ID, previous_id=7)
    rotated = next_of(identity(LAST_EPOCH), NamedProducer(7, LAST_EPOCH))
    assert rotated == identity(0, producer_id=NEW_ID, previous_id=7, previous_epoch=LAST_EPOCH)
    assert isinstance(rotated, ProducerIdentity)
    assert next_of(rotated, NamedProducer(7, LAST_EPOCH)) == rotated, "the answer was lost"
    assert next_of(rotated, NamedProducer(7, LAST_EPOCH - 1)) == FENCED


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_no_pair_of_id_and_epoch_is_given_to_two_producers(
    steps: list[tuple[int, bool]],
) -> None:
    """Four producers take over, or go on from what they were given last, in any order."""
    known = identity(LAST_EPOCH - 2)
    held: dict[int, NamedProducer] = {}
    owners: dict[NamedProducer, int] = {}
    for new_id, (who, takes_over) in enumerate(steps, start=100):
        named = None if takes_over else held.get(who)
        decided = next_of(known, named, new_id)
        if decided == FENCED:
            assert named != NamedProducer(known.producer_id, known.epoch), "the newest is served"
            continue
        assert isinstance(decided, ProducerIdentity)
        given_now = NamedProducer(decided.producer_id, decided.epoch)
        assert owners.setdefault(given_now, who) == who
        held[who] = given_now
        known = decided
