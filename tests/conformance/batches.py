"""Record batches of the cases, right and wrong ones, as bytes."""

import struct
from typing import Final

from crc32c import crc32c
from tests.conformance.steps import LONG_AGO, Batch, Batches

from replog.records.batch import NO_PRODUCER, Producer, Record, build_batch
from replog.records.header import CRC_COVERS_FROM, HEADER_SIZE

CRC_AT: Final = 17
# Fields of the header that cases change: position and format.
FIELDS: Final = {
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "count": (57, ">i"),
}


def build(batch: Batch | Batches, producer_id: int | None = None) -> bytes:
    """The bytes; `producer_id` is what the batch's producer stands for, if it has one."""
    if isinstance(batch, Batches):
        return b"".join(build(each) for each in batch.batches)
    producer = NO_PRODUCER
    if batch.producer is not None:
        assert producer_id is not None
        producer = Producer(producer_id, batch.producer[1], batch.producer[2])
    data = bytearray(
        build_batch(
            _records(batch),
            base_offset=batch.base_offset,
            producer=producer,
            compression=batch.compression,
            attributes=batch.attributes,
        )
    )
    if batch.payload is not None:
        data[HEADER_SIZE:] = batch.payload
        struct.pack_into(">i", data, FIELDS["length"][0], len(data) - 12)
    for name, value in batch.header.items():
        at, form = FIELDS[name]
        struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, CRC_AT, crc32c(data[CRC_COVERS_FROM:]))
    for at, replacement in batch.after.items():
        data[at : at + len(replacement)] = replacement
    return bytes(data[: len(data) - batch.cut])


def _records(batch: Batch) -> list[Record]:
    keys = batch.keys if batch.keys is not None else [None] * len(batch.values)
    times = batch.times if batch.times is not None else range(LONG_AGO, LONG_AGO + len(keys))
    return [
        Record(0, time, key, value)
        for time, key, value in zip(times, keys, batch.values, strict=True)
    ]
