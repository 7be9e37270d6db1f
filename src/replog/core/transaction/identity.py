"""Who may write under a transactional id: one producer id at a time, and its newest epoch.

Each InitProducerId raises the epoch, and with that fences whoever had it before (KIP-98). A
producer that names what it had is served only if that is the newest, or if this repeats its own
last request, whose answer it never got (KIP-360).
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from replog.model.errors import ErrorCode, Refused

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

# The last epoch that is given out; the one above is kept for fencing a producer by an abort.
LAST_EPOCH = 32_766


class NamedProducer(NamedTuple):
    """What a producer says that it was given."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What is known of one transactional id."""

    producer_id: int
    epoch: int
    timeout_ms: int  # of its transactions
    previous_id: int = NO_PRODUCER_ID  # before the epochs of that one were used up
    previous_epoch: int = NO_PRODUCER_EPOCH  # set when a producer raised it by naming it


class NeedsId(Enum):
    """A new producer id has to be brought before the question can be decided."""

    NEW_PRODUCER_ID = 1


def initialise(
    known: ProducerIdentity | None,
    named: NamedProducer | None,
    *,
    timeout_ms: int,
    new_id: int | None,
) -> ProducerIdentity | NeedsId | Refused:
    """The identity after an InitProducerId. `new_id` is used only where one is needed."""
    if known is None:
        # What the producer names is of no use: it was expired, or belongs to another cluster.
        return _first(new_id, timeout_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    if named is not None and not _may_be_its(named, known):
        return Refused(ErrorCode.PRODUCER_FENCED)
    if named is None or named.epoch == known.epoch:
        was = NO_PRODUCER_EPOCH if named is None else known.epoch
        if known.epoch >= LAST_EPOCH:
            return _first(new_id, timeout_ms, known.producer_id, was)
        return ProducerIdentity(
            known.producer_id, known.epoch + 1, timeout_ms, known.previous_id, was
        )
    if named.epoch == known.previous_epoch:
        return known  # the answer to its last request was lost
    return Refused(ErrorCode.PRODUCER_FENCED)


def _may_be_its(named: NamedProducer, known: ProducerIdentity) -> bool:
    if named.producer_id == known.producer_id:
        return True
    return named.producer_id == known.previous_id and named.epoch >= LAST_EPOCH


def _first(
    new_id: int | None, timeout_ms: int, previous_id: int, previous_epoch: int
) -> ProducerIdentity | NeedsId:
    if new_id is None:
        return NeedsId.NEW_PRODUCER_ID
    return ProducerIdentity(new_id, 0, timeout_ms, previous_id, previous_epoch)
