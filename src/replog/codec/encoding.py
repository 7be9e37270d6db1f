"""Writes the encoder of a message at one version.

The written function takes (m, prefix) and returns the parts to send: bytes, and between them the
records as they were given. A run of fields of fixed width is packed at once, together with the
length of what follows it.
"""

import struct

from replog.codec.errors import UnencodableMessage
from replog.codec.layout import Item, Layout
from replog.codec.primitives import FORMATS, ONE_BYTE, packers, uvarint
from replog.codec.source import Source
from replog.model.messages import Field

SHORT_ARRAY = 9  # arrays of fewer numbers have a packer of their own


def write_encoder(layout: Layout, file: str) -> Source:
    """The source of the encoder."""
    source = Source(
        file,
        "encode(m, prefix)",
        {
            "Unencodable": UnencodableMessage,
            "one_byte": ONE_BYTE,
            "pack": struct.pack,
            "uvarint": uvarint,
        },
    )
    source.line("parts = []")
    source.line("o = [prefix]")
    source.line("put = o.append")
    _Writer(source).struct(layout, "m", 0)
    with source.block("if o:"):
        source.line("parts.append(b''.join(o))")
    source.line("return parts")
    return source


class _Writer:
    """Keeps the run of fixed fields that is not written yet: (format, expression)."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.run: list[tuple[str, str]] = []
        self.put = "put"

    def struct(self, layout: Layout, var: str, depth: int) -> None:
        """Writes the struct in `var`."""
        for spec in layout.absent:
            if layout.strict and not spec.ignorable:
                with self.source.field(spec.name):
                    self.refuse_dropping(spec, f"{var}.{spec.name}")
        for item in layout.items:
            with self.source.field(item.name):
                self.item(item, f"{var}.{item.name}", layout.flexible, depth)
        if not layout.flexible:
            self.flush()
        elif layout.tagged:
            self.tags(layout, var, depth)
        else:
            self.run.append(("B", "0"))
            self.flush()

    def refuse_dropping(self, spec: Field, value: str) -> None:
        """An absent field that is not at its default can't be said at this version."""
        with self.source.block(f"if {_differs(value, spec.default)}:"):
            self.source.line(f"raise Unencodable(f'this version lacks it: {{{value}!r}}')")

    def flush(self) -> None:
        """Writes the run."""
        if self.run:
            self.source.line(f"{self.put}({self.packed()})")
        self.run = []

    def packed(self) -> str:
        """The expression for the run's bytes."""
        if self.run == [("B", "n")]:
            return "one_byte[n]"
        if all(value == "0" for _, value in self.run):
            return repr(
                struct.pack(">" + "".join(code for code, _ in self.run), *[0] * len(self.run))
            )
        name = self.source.packer("".join(code for code, _ in self.run))
        return f"{name}({', '.join(value for _, value in self.run)})"

    def length(self, flexible: bool, code: str) -> None:
        """Writes the length in n, with the run before it."""
        if not flexible:
            self.run.append((code, "n"))
            self.flush()
            return
        before = list(self.run)
        with self.source.block("if n < 128:"):
            self.run = [*before, ("B", "n")]
            self.flush()
        with self.source.block("else:"):
            self.run = list(before)
            self.flush()
            self.source.line(f"{self.put}(uvarint(n))")

    def measure(self, item: Item, value: str, flexible: bool) -> None:
        """The length on the wire into n: one more in a compact one, and null as its own."""
        measured = f"n = len({value}) + 1" if flexible else f"n = len({value})"
        if not item.nullable:
            self.source.line(measured)
            return
        with self.source.block(f"if {value} is None:"):
            self.source.line("n = 0" if flexible else "n = -1")
        with self.source.block("else:"):
            self.source.line(measured)

    def item(self, item: Item, value: str, flexible: bool, depth: int) -> None:
        """One field."""
        if item.array:
            self.array(item, value, flexible, depth)
        elif item.kind in FORMATS:
            if item.kind == "uuid":
                with self.source.block(f"if len({value}) != 16:"):
                    self.source.line("raise Unencodable('a uuid has 16 bytes')")
            self.run.append((FORMATS[item.kind], value))
        elif item.struct:
            self.nullable_struct(item, item.struct, value, depth)
        elif item.kind == "string":
            self.string(item, value, flexible)
        else:
            self.bytes(item, value, flexible)

    def string(self, item: Item, value: str, flexible: bool) -> None:
        """A string."""
        line = self.source.line
        if item.nullable:
            line(f"s = {value}")
            with self.source.block("if s is None:"):
                line("s, n = b'', 0" if flexible else "s, n = b'', -1")
            with self.source.block("else:"):
                line("s = s.encode()")
                line("n = len(s) + 1" if flexible else "n = len(s)")
        else:
            line(f"s = {value}.encode()")
            line("n = len(s) + 1" if flexible else "n = len(s)")
        self.length(flexible, "h")
        line(f"{self.put}(s)")

    def bytes(self, item: Item, value: str, flexible: bool) -> None:
        """Bytes, or records, which become a part of their own."""
        line = self.source.line
        line(f"s = {value}")
        self.measure(item, "s", flexible)
        self.length(flexible, "i")
        with self.source.block("if n > 1:" if flexible else "if n > 0:"):
            if item.kind == "bytes":
                line(f"{self.put}(s)")
            else:
                line("parts.append(b''.join(o))")
                line("parts.append(s)")
                line("o.clear()")

    def nullable_struct(self, item: Item, layout: Layout, value: str, depth: int) -> None:
        """A struct that is not in an array: tagged, or with a byte that says whether it is null."""
        var = f"v{depth + 1}"
        self.source.line(f"{var} = {value}")
        if not item.nullable:
            self.struct(layout, var, depth + 1)
            return
        before = list(self.run)
        with self.source.block(f"if {var} is None:"):
            self.run = [*before, ("b", "-1")]
            self.flush()
        with self.source.block("else:"):
            self.run = [*before, ("b", "1")]
            self.struct(layout, var, depth + 1)

    def array(self, item: Item, value: str, flexible: bool, depth: int) -> None:
        """An array of anything."""
        line = self.source.line
        array = f"a{depth + 1}"
        line(f"{array} = {value}")
        self.measure(item, array, flexible)
        self.length(flexible, "i")
        with self.source.block(f"if {array}:"):
            if item.kind == "uuid":
                with self.source.block(f"if any(len(s) != 16 for s in {array}):"):
                    line("raise Unencodable('a uuid has 16 bytes')")
                line(f"{self.put}(b''.join({array}))")
            elif item.kind in FORMATS:
                self.numbers(item.kind, array)
            else:
                self.elements(item, array, flexible, depth)

    def numbers(self, kind: str, array: str) -> None:
        """An array of numbers."""
        code = FORMATS[kind]
        short = self.source.constant(f"short_{kind}", packers(code, SHORT_ARRAY))
        line = self.source.line
        line(f"n = len({array})")
        line(
            f"{self.put}({short}[n](*{array}) if n < {SHORT_ARRAY} "
            f"else pack(f'>{{n}}{code}', *{array}))"
        )

    def elements(self, item: Item, array: str, flexible: bool, depth: int) -> None:
        """The elements of an array of structs or strings."""
        var = f"v{depth + 1}"
        with self.source.field("[]"), self.source.block(f"for {var} in {array}:"):
            if item.struct:
                self.struct(item.struct, var, depth + 1)
            else:
                element = Item(item.name, item.kind, False, False, None, None, None)
                if item.kind == "string":
                    self.string(element, var, flexible)
                else:
                    self.bytes(element, var, flexible)

    def tags(self, layout: Layout, var: str, depth: int) -> None:
        """The tagged fields: those that are not at their default. Mostly there is none."""
        line = self.source.line
        said = [_said(item, f"{var}.{item.name}") for item in layout.tagged]
        before = list(self.run)
        with self.source.block(f"if {' or '.join(said)}:"):
            self.flush()
            outer, self.put = self.put, f"put{depth}"
            tags, out = f"tags{depth}", f"o{depth}"
            line(f"{tags} = []")
            for item, condition in zip(layout.tagged, said, strict=True):
                with self.source.field(item.name), self.source.block(f"if {condition}:"):
                    line(f"{out} = []")
                    line(f"{self.put} = {out}.append")
                    self.item(item, f"{var}.{item.name}", True, depth)
                    self.flush()
                    line(f"s = b''.join({out})")
                    size = "one_byte[len(s)] if len(s) < 128 else uvarint(len(s))"
                    line(f"{tags} += ({uvarint(item.tag or 0)!r}, {size}, s)")
            self.put = outer
            line(f"{self.put}(one_byte[len({tags}) // 3])")
            line(f"{self.put}(b''.join({tags}))")
        with self.source.block("else:"):
            self.run = [*before, ("B", "0")]
            self.flush()


def _differs(value: str, default: object) -> str:
    """The condition for `value` not being its default."""
    if default is None:
        return f"{value} is not None"
    return f"{value} != {'[]' if default == () else repr(default)}"


def _said(item: Item, value: str) -> str:
    """The condition for a tagged field to be written."""
    if item.struct is None or item.array or item.nullable:
        return _differs(value, item.default)
    inner = [
        _differs(f"{value}.{part.name}", part.default)
        for part in (*item.struct.items, *item.struct.tagged)
    ]
    return f"({value} is not None and ({' or '.join(inner)}))"
