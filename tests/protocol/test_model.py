"""Every order of events at small bounds: the rules hold, and each one that is missing is missed."""

import pytest
from tests.protocol.model import Rules, explore


def test_the_protocol_holds_in_every_state() -> None:
    result = explore(Rules())
    print(f"{result.states} states")
    assert result.broken is None, result.steps
    assert result.states > 50_000  # or it did not look at much


@pytest.mark.parametrize(
    ("missing", "falls"),
    [
        ("clean_election", "StrongIsr"),
        ("compare_and_set", "LeaderInIsr"),
        ("fence_progress", "StrongIsr"),
        ("check_history", "StrongIsr"),
        ("epoch_start", "StrongIsr"),
        ("truncate_by_epoch check_history", "StrongIsr"),
        ("fence_truncation check_history", "StrongIsr"),
        ("wait_for_isr", "StrongIsr"),
        ("keep_what_is_held", "StrongIsr"),
    ],
)
def test_without_one_rule_it_does_not(missing: str, falls: str) -> None:
    result = explore(Rules(**dict.fromkeys(missing.split(), False)))
    print(f"{missing}: {result.states} states, {len(result.steps)} steps: {result.steps}")
    assert result.broken == falls


@pytest.mark.parametrize("spare", ["fence_truncation"])
def test_a_rule_that_another_one_makes_up_for(spare: str) -> None:
    """A cut at the wrong place is found by the comparison at the next fetch: defence in depth."""
    assert explore(Rules(**{spare: False})).broken is None
