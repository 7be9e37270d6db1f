"""`replog sim --shrink`: runs the candidates of `replog.sim.shrink`, and says how far it is."""

from rich.console import Console

from replog.sim.plan import Plan
from replog.sim.shrink import Candidates, shrink, size
from replog.sim.simulation import Outcome, simulate

Sizes = dict[str, tuple[float, float]]  # before, after


def shrunk(plan: Plan, outcome: Outcome) -> tuple[Plan, Outcome, Sizes]:
    """The smallest plan that breaks the rule that `plan` broke, how it ends, and the sizes."""
    console = Console(stderr=True)
    steps = shrink(plan, outcome.virtual_ms)
    runs, small, index = 0, plan, None
    with console.status("shrinking") as status:
        while True:
            try:
                candidates = steps.send(index)
            except StopIteration as done:
                small = done.value
                break
            status.update(f"{runs} runs: {_told(candidates[0])}")
            index, tried = _first_failing(candidates, outcome.rule)
            runs += tried
    sizes = {name: (before, size(small)[name]) for name, before in size(plan).items()}
    return small, simulate(small), sizes


def _first_failing(candidates: Candidates, rule: str) -> tuple[int | None, int]:
    """Its index, and how many were tried."""
    for index, candidate in enumerate(candidates):
        if simulate(candidate).rule == rule:
            return index, index + 1
    return None, len(candidates)


def _told(plan: Plan) -> str:
    return ", ".join(f"{count:g} {name}" for name, count in size(plan).items())
