"""A message at one version: which fields are on the wire, in which order, how each is written."""

from dataclasses import dataclass

from replog.codec.primitives import SIZES
from replog.model.messages import Field, Message, Response, Struct


@dataclass(slots=True)
class Item:
    """A field that the version has. `struct` is the layout of a struct or of an array's structs."""

    name: str
    kind: str
    array: bool
    nullable: bool
    tag: int | None
    default: object
    struct: "Layout | None"

    @property
    def fixed(self) -> bool:
        """Whether its width is known beforehand."""
        return not self.array and self.kind in SIZES


@dataclass(slots=True)
class Layout:
    """A struct at one version."""

    cls: type[Struct]
    flexible: bool
    items: list[Item]  # in wire order
    tagged: list[Item]  # by tag
    absent: list[Field]  # not in this version: they have their default
    strict: bool  # encoding refuses an absent field that says something and may not be dropped

    @property
    def size_min(self) -> int:
        """The fewest bytes that it takes, at least 1 so that counts can be checked by it."""
        size = sum(item_size_min(item, self.flexible) for item in self.items) + self.flexible
        return max(size, 1)


def item_size_min(item: Item, flexible: bool) -> int:
    """The fewest bytes that the field takes."""
    if item.array:
        return 1 if flexible else 4
    return element_size_min(item, flexible)


def element_size_min(item: Item, flexible: bool) -> int:
    """The fewest bytes that the field takes, or one element if it is an array."""
    if item.kind in SIZES:
        return SIZES[item.kind]
    if item.struct:
        return 1 if item.nullable and not item.array else item.struct.size_min
    if flexible:
        return 1
    return 2 if item.kind == "string" else 4


def layout_of(cls: type[Message], version: int) -> Layout:
    """The layout of `cls` at `version`. Raises ValueError when there is no such version.

    Responses are lenient: a handler answers without knowing the version, so whatever an old
    version lacks is dropped. In a request or in stored data that would change the meaning.
    """
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")
    return _struct(cls, version, version >= cls.FLEXIBLE_FROM, not issubclass(cls, Response))


def _struct(cls: type[Struct], version: int, flexible: bool, strict: bool) -> Layout:
    layout = Layout(cls, flexible, [], [], [], strict)
    for spec in cls.SCHEMA:
        if not spec.first <= version <= spec.last:
            layout.absent.append(spec)
            continue
        item = Item(
            name=spec.name,
            kind=spec.kind,
            array=spec.array,
            nullable=spec.nullable(version),
            tag=spec.tag,
            default=spec.default,
            struct=_struct(spec.struct, version, flexible, strict) if spec.struct else None,
        )
        (layout.items if spec.tag is None else layout.tagged).append(item)
    layout.tagged.sort(key=lambda item: item.tag or 0)
    return layout


def has_records(layout: Layout) -> bool:
    """Whether record batches are somewhere in it: they are passed on, never copied."""
    return any(
        item.kind == "records" or (item.struct is not None and has_records(item.struct))
        for item in (*layout.items, *layout.tagged)
    )
