"""Sequence numbers of idempotent producers on one partition.

The state follows the log: it is a function of the batches in it, so leader, follower and a
restarted broker hold the same. A producer's last five batches are kept: a retry of any of them is
answered with the offset that it got the first time (a client has at most five requests in flight).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from replog.core.transaction.log_state import LogTransactions
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_OFFSET
from replog.model.producers import NO_COORDINATOR_EPOCH, AbortedTransaction, ProducerEntry

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
    """One producer id. `batches` are its last ones of the current epoch, oldest first.

    Never changed, always replaced: a copy of the table keeps what it has.
    """

    epoch: int
    batches: tuple[ProducerBatch, ...]
    last_timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH  # of its last transaction marker

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


def last_sequence(base_sequence: int, count: int) -> int:
    """The sequence number of the last of `count` records that begin at `base_sequence`."""
    return (base_sequence + count - 1) % SEQUENCE_END


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """A control record that ends the transaction of one producer on this partition."""

    producer_id: int
    producer_epoch: int
    offset: int
    timestamp: int
    committed: bool
    coordinator_epoch: int = NO_COORDINATOR_EPOCH


class ProducerTable:
    """Every idempotent producer that has written to the partition, and their transactions."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.transactions = LogTransactions()

    @classmethod
    def of(cls, entries: Iterable[ProducerEntry]) -> "ProducerTable":
        """The table that `entries` tells: the inverse of `entries`."""
        table = cls()
        open_since: dict[int, int] = {}
        for entry in entries:
            if entry.current_txn_first_offset >= 0:
                open_since[entry.producer_id] = entry.current_txn_first_offset
            known = table.producers.get(entry.producer_id)
            if known is not None and known.epoch > entry.producer_epoch:
                continue
            batches = () if known is None or known.epoch < entry.producer_epoch else known.batches
            if entry.last_sequence >= 0:
                batches = (*batches, _batch_of(entry))[-BATCHES_KEPT:]
            table.producers[entry.producer_id] = Producer(
                entry.producer_epoch, batches, entry.timestamp, entry.coordinator_epoch
            )
        for producer_id, first_offset in sorted(open_since.items(), key=itemgetter(1)):
            table.transactions.note_data(producer_id, first_offset)
        return table

    def copy(self) -> "ProducerTable":
        """The table as it is now, for another thread to read."""
        table = ProducerTable()
        table.producers = dict(self.producers)
        table.transactions = self.transactions.copy()
        return table

    def entries(self) -> list[ProducerEntry]:
        """All that is known, one entry a batch, those of a producer oldest first. The last one
        tells of its open transaction too."""
        found: list[ProducerEntry] = []
        for producer_id, producer in self.producers.items():
            found += [_entry_of(batch) for batch in producer.batches[:-1]]
            if producer.batches:
                last = _entry_of(producer.batches[-1])
            else:
                last = ProducerEntry(producer_id, producer.epoch, -1, NO_OFFSET, 0, 0)
            found.append(
                last._replace(
                    timestamp=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_first_offset=self.transactions.open.get(producer_id, NO_OFFSET),
                )
            )
        return found

    def outrun(self, offset: int) -> dict[int, int]:
        """Producers that wrote below `offset`, but not one of the batches that are known: their
        epochs, by id."""
        return {
            producer_id: producer.epoch
            for producer_id, producer in self.producers.items()
            if producer.batches
            and producer.batches[0].base_sequence
            and producer.batches[0].last_offset >= offset
        }

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
        coordinator_epoch = NO_COORDINATOR_EPOCH if known is None else known.coordinator_epoch
        self.producers[batch.producer_id] = Producer(
            batch.producer_epoch, kept, batch.max_timestamp, coordinator_epoch
        )

    def apply_marker(self, marker: TransactionMarker) -> AbortedTransaction | None:
        """A marker is in the log; the transaction that it aborts, if it aborts any.

        A marker of a newer epoch fences the producer: with KIP-890 each transaction ends so.
        """
        known = self.producers.get(marker.producer_id)
        batches: tuple[ProducerBatch, ...] = ()
        if known is not None and known.epoch == marker.producer_epoch:
            batches = known.batches
        self.producers[marker.producer_id] = Producer(
            marker.producer_epoch, batches, marker.timestamp, marker.coordinator_epoch
        )
        return self.transactions.note_marker(
            marker.producer_id, marker.offset, committed=marker.committed
        )

    def expire(self, before_ms: int) -> None:
        """Forget producers whose last batch is older than `before_ms` (wall clock, since 1970), but
        none whose transaction is open."""
        still_open = self.transactions.open
        old = [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.last_timestamp < before_ms and producer_id not in still_open
        ]
        for producer_id in old:
            del self.producers[producer_id]

    def clear(self) -> None:
        """Forget everything: the log is replayed after a truncation."""
        self.producers.clear()
        self.transactions = LogTransactions()


def _entry_of(batch: ProducerBatch) -> ProducerEntry:
    return ProducerEntry(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        last_sequence=batch.last_sequence,
        last_offset=batch.last_offset,
        offset_delta=batch.last_offset - batch.base_offset,
        timestamp=batch.max_timestamp,
    )


def _batch_of(entry: ProducerEntry) -> ProducerBatch:
    return ProducerBatch(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        base_sequence=(entry.last_sequence - entry.offset_delta) % SEQUENCE_END,
        last_sequence=entry.last_sequence,
        base_offset=entry.last_offset - entry.offset_delta,
        last_offset=entry.last_offset,
        max_timestamp=entry.timestamp,
    )
