"""Partitions on the move among all other faults."""

from collections import Counter
from dataclasses import replace

from replog.sim.plan import make_plan
from replog.sim.simulation import simulate

SEEDS = range(700, 706)


def test_moves_lose_nothing_and_come_to_an_end() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        outcome = simulate(replace(make_plan(seed, duration_ms=3_000), moves=True))
        assert outcome.passed, f"replog sim --seed {seed}: {outcome.problem}"
        counts.update(outcome.counts)
    assert counts["partition moved"] > len(SEEDS)
