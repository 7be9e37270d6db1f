"""Plans as files, runs made small, and the files that are kept."""

from pathlib import Path

import pytest
from tests.sim.mutants import mutated
from tests.sim.storm import stormy

from replog.sim.plan import Plan, make_plan
from replog.sim.scenario import BadScenario, Scenario, from_text, to_text
from replog.sim.shrink import shrink, size
from replog.sim.simulation import simulate

KEPT = sorted((Path(__file__).parent / "scenarios").glob("*.json"))


@pytest.mark.parametrize("seed", range(10))
def test_a_plan_comes_back_from_its_file_as_it_was(seed: int) -> None:
    scenario = Scenario("any", make_plan(seed), found="nothing")
    assert from_text(to_text(scenario)) == scenario


def test_a_file_plays_the_same_run() -> None:
    plan = make_plan(7, duration_ms=800.0)
    again = from_text(to_text(Scenario("any", plan))).plan
    one, other = simulate(plan), simulate(again)
    assert (one.digest, one.deliveries) == (other.digest, other.deliveries)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"min_isr": 2', '"min_isr": "2"', "plan.min_isr is not of type int"),
        ('"duration_ms": 800.0', '"duration_ms": true', "plan.duration_ms is not of type float"),
        ('"topics": [["t", 2]', '"topics": [["t", 2, 3]', "topics[0] is not a list of 2"),
        ('"fault": "', '"fault": "un', "fault is not one of"),
        ('"framed":', '"formed":', "plan.formed is not known"),
        ('"format": 1', '"format": 2', '"format" is not 1'),
    ],
)
def test_a_file_that_is_not_understood_is_refused(old: str, new: str, why: str) -> None:
    plan = next(p for s in range(40) if (p := make_plan(s, duration_ms=800.0)).min_isr == 2)
    text = to_text(Scenario("any", plan))
    assert old in text
    with pytest.raises(BadScenario) as refused:
        from_text(text.replace(old, new, 1))
    assert why in str(refused.value)


def smallest(plan: Plan, rule: str, failed_at_ms: float) -> Plan:
    """Drive the shrinking in this process."""
    steps, index = shrink(plan, failed_at_ms), None
    while True:
        try:
            candidates = steps.send(index)
        except StopIteration as done:
            small: Plan = done.value
            return small
        failing = (i for i, plan in enumerate(candidates) if simulate(plan).rule == rule)
        index = next(failing, None)


def test_a_failing_run_is_made_small() -> None:
    with mutated("a new leader takes its log end for committed"):
        plan, outcome = next(
            (plan, outcome)
            for seed in range(20)
            if not (outcome := simulate(plan := stormy(seed))).passed
        )
        small = smallest(plan, outcome.rule, outcome.virtual_ms)
        assert simulate(small).rule == outcome.rule
    assert len(small.events) <= 2 < len(plan.events)
    assert all(size(small)[name] <= before for name, before in size(plan).items())
    assert simulate(small).passed, "it is the broken rule that fails, not the small world"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_scenario_that_once_failed_passes(path: Path) -> None:
    scenario = from_text(path.read_text())
    assert simulate(scenario.plan).problem is None, scenario.what
