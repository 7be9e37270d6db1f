"""The proof of the simulator: each planted bug is found by ordinary seeds, and none without them.

python -m tests.sim.proof [--seeds N] [--only WORD] [--jobs N]

Prints a table: the bug, how many seeds it took, what the checker said, and the time. After that the
healthy twin plays as many seeds as the most hidden bug needed, and more, and each kind of fault
must have happened in them. Exit code 1 when a bug stays hidden, or a healthy seed fails.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from tests.sim.mutants import MUTANTS, mutated

from replog.sim.fault_kinds import Fault
from replog.sim.plan import make_plan
from replog.sim.simulation import Outcome, simulate

FIRST_SEED = 0
SEEDS_MAX = 500  # a bug that so many do not find is hidden: the simulator is too kind
SEED_MS = 5000.0
HEALTHY_SEEDS = 100  # at least


@dataclass(frozen=True, slots=True)
class Hunt:
    """The search for one bug."""

    name: str
    seeds: int  # until it was found; all of them when it was not
    rule: str  # that the checker named; empty: it stayed hidden
    seconds: float
    raised: int = 0  # runs that ended with an exception of a node, which proves little


def play(seed: int) -> Outcome:
    """One ordinary seed."""
    return simulate(make_plan(seed, duration_ms=SEED_MS))


def hunt(name: str, seeds_max: int) -> Hunt:
    """Look for the bug `name`: a seed breaks a rule with it, and none without it."""
    began = time.process_time()
    raised = 0
    for tried in range(1, seeds_max + 1):
        seed = FIRST_SEED + tried - 1
        with mutated(name):
            outcome = play(seed)
        if outcome.passed:
            continue
        if outcome.rule.startswith("a node raised"):
            raised += 1
        elif play(seed).passed:
            return Hunt(name, tried, outcome.rule, time.process_time() - began, raised)
    return Hunt(name, seeds_max, "", time.process_time() - began, raised)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, for each bug")
    parser.add_argument("--healthy", type=int, default=HEALTHY_SEEDS, help="seeds without a bug")
    parser.add_argument("--only", default="", help="bugs with this in their name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    began = time.perf_counter()
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        hunts = list(_hunts(pool, options.only, options.seeds))
        hidden = [found.name for found in hunts if not found.rule]
        most = max((found.seeds for found in hunts if found.rule), default=0)
        problems = _healthy(pool, max(most, options.healthy))
    for name in hidden:
        problems.append(f"{options.seeds} seeds do not notice that {name}")
    print(f"{len(hunts)} bugs, {len(hidden)} hidden; {time.perf_counter() - began:.0f} s")
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


def _hunts(pool: ProcessPoolExecutor, only: str, seeds_max: int) -> Iterator[Hunt]:
    names = [name for name in MUTANTS if only in name]
    width = max(map(len, names))
    print(f"{'bug':{width}}  {'seeds':>5}  {'CPU s':>6}  found by the rule")
    for future in as_completed([pool.submit(hunt, name, seeds_max) for name in names]):
        found = future.result()
        rule = found.rule or f"- (not found; {found.raised} nodes raised)"
        print(f"{found.name:{width}}  {found.seeds:5}  {found.seconds:6.1f}  {rule}", flush=True)
        yield found


def _healthy(pool: ProcessPoolExecutor, seeds: int) -> list[str]:
    """Play `seeds` seeds without a bug; what is wrong with them."""
    problems = []
    totals: Counter[str] = Counter()
    for outcome in pool.map(play, range(FIRST_SEED, FIRST_SEED + seeds), chunksize=5):
        totals.update(outcome.counts)
        if not outcome.passed:
            problems.append(f"without a bug, seed {outcome.seed} fails: {outcome.problem}")
    print(f"without a bug, {seeds} seeds: {len(problems)} failed; what happened in them:")
    for fault in Fault:
        print(f"{totals[fault.value]:9} {fault.value}")
        if not totals[fault.value]:
            problems.append(f"{fault.value} never happened")
    return problems


if __name__ == "__main__":
    sys.exit(main())
