"""Transactional ids as records of `__transaction_state`, in Kafka's own layout, and back.

What stands here belongs to a producer between transactions; a record of an open transaction, which
only another system can have written, is read as one that this broker can't go on with.
"""

from dataclasses import dataclass

from replog.codec import (
    MalformedMessage,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    prefix_of,
)
from replog.core.transaction.identity import ProducerIdentity
from replog.model.messages.transaction_records import TransactionLogKey, TransactionLogValue
from replog.records.batch import Record, build_batch

VALUE_VERSION = 1  # as Apache Kafka 4.4 writes it; from this version on with the previous id
NO_START = -1

EMPTY = 0
AT_REST = frozenset({EMPTY, 4, 5})  # and completely committed, and completely aborted


@dataclass(frozen=True, slots=True)
class IdStored:
    """What the log says of a transactional id; None: it is forgotten."""

    transactional_id: str
    identity: ProducerIdentity | None
    at_rest: bool = True  # no transaction is open
    updated_ms: int = 0  # by the wall clock


def to_batch(change: IdStored, *, wall_ms: int) -> bytearray:
    """The record of a change, ready to be appended."""
    key = encode_key(TransactionLogKey(transactional_id=change.transactional_id))
    return bytearray(build_batch([Record(0, wall_ms, key, _value(change))]))


def _value(change: IdStored) -> bytes | None:
    """None: a tombstone."""
    identity = change.identity
    if identity is None:
        return None
    value = TransactionLogValue(
        producer_id=identity.producer_id,
        previous_producer_id=identity.previous_id,
        producer_epoch=identity.epoch,
        transaction_timeout_ms=identity.timeout_ms,
        transaction_status=EMPTY,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=change.updated_ms,
        transaction_start_timestamp_ms=NO_START,
    )
    return encode_value(value, VALUE_VERSION)


def from_record(record: Record) -> IdStored | None:
    """What a record says; None for kinds of a later system. Raises MalformedMessage."""
    if record.key is None:
        raise MalformedMessage("a record without a key")
    if prefix_of(record.key) != TransactionLogKey.RECORD_TYPE:
        return None
    transactional_id = decode_key(TransactionLogKey, record.key).transactional_id
    if record.value is None:
        return IdStored(transactional_id, None)
    value = decode_value(TransactionLogValue, record.value)
    identity = ProducerIdentity(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        previous_id=value.previous_producer_id,
    )
    return IdStored(
        transactional_id,
        identity,
        at_rest=value.transaction_status in AT_REST,
        updated_ms=value.transaction_last_update_timestamp_ms,
    )
