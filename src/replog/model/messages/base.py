"""What all protocol messages have in common. A message is version-free: it has every field of every
version, and a field that a version lacks has its default after decoding.

`SCHEMA` says which versions have which field. Only `codec` reads it.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

VERSION_MAX: Final = 32767  # versions are int16; also "no end" of a range
NOT_FLEXIBLE: Final = VERSION_MAX + 1  # `FLEXIBLE_FROM` of a message without flexible versions
OWN_APIS_FROM: Final = 20_000  # keys of APIs that Kafka has not: brokers ask each other by them
STRING_BYTES_MAX: Final = 0x7FFF  # compact ones end there as well: Kafka takes no longer ones
ZERO_UUID: Final = bytes(16)

# Stands for "a new empty list" as a default of `__init__`, where None may mean null. Never filled.
NEW_LIST: Final[list[Any]] = []


class Field(NamedTuple):
    """One field of a struct on the wire. `first` to `last` are the versions that have it."""

    name: str
    kind: str  # int8 int16 uint16 int32 uint32 int64 float64 bool string bytes uuid records struct
    first: int = 0
    last: int = VERSION_MAX
    array: bool = False
    struct: "type[Struct] | None" = None
    nullable_from: int = NOT_FLEXIBLE
    nullable_to: int = VERSION_MAX
    tag: int | None = None  # tagged fields are tagged in every version that has them
    default: object = None  # for decoding; an array's is a new empty list when this is ()
    ignorable: bool = False  # encoding drops it in silence at a version that lacks it

    def nullable(self, version: int) -> bool:
        """Whether `version` can carry null here."""
        return self.nullable_from <= version <= self.nullable_to


class Struct:
    """A group of fields, alone or as an element of an array.

    A tagged field that is a struct is None when absent; so is every field that is null.
    """

    __slots__ = ()
    SCHEMA: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.SCHEMA)

    __hash__ = None  # type: ignore[assignment]  # mutable, compared by value

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.SCHEMA)
        return f"{type(self).__name__}({shown})"


S = TypeVar("S", bound=Struct)


def blank(cls: type[S]) -> Callable[[], S]:
    """A function that makes `cls` with every field at its default.

    For what is made for each record: a call with keywords takes three times as long as this and the
    assignments after it.
    """
    lines = ["def make():", "    made = new(cls)"]
    for field in cls.SCHEMA:
        value = "[]" if field.default == () else repr(field.default)
        lines.append(f"    made.{field.name} = {value}")
    lines.append("    return made")
    names: dict[str, Any] = {"new": object.__new__, "cls": cls}
    exec("\n".join(lines), names)
    make: Callable[[], S] = names["make"]
    return make


class Message(Struct):
    """A struct that is encoded by itself. `VERSIONS` are the lowest and the highest that exist."""

    __slots__ = ()
    VERSIONS: ClassVar[tuple[int, int]] = (0, 0)
    FLEXIBLE_FROM: ClassVar[int] = NOT_FLEXIBLE


class Response(Message):
    """An answer. `API_KEY` is that of its request."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1


class Request(Message):
    """A question; `RESPONSE` is the class of its answer."""

    __slots__ = ()
    API_KEY: ClassVar[int] = -1
    RESPONSE: ClassVar[type[Response]] = Response


class Data(Message):
    """What is stored in logs or passed through as opaque bytes.

    `RECORD_TYPE` of the keys of an internal topic names the kind of the record; -1 elsewhere.
    """

    __slots__ = ()
    RECORD_TYPE: ClassVar[int] = -1


class Api(NamedTuple):
    """One row of the registry: versions that messages exist for, not those that are served."""

    key: int
    name: str
    request: type[Request]
    response: type[Response]
    min_version: int
    max_version: int
    flexible_from: int
