"""The proof of the checker: break one rule of replication, and a few seeds find it."""

from dataclasses import replace

import pytest
from tests.sim.mutants import MUTANTS, mutated

from replog.sim.network import Weather
from replog.sim.plan import Fault, Plan, make_plan
from replog.sim.simulation import simulate

SEEDS_MAX = 20


def stormy(seed: int) -> Plan:
    """A plan with slow links, and brokers that lose their sessions all the time: leaders change
    while messages of earlier leaderships are still on their way."""
    return replace(
        make_plan(
            seed,
            duration_ms=3000.0,
            rates={Fault.EXPIRE: 300.0, Fault.STOP: 800.0, Fault.CUT_PEERS: 800.0},
        ),
        weather=Weather(mean_ms=8.0, spike_probability=0.05, spike_ms=200.0),
    )


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
