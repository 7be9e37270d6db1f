import pytest

from replog.core.controller.changes import Change
from replog.core.controller.preferred import elect_preferred, elect_unclean, imbalanced
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.partition import PartitionRecord


def record(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    *,
    elr: tuple[int, ...] = (),
    suspects: tuple[int, ...] = (),
) -> PartitionRecord:
    return PartitionRecord(
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=3,
        partition_epoch=5,
        elr=elr,
        last_known_elr=suspects,
    )


@pytest.mark.parametrize(
    ("now", "alive", "error"),
    [
        (record((0, 1), (1, 0), 0), {0, 1}, ErrorCode.ELECTION_NOT_NEEDED),
        (record((0, 1), (1,), 1), {0, 1}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (record((0, 1), (1, 0), 1), {1}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (record((0, 1), (1,), 1, elr=(0,)), {0, 1}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (
            record((0, 1), (0,), NO_LEADER, suspects=(0, 1)),
            {0, 1},
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ),
    ],
)
def test_preferred_elections_that_are_refused(
    now: PartitionRecord, alive: set[int], error: ErrorCode
) -> None:
    outcome = elect_preferred(now, alive, controller_epoch=7)
    assert isinstance(outcome, Refused)
    assert outcome.error is error


def test_the_preferred_leader_leads_with_the_same_isr() -> None:
    outcome = elect_preferred(record((0, 1, 2), (1, 0), 1), {0, 1}, controller_epoch=7)
    assert isinstance(outcome, Change)
    after = outcome.record
    assert (after.leader, after.isr, after.leader_epoch) == (0, (1, 0), 4)
    assert not outcome.unclean


@pytest.mark.parametrize(
    ("now", "alive", "leader", "unclean"),
    [
        (record((0, 1, 2), (0,), NO_LEADER), {1, 2}, 1, True),
        (record((0, 1, 2), (0,), NO_LEADER), {0, 1}, 0, False),  # clean after all
        (record((0, 1, 2), (0,), NO_LEADER, elr=(2,)), {1, 2}, 2, False),
    ],
)
def test_unclean_elections(
    now: PartitionRecord, alive: set[int], leader: int, unclean: bool
) -> None:
    outcome = elect_unclean(now, alive, controller_epoch=7, min_isr=2)
    assert isinstance(outcome, Change)
    assert (outcome.record.leader, outcome.record.isr) == (leader, (leader,))
    assert outcome.unclean is unclean
    if unclean:
        assert outcome.record.elr == outcome.record.last_known_elr == ()


@pytest.mark.parametrize(
    ("now", "alive", "error"),
    [
        (record((0, 1), (0,), 0), {0, 1}, ErrorCode.ELECTION_NOT_NEEDED),
        (record((0, 1), (0,), NO_LEADER), {2}, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_unclean_elections_that_are_refused(
    now: PartitionRecord, alive: set[int], error: ErrorCode
) -> None:
    outcome = elect_unclean(now, alive, controller_epoch=7, min_isr=1)
    assert isinstance(outcome, Refused)
    assert outcome.error is error


@pytest.mark.parametrize(
    ("percentage", "expected"), [(0, [0, 2]), (49, [0, 2]), (50, [2]), (100, [])]
)
def test_what_is_out_of_balance(percentage: int, expected: list[int]) -> None:
    """Broker 0 leads one of the two that prefer it, broker 1 none of one."""
    partitions = [
        (TopicPartition("t", 0), record((0, 1), (0, 1), 1)),
        (TopicPartition("t", 1), record((0, 1), (0, 1), 0)),
        (TopicPartition("t", 2), record((1, 0), (0, 1), 0)),
    ]
    assert [tp.partition for tp in imbalanced(partitions, percentage)] == expected
