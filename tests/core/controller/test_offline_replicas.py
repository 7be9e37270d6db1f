"""Replicas whose log can't be used, or only read: who leads, who is in sync, and until when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller import stored
from replog.core.controller.changes import (
    Change,
    IsrProposal,
    Liveness,
    accept_isr,
    partitions_held_back,
    reconcile,
    replica_failed,
    replica_read_only,
    replicas_returned,
)
from replog.core.controller.election import elect
from replog.core.controller.eligible import only_suspects
from replog.core.controller.registrations import take_registrations
from replog.core.controller.state import ControllerImage, Draft
from replog.model.cluster import BrokerRecord, ClusterState, TopicRecord
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.partition import PartitionRecord

EPOCH = 7
TP = TopicPartition("t", 0)


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    failed: tuple[int, ...] = (),
) -> PartitionRecord:
    return PartitionRecord(
        replicas=replicas, isr=isr, leader=leader, leader_epoch=3, partition_epoch=5, failed=failed
    )


def alive(*brokers: int, leaving: tuple[int, ...] = ()) -> Liveness:
    return Liveness(frozenset(brokers), frozenset(leaving))


ALL = (0, 1, 2)

# (what fails, record, broker, alive, leader after, ISR after, leader epochs gone by)
FAILED = [
    ("the leader", partition(ALL, ALL, 0), 0, ALL, 1, (1, 2), 1),
    ("a follower", partition(ALL, ALL, 0), 2, ALL, 0, (0, 1), 0),
    ("one out of sync", partition(ALL, (0, 1), 0), 2, ALL, 0, (0, 1), 0),
    ("the only one in sync", partition(ALL, (0,), 0), 0, ALL, NO_LEADER, (0,), 1),
    ("the only replica", partition((0,), (0,), 0), 0, ALL, NO_LEADER, (0,), 1),
    ("all but a dead one", partition((0, 1), (0, 1), 0), 0, (0,), NO_LEADER, (0, 1), 1),
]


@pytest.mark.parametrize(
    ("record", "broker", "up", "leader", "isr", "epochs"),
    [row[1:] for row in FAILED],
    ids=[row[0] for row in FAILED],
)
def test_a_log_fails(
    record: PartitionRecord,
    broker: int,
    up: tuple[int, ...],
    leader: int,
    isr: tuple[int, ...],
    epochs: int,
) -> None:
    change = replica_failed(record, broker, alive(*up), unclean=False, controller_epoch=EPOCH)
    assert change is not None and not change.unclean
    after = change.record
    assert (after.leader, after.isr) == (leader, isr)
    assert after.leader_epoch == record.leader_epoch + epochs
    assert after.partition_epoch == record.partition_epoch + 1
    assert after.failed == (broker,)
    again = replica_failed(after, broker, alive(*up), unclean=False, controller_epoch=EPOCH)
    assert again is None, "to say it again changes nothing"


READ_ONLY = [
    ("the leader", partition(ALL, ALL, 0), 0, 1, (1, 2), 1),
    ("a follower", partition(ALL, ALL, 0), 2, 0, (0, 1), 0),
    ("one out of sync", partition(ALL, (0, 1), 0), 2, 0, (0, 1), 0),
]


@pytest.mark.parametrize(
    ("record", "broker", "leader", "isr", "epochs"),
    [row[1:] for row in READ_ONLY],
    ids=[row[0] for row in READ_ONLY],
)
def test_a_disk_is_full(
    record: PartitionRecord, broker: int, leader: int, isr: tuple[int, ...], epochs: int
) -> None:
    change = replica_read_only(record, broker, alive(*ALL), unclean=False, controller_epoch=EPOCH)
    assert change is not None
    after = change.record
    assert (after.leader, after.isr) == (leader, isr)
    assert after.leader_epoch == record.leader_epoch + epochs
    assert after.failed == (broker,), "or an idle leader would let it in again"


@pytest.mark.parametrize("unclean", [False, True])
def test_who_has_no_room_leads_on_while_nobody_else_can(unclean: bool) -> None:
    record = partition(ALL, (0,), 0)
    args = {"unclean": unclean, "controller_epoch": EPOCH}
    assert replica_read_only(record, 0, alive(*ALL), **args) is None
    caught_up = partition(ALL, (0, 2), 0)
    change = replica_read_only(caught_up, 0, alive(*ALL), **args)
    assert change is not None and (change.record.leader, change.record.isr) == (2, (2,))


def test_a_failed_log_is_not_elected_until_its_broker_registers_anew() -> None:
    record = partition(ALL, (0,), NO_LEADER, failed=(0,))
    assert reconcile(record, alive(*ALL), unclean=False, controller_epoch=EPOCH) is None
    assert elect(record, ALL, unclean=False).leader == NO_LEADER
    unclean = elect(record, ALL, unclean=True)
    assert (unclean.leader, unclean.unclean) == (1, True)
    returned = replicas_returned(record, {0, 5}, controller_epoch=EPOCH)
    assert returned is not None and returned.failed == ()
    assert returned.partition_epoch == record.partition_epoch + 1
    assert replicas_returned(returned, {0}, controller_epoch=EPOCH) is None
    assert reconcile(returned, alive(*ALL), unclean=False, controller_epoch=EPOCH) is None
    assert only_suspects(returned), "it may have lost what it could not write: logs are compared"


def test_who_was_not_relied_on_when_its_log_failed_is_in_no_doubt() -> None:
    record = partition(ALL, (1, 2), 1, failed=(0,))
    returned = replicas_returned(record, {0}, controller_epoch=EPOCH)
    assert returned is not None and (returned.failed, returned.last_known_elr) == ((), ())


def test_a_leaver_with_a_failed_log_does_not_lead_on() -> None:
    record = partition((0,), (0,), 0, failed=(0,))
    change = reconcile(record, alive(leaving=(0,)), unclean=False, controller_epoch=EPOCH)
    assert change is not None and change.record.leader == NO_LEADER


def test_a_failed_log_is_not_let_in() -> None:
    record = partition(ALL, (0,), 0, failed=(2,))
    brokers = {broker: BrokerRecord(broker, 100 + broker, ()) for broker in ALL}
    proposal = IsrProposal(0, 3, 5, ((0, 100), (2, 102)))
    refused = accept_isr(record, proposal, brokers, controller_epoch=EPOCH)
    assert isinstance(refused, Refused) and refused.error == ErrorCode.INELIGIBLE_REPLICA


def test_a_failed_log_holds_no_departure_back() -> None:
    assert partitions_held_back([partition((0, 1), (0,), 0)], 0, {1}) == 1
    assert partitions_held_back([partition((0, 1), (0,), 0, failed=(1,))], 0, {1}) == 0


def test_it_is_stored() -> None:
    record = partition(ALL, (0,), 0, failed=(2, 1))
    topic = TopicRecord("t", bytes(range(16)), [record])
    again = stored.decode_partition(
        0,
        stored.decode_topic(stored.encode_topic(topic)),
        stored.encode_partition(record, topic.topic_id),
    )
    assert again == record


@given(
    isr=st.sets(st.sampled_from(ALL), min_size=1),
    up=st.sets(st.sampled_from(ALL)),
    broken=st.lists(st.sampled_from(ALL), max_size=4),
    readable=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_the_shape_of_what_comes_out(
    isr: set[int], up: set[int], broken: list[int], readable: list[bool]
) -> None:
    """A leader is in the ISR and has a log; the ISR is never empty, and only shrinks."""
    record = partition(ALL, tuple(sorted(isr)), min(isr))
    change: Change | None = reconcile(record, alive(*up), unclean=False, controller_epoch=EPOCH)
    for broker, read in zip(broken, readable, strict=False):
        now = record if change is None else change.record
        rule = replica_read_only if read else replica_failed
        change = rule(now, broker, alive(*up), unclean=False, controller_epoch=EPOCH)
        after = now if change is None else change.record
        assert after.isr and set(after.isr) <= set(now.isr)
        assert after.leader == NO_LEADER or after.leader in after.isr
        assert after.leader not in after.failed
        assert change is None or after.partition_epoch == now.partition_epoch + 1
        record = now


# ---- in a draft ---------------------------------------------------------------------------------


def draft(*records: PartitionRecord) -> Draft:
    cluster = ClusterState(cluster_id="c", controller_epoch=EPOCH)
    cluster.brokers = {broker: BrokerRecord(broker, 100 + broker, ()) for broker in ALL}
    cluster.put_topic(TopicRecord("t", bytes(16), list(records)))
    return Draft(ControllerImage(cluster))


def test_a_broker_says_so_and_comes_back() -> None:
    made = draft(partition(ALL, ALL, 0), partition((0,), (0,), 0))
    made.replica_offline(TP, 0, readable=False)
    made.replica_offline(TopicPartition("t", 1), 0, readable=False)
    made.replica_offline(TopicPartition("t", 9), 0, readable=False)  # which is not there
    assert made.changed[TP].leader == 1
    assert made.changed[TopicPartition("t", 1)].leader == NO_LEADER
    restarted = dict(made.brokers) | {0: BrokerRecord(0, 200, ())}
    take_registrations(made, restarted)
    assert made.changed[TP].failed == ()
    assert made.changed[TP].isr == (1, 2)
    assert made.changed[TopicPartition("t", 1)].last_known_elr == (0,)


def test_a_broker_that_can_use_its_log_after_all_need_not_register_anew() -> None:
    made = draft(partition(ALL, ALL, 0), partition((0,), (0,), 0))
    only = TopicPartition("t", 1)
    made.replica_usable(TP, 0)
    assert not made.changed, "nothing was said against it"
    made.replica_offline(TP, 0, readable=False)
    made.replica_offline(only, 0, readable=False)
    for tp in (TP, only, TopicPartition("t", 9)):
        made.replica_usable(tp, 0)
    assert (made.changed[TP].failed, made.changed[TP].isr) == ((), (1, 2))
    assert (made.changed[only].failed, made.changed[only].last_known_elr) == ((), (0,))


def test_others_that_come_up_change_nothing_for_it() -> None:
    made = draft(partition(ALL, (0,), 0))
    made.replica_offline(TP, 0, readable=False)
    take_registrations(made, dict(made.brokers) | {1: BrokerRecord(1, 200, ())})
    assert made.changed[TP].failed == (0,)
    assert made.changed[TP].leader == NO_LEADER


@pytest.mark.parametrize("readable", [False, True])
def test_a_damaged_log_counts_in_the_epoch_in_which_it_was_found(readable: bool) -> None:
    record = partition(ALL, ALL, 0)
    made, epoch = draft(record), record.leader_epoch
    made.replica_damaged(TP, 0, leader_epoch=epoch - 1, readable=readable)
    assert not made.changed, "it has not heard of what happened since: it will tell of it again"
    made.replica_damaged(TP, 0, leader_epoch=epoch, readable=readable)
    assert (made.changed[TP].leader, made.changed[TP].isr) == (1, (1, 2))
    assert made.changed[TP].failed == (), "it is going to be copied anew"
