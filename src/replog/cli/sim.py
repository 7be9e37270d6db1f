"""`replog sim`: run seeds of the deterministic simulator and tell what went wrong.

Exit codes: 0 all seeds passed, 1 a seed failed.
"""

import gc
import multiprocessing
import os
import random
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from replog.cli.errors import Failure
from replog.cli.output import print_json
from replog.cli.sim_shrink import shrunk
from replog.cli.sim_timeline import as_json, show
from replog.sim.chronicle import Chronicle
from replog.sim.fault_kinds import Fault
from replog.sim.plan import Plan, make_plan
from replog.sim.scenario import BadScenario, Scenario, from_text, to_text
from replog.sim.simulation import Outcome, simulate

SEEDS_MAX = 2**31
# Objects made before garbage is looked for: a tenth of a run's time would go into that.
GARBAGE_AT = 50_000
MANY = 20  # seeds: from so many on it is worth the while to start processes
TOLD_EVERY_S = 10.0  # how far we are, where that is no line that changes


@dataclass(frozen=True, slots=True)
class How:
    """What is done with runs."""

    as_json: bool = False
    rows: int = 40
    messages: bool = False
    keep_going: bool = False
    every_fault: bool = False
    shrink: bool = False
    output: str | None = None
    jobs: int | None = None


@dataclass(slots=True)
class _Summary:
    """All runs together."""

    first: int | str  # seed, or file
    began: float = field(default_factory=time.perf_counter)
    runs: int = 0
    virtual_ms: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[dict[str, Any]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.virtual_ms += outcome.virtual_ms
        self.counts.update(outcome.counts)

    def missing(self) -> list[str]:
        return [fault.value for fault in Fault if not self.counts[fault.value]]


def run_seeds(seed: int | None, seeds: int, duration_s: int | None, how: How) -> int:
    """Run `seeds` seeds from `seed` on (a random one when None). Returns the exit code."""
    first = random.randrange(SEEDS_MAX) if seed is None else seed
    duration_ms = None if duration_s is None else duration_s * 1000.0
    also = "" if duration_s is None else f" --duration {duration_s}"
    summary = _Summary(first)
    play = partial(_play, duration_ms=duration_ms)
    with _each(play, range(first, first + seeds), how.jobs) as outcomes, _progress(seeds) as tell:
        for outcome in outcomes:
            summary.add(outcome)
            tell(summary)
            if outcome.passed:
                continue
            plan = make_plan(outcome.seed, duration_ms=duration_ms)
            replay = f"replog sim --seed {outcome.seed}{also}"
            summary.failed.append(_failed(f"seed {outcome.seed}", plan, outcome, replay, how))
            if not how.keep_going:
                break
    return _verdict(summary, how)


def run_scenario(file: str, how: How) -> int:
    """Run what a file says. Returns the exit code. Raises Failure when it is no scenario."""
    try:
        scenario = from_text(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error
    except (UnicodeDecodeError, BadScenario) as error:
        raise Failure(f"{file}: {error}") from error
    outcome = simulate(scenario.plan)
    summary = _Summary(file)
    summary.add(outcome)
    if not outcome.passed:
        replay = f"replog sim --scenario {shlex.quote(file)}"
        summary.failed.append(_failed(file, scenario.plan, outcome, replay, how))
    return _verdict(summary, how)


def _play(seed: int, duration_ms: float | None) -> Outcome:
    gc.set_threshold(GARBAGE_AT, 20, 20)
    return simulate(make_plan(seed, duration_ms=duration_ms))


@contextmanager
def _each(play: Any, seeds: range, jobs: int | None) -> Iterator[Iterator[Outcome]]:
    """The outcomes of `seeds`, in their order."""
    if jobs is None:
        jobs = (os.cpu_count() or 1) if len(seeds) >= MANY else 1
    if jobs == 1:
        yield map(play, seeds)
        return
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))
    try:
        yield pool.map(play, seeds)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _progress(seeds: int) -> Iterator[Any]:
    """Tell how far we are: a line that changes on a terminal, and one every so often elsewhere."""
    console = Console(stderr=True)
    if seeds < MANY:
        yield lambda summary: None
    elif console.is_terminal:
        with console.status("") as status:
            yield lambda summary: status.update(_how_far(summary, seeds))
    else:
        due = time.perf_counter() + TOLD_EVERY_S

        def tell(summary: _Summary) -> None:
            nonlocal due
            if time.perf_counter() >= due and summary.runs < seeds:
                due = time.perf_counter() + TOLD_EVERY_S
                print(_how_far(summary, seeds), file=sys.stderr, flush=True)

        yield tell


def _how_far(summary: _Summary, seeds: int) -> str:
    return (
        f"{summary.runs} of {seeds} seeds, {len(summary.failed)} failed, "
        f"{summary.virtual_ms / 1000:.0f} virtual seconds "
        f"in {time.perf_counter() - summary.began:.0f} s"
    )


# ---- failures ---------------------------------------------------------------------------------


def _failed(what: str, plan: Plan, outcome: Outcome, replay: str, how: How) -> dict[str, Any]:
    """Tell of a failure; the same for programs."""
    told: dict[str, Any] = {"seed": outcome.seed, "problem": outcome.problem, "replay": replay}
    if how.shrink:
        small, outcome, sizes = shrunk(plan, outcome)
        path = Path(how.output or f"seed-{outcome.seed}.json")
        scenario = Scenario(f"What is left of {what}", small, found=outcome.rule)
        path.write_text(to_text(scenario), encoding="utf-8")
        plan, replay = small, f"replog sim --scenario {shlex.quote(str(path))}"
        told |= {"problem": outcome.problem, "replay": replay, "shrunk": sizes}
    chronicle = Chronicle()
    if how.rows or how.as_json:
        simulate(plan, chronicle)
    if how.as_json:
        return told | {"timeline": as_json(chronicle)}
    if how.messages:
        print("\n".join(outcome.timeline), file=sys.stderr)
    if how.rows:
        show(chronicle, outcome.problem or "", plan, how.rows)
    for name, (before, after) in told.get("shrunk", {}).items():
        print(f"{name}: {before:g} -> {after:g}", file=sys.stderr)
    print(f"{what} failed: {outcome.problem}", file=sys.stderr)
    print(f"replay it with: {replay}", file=sys.stderr)
    return told


def _verdict(summary: _Summary, how: How) -> int:
    seconds = time.perf_counter() - summary.began
    missing = summary.missing() if how.every_fault else []
    if how.as_json:
        print_json(
            {
                "first_seed": summary.first,
                "seeds": summary.runs,
                "failed": summary.failed,
                "never_happened": missing,
                "virtual_seconds": round(summary.virtual_ms / 1000, 3),
                "seconds": round(seconds, 3),
                "counts": dict(sorted(summary.counts.items())),
            }
        )
    else:
        for name, count in sorted(summary.counts.items()):
            print(f"{count:9} {name}")
        verdict = f"{len(summary.failed)} failed" if summary.failed else "all passed"
        print(
            f"{summary.runs} {'seed' if summary.runs == 1 else 'seeds'} from {summary.first}: "
            f"{verdict}; {summary.virtual_ms / 1000:.1f} virtual seconds in {seconds:.1f} s"
        )
        if missing:
            print(f"these faults never happened: {', '.join(missing)}", file=sys.stderr)
    return 1 if summary.failed or missing else 0
