"""The timeline of a simulated run: a column for each broker, a row for each moment."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from replog.sim.chronicle import STORED, Chronicle, Row
from replog.sim.plan import Plan

WIDTH_WITHOUT_TERMINAL = 140
FAULTS = ("killed", "crash", "paused", "cut from", "cut to", "told to stop", "its session")


def show(chronicle: Chronicle, problem: str, plan: Plan, rows: int) -> None:
    """Print the last `rows` moments that have to do with the partitions that `problem` names."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console = Console(stderr=True, width=WIDTH_WITHOUT_TERMINAL)
    partitions = chronicle.partitions_in(problem)
    moments = chronicle.rows(partitions)
    left_out = max(0, len(moments) - rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("ms", justify="right", no_wrap=True)
    places = [*(f"b{broker}" for broker in range(plan.brokers)), STORED]
    for place in places:
        table.add_column(place, ratio=1)
    for row in moments[left_out:]:
        table.add_row(f"{row.at_ms:.1f}", *(_cell(row, place) for place in places))
    console.print(f"What happened to {', '.join(sorted(partitions))}", highlight=False)
    if left_out:
        console.print(f"({left_out} earlier rows: --rows {len(moments)})", highlight=False)
    console.print(table)


def _cell(row: Row, place: str) -> Text:
    lines = row.cells.get(place, [])
    cell = Text()
    for index, line in enumerate(lines):
        style = "bold red" if line.startswith(FAULTS) else "dim" if "LEO" in line else ""
        cell.append(("\n" if index else "") + line, style)
    return cell


def as_json(chronicle: Chronicle) -> list[dict[str, Any]]:
    """All that happened, for programs."""
    return [
        {"at_ms": round(e.at_ms, 3), "broker": e.place, "partition": e.partition, "what": e.what}
        for e in chronicle.entries
    ]
