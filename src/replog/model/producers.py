"""What is known of idempotent producers, as plain values between the rules and the disk."""

from typing import NamedTuple

from replog.model.ids import NO_OFFSET

NO_COORDINATOR_EPOCH = -1


class ProducerEntry(NamedTuple):
    """The last batch of a producer, or one of those before it, by the names of Kafka's snapshots.

    Sequences and offsets are those of the batch's last record, -1 for a producer of which no batch
    is known in its present epoch; `timestamp` in milliseconds since 1970.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int  # from the first record of the batch to its last
    timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH  # of the last transaction marker
    current_txn_first_offset: int = NO_OFFSET  # -1 while no transaction is open


class AbortedTransaction(NamedTuple):
    """A transaction that ended with an abort, as the index of a log has it. All are offsets but the
    id: of its first record, of its marker, and of the first record, when the marker was appended,
    whose transaction was not decided yet."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
