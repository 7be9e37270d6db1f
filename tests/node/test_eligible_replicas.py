"""Who may lead after the ISR became small, and after hosts restarted: judged by the coordinator's
nodes and the bytes on the disks."""

import json

import pytest
from tests.node.moving import T0, begin_produce, create, held, members, produce, state
from tests.node.town import Town

from replog.core.controller import stored
from replog.model.errors import ErrorCode
from replog.model.messages import Message
from replog.model.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from replog.model.messages.fetch import FetchRequest


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.run(100)
    return town


def losses(town: Town) -> tuple[int, int]:
    """Unclean elections and those after a power cut, as the coordinator counts them."""
    node = town.tree.nodes.get(stored.LOSSES)
    return (0, 0) if node is None else stored.decode_losses(node.data)


def small_isr(town: Town) -> None:
    """Broker 0 leads alone, 1 is eligible, 2 lacks the last of two committed records."""
    create(town, "t", [0, 1, 2], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(2)
    town.run_until(lambda: members(town) == (0, [0, 1], []))
    assert produce(town, b"two") is ErrorCode.NONE
    town.kill(1)
    town.run_until(lambda: members(town) == (0, [0], [1]))


def all_alike(town: Town, *brokers: int) -> bool:
    logs = [held(town, broker) for broker in brokers]
    return logs[0] is not None and all(log == logs[0] for log in logs)


def in_sync(town: Town, *brokers: int) -> bool:
    return sorted(state(town)["isr"]) == sorted(brokers)


# ---- KIP-966 ----------------------------------------------------------------------------


@pytest.mark.scenario(16)
def test_who_left_an_isr_that_became_too_small_may_lead(town: Town) -> None:
    small_isr(town)
    assert produce(town, b"lost", acks=1) is ErrorCode.NONE  # taken, and committed nowhere
    town.kill(0)
    town.start(1)
    town.run_until(lambda: members(town) == (1, [1], [0]))
    town.start(0, 2)
    town.run_until(lambda: in_sync(town, 0, 1, 2))
    assert state(town)["elr"] == []
    town.run(500)
    assert all_alike(town, 0, 1, 2)
    log = held(town, 1) or b""
    assert b"one" in log and b"two" in log and b"lost" not in log


def test_who_left_before_may_not(town: Town) -> None:
    small_isr(town)
    town.kill(0)
    town.start(2)
    town.run(3_000)
    leader, isr, elr = members(town)
    assert (leader, isr, elr) == (-1, [0], [1])
    town.start(1)
    town.run_until(lambda: members(town)[0] == 1)
    town.run_until(lambda: b"two" in (held(town, 2) or b""))


@pytest.mark.scenario(16)
def test_nothing_is_committed_while_others_are_eligible(town: Town) -> None:
    small_isr(town)
    produce(town, b"three", acks=1)
    town.run(2_000)
    partition = town.node(0).partitions.get(T0)
    assert partition is not None
    assert (partition.high_watermark, partition.log_end_offset) == (2, 3)
    town.start(1)
    town.run_until(lambda: partition.high_watermark == 3)
    assert members(town) == (0, [0, 1], [])


def test_a_new_controller_knows_who_is_eligible(town: Town) -> None:
    small_isr(town)
    town.lose_send = lambda source, target, message: isinstance(message, FetchRequest)
    town.start(2)
    town.run(200)
    town.expire(0)  # the leader and controller loses its session, and takes its log with it
    town.kill(0)
    town.run_until(lambda: members(town)[0] == -1)
    assert members(town)[1:] == ([0], [1])
    assert town.controller == 2
    town.start(1)
    town.run_until(lambda: members(town)[0] == 1)


def test_a_member_is_eligible_no_more_once_enough_are_in_sync(town: Town) -> None:
    small_isr(town)
    town.start(2)
    town.run_until(lambda: members(town) == (0, [0, 2], []))
    produce(town, b"three")
    town.kill(0)
    town.kill(2)
    town.start(1)
    town.run(3_000)
    assert members(town)[0] == -1


# ---- restarts of hosts ------------------------------------------------------------------


def test_a_process_that_was_killed_has_lost_nothing(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    for broker in (1, 2, 0):
        town.kill(broker)
    town.start(0)
    town.run_until(lambda: members(town) == (0, [0], []))
    assert b"one" in (held(town, 0) or b"")
    assert state(town)["last_known_elr"] == []


@pytest.mark.scenario(16)
@pytest.mark.parametrize("first", [0, 1])
def test_the_last_member_loses_power_with_an_unsynced_tail(town: Town, first: int) -> None:
    small_isr(town)
    produce(town, b"tail", acks=1)
    town.cut_power(0)
    town.start(first)
    town.run(500)
    if first == 0:  # it is back, and may lack what broker 1 has
        assert members(town) == (-1, [0], [1])
        assert state(town)["last_known_elr"] == [0]
    town.start(1 - first)
    town.run_until(lambda: state(town)["leader"] == 1)
    town.start(2)
    town.run_until(lambda: in_sync(town, 0, 1, 2))
    assert state(town)["last_known_elr"] == []
    town.run(500)
    assert all_alike(town, 0, 1, 2)
    log = held(town, 0) or b""
    assert b"one" in log and b"two" in log and b"tail" not in log
    assert losses(town) == (0, 0)


def test_a_member_whose_host_restarted_comes_back_in_when_it_has_caught_up(town: Town) -> None:
    create(town, "t", [0, 1, 2], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    town.cut_power(1, 2)
    town.run_until(lambda: members(town) == (0, [0], [1, 2]))
    town.lose_send = lambda source, target, message: source == 1 and target == 0
    town.start(1)
    town.run(300)
    assert members(town) == (0, [0], [2])
    assert state(town)["last_known_elr"] == [1]
    town.lose_send = lambda source, target, message: False
    town.start(2)
    town.run_until(lambda: in_sync(town, 0, 1, 2), limit_ms=60_000)
    town.run(500)
    assert all_alike(town, 0, 1, 2)


@pytest.mark.scenario(17)
def test_power_is_cut_everywhere_and_the_longest_log_leads(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    for number in range(20):
        assert produce(town, b"record %d" % number) is ErrorCode.NONE
    town.cut_power(0, 1, 2)
    lengths = {}
    for broker in (2, 0, 1):
        town.start(broker)
        town.run(50)
        assert state(town)["leader"] == -1
    for broker in (0, 1, 2):
        partition = town.node(broker).partitions.get(T0)
        assert partition is not None
        lengths[broker] = partition.log_end_offset
    town.run_until(lambda: state(town)["leader"] >= 0)
    leader = state(town)["leader"]
    assert lengths[leader] == max(lengths.values())
    assert losses(town) == (0, 1)
    assert any("POWER CUT" in line and "broker 1 (epoch" in line for line in town.reports)
    town.run_until(lambda: in_sync(town, 0, 1, 2))
    town.run(500)
    assert all_alike(town, 0, 1, 2)
    assert produce(town, b"goes on") is ErrorCode.NONE


def test_the_controller_dies_while_logs_are_compared(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    town.cut_power(0, 1, 2)
    asked: list[int] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if isinstance(message, DescribeReplicasRequest):
            asked.append(target)
            return True
        return False

    town.lose_send = lose
    town.start(0, 1, 2)
    town.run_until(lambda: asked)
    first = town.controller
    town.lose_send = lambda source, target, message: False
    town.kill(first)
    town.run(1_000)
    assert state(town)["leader"] == -1  # the third log is waited for
    assert town.controller != first
    town.start(first)
    town.run_until(lambda: state(town)["leader"] >= 0)
    assert losses(town) == (0, 1)


def test_who_died_again_is_not_waited_for_for_ever(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    town.cut_power(0, 1, 2)
    town.lose_send = lambda source, target, message: isinstance(message, DescribeReplicasRequest)
    town.start(0, 1, 2)
    town.run(50)
    assert state(town)["last_known_elr"] == [0, 1, 2]
    town.kill(2)
    town.lose_send = lambda source, target, message: False
    town.run(5_000)
    assert state(town)["leader"] == -1
    town.run_until(lambda: state(town)["leader"] in (0, 1))


def test_who_has_told_how_far_it_is_and_died_again_is_not_chosen(town: Town) -> None:
    create(town, "t", [2, 0, 1], flush__messages="1")
    assert produce(town, b"one") is ErrorCode.NONE
    town.run(100)
    town.cut_power(0, 1, 2)
    asked: list[int] = []

    def ask_2_alone(source: int, target: int, message: Message) -> bool:
        if isinstance(message, DescribeReplicasRequest):
            asked.append(target)
        return isinstance(message, DescribeReplicasRequest) and target != 2

    town.lose_send = ask_2_alone
    town.start(0, 1, 2)
    town.run_until(lambda: 2 in asked)
    town.run(50)
    assert all(held(town, broker) == held(town, 2) for broker in (0, 1)), "2 is the first of them"
    assert town.controller != 2 and members(town)[0] == -1
    town.kill(2)
    town.lose_send = lambda source, target, message: False
    town.run_until(lambda: members(town)[0] in (0, 1))


def test_who_never_came_back_may_have_it_all(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    town.cut_power(0, 1)
    town.kill(2)  # its host stayed up
    town.start(0, 1)
    town.run(15_000)
    assert members(town) == (-1, [2], [])
    town.start(2)
    town.run_until(lambda: state(town)["leader"] == 2)
    town.run_until(lambda: in_sync(town, 0, 1, 2))
    assert losses(town) == (0, 0)
    assert b"one" in (held(town, 0) or b"")


def test_a_clean_stop_before_the_restart_of_the_host_costs_nothing(town: Town) -> None:
    create(town, "t", [0, 1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    for broker in (1, 2, 0):
        town.stop(broker)
        town.run(3_000)
        assert not town.lives[broker].alive
    isr = state(town)["isr"]
    assert isr == [0]
    town.cut_power(0, 1, 2)
    town.start(1, 2)
    town.run(500)
    assert members(town)[:2] == (-1, isr)
    assert state(town)["last_known_elr"] == []
    town.start(0)
    town.run_until(lambda: in_sync(town, 0, 1, 2))
    assert losses(town) == (0, 0)
    assert not any("may lack records" in line for line in town.reports)


def test_a_clean_stop_after_the_power_cut_proves_nothing(town: Town) -> None:
    """It speaks of the registration that it ended, and that is not the one in the ISR."""
    create(town, "t", [0, 1])
    assert produce(town, b"one") is ErrorCode.NONE
    town.cut_power(0, 1)
    town.kill(2)
    town.coordinator_down = True
    town.start(0)
    town.run(500)
    town.stop(0)
    town.run(3_000)
    assert not town.lives[0].alive
    town.coordinator_down = False
    town.start(0)
    town.run_until(lambda: state(town)["last_known_elr"] == [0])
    assert members(town) == (-1, [1], [])


def test_an_empty_disk_does_not_lead(town: Town) -> None:
    small_isr(town)
    town.replace_disk(1)
    town.lose_send = lambda source, target, message: source == 1 and target == 0
    town.start(1)
    town.run_until(lambda: members(town) == (0, [0], []))
    town.kill(0)
    town.run(2_000)
    assert state(town)["leader"] == -1
    town.lose_send = lambda source, target, message: False
    town.start(0)
    town.run_until(lambda: members(town)[0] == 0)
    town.run_until(lambda: b"two" in (held(town, 1) or b""))


def test_a_busy_broker_that_is_asked_how_far_it_is_gets_no_image_again(town: Town) -> None:
    """The question is behind an image, with which it may be busy where there is so much."""
    create(town, "many", *[[0]] * 700)
    create(town, "t", [1, 2])
    town.cut_power(1, 2)
    town.start(1)

    def watch(source: int, target: int, message: Message) -> bool:
        if target == 2 and isinstance(message, DescribeReplicasRequest) and not questions:
            town.pause(2)
            town.sent.clear()
            questions.append(message)
        return False

    questions: list[Message] = []
    town.lose_send = watch
    town.start(2)
    town.run(3_500)
    sent = [type(message) for _, target, message in town.sent if target == 2]
    assert sent == [DescribeReplicasRequest], "an image was on its way already"
    town.resume(2)
    town.run_until(lambda: in_sync(town, 1, 2))


@pytest.mark.scenario(17)
def test_with_fsync_a_power_cut_everywhere_loses_nothing(town: Town) -> None:
    create(town, "t", [0, 1, 2], replog__durability="fsync")
    for number in range(10):
        assert produce(town, b"record %d." % number) is ErrorCode.NONE
    town.cut_power(0, 1, 2)
    town.start(0, 1, 2)
    town.run_until(lambda: in_sync(town, 0, 1, 2) and state(town)["leader"] == 0)
    assert losses(town) == (0, 0)
    for broker in (0, 1, 2):
        log = held(town, broker) or b""
        assert all(b"record %d." % number in log for number in range(10))


def test_a_replaced_disk_is_doubted_whatever_the_durability(town: Town) -> None:
    create(town, "t", [0, 1], replog__durability="fsync")
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(1)
    town.kill(0)
    town.kill(2)
    town.replace_disk(0)
    town.start(0)
    town.run(500)
    assert members(town)[0] == -1
    assert state(town)["last_known_elr"] == [0]


# ---- unclean elections ------------------------------------------------------------------


def test_unclean_elections_are_counted_and_the_count_outlives_the_controller(town: Town) -> None:
    create(town, "t", [0, 1], unclean__leader__election__enable="true")
    town.kill(1)
    town.run_until(lambda: members(town)[1] == [0])
    produce(town, b"lost")
    town.kill(0)
    town.run(300)
    town.start(1)
    town.run_until(lambda: state(town)["leader"] == 1)
    assert losses(town) == (1, 0)
    assert any("UNCLEAN" in line for line in town.reports)
    first = town.controller
    town.kill(first)
    town.run(500)
    message = DescribeReplicasRequest(topics=[])
    if town.controller != first:
        answer = town.ask(town.controller, message, DescribeReplicasResponse)
        assert (answer.unclean_elections, answer.bounded_losses) == (1, 0)
    town.start(0)
    town.run(1_000)
    assert json.loads(town.tree.nodes[stored.LOSSES].data)["unclean_elections"] >= 1


def test_a_proposal_to_shrink_tells_the_leader_who_is_eligible(town: Town) -> None:
    create(town, "t", [0, 1], min__insync__replicas="2")
    town.lose_send = lambda source, target, message: source == 1 and target == 0
    connection = begin_produce(town, b"one", acks=1)
    town.run_until(lambda: members(town) == (0, [0], [1]))
    assert town.answered(connection)
    partition = town.node(0).partitions.get(T0)
    assert partition is not None and partition.leader is not None
    assert partition.leader.elr == (1,)
    assert partition.high_watermark == 0
