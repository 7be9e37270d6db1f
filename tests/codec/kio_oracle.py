"""kio's messages for ours. Fields are paired by their order; kio drops units from their names."""

import dataclasses
import datetime
import io
import random
import uuid
from typing import Any

from kio.index import (
    UnknownAPIKey,
    UnknownEntity,
    load_entity_schema,
    load_request_schema,
    load_response_schema,
)
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import classify_field
from kio.static.constants import EntityType

from replog.model.messages import Field, Message, Request, Response, Struct

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
ERROR_CODES = [code.value for code in ErrorCode]
OWN_TAGS = 10_000  # from here on, tagged fields are Replog's own: kio knows nothing of them
TIMESTAMPS_END = 2**40  # ms; later ones don't fit into a datetime
OWN_TAGS = 10_000  # tagged fields from here on are ours, in messages of Kafka between our brokers


def counterpart(cls: type[Message], version: int) -> Any:
    """kio's class for `cls` at `version`, None if it has none."""
    try:
        if issubclass(cls, Request):
            return load_request_schema(cls.API_KEY, version)
        if issubclass(cls, Response):
            return load_response_schema(cls.API_KEY, version)
        return load_entity_schema(_snake(cls.__name__), version, EntityType.data)
    except (UnknownAPIKey, UnknownEntity):
        return None


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def pairs(cls: type[Struct], version: int, theirs: Any) -> list[tuple[Field, Any]]:
    """Our fields of this version with kio's."""
    ours = [spec for spec in cls.SCHEMA if spec.first <= version <= spec.last and not is_own(spec)]
    fields = dataclasses.fields(theirs)
    assert len(ours) == len(fields), (cls, version, [f.name for f in fields])
    for spec, field in zip(ours, fields, strict=True):
        assert spec.name.startswith(field.name.removesuffix("_")), (cls, version, spec, field.name)
        assert spec.tag == field.metadata.get("tag"), (cls, version, spec)
    return list(zip(ours, fields, strict=True))


def is_own(spec: Field) -> bool:
    return spec.tag is not None and spec.tag >= OWN_TAGS


def tame(rng: random.Random, message: Any, version: int, theirs: Any) -> None:
    """Replaces values for which kio has narrower types, and takes out what is ours alone."""
    for spec in filter(is_own, message.SCHEMA):
        setattr(message, spec.name, [] if spec.array else spec.default)
    for spec, field in pairs(type(message), version, theirs):
        value, kind = getattr(message, spec.name), field.metadata.get("kafka_type")
        if spec.struct and value is not None:
            inner = classify_field(field).type_
            for one in value if spec.array else [value]:
                tame(rng, one, version, inner)
        elif kind == "error_code":
            setattr(message, spec.name, rng.choice(ERROR_CODES))
        elif kind in ("datetime_i64", "timedelta_i64"):
            setattr(message, spec.name, rng.randrange(TIMESTAMPS_END))


def to_kio(message: Any, version: int, theirs: Any) -> Any:
    """Our message as kio's."""
    values = {}
    for spec, field in pairs(type(message), version, theirs):
        value = getattr(message, spec.name)
        if value is None and spec.struct and spec.tag is not None:
            continue  # absent is the default
        values[field.name] = _to_kio(spec, field, value, version)
    return theirs(**values)


def _to_kio(spec: Field, field: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if spec.struct:
        inner = classify_field(field).type_
        if spec.array:
            return tuple(to_kio(one, version, inner) for one in value)
        return to_kio(value, version, inner)
    kind = field.metadata["kafka_type"]
    if spec.array:
        return tuple(_scalar(kind, one) for one in value)
    return _scalar(kind, value)


def _scalar(kind: str, value: Any) -> Any:
    if kind == "error_code":
        return ErrorCode(value)
    if kind.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return EPOCH + datetime.timedelta(milliseconds=value)
    if kind == "uuid":
        return uuid.UUID(bytes=value) if any(value) else None
    return value


def kio_bytes(entity: Any) -> bytes:
    """What kio writes."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def kio_read(theirs: Any, body: bytes) -> Any:
    """What kio reads; it must read all."""
    entity, size = entity_reader(theirs)(body, 0)
    assert size == len(body)
    return entity
