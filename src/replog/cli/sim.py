"""`replog sim`: run seeds of the deterministic simulator and tell what went wrong.

Exit codes: 0 all seeds passed, 1 a seed failed.
"""

import json
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replog.sim.simulation import Outcome

SEEDS_MAX = 2**31


def run(
    seed: int | None,
    seeds: int = 1,
    *,
    output_format: str = "text",
    timeline: bool = True,
    keep_going: bool = False,
) -> int:
    """Run `seeds` seeds from `seed` on (a random one when None). Returns the exit code."""
    from replog.sim.plan import make_plan
    from replog.sim.simulation import simulate

    first = random.randrange(SEEDS_MAX) if seed is None else seed
    totals: Counter[str] = Counter()
    failed: list[Outcome] = []
    began = time.perf_counter()
    virtual_ms = 0.0
    done = 0
    for number in range(first, first + seeds):
        outcome = simulate(make_plan(number))
        done += 1
        totals.update(outcome.counts)
        virtual_ms += outcome.virtual_ms
        if not outcome.passed:
            failed.append(outcome)
            _tell_failure(outcome, timeline=timeline)
            if not keep_going:
                break
    seconds = time.perf_counter() - began
    if output_format == "json":
        summary = {
            "first_seed": first,
            "seeds": done,
            "failed": [{"seed": o.seed, "problem": o.problem} for o in failed],
            "virtual_seconds": round(virtual_ms / 1000, 3),
            "counts": dict(sorted(totals.items())),
        }
        print(json.dumps(summary, indent=2))
    else:
        for name, count in sorted(totals.items()):
            print(f"{count:9} {name}")
        verdict = f"{len(failed)} failed" if failed else "all passed"
        print(
            f"{done} seeds from {first}: {verdict}; {virtual_ms / 1000:.1f} virtual seconds "
            f"in {seconds:.1f} s"
        )
    return 1 if failed else 0


def _tell_failure(outcome: "Outcome", *, timeline: bool) -> None:
    if timeline:
        for line in outcome.timeline:
            print(line, file=sys.stderr)
    print(f"seed {outcome.seed} failed: {outcome.problem}", file=sys.stderr)
    print(f"replay it with: replog sim --seed {outcome.seed}", file=sys.stderr)
