"""Sequence numbers of idempotent producers on one partition.

The state follows the log: it is a function of the batches in it, so leader, follower and a restarted
broker hold the same. A producer's last five batches are kept: a retry of any of them is answered with
the offset that it got the first time (a client has at most five requests in flight).
"""

from dataclasses import dataclass

from replog.model.errors import ErrorCode, Refused

BATCHES_KEPT = 5  # in flight per connection at most, by the client protocol of KIP-98
SEQUENCE_END = 2**31  # sequence numbers are int32, and go on at 0 after the largest


@dataclass(frozen=True, slots=True)
class ProducerBatch:
    """The part of a batch header that matters here."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already, at these offsets."""

    batch: ProducerBatch


@dataclass(slots=True)
class Producer:
    """One producer id. `batches` are its last ones of the current epoch, oldest first."""

    epoch: int
    batches: tuple[ProducerBatch, ...]
    last_timestamp: int

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


def last_sequence(base_sequence: int, count: int) -> int:
    """The sequence number of the last of `count` records that begin at `base_sequence`."""
    return (base_sequence + count - 1) % SEQUENCE_END


class ProducerTable:
    """Every idempotent producer that has written to the partition."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}

    def check(
        self, producer_id: int, producer_epoch: int, base_sequence: int, final_sequence: int
    ) -> Duplicate | Refused | None:
        """Whether a leader may append the batch: None means yes.

        INVALID_PRODUCER_EPOCH for an epoch that was superseded; OUT_OF_ORDER_SEQUENCE_NUMBER for a
        gap, an overlap, or a new epoch that does not begin at 0. An unknown producer may begin at
        any sequence: its earlier batches may have been deleted (KIP-360).
        """
        known = self.producers.get(producer_id)
        if known is None:
            return None
        if producer_epoch < known.epoch:
            return Refused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {known.epoch}, the batch has {producer_epoch}",
            )
        if producer_epoch > known.epoch:
            if base_sequence == 0:
                return None
            return Refused(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"epoch {producer_epoch} of producer {producer_id} must begin at sequence 0, "
                f"the batch begins at {base_sequence}",
            )
        for batch in known.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == final_sequence:
                return Duplicate(batch)
        expected = (known.last_sequence + 1) % SEQUENCE_END
        if not known.batches or base_sequence == expected:
            return None
        return Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} must go on at sequence {expected}, "
            f"the batch begins at {base_sequence}",
        )

    def apply(self, batch: ProducerBatch) -> None:
        """The batch is in the log (appended by the leader, copied by a follower, or replayed)."""
        known = self.producers.get(batch.producer_id)
        if known is None or batch.producer_epoch != known.epoch:
            kept: tuple[ProducerBatch, ...] = (batch,)
        else:
            kept = (*known.batches[-(BATCHES_KEPT - 1) :], batch)
        self.producers[batch.producer_id] = Producer(
            batch.producer_epoch, kept, batch.max_timestamp
        )

    def clear(self) -> None:
        """Forget everything: the log is replayed after a truncation."""
        self.producers.clear()
