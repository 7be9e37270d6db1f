"""The proof of the checker: break one rule of replication, and a few seeds find it."""

import pytest
from tests.sim.mutants import MUTANTS, mutated

from replog.sim.plan import make_plan
from replog.sim.simulation import simulate

SEEDS_MAX = 20
# Where the search begins for what shows in few seeds only, so that the test stays short.
FIRST_SEED: dict[str, int] = {
    "any leader epoch is taken in a fetch": 10,
    "the controller takes any ISR proposal": 50,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_rule_is_found(name: str) -> None:
    first = FIRST_SEED.get(name, 0)
    with mutated(name):
        for seed in range(first, first + SEEDS_MAX):
            outcome = simulate(make_plan(seed))
            if not outcome.passed:
                assert outcome.timeline, "a failure comes with what happened before it"
                return
    pytest.fail(f"{SEEDS_MAX} seeds from {first} on do not notice that {name}")
