"""A run is a function of its seed: of nothing else, the order of sets and of hashes included."""

import os
import subprocess
import sys

import pytest

from replog.sim.plan import make_plan
from replog.sim.simulation import simulate

SCRIPT = """
import sys
from replog.sim.plan import make_plan
from replog.sim.simulation import simulate
for seed in map(int, sys.argv[1:]):
    outcome = simulate(make_plan(seed, duration_ms=2000.0))
    print(seed, outcome.digest, outcome.deliveries, outcome.problem)
"""


def framed_and_plain() -> list[int]:
    """A seed of each way in which messages travel."""
    plans = [make_plan(seed) for seed in range(40)]
    return [
        next(plan.seed for plan in plans if plan.framed),
        next(plan.seed for plan in plans if not plan.framed),
    ]


def in_a_process_of_its_own(hash_seed: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, framed_and_plain())],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("seed", framed_and_plain())
def test_the_same_seed_twice(seed: int) -> None:
    first, second = (simulate(make_plan(seed, duration_ms=2_000.0)) for _ in range(2))
    assert (first.digest, first.deliveries) == (second.digest, second.deliveries)
    assert first.counts == second.counts


def test_the_order_of_hashes_does_not_matter() -> None:
    told = in_a_process_of_its_own("1")
    assert told == in_a_process_of_its_own("2")
    assert told.count("None") == 2


def test_different_seeds_differ() -> None:
    assert len({repr(make_plan(seed)) for seed in range(50)}) == 50
