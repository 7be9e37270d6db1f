"""Random messages of any class and version, and the list of both."""

import random
from typing import Any

from replog.codec.layout import Item, Layout, layout_of
from replog.model.messages import APIS, Message, Struct
from replog.model.messages import consumer_protocol as consumer
from replog.model.messages import control_records as control
from replog.model.messages import group_records as group
from replog.model.messages import transaction_records as transaction

DATA: tuple[type[Message], ...] = (
    consumer.ConsumerProtocolSubscription,
    consumer.ConsumerProtocolAssignment,
    control.ControlRecordTypeSchema,
    control.EndTxnMarker,
    control.LeaderChangeMessage,
    control.AbortedTxn,
    group.LegacyOffsetCommitKey,
    group.LegacyOffsetCommitValue,
    group.OffsetCommitKey,
    group.OffsetCommitValue,
    group.GroupMetadataKey,
    group.GroupMetadataValue,
    transaction.TransactionLogKey,
    transaction.TransactionLogValue,
)
CLASSES: tuple[type[Message], ...] = (
    *(cls for api in APIS.values() for cls in (api.request, api.response)),
    *DATA,
)
INTS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
# Around the one-byte lengths, compact (length + 1) and not.
LENGTHS = (0, 1, 2, 5, 126, 127, 128, 300)


def versions(cls: type[Message]) -> range:
    """All versions of a class."""
    low, high = cls.VERSIONS
    return range(low, high + 1)


def build(rng: random.Random, cls: type[Message], version: int) -> Any:
    """A message with random content in every field that the version has."""
    return _struct(rng, layout_of(cls, version), 0)


def _struct(rng: random.Random, layout: Layout, depth: int) -> Struct:
    made = layout.cls()
    for item in (*layout.items, *layout.tagged):
        if item.tag is None or rng.random() < 0.5:
            setattr(made, item.name, _value(rng, item, depth))
    return made


def _value(rng: random.Random, item: Item, depth: int) -> Any:
    if item.nullable and rng.random() < 0.25:
        return None
    if not item.array:
        return _struct(rng, item.struct, depth + 1) if item.struct else scalar(rng, item.kind)
    if item.struct:
        count = rng.choice((0, 1, 2, 3)[: max(2, 4 - depth)])
        return [_struct(rng, item.struct, depth + 1) for _ in range(count)]
    count = rng.choice((0, 1, 2, 8, 9, 10)) if rng.random() < 0.98 else 130
    return [scalar(rng, item.kind) for _ in range(count)]


def scalar(rng: random.Random, kind: str) -> Any:
    """A value of a kind that is no struct."""
    if kind in INTS:
        limit = 1 << INTS[kind] - 1
        return rng.choice((0, 1, -1, limit - 1, -limit, rng.randrange(-limit, limit)))
    if kind == "uint16":
        return rng.choice((0, 1, 0xFFFF))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "uuid":
        return rng.choice((bytes(16), rng.randbytes(16)))
    length = rng.choice(LENGTHS)
    if kind == "string":
        return "".join(rng.choices("abcz09._-é漢🙂", k=length))
    return rng.randbytes(length)
