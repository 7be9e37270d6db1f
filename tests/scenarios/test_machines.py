"""Slow disks, many partitions, and brokers that go and come in good order."""

import pytest
from tests.node.moving import begin_produce, create, members, produce, produced, state
from tests.node.town import Town
from tests.scenarios.stage import a_town, alike, isr, replica, values

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.model.messages.update_cluster import UpdateClusterRequest

U0 = TopicPartition("u", 0)
RETRIABLE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS)


@pytest.fixture
def town() -> Town:
    """Broker 0 is the controller."""
    return a_town()


# ---- slow disks ---------------------------------------------------------------------------------


@pytest.mark.scenario(32)
def test_a_slow_disk_of_a_follower_holds_nobody_up_for_longer_than_the_lag_time(
    town: Town,
) -> None:
    """Five seconds for an fsync: it leaves the ISR, keeps its session, and is in again later."""
    create(town, "t", [1, 2, 0], min__insync__replicas="2", replog__durability="fsync")
    create(town, "u", [2, 1, 0], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    registered = town.node(2).broker_epoch
    town.disk_delays_ms[2] = 5_000
    begun = town.now_ms
    assert produce(town, b"two") is ErrorCode.NONE
    assert town.now_ms - begun <= 2_000
    assert isr(town) == [0, 1]
    begun = town.now_ms
    assert produce(town, b"elsewhere", U0) is ErrorCode.NONE, "it leads there, and serves"
    assert town.now_ms - begun < 100
    assert isr(town, U0) == [0, 1, 2] and town.node(2).broker_epoch == registered
    town.disk_delays_ms.clear()
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert alike(town, 0, 1, 2)


@pytest.mark.scenario(32)
def test_a_slow_disk_of_a_leader_delays_its_own_acknowledgements_alone(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="2", replog__durability="fsync")
    create(town, "u", [1, 2, 0], min__insync__replicas="2")
    epoch, registered = state(town)["leader_epoch"], town.node(1).broker_epoch
    town.disk_delays_ms[1] = 2_000
    slow = begin_produce(town, b"one")
    for number in range(5):
        begun = town.now_ms
        assert produce(town, b"%d" % number, U0) is ErrorCode.NONE
        assert town.now_ms - begun < 100, "the step does not wait for the device"
    assert produced(town, slow) is None, "not before it is on stable storage"
    town.run_until(lambda: town.answered(slow))
    assert produced(town, slow) is ErrorCode.NONE
    assert state(town)["leader_epoch"] == epoch and town.node(1).broker_epoch == registered


# ---- the way out --------------------------------------------------------------------------------


def send_until_taken(town: Town, value: bytes) -> list[ErrorCode]:
    """A client with retries; returns the errors that it met. What is unclear it must not meet."""
    met = []
    for _ in range(20):
        leader = members(town)[0]
        if leader >= 0 and town.lives[leader].alive:
            error = produce(town, value)
            if error is ErrorCode.NONE:
                return met
            assert error in RETRIABLE, error
            met.append(error)
        town.run(50)
    raise AssertionError("the client gives up")


@pytest.mark.scenario(50)
def test_whoever_shuts_down_is_not_let_back_in_by_a_leader_that_has_not_heard(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    assert produce(town, b"one") is ErrorCode.NONE
    town.lose_send = lambda source, target, message: (
        target == 1 and isinstance(message, UpdateClusterRequest)
    )
    town.stop(2)  # the leader keeps the image in which 2 is in sync
    town.run_until(lambda: not town.lives[2].alive)
    town.run(200)
    assert 2 not in isr(town)
    town.lose_send = lambda source, target, message: False
    begun = town.now_ms
    assert produce(town, b"two") is ErrorCode.NONE
    assert town.now_ms - begun < 1_000, "nobody waits for who has left"
    assert 2 not in isr(town)


@pytest.mark.scenario(82)
def test_one_after_the_other_is_restarted_and_no_write_fails(town: Town) -> None:
    create(town, "t", [0, 1, 2], min__insync__replicas="2")
    sent = 0
    for broker in (0, 1, 2):
        town.stop(broker)
        while town.lives[broker].alive:
            send_until_taken(town, b"%d" % sent)
            sent += 1
            town.run(10)
        for _ in range(3):
            send_until_taken(town, b"%d" % sent)
            sent += 1
        town.start(broker)
        town.run_until(lambda: isr(town) == [0, 1, 2])
    town.run(500)
    # A try that was refused when the leader changed may have been committed all the same.
    assert list(dict.fromkeys(values(town, 0))) == [b"%d" % number for number in range(sent)]
    assert alike(town, 0, 1, 2)
    assert not any("UNCLEAN" in line for line in town.reports)


# ---- many partitions ----------------------------------------------------------------------------

MANY = 200


@pytest.mark.scenario(83)
def test_many_leaders_fail_over_in_one_write_and_few_messages(town: Town) -> None:
    """Work and messages grow with what changes, and not with what there is for each change."""
    create(town, "t", *[[1, 2, 0] if index % 2 else [2, 0, 1] for index in range(MANY)])
    town.run(1_000)
    town.sent.clear()
    writes = 0

    def count(broker: int, operations: object) -> bool:
        nonlocal writes
        writes += 1
        return False

    town.lose_write = count
    begun = town.now_ms
    town.kill(1)

    def led() -> bool:
        return all(
            record.leader not in (1, -1) for record in town.node(2).cluster.topics["t"].partitions
        )

    town.run_until(led)
    assert town.now_ms - begun < 1_000
    images = [m for _, _, m in town.sent if isinstance(m, UpdateClusterRequest)]
    assert len(images) <= 6 and writes <= 6
    other: list[Message] = [m for _, _, m in town.sent if not isinstance(m, UpdateClusterRequest)]
    assert len(other) < MANY / 4, "not one for each partition"
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    answer = town.ask(2, request, MetadataResponse)
    assert {part.leader_id for part in answer.topics[0].partitions} <= {0, 2}
    last = TopicPartition("t", MANY - 1)
    assert members(town, last)[0] == 2
    assert produce(town, b"goes on", last) is ErrorCode.NONE
    assert replica(town, 2, last).is_leader
