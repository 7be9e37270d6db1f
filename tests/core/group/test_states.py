"""Every way between states that is legal, and every other one refused."""

import itertools

import pytest

from replog.core.group.facts import GroupSettings, Instant
from replog.core.group.rebalance import Rebalance
from replog.core.group.state import GroupState, IllegalTransition

EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

LEGAL = {
    (EMPTY, PREPARING),
    (EMPTY, DEAD),
    (PREPARING, COMPLETING),
    (PREPARING, EMPTY),
    (PREPARING, DEAD),
    (COMPLETING, STABLE),
    (COMPLETING, PREPARING),
    (COMPLETING, DEAD),
    (STABLE, PREPARING),
    (STABLE, DEAD),
}


def in_state(state: GroupState) -> Rebalance:
    rounds = Rebalance(GroupSettings(0, 10), Instant(0.0, 5))
    rounds.state = state
    return rounds


@pytest.mark.parametrize(("current", "wanted"), [*itertools.product(GroupState, GroupState)])
def test_transition(current: GroupState, wanted: GroupState) -> None:
    rounds = in_state(current)
    if (current, wanted) in LEGAL:
        rounds.become(wanted, Instant(1.0, 77))
        assert (rounds.state, rounds.previous_state) == (wanted, current)
        assert rounds.state_since_wall_ms == 77
    else:
        with pytest.raises(IllegalTransition):
            rounds.become(wanted, Instant(1.0, 77))
        assert rounds.state is current
        assert rounds.state_since_wall_ms == 5


@pytest.mark.parametrize("state", list(GroupState))
def test_where_a_rebalance_can_begin(state: GroupState) -> None:
    assert in_state(state).can_begin is (state in {EMPTY, STABLE, COMPLETING})
