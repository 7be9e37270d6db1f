"""Answers made comparable: without defaults, and without what differs from run to run."""

import json
import re
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from replog.model.errors import ErrorCode
from replog.model.messages import ZERO_UUID, Field, Struct
from replog.records.batch import records_of
from replog.records.errors import CorruptBatch
from replog.records.header import BatchHeader, crc_ok, iterate

ANY: Final = "<any>"
DAY_MS: Final = 24 * 3600 * 1000
LONG_TEXT: Final = 80  # longer ones are shown by their beginning and length

# What depends on the machine, or is for people to read.
HIDDEN: Final = frozenset(
    ("throttle_time_ms", "error_message", "batch_index_error_message", "cluster_id", "host", "port")
)
# Lists whose order says something.
IN_ORDER: Final = frozenset(("replica_nodes", "replicas", "adding_replicas", "removing_replicas"))
ERRORS: Final = frozenset(("error_code",))
BY_CHANCE: Final = {"controller_id": "<broker>", "producer_id": "<producer>"}  # where not negative
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Names:
    """What one run calls things, and what they are called in the record."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.ids: dict[bytes, str] = {ZERO_UUID: "0"}
        self.numbers: dict[int, str] = {}  # large ones: that they occur by accident is no danger

    def text(self, text: str) -> str:
        for name in sorted(self.texts, key=len, reverse=True):
            text = text.replace(name, self.texts[name])
        text = _UUID.sub("<uuid>", text)
        return text if len(text) <= LONG_TEXT else f"{text[:20]}...({len(text)})"

    def uuid(self, value: bytes) -> str:
        return self.ids.get(value, "<uuid>")


class Shower:
    """Shows answers. `hide` are fields that chance decides, `ordered` that all lists have one."""

    def __init__(self, names: Names, hide: Collection[str] = (), *, ordered: bool = False) -> None:
        self._names = names
        self._hide = frozenset(hide)
        self._ordered = ordered
        self._now_ms = time.time() * 1000

    def show(self, struct: Struct) -> dict[str, Any]:
        """The fields that are not at their defaults."""
        shown = {}
        for field in struct.SCHEMA:
            value = getattr(struct, field.name)
            if field.name in HIDDEN or _at_default(field, value):
                continue
            if field.name in self._hide:
                shown[field.name] = ANY
                continue
            seen = self._field(field, value)
            if seen != {}:  # a struct in which everything is at its default
                shown[field.name] = seen
        return shown

    def _field(self, field: Field, value: Any) -> Any:
        if value is None:
            return None
        if field.array:
            items = [self._value(field, item) for item in value]
            if not self._ordered and field.name not in IN_ORDER:
                items.sort(key=lambda item: json.dumps(item, sort_keys=True))
            return items
        return self._value(field, value)

    def _value(self, field: Field, value: Any) -> Any:
        if field.kind == "struct":
            return self.show(value)
        if field.kind == "uuid":
            return self._names.uuid(bytes(value))
        if field.kind == "string":
            return self._names.text(value)
        if field.kind == "bytes":
            return self._names.text(bytes(value).hex())
        if field.kind == "records":
            return show_records(bytes(value), self.number)
        if field.name in ERRORS:
            return ErrorCode(value).name
        if field.name in BY_CHANCE and value >= 0:
            return BY_CHANCE[field.name]
        return self.number(value)

    def number(self, value: Any) -> Any:
        """A time near the present is not told; all other numbers are."""
        if value in self._names.numbers:
            return self._names.numbers[value]
        return "<now>" if abs(value - self._now_ms) < DAY_MS else value


def show_records(data: bytes, number: Callable[[Any], Any]) -> list[Any]:
    """Batches, field by field."""
    shown: list[Any] = []
    end = 0
    for header in iterate(data):
        shown.append(_batch(data, header, number))
        end = header.position + header.length
    if end < len(data):
        shown.append("the beginning of another batch")
    return shown


def _batch(data: bytes, header: BatchHeader, number: Callable[[Any], Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "offsets": [header.base_offset, header.next_offset - 1],
        "epoch": header.leader_epoch,
        "attributes": header.attributes,
        "times": [number(header.base_timestamp), number(header.max_timestamp)],
        "count": header.count,
    }
    if header.producer_id >= 0:
        shown["producer"] = [header.producer_epoch, header.base_sequence]
    if not crc_ok(data, header):
        shown["crc"] = "wrong"
    try:
        shown["records"] = [
            [r.offset, number(r.timestamp), _bytes(r.key), _bytes(r.value)]
            for r in records_of(data, header)
        ]
    except CorruptBatch:
        shown["records"] = "unreadable"
    return shown


def _bytes(value: bytes | None) -> str | None:
    if value is None:
        return None
    text = value.decode("latin-1")
    return text if len(text) <= LONG_TEXT else f"{text[:20]}...({len(text)})"


def _at_default(field: Field, value: Any) -> bool:
    if field.array:
        return value == []
    return bool(value == field.default)
