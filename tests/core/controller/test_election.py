import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller.election import Election, elect
from replog.model.ids import NO_LEADER
from replog.model.partition import PartitionRecord


def partition(
    replicas: tuple[int, ...], isr: tuple[int, ...], elr: tuple[int, ...] = ()
) -> PartitionRecord:
    return PartitionRecord(
        replicas=replicas, isr=isr, leader=NO_LEADER, leader_epoch=3, partition_epoch=5, elr=elr
    )


@pytest.mark.parametrize(
    ("record", "eligible", "unclean", "expected"),
    [
        # The order is that of the assigned replicas, not that of the ISR.
        (partition((2, 1, 0), (1, 0, 2)), {0, 2}, False, Election(2, (0, 2))),
        (partition((1, 0, 2), (0, 2)), {0, 1, 2}, False, Election(0, (0, 2))),
        # ELR only when nobody of the ISR is alive.
        (partition((0, 1, 2), (2,), (1,)), {0, 1}, False, Election(1, (1,))),
        (partition((0, 1, 2), (2,), (1,)), {0, 1, 2}, False, Election(2, (2,))),
        # Nobody: offline, and the last members stay recorded.
        (partition((0, 1, 2), (2,)), {0, 1}, False, Election(NO_LEADER, (2,))),
        (partition((0, 1, 2), (1, 2)), set(), True, Election(NO_LEADER, (1, 2))),
        # Unclean only where it is allowed, and the result says so.
        (partition((0, 1, 2), (2,)), {0, 1}, True, Election(0, (0,), unclean=True)),
        (partition((0, 1, 2), (2,), (1,)), {0, 1}, True, Election(1, (1,))),
        (partition((0, 1, 2), (2,)), {9}, True, Election(NO_LEADER, (2,))),
    ],
)
def test_who_leads(
    record: PartitionRecord, eligible: set[int], unclean: bool, expected: Election
) -> None:
    assert elect(record, eligible, unclean=unclean) == expected


brokers = st.sets(st.integers(0, 5))


@st.composite
def records(draw: st.DrawFn) -> PartitionRecord:
    replicas = draw(st.permutations(range(6)))[: draw(st.integers(1, 6))]
    isr = draw(st.permutations(replicas))[: draw(st.integers(1, len(replicas)))]
    outside = [broker for broker in replicas if broker not in isr]
    elr = draw(st.sets(st.sampled_from(outside))) if outside else set()
    return partition(tuple(replicas), tuple(isr), tuple(sorted(elr)))


@given(records(), brokers, st.booleans())
def test_an_election_keeps_what_it_promises(
    record: PartitionRecord, eligible: set[int], unclean: bool
) -> None:
    result = elect(record, eligible, unclean=unclean)
    assert result.isr
    assert set(result.isr) <= set(record.replicas)
    if result.leader == NO_LEADER:
        assert result.isr == record.isr
        assert not result.unclean
        assert not set(record.isr) & eligible
        assert not set(record.elr) & eligible
        return
    assert result.leader in eligible
    assert result.leader in result.isr
    if result.unclean:
        assert unclean
        assert result.isr == (result.leader,)
    else:
        assert result.leader in record.isr + record.elr
        before = record.replicas[: record.replicas.index(result.leader)]
        pool = record.isr if result.leader in record.isr else record.elr
        assert not any(broker in pool and broker in eligible for broker in before)


@given(records(), brokers)
def test_a_clean_election_never_leaves_isr_and_elr(
    record: PartitionRecord, eligible: set[int]
) -> None:
    result = elect(record, eligible, unclean=False)
    assert set(result.isr) <= set(record.isr) | set(record.elr)
