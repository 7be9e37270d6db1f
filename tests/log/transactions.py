"""Transactional batches and markers for the tests of this room and the next."""

from struct import Struct

from replog.records.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    Producer,
    Record,
    build_batch,
)

_KEY = Struct(">hh")  # version, type
_VALUE = Struct(">hi")  # version, coordinator epoch

TIME = 1_700_000_000_000


def data(
    producer_id: int, sequence: int, *values: bytes, epoch: int = 0, compression: int = 0
) -> bytearray:
    """One batch inside a transaction."""
    records = [Record(0, TIME, b"k", value) for value in values or (b"v",)]
    return bytearray(
        build_batch(
            records,
            producer=Producer(producer_id, epoch, sequence),
            attributes=TRANSACTIONAL_BIT,
            compression=compression,
        )
    )


def marker(
    producer_id: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 3
) -> bytearray:
    """The control batch that ends a transaction."""
    record = Record(0, TIME, _KEY.pack(0, int(committed)), _VALUE.pack(0, coordinator_epoch))
    return bytearray(
        build_batch(
            [record],
            producer=Producer(producer_id, epoch, -1),
            attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        )
    )
