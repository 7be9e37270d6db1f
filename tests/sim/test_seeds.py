"""A hundred seeds: every rule holds in each, and every kind of fault has really happened."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from replog.sim.fault_kinds import Fault
from replog.sim.plan import make_plan
from replog.sim.simulation import Outcome, simulate

SEEDS = range(1, 101)
PROCESSES = 2
# What a hundred seeds must have met besides the faults, or they would prove little.
MUST_HAPPEN = (
    "ISR change",
    "answers to consumers by followers",
    "batches sent again",
    "connection reset",
    "consumers sent to a follower",
    "election",
    "lost reply of the coordinator",
    "message late",
    "offsets committed",
    "offsets read back",
    "partition moved",
    "records acknowledged (acks=1)",
    "records acknowledged (acks=all)",
    "records consumed",
    "refused: COORDINATOR_LOAD_IN_PROGRESS",
    "refused: FENCED_LEADER_EPOCH",
    "refused: NOT_COORDINATOR",
    "refused: NOT_ENOUGH_REPLICAS",
    "refused: NOT_LEADER_OR_FOLLOWER",
    "refused: OUT_OF_ORDER_SEQUENCE_NUMBER",
    "refused: REQUEST_TIMED_OUT",
    "session ended while the broker lived",
    "truncation",
)


def play(seed: int) -> Outcome:
    return simulate(make_plan(seed))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_hundred_seeds() -> None:
    totals: Counter[str] = Counter()
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for outcome in pool.map(play, SEEDS, chunksize=5):
            assert outcome.passed, (
                f"{outcome.problem}\nreplay it with: replog sim --seed {outcome.seed}\n"
                + "\n".join(outcome.timeline[-100:])
            )
            totals.update(outcome.counts)
    missing = [fault.value for fault in Fault if not totals[fault.value]]
    assert not missing, f"these faults never happened: {missing}"
    missing = [name for name in MUST_HAPPEN if not totals[name]]
    assert not missing, f"these never happened: {missing}"
    assert totals["records acknowledged (acks=all)"] > 5_000


@pytest.mark.parametrize(
    ("seed", "what"),
    [(655526924, "an overtaken fetch took a follower's progress back, and it never rejoined")],
)
def test_a_seed_that_found_something(seed: int, what: str) -> None:
    outcome = simulate(make_plan(seed))
    assert outcome.passed, f"{what}: {outcome.problem}"
