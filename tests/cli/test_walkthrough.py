"""The walk-through's expectations follow from the rules, and placement gives its assignment."""

from replog.cli.walkthrough import (
    ASSIGNMENT,
    BROKERS,
    SHIFT,
    START_INDEX,
    STEPS,
    Observation,
    Seat,
    table_lines,
)
from replog.core.controller.placement import assign_replicas


def test_placement_gives_the_assignment() -> None:
    placed = assign_replicas(
        dict.fromkeys(BROKERS),
        partitions=3,
        replication_factor=3,
        start_index=START_INDEX,
        shift=SHIFT,
    )
    assert placed == [tuple(replicas) for replicas in ASSIGNMENT]


def test_rows_follow_from_the_rules() -> None:
    """An independent model: who dies leaves, who returns joins last, AR order elects."""
    alive = set(BROKERS)
    seats = [Seat(replicas[0], replicas) for replicas in ASSIGNMENT]
    for step in STEPS:
        if step.stop is not None:
            alive.remove(step.stop)
            for index, replicas in enumerate(ASSIGNMENT):
                isr = tuple(b for b in seats[index].isr if b in alive)
                leader = seats[index].leader
                if leader not in alive:
                    leader = next(b for b in replicas if b in isr)
                seats[index] = Seat(leader, isr)
        if step.start is not None:
            alive.add(step.start)
            seats = [Seat(s.leader, (*s.isr, step.start)) for s in seats]
        assert tuple(seats) == step.expected, step.title


def test_an_observation_names_who_differs() -> None:
    step = STEPS[0]
    wrong = (Seat(9, (9,)), *step.expected[1:])
    seen = Observation({"broker 0": step.expected, "broker 1": wrong, "coordinator": None})
    assert seen.differing(step.expected) == ["broker 1", "coordinator"]
    verdicts = {source: right for source, _, right in table_lines(step, seen)}
    assert verdicts == {
        "expected": None,
        "broker 0": True,
        "broker 1": False,
        "coordinator": False,
    }
