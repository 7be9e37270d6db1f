"""A hundred seeds: every rule holds in each, and every kind of fault has really happened."""

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from replog.sim.fault_kinds import Fault
from replog.sim.plan import make_plan
from replog.sim.simulation import Outcome, simulate

SEEDS = range(101, 201)
DURATION_MS = 3_000.0
PROCESSES = 2
# What a hundred seeds must have met besides the faults, or they would prove little.
MUST_HAPPEN = (
    "ISR change",
    "answers to consumers by followers",
    "batches sent again",
    "connection reset",
    "consumer began at the start of a log",
    "consumers sent to a follower",
    "election",
    "election that may lose records, and was counted",
    "lost reply of the coordinator",
    "message late",
    "offsets committed",
    "offsets read back",
    "partition moved",
    "process ended by itself",
    "records acknowledged (acks=1)",
    "records acknowledged (acks=all)",
    "records consumed",
    "refused: FENCED_LEADER_EPOCH",
    "refused: NOT_COORDINATOR",
    "refused: NOT_ENOUGH_REPLICAS",
    "refused: NOT_LEADER_OR_FOLLOWER",
    "refused: OUT_OF_ORDER_SEQUENCE_NUMBER",
    "refused: REQUEST_TIMED_OUT",
    "session ended while the broker lived",
    "stale read",
    "topic: alter",
    "topic: delete",
    "topic: grow",
    "topic: trim",
    "topic: write",
    "truncation",
    "wrong bit in an answer",
)


def play(seed: int) -> Outcome:
    return simulate(make_plan(seed, duration_ms=DURATION_MS))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_seeds() -> None:
    totals: Counter[str] = Counter()
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for outcome in pool.map(play, SEEDS, chunksize=5):
            assert outcome.passed, (
                f"{outcome.problem}\nreplay it with: "
                f"replog sim --seed {outcome.seed} --duration {DURATION_MS / 1000:.0f}\n"
                + "\n".join(outcome.timeline[-100:])
            )
            totals.update(outcome.counts)
    missing = [fault.value for fault in Fault if not totals[fault.value]]
    assert not missing, f"these faults never happened: {missing}"
    missing = [name for name in MUST_HAPPEN if not totals[name]]
    assert not missing, f"these never happened: {missing}"
    assert totals["records acknowledged (acks=all)"] > 5_000
