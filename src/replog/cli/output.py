"""Printing results: aligned columns for people and grep, JSON for programs."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Sequence

GAP = "  "
SHORTENED_MIN = 12  # characters that are left of a cell that had to be shortened


def columns(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    shrinking: Collection[str] = (),
    width: int | None = None,
) -> str:
    """A table without borders, each column as wide as its widest cell.

    Where that is more than `width` characters, cells of the columns `shrinking` are shortened. Pass
    `terminal_width()`, so that this happens for people only, and a file or a pipe gets all of it.
    """
    cells = [list(header), *([_text(value) for value in row] for row in rows)]
    widths = [max(_width(row[i]) for row in cells) for i in range(len(header))]
    if width is not None:
        _shrink(widths, [i for i, name in enumerate(header) if name in shrinking], width)
    return "\n".join(
        GAP.join(
            _filled(_cut(cell, size), size) for cell, size in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    )


def terminal_width() -> int | None:
    """Characters in a line of the terminal that stdout is; None when it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _shrink(widths: list[int], shrinking: Sequence[int], width: int) -> None:
    """Take from the widest of the columns `shrinking` until all fit, or no more can be taken."""
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        widest = max(shrinking, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= SHORTENED_MIN:
            return
        widths[widest] -= 1


def _cut(cell: str, size: int) -> str:
    """Without some of its middle: generated names differ in their ends."""
    if _width(cell) <= size:
        return cell
    tail = size // 3
    return f"{cell[: size - 1 - tail]}…{cell[-tail:]}"


def _filled(cell: str, size: int) -> str:
    return cell + " " * (size - _width(cell))


def _width(text: str) -> int:
    """How many places of a terminal's line it takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def printable(text: str) -> str:
    """With escapes for what would move the cursor or begin a line: names of groups, members and
    clients may be anything."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def ids(numbers: Iterable[int]) -> str:
    """Broker ids as mission and tools write them: `1,0,2`; `-` for none."""
    return ",".join(str(number) for number in numbers) or "-"


def print_json(value: object) -> None:
    """One document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _text(value: object) -> str:
    return "-" if value is None else printable(str(value))
