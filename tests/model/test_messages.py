"""Messages that are made without their constructor are those that it makes."""

from replog.model.messages import APIS
from replog.model.messages.base import Field, Struct, blank


def _with_structs(cls: type[Struct]) -> list[type[Struct]]:
    inner = [field.struct for field in cls.SCHEMA if field.struct is not None]
    return [cls, *(found for part in inner for found in _with_structs(part))]


def test_a_blank_message_is_one_without_arguments() -> None:
    seen: set[type[Struct]] = set()
    for api in APIS.values():
        for cls in (*_with_structs(api.request), *_with_structs(api.response)):
            seen.add(cls)
            assert blank(cls)() == cls(), cls
    assert len(seen) > 100


def test_every_slot_of_a_blank_message_is_set_and_lists_are_not_shared() -> None:
    class Part(Struct):
        __slots__ = ("names", "number")
        SCHEMA = (Field("names", "string", array=True, default=()), Field("number", "int32"))
        names: list[str]
        number: int | None

    make = blank(Part)
    first, second = make(), make()
    first.names.append("a")
    assert second.names == []
    assert second.number is None
