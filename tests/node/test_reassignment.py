"""Partitions on the move: judged by the coordinator's nodes and the bytes in the folders."""

import pytest
from tests.node.moving import (
    T0,
    assigned,
    begin_move,
    begin_produce,
    create,
    held,
    members,
    move,
    moves,
    produce,
    produced,
    state,
)
from tests.node.town import Town

from replog.model.coordination import Operation
from replog.model.errors import ErrorCode
from replog.model.messages import Message
from replog.model.messages.alter_partition import AlterPartitionRequest
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.model.messages.fetch import FetchRequest

DELETE_DELAY_MS = 60_000


@pytest.fixture
def town() -> Town:
    town = Town(brokers=(0, 1, 2, 3, 4))
    town.start()
    town.run(100)
    return town


def filled(town: Town, *replicas: int, records: int = 5, **configs: str) -> None:
    """A topic of one partition with some records."""
    create(town, "t", list(replicas), **configs)
    for number in range(records):
        assert produce(town, b"record %d." % number) is ErrorCode.NONE


def hold_back(town: Town, *brokers: int) -> None:
    """These copy nothing until they are let go."""

    def lose(source: int, target: int, message: Message) -> bool:
        return source in brokers and isinstance(message, FetchRequest)

    town.lose_send = lose


def let_go(town: Town) -> None:
    town.lose_send = lambda source, target, message: False


def at_rest(town: Town, *replicas: int) -> bool:
    found, adding, removing = assigned(town)
    return found == list(replicas) and not adding and not removing


def wait_at_rest(town: Town, *replicas: int) -> None:
    town.run_until(lambda: at_rest(town, *replicas), limit_ms=90_000)


def complete(town: Town, *brokers: int, records: int = 5) -> None:
    """Each holds all records, and the same bytes."""
    town.run(1_000)
    logs = [held(town, broker) for broker in brokers]
    for log in logs:
        assert log is not None and log == logs[0]
        assert all(b"record %d." % number in log for number in range(records))


def test_each_move_of_a_request_is_judged_by_what_was_before_it(town: Town) -> None:
    filled(town, 0, 1)
    asked = [
        ReassignablePartition(partition_index=0, replicas=replicas)
        for replicas in ([1, 2], None, [2, 3])
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=asked)], timeout_ms=5_000
    )
    answer = town.ask(0, request, AlterPartitionReassignmentsResponse)
    assert [p.error_code for p in answer.responses[0].partitions] == [
        ErrorCode.NONE,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.NONE,
    ]
    wait_at_rest(town, 2, 3)
    complete(town, 2, 3)


# ---- a good day -------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [0, 2])
def test_a_partition_moves_to_other_brokers(town: Town, asked: int) -> None:
    filled(town, 0, 1)
    assert move(town, [2, 3], at=asked) is ErrorCode.NONE
    wait_at_rest(town, 2, 3)
    assert members(town)[0] == 2
    assert sorted(state(town)["isr"]) == [2, 3]
    assert state(town)["leader_epoch"] == 1
    complete(town, 2, 3)
    assert held(town, 0) is None and held(town, 1) is None  # renamed at once
    town.run(DELETE_DELAY_MS + 1_000)
    assert not [name for name in town.disks[0].list("") if name.startswith("t-0")]
    assert produce(town, b"goes on") is ErrorCode.NONE
    assert moves(town) == {}


def test_while_it_is_under_way_old_and_new_replicas_are_assigned(town: Town) -> None:
    filled(town, 0, 1)
    hold_back(town, 2)
    assert move(town, [1, 2]) is ErrorCode.NONE
    town.run(500)
    assert assigned(town) == ([1, 2, 0], [2], [0])
    assert moves(town) == moves(town, at=4) == {T0: ([1, 2, 0], [2], [0])}
    assert members(town)[0] == 0  # leads on
    assert produce(town, b"record 5.") is ErrorCode.NONE
    let_go(town)
    wait_at_rest(town, 1, 2)
    assert members(town)[0] == 1
    complete(town, 1, 2, records=6)


@pytest.mark.scenario(56)
def test_the_old_replicas_go_only_when_all_new_ones_have_it_all(town: Town) -> None:
    filled(town, 0, 1)
    hold_back(town, 3)
    assert move(town, [2, 3]) is ErrorCode.NONE
    town.run_until(lambda: 2 in state(town)["isr"])
    town.run(1_000)
    assert assigned(town) == ([2, 3, 0, 1], [2, 3], [0, 1])
    assert held(town, 0) == held(town, 1) == held(town, 2)
    let_go(town)
    wait_at_rest(town, 2, 3)
    complete(town, 2, 3)


def test_a_leader_that_stays_goes_on_in_a_new_epoch(town: Town) -> None:
    filled(town, 0, 1)
    assert move(town, [0, 2]) is ErrorCode.NONE
    wait_at_rest(town, 0, 2)
    assert members(town)[0] == 0
    assert state(town)["leader_epoch"] == 1
    complete(town, 0, 2)


@pytest.mark.parametrize(("before", "after"), [((0, 1), (1, 0)), ((0, 1), (1,)), ((0, 1), (0,))])
def test_where_nothing_is_copied_it_is_over_at_once(
    town: Town, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    filled(town, *before)
    assert move(town, after) is ErrorCode.NONE
    assert at_rest(town, *after)
    assert set(state(town)["isr"]) == set(after)
    assert members(town)[0] == (0 if 0 in after else 1)
    complete(town, *after)


def test_the_number_of_replicas_may_grow(town: Town) -> None:
    filled(town, 0)
    assert move(town, [0, 1, 2]) is ErrorCode.NONE
    wait_at_rest(town, 0, 1, 2)
    assert sorted(state(town)["isr"]) == [0, 1, 2]
    assert state(town)["leader_epoch"] == 0  # nobody is gone
    complete(town, 0, 1, 2)


@pytest.mark.parametrize(
    ("target", "may_change", "error"),
    [
        ([], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 99], True, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 3], False, ErrorCode.INVALID_REPLICATION_FACTOR),
        (None, True, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_targets_that_are_refused(
    town: Town, target: list[int] | None, may_change: bool, error: ErrorCode
) -> None:
    filled(town, 0, 1)
    before = dict(town.tree.nodes)
    assert move(town, target, may_change_factor=may_change) is error
    assert town.tree.nodes == before


# ---- another target, and none at all ----------------------------------------------------


def test_a_move_that_is_cancelled_leaves_everything_where_it_was(town: Town) -> None:
    filled(town, 0, 1)
    hold_back(town, 3)
    move(town, [2, 3])
    town.run_until(lambda: 2 in state(town)["isr"])
    assert move(town, None) is ErrorCode.NONE
    assert at_rest(town, 0, 1)
    assert sorted(state(town)["isr"]) == [0, 1]
    let_go(town)
    town.run(1_000)
    assert held(town, 2) is None and held(town, 3) is None
    assert produce(town, b"record 5.") is ErrorCode.NONE
    complete(town, 0, 1, records=6)


def test_another_target_begins_from_where_it_was(town: Town) -> None:
    filled(town, 0, 1)
    hold_back(town, 2)
    move(town, [0, 2])
    town.run(300)
    assert move(town, [0, 3]) is ErrorCode.NONE
    wait_at_rest(town, 0, 3)
    let_go(town)
    assert held(town, 2) is None
    complete(town, 0, 3)


def test_a_cancel_that_would_leave_nobody_in_sync_is_refused(town: Town) -> None:
    filled(town, 0)
    hold_back(town, 2)
    move(town, [1, 2])
    town.run_until(lambda: 1 in state(town)["isr"])
    town.kill(0)
    town.run_until(lambda: members(town)[:2] == (1, [1]))
    before = assigned(town)
    assert move(town, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert assigned(town) == before
    let_go(town)
    wait_at_rest(town, 1, 2)  # broker 0 is not needed for that
    complete(town, 1, 2)


# ---- faults ------------------------------------------------------------------------------


def step_begun(town: Town) -> None:
    hold_back(town, 2, 3)
    move(town, [2, 3])
    town.run(200)


def step_one_has_it_all(town: Town) -> None:
    hold_back(town, 3)
    move(town, [2, 3])
    town.run_until(lambda: 2 in state(town)["isr"])


def step_the_last_proposal_is_on_its_way(town: Town) -> None:
    """The leader wants the last target in the ISR, and nobody hears of it."""
    lost: list[Message] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if isinstance(message, AlterPartitionRequest):
            lost.append(message)
        return isinstance(message, AlterPartitionRequest)

    town.lose_send = lose
    move(town, [2, 3])
    town.run_until(lambda: lost)


@pytest.mark.scenario(56)
@pytest.mark.parametrize(
    "step", [step_begun, step_one_has_it_all, step_the_last_proposal_is_on_its_way]
)
@pytest.mark.parametrize("back", [True, False])
def test_the_leader_dies_at_each_step(town: Town, step: object, back: bool) -> None:
    filled(town, 1, 4)
    assert callable(step)
    step(town)
    town.kill(1)
    let_go(town)
    town.run_until(lambda: members(town)[0] not in (-1, 1))
    if back:
        town.run(50)
        town.start(1)
    wait_at_rest(town, 2, 3)
    complete(town, 2, 3)
    assert produce(town, b"goes on") is ErrorCode.NONE
    town.run(1_000)
    assert held(town, 4) is None
    if back:
        assert held(town, 1) is None


@pytest.mark.scenario(56)
@pytest.mark.parametrize(
    "step", [step_begun, step_one_has_it_all, step_the_last_proposal_is_on_its_way]
)
def test_the_controller_dies_at_each_step(town: Town, step: object) -> None:
    filled(town, 1, 4)
    assert callable(step)
    step(town)
    controller = town.controller
    assert controller == 0
    town.kill(controller)
    town.run(50)
    assert moves(town) == {T0: ([2, 3, 1, 4], [2, 3], [1, 4])} or at_rest(town, 2, 3)
    let_go(town)
    wait_at_rest(town, 2, 3)
    complete(town, 2, 3)


@pytest.mark.parametrize("carried_out", [True, False])
def test_the_answer_to_the_write_of_a_move_is_lost(town: Town, carried_out: bool) -> None:
    filled(town, 0, 1)
    lost: list[object] = []

    def once(broker: int, operations: tuple[Operation, ...]) -> bool:
        if not lost and any(op.path == "/brokers/topics/t" for op in operations):
            lost.append(operations)
            return True
        return False

    if carried_out:
        town.lose_write_reply = once
    else:
        town.lose_write = once
    connection = begin_move(town, [2, 3])
    town.run_until(lambda: town.answered(connection))
    assert lost
    wait_at_rest(town, 2, 3)
    complete(town, 2, 3)


def test_a_target_that_dies_is_waited_for(town: Town) -> None:
    filled(town, 0, 1)
    hold_back(town, 3)
    move(town, [2, 3])
    town.run(200)
    town.kill(3)
    let_go(town)
    town.run(10_000)
    assert assigned(town) == ([2, 3, 0, 1], [2, 3], [0, 1])
    assert produce(town, b"record 5.") is ErrorCode.NONE
    town.start(3)
    wait_at_rest(town, 2, 3)
    complete(town, 2, 3, records=6)


@pytest.mark.scenario(84)
def test_a_replica_that_was_away_when_it_was_removed_goes_when_it_is_back(town: Town) -> None:
    filled(town, 0, 1)
    town.kill(1)
    town.run(100)
    move(town, [0, 2])
    wait_at_rest(town, 0, 2)
    assert held(town, 1) is not None
    town.start(1)
    town.run(500)
    assert held(town, 1) is None
    town.run(DELETE_DELAY_MS + 1_000)
    assert not [name for name in town.disks[1].list("") if name.startswith("t-0")]


def test_a_replica_that_was_removed_and_comes_again_copies_anew(town: Town) -> None:
    filled(town, 0, 1)
    move(town, [0, 2])
    wait_at_rest(town, 0, 2)
    assert produce(town, b"record 5.") is ErrorCode.NONE
    move(town, [0, 1])
    wait_at_rest(town, 0, 1)
    complete(town, 0, 1, records=6)
    assert held(town, 2) is None


def test_a_leader_that_is_removed_acknowledges_nothing_any_more(town: Town) -> None:
    filled(town, 0, 1)
    town.pause(0)  # it does not hear that it is removed
    town.expire(0)
    town.run_until(lambda: members(town)[0] == 1)
    assert move(town, [1, 2]) is ErrorCode.NONE
    wait_at_rest(town, 1, 2)
    assert produce(town, b"record 5.") is ErrorCode.NONE
    late = begin_produce(town, b"lost", at=0)
    town.resume(0)
    town.run(10)
    town.begin_session(0)
    town.run_until(lambda: town.answered(late))
    assert produced(town, late) is not ErrorCode.NONE
    town.run_until(lambda: held(town, 0) is None)
    complete(town, 1, 2, records=6)


def test_the_isr_of_a_partition_under_min_isr_moves_too(town: Town) -> None:
    filled(town, 0, 1, min__insync__replicas="2")
    town.kill(1)
    town.run_until(lambda: members(town) == (0, [0], [1]))
    assert move(town, [0, 2]) is ErrorCode.NONE
    wait_at_rest(town, 0, 2)
    assert members(town) == (0, [0, 2], [])
    complete(town, 0, 2)


# ---- throttles --------------------------------------------------------------------------


def slow_town(**settings: str) -> Town:
    """Replication is throttled to 2,000 bytes a second, where a topic says so."""
    town = Town(
        brokers=(0, 1, 2),
        settings={
            "leader.replication.throttled.rate": "2000",
            "follower.replication.throttled.rate": "2000",
            "replica.fetch.max.bytes": "1500",
        }
        | {name.replace("__", "."): value for name, value in settings.items()},
    )
    town.start()
    town.run(100)
    return town


def catch_up_ms(town: Town, **configs: str) -> float:
    """How long a new replica takes for 12 records of 1 KB, while one of the ISR writes at once."""
    create(town, "t", [0, 1], **configs)
    begun = town.now_ms
    for number in range(12):
        assert produce(town, b"record %d." % number + bytes(1_000)) is ErrorCode.NONE
    assert town.now_ms - begun < 500  # who is in sync is never held back
    move(town, [0, 1, 2])
    begun = town.now_ms
    town.run_until(lambda: 2 in state(town)["isr"])
    took = town.now_ms - begun
    complete(town, 0, 1, 2, records=12)
    return took


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("named", [True, False])
def test_replicas_out_of_sync_are_copied_as_slowly_as_is_asked(side: str, named: bool) -> None:
    broker = (0 if side == "leader" else 2) if named else 1
    configs = {f"{side}__replication__throttled__replicas": f"0:{broker}"}
    took = catch_up_ms(slow_town(), **configs)
    if named:  # a second's worth of the 12,800 bytes comes at once
        assert 4_500 < took < 7_500
    else:
        assert took < 500


def test_a_star_stands_for_all_replicas() -> None:
    assert catch_up_ms(slow_town(), leader__replication__throttled__replicas="*") > 4_500


def test_as_much_as_one_sample_allows_is_copied_at_once() -> None:
    town = slow_town(replication__quota__window__size__seconds="5")
    took = catch_up_ms(town, leader__replication__throttled__replicas="*")
    assert 500 < took < 3_500, "10,000 of the 12,800 bytes come at once"


def test_what_was_not_used_for_as_long_as_there_are_samples_comes_at_once() -> None:
    town = slow_town(replication__quota__window__num="3")
    catch_up_ms(town, leader__replication__throttled__replicas="*")
    bucket = town.node(0).throttles._buckets["leader.replication.throttled.rate"]
    now = town.now_ms + 60_000
    assert bucket.wait_ms(now) == 0
    bucket.take(5_999, now)
    assert bucket.wait_ms(now) == 0
    bucket.take(2, now)
    assert bucket.wait_ms(now) > 0
