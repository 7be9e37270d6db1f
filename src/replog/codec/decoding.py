"""Writes the decoder of a message at one version.

The written function takes (b, p, e, left): a buffer, where the body begins, the buffer's length,
and how many elements all arrays may have together; it returns the message and the end of the body.
A run of fields of fixed width is read by one `unpack_from`, together with the length (or the first
byte of the varint) of what follows it.
Lengths are checked against what is left before anything of that length is made; everything else
that would be beyond the end raises IndexError or struct.error.

In a message with records, `b` is a memoryview and records are slices of it; otherwise `b` is bytes,
of which slices are cheaper.
"""

import struct

from replog.codec.errors import MalformedMessage
from replog.codec.layout import Item, Layout, element_size_min
from replog.codec.primitives import (
    FORMATS,
    LONG_TEXT,
    SIZES,
    continue_uvarint,
    text,
    unpackers,
)
from replog.codec.source import Source

SHORT_ARRAY = 9  # arrays of fewer numbers have an unpacker of their own


def write_decoder(layout: Layout, file: str, views: bool, *, bounded: bool = False) -> Source:
    """The source of the decoder; `views` says that the buffer will be a memoryview, `bounded` that
    strings end where those of the protocol do."""
    source = Source(
        file,
        "decode(b, p, e, left)",
        {
            "Malformed": MalformedMessage,
            "new": object.__new__,
            "text": text,
            "more": continue_uvarint,
            "unpack_from": struct.unpack_from,
        },
    )
    _Writer(source, views, bounded).struct(layout, "v0", 0)
    source.line("return v0, p")
    return source


class _Writer:
    """Keeps the run of fixed fields that is not written yet: (format, where it goes)."""

    def __init__(self, source: Source, views: bool, bounded: bool) -> None:
        self.source = source
        self.views = views
        self.bounded = bounded
        self.run: list[tuple[str, str]] = []

    def struct(self, layout: Layout, var: str, depth: int) -> None:
        """Makes the struct in `var`."""
        line = self.source.line
        line(f"{var} = new({self.source.constant(layout.cls.__name__, layout.cls)})")
        for spec in layout.absent:
            line(f"{var}.{spec.name} = {self.default(spec.default)}")
        for item in layout.tagged:
            line(f"{var}.{item.name} = {self.default(item.default)}")
        for item in layout.items:
            with self.source.field(item.name):
                self.item(item, f"{var}.{item.name}", layout.flexible, depth)
        if layout.flexible:
            self.run.append(("B", "n"))
        self.flush()
        if layout.flexible:
            self.tags(layout, var, depth)

    def default(self, value: object) -> str:
        """The source of a default."""
        return "[]" if value == () else repr(value)

    def flush(self) -> None:
        """Writes the run."""
        if not self.run:
            return
        targets = [target for _, target in self.run]
        if [code for code, _ in self.run] == ["B"]:
            self.source.line(f"{targets[0]} = b[p]")
            self.source.line("p += 1")
        else:
            name, size = self.source.unpacker("".join(code for code, _ in self.run))
            self.source.line(f"{', '.join(targets)}, = {name}(b, p)")
            self.source.line(f"p += {size}")
        self.run = []

    def length(self, flexible: bool, code: str, size: int = 1) -> None:
        """Reads a length into n, with the run before it: bytes, or elements of at least `size`.

        A compact length is one more than the length, 0 is null; below 128 it needs no check, as
        nothing is allocated for it that the content would not run out for at once.
        """
        line = self.source.line
        times = f" * {size}" if size > 1 else ""
        if not flexible:
            self.run.append((code, "n"))
            self.flush()
            with self.source.block(f"if n{times} > e - p:"):
                line("raise Malformed(f'length {n} with {e - p} bytes left')")
            return
        self.run.append(("B", "n"))
        self.flush()
        with self.source.block("if n > 127:"):
            line("n, p = more(b, p, n)")
            with self.source.block(f"if {f'(n - 1){times}' if times else 'n - 1'} > e - p:"):
                line("raise Malformed(f'length {n - 1} with {e - p} bytes left')")

    def charge(self, count: str) -> None:
        """Takes `count` elements, or tagged fields, from those that are left."""
        self.source.line(f"left -= {count}")
        with self.source.block("if left < 0:"):
            self.source.line("raise Malformed(f'{-left} elements more than are allowed')")

    def null(self, item: Item, target: str) -> None:
        """The branch for null."""
        with self.source.block("else:"):
            if item.nullable:
                self.source.line(f"{target} = None")
            else:
                self.source.line("raise Malformed('null where none is allowed')")

    def item(self, item: Item, target: str, flexible: bool, depth: int) -> None:
        """One field, up to and including its content."""
        if item.array:
            self.array(item, target, flexible, depth)
        elif item.kind in FORMATS:
            self.run.append((FORMATS[item.kind], target))
        elif item.struct:
            self.nullable_struct(item, item.struct, target, depth)
        else:
            self.text(item, target, flexible)

    def text(self, item: Item, target: str, flexible: bool) -> None:
        """A string, bytes or records. The empty one is frequent and has a branch of its own."""
        line = self.source.line
        self.length(flexible, "h" if item.kind == "string" else "i")
        empty = "n == 1" if flexible else "n == 0"
        piece = raw = "b[p:q].tobytes()" if self.views else "b[p:q]"
        if item.kind == "string":
            piece += ".decode('utf-8', 'replace')"
        elif item.kind == "records":
            piece = "b[p:q]"
        with self.source.block("if n > 1:" if flexible else "if n > 0:"):
            line("q = p + n - 1" if flexible else "q = p + n")
            if flexible:
                with self.source.block("if q > e:"):
                    line("raise Malformed(f'length {n - 1} with {e - p} bytes left')")
            line(f"{target} = {piece}")
            if item.kind == "string" and self.bounded:
                with self.source.block(f"if n > {LONG_TEXT}:"):
                    line(f"{target} = text({raw})")
            line("p = q")
        with self.source.block(f"elif {empty}:"):
            nothing = {"string": "''", "bytes": "b''", "records": "b[p:p]"}[item.kind]
            line(f"{target} = {nothing}")
        self.null(item, target)

    def nullable_struct(self, item: Item, layout: Layout, target: str, depth: int) -> None:
        """A struct that is not in an array: tagged, or with a byte that says whether it is null."""
        var = f"v{depth + 1}"
        if not item.nullable:
            self.struct(layout, var, depth + 1)
            self.source.line(f"{target} = {var}")
            return
        self.run.append(("b", "n"))
        self.flush()
        with self.source.block("if n >= 0:"):
            self.struct(layout, var, depth + 1)
            self.source.line(f"{target} = {var}")
        self.null(item, target)

    def array(self, item: Item, target: str, flexible: bool, depth: int) -> None:
        """An array of anything."""
        line = self.source.line
        self.length(flexible, "i", element_size_min(item, flexible))
        with self.source.block("if n:" if flexible else "if n >= 0:"):
            self.charge("n - 1" if flexible else "n")
            if item.kind not in FORMATS:
                self.elements(item, target, flexible, depth)
            else:
                if flexible:
                    line("n -= 1")
                self.numbers(item.kind, target)
        self.null(item, target)

    def numbers(self, kind: str, target: str) -> None:
        """An array of numbers."""
        line = self.source.line
        if kind == "uuid":
            with self.source.block("if n * 16 > e - p:"):
                line("raise Malformed(f'{n} uuids in {e - p} bytes')")
            line(f"{target} = [bytes(b[q:q + 16]) for q in range(p, p + n * 16, 16)]")
            line("p += n * 16")
            return
        code = FORMATS[kind]
        short = self.source.constant(f"short_{kind}", unpackers(code, SHORT_ARRAY))
        line(
            f"{target} = list({short}[n](b, p) if n < {SHORT_ARRAY} "
            f"else unpack_from(f'>{{n}}{code}', b, p))"
        )
        line(f"p += n * {SIZES[kind]}")

    def elements(self, item: Item, target: str, flexible: bool, depth: int) -> None:
        """The elements of an array of structs or strings."""
        line = self.source.line
        inner = depth + 1
        line(f"{target} = a{inner} = []")
        times = "range(1, n)" if flexible else "range(n)"
        with self.source.field("[]"), self.source.block(f"for _ in {times}:"):
            if item.struct:
                self.struct(item.struct, f"v{inner}", inner)
            else:
                element = Item(item.name, item.kind, False, False, None, None, None)
                self.text(element, f"v{inner}", flexible)
            line(f"a{inner}.append(v{inner})")

    def tags(self, layout: Layout, var: str, depth: int) -> None:
        """The tagged fields, whose number is in n: known ones are read, others are skipped."""
        line = self.source.line
        with self.source.block("if n:"):
            with self.source.block("if n > 127:"):
                line("n, p = more(b, p, n)")
            self.charge("n")
            with self.source.block("for _ in range(n):"):
                tag, end = f"t{depth}", f"q{depth}"
                for number in (tag, "n"):  # they mostly have one byte each
                    line(f"{number} = b[p]")
                    line("p += 1")
                    with self.source.block(f"if {number} > 127:"):
                        line(f"{number}, p = more(b, p, {number})")
                line(f"{end} = p + n")
                with self.source.block(f"if {end} > e:"):
                    line(
                        f"raise Malformed(f'tag {{{tag}}} ends {{{end} - e}} bytes beyond the end')"
                    )
                for item in layout.tagged:
                    with (
                        self.source.field(item.name),
                        self.source.block(f"if {tag} == {item.tag}:"),
                    ):
                        self.item(item, f"{var}.{item.name}", True, depth)
                        self.flush()
                        with self.source.block(f"if p != {end}:"):
                            line("raise Malformed('its size as a tagged field is wrong')")
                        line("continue")
                line(f"p = {end}")
