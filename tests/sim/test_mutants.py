"""The proof of the checker: break one rule of replication, and seeds find it.

Here are those that hardly take any. `make sim-proof` hunts for all of them.
"""

import pytest
from tests.sim.mutants import MUTANTS, mutated, takes_the_same
from tests.sim.storm import stormy

from replog.sim.simulation import simulate

SEEDS_MAX = 20
EASY = (
    "acks=all is answered before the commit",
    "consumers read up to the log end",
    "a follower takes over a high watermark that it does not reach",
    "a follower joins wherever its log ends",
    "one batch of each producer is remembered",
    "the high watermark is the leader's log end",
)


@pytest.mark.parametrize("name", EASY)
def test_a_broken_rule_is_found(name: str) -> None:
    with mutated(name):
        for seed in range(SEEDS_MAX):
            outcome = simulate(stormy(seed))
            if not outcome.passed:
                assert outcome.problem and not outcome.problem.startswith("a node raised")
                assert outcome.timeline, "a failure comes with what happened before it"
                return
    pytest.fail(f"{SEEDS_MAX} seeds do not notice that {name}")


def test_every_bug_can_be_planted() -> None:
    for name in MUTANTS:
        with mutated(name):
            pass  # a function that is gone, has another name, or takes something else fails here


def test_a_bug_in_a_function_that_takes_more_by_now_is_told_of() -> None:
    def before(first: int, second: int) -> None: ...

    def now(first: int, second: int, *, third: int) -> None: ...

    takes_the_same(now, now)
    with pytest.raises(TypeError, match="third"):
        takes_the_same(now, before)


def test_a_storm_alone_breaks_no_rule() -> None:
    for seed in range(2):
        assert simulate(stormy(seed)).problem is None
