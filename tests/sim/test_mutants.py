"""The proof of the checker: break one rule of replication, and a few seeds find it."""

import pytest
from tests.sim.mutants import MUTANTS, mutated
from tests.sim.storm import stormy

from replog.sim.simulation import simulate

SEEDS_MAX = 20


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str) -> None:
    with mutated(name):
        for seed in range(SEEDS_MAX):
            outcome = simulate(stormy(seed))
            if not outcome.passed:
                assert outcome.problem and not outcome.problem.startswith("a node raised")
                assert outcome.timeline, "a failure comes with what happened before it"
                return
    pytest.fail(f"{SEEDS_MAX} seeds do not notice that {name}")


def test_a_storm_alone_breaks_no_rule() -> None:
    for seed in range(5):
        assert simulate(stormy(seed)).problem is None
