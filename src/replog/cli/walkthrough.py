"""The failover walk-through: what is done to three brokers, and what must be true after each step.

Leader and ISR of each partition are predicted by three rules: the first broker in the order of the
assignment that is alive and in sync leads; whoever dies leaves the ISR, unless it is the last one;
whoever returns joins the ISR at its end, and leadership does not move back.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from replog.cli.cluster_view import metadata, topic_view
from replog.cli.output import ids
from replog.model.coordination import TOPICS, StoredNode
from replog.runtime.client import AdminClient, ClientError

BROKERS = (0, 1, 2)
START_INDEX = 1
SHIFT = 1
ASSIGNMENT = ((1, 0, 2), (2, 1, 0), (0, 2, 1))
COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class Seat:
    """Who leads one partition, and who is in sync, in the order of admission."""

    leader: int
    isr: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.leader} / {ids(self.isr)}"


Row = tuple[Seat, ...]  # by partition


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens, and the row that must follow."""

    title: str
    stop: int | None
    start: int | None
    expected: Row


def _row(*seats: tuple[int, tuple[int, ...]]) -> Row:
    return tuple(Seat(leader, isr) for leader, isr in seats)


STEPS: tuple[Step, ...] = (
    Step("created", None, None, _row((1, (1, 0, 2)), (2, (2, 1, 0)), (0, (0, 2, 1)))),
    Step("broker 0 stopped", 0, None, _row((1, (1, 2)), (2, (2, 1)), (2, (2, 1)))),
    Step("broker 2 stopped", 2, None, _row((1, (1,)), (1, (1,)), (1, (1,)))),
    Step("broker 0 started", None, 0, _row((1, (1, 0)), (1, (1, 0)), (1, (1, 0)))),
    Step("broker 2 started", None, 2, _row((1, (1, 0, 2)), (1, (1, 0, 2)), (1, (1, 0, 2)))),
    Step("broker 1 stopped", 1, None, _row((0, (0, 2)), (2, (0, 2)), (0, (0, 2)))),
)


@dataclass(slots=True)
class Observation:
    """What every source said at one time. A source that can't be read has None."""

    rows: dict[str, Row | None] = field(default_factory=dict)

    def differing(self, expected: Row) -> list[str]:
        """Sources that do not say `expected`."""
        return [source for source, row in self.rows.items() if row != expected]


def observe(
    topic: str,
    clients: Mapping[int, Callable[[], AdminClient]],
    read_coordinator: Callable[[tuple[str, ...]], Mapping[str, StoredNode]],
) -> Observation:
    """Ask each broker of `clients`, each on a connection of its own, and look into the store."""
    seen = Observation()
    for broker_id, connect in clients.items():
        seen.rows[f"broker {broker_id}"] = _from_broker(topic, connect)
    root = f"{TOPICS}/{topic}"
    seen.rows[COORDINATOR] = _from_store(root, read_coordinator((root,)))
    return seen


def _from_broker(topic: str, connect: Callable[[], AdminClient]) -> Row | None:
    try:
        with connect() as client:
            response = metadata(client, [topic])
    except ClientError:
        return None
    if len(response.topics) != 1 or not response.topics[0].partitions:
        return None
    view = topic_view(response.topics[0])
    return tuple(Seat(partition.leader, partition.isr) for partition in view.partitions)


def _from_store(root: str, nodes: Mapping[str, StoredNode]) -> Row | None:
    seats: list[Seat] = []
    while (node := nodes.get(f"{root}/partitions/{len(seats)}/state")) is not None:
        state = json.loads(node.data)
        seats.append(Seat(state["leader"], tuple(state["isr"])))
    return tuple(seats) or None


def table_lines(step: Step, seen: Observation) -> list[tuple[str, Sequence[str], bool | None]]:
    """(source, cells, right?) for printing; the expectation first, with no verdict of its own."""
    lines: list[tuple[str, Sequence[str], bool | None]] = [
        ("expected", [str(seat) for seat in step.expected], None)
    ]
    for source, row in seen.rows.items():
        cells = [str(seat) for seat in row] if row else ["no answer"] * len(step.expected)
        lines.append((source, cells, row == step.expected))
    return lines
