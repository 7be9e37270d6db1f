"""Plans as files, runs made small, and the files that are kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replog.sim.fault_kinds import Fault
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


def smallest(plan: Plan, failed_at_ms: float, fails: Callable[[Plan], bool]) -> tuple[Plan, int]:
    """What is left of `plan`, and how many candidates were tried."""
    steps, index, tried = shrink(plan, failed_at_ms), None, 0
    while True:
        try:
            candidates = steps.send(index)
        except StopIteration as done:
            return done.value, tried
        index = None
        for number, candidate in enumerate(candidates):
            tried += 1
            if fails(candidate):
                index = number
                break


def test_shrinking_leaves_what_a_failure_needs() -> None:
    """It takes two faults far apart, a producer with acks=all, a second partition, and a while."""
    rates = dict.fromkeys((Fault.CRASH, Fault.PAUSE, Fault.EXPIRE), 150.0)
    plan = make_plan(1, duration_ms=5000.0, rates=rates)
    one, other = plan.events[5], plan.events[-7]
    assert len(plan.events) > 60

    def fails(candidate: Plan) -> bool:
        return (
            {one, other} <= set(candidate.events)
            and any(producer.acks == -1 for producer in candidate.producers)
            and sum(count for _, count in candidate.topics) >= 2
            and candidate.duration_ms >= other.at_ms
        )

    small, tried = smallest(plan, plan.duration_ms - 10.0, fails)
    assert small.events == (one, other)
    assert len(small.producers) == 1 and small.producers[0].batches_max <= 1
    assert not small.consumers and not small.committers
    assert not small.moves and not small.lives and small.log_folders == 1
    assert sum(count for _, count in small.topics) == 2 == small.brokers
    assert other.at_ms <= small.duration_ms < 1.2 * other.at_ms
    assert not small.topic_settings and not small.framed
    assert tried < 150
    assert all(size(small)[name] <= before for name, before in size(plan).items())


def test_what_can_not_be_smaller_stays() -> None:
    plan = make_plan(1, duration_ms=1000.0)
    assert smallest(plan, 1000.0, lambda candidate: False)[0] == plan


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_scenario_that_once_failed_passes(path: Path) -> None:
    scenario = from_text(path.read_text())
    assert simulate(scenario.plan).problem is None, scenario.what
