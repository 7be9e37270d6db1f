"""The states of a classic group and the ways between them."""

from enum import Enum


class GroupState(Enum):
    """Where a group stands. The values are the names that DescribeGroups shows.

    Legal transitions:

    - Empty               -> PreparingRebalance (a member joins), Dead
    - PreparingRebalance  -> CompletingRebalance (all have joined, or time is up), Empty, Dead
    - CompletingRebalance -> Stable (the assignment is stored), PreparingRebalance, Dead
    - Stable              -> PreparingRebalance (somebody comes, goes or changes), Dead
    - Dead                -> nothing: the group is expired or this broker coordinates it no more
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


class IllegalTransition(RuntimeError):
    """A group was moved along a way that does not exist: a mistake of ours, never of a client's."""

    def __init__(self, current: GroupState, wanted: GroupState) -> None:
        super().__init__(f"a group in {current.value} can't become {wanted.value}")
        self.current = current
        self.wanted = wanted
