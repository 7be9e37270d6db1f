"""Printing results: aligned columns for people and grep, JSON for programs."""

import json
from collections.abc import Iterable, Sequence


def columns(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table without borders, each column as wide as its widest cell."""
    cells = [list(header), *([_text(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def ids(numbers: Iterable[int]) -> str:
    """Broker ids as mission and tools write them: `1,0,2`; `-` for none."""
    return ",".join(str(number) for number in numbers) or "-"


def print_json(value: object) -> None:
    """One document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _text(value: object) -> str:
    return "-" if value is None else str(value)
