"""Disks that fail or fill up in a cluster: leaderships move, and nobody waits for a time-out."""

from collections.abc import Callable

import pytest
from tests.node.lone import batch, topic_id
from tests.node.town import Town

from replog.log import checkpoints
from replog.log.disk import DiskError
from replog.model.errors import ErrorCode
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.messages import Message
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from replog.model.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from replog.model.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.model.messages.report_offline_replicas import ReportOfflineReplicasRequest
from replog.node.node import Node
from replog.records.batch import read_records
from replog.sim.mem_disk import ShortWrite

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)


def broken(call: str, path: str) -> None:
    raise DiskError(f"{path}: can't {call}: Input/output error")


def broken_logs(call: str, path: str) -> None:
    if path.endswith(".log"):
        broken(call, path)


def full(call: str, path: str) -> None:
    if call == "append":
        raise ShortWrite(path, written=3)


@pytest.fixture
def town() -> Town:
    """Two folders a broker; topics `a` and `b`, of which every broker has one in each folder."""
    made = Town(log_folders=2)
    made.start()
    for name in "ab":
        made.create(name, [0, 1, 2])
    return made


def send(town: Town, broker: int, name: str, value: bytes, acks: int = -1) -> int:
    data = PartitionProduceData(index=0, records=memoryview(batch(value)))
    topic = TopicProduceData(name=name, topic_id=topic_id(name), partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=3_000, topic_data=[topic])
    return town.ask_later(broker, request, version=12)


def produce(
    town: Town, broker: int, name: str, value: bytes, acks: int = -1
) -> PartitionProduceResponse:
    asked = send(town, broker, name, value, acks)
    town.run_until(lambda: town.answered(asked))
    return town.answer(asked, ProduceResponse).responses[0].partition_responses[0]


def read(town: Town, broker: int, name: str) -> tuple[int, list[bytes | None]]:
    """The error code, and what a consumer gets."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=name, partitions=[partition])],
    )
    answer = town.ask(broker, request, FetchResponse, version=12)
    data = answer.responses[0].partitions[0]
    records = data.records
    found = [] if not records else list(read_records(records.read()))  # type: ignore[union-attr]
    return data.error_code, [each.value for each in found]


def folder(node: Node, tp: TopicPartition) -> int:
    partition = node.partitions.get(tp)
    assert partition is not None
    return node.partitions.logs.folders.index(partition.folder)


def spoil(town: Town, broker: int, tp: TopicPartition, how: Callable[[str, str], None]) -> None:
    """From now on this disk fails or is full; a write to it finds that out."""
    town.disk(broker, folder(town.node(broker), tp)).before_call = how


# ---- a disk fails ------------------------------------------------------------------------------


def test_a_leaders_disk_fails_and_another_leads_at_once(town: Town) -> None:
    assert produce(town, 0, "a", b"1").error_code == 0
    spoil(town, 0, A, broken)
    assert produce(town, 0, "a", b"2").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    since = town.now_ms
    town.run_until(lambda: town.everybody_sees("a", (1, [1, 2])))
    assert town.now_ms - since <= 20, "no time-out is waited for"
    assert town.everybody_sees("b", (0, [0, 1, 2])), "the other folder goes on"
    assert produce(town, 1, "a", b"3").base_offset == 1
    assert produce(town, 0, "b", b"1").error_code == 0
    assert read(town, 1, "a") == (0, [b"1", b"3"])
    assert town.record(2, "a").failed == (0,)
    assert town.lives[0].alive


def test_a_followers_disk_fails_and_it_leaves_the_isr_at_once(town: Town) -> None:
    spoil(town, 2, A, broken)
    asked = send(town, 0, "a", b"1")
    town.run(20)
    assert town.everybody_sees("a", (0, [0, 1]))
    assert town.answer(asked, ProduceResponse).responses[0].partition_responses[0].error_code == 0
    town.run(5_000)
    assert town.everybody_sees("a", (0, [0, 1])), "and it does not come back"


def test_clients_see_which_replicas_are_offline(town: Town) -> None:
    spoil(town, 0, A, broken)
    produce(town, 0, "a", b"1")
    town.run(50)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    for broker in (0, 1, 2):
        answer = town.ask(broker, request, MetadataResponse, version=9)
        (partition,) = answer.topics[0].partitions
        assert partition.offline_replicas == [0]
        assert partition.leader_id == 1


def test_the_only_one_in_sync_loses_its_disk_and_nobody_leads(town: Town) -> None:
    town.create("solo", [0])
    solo = TopicPartition("solo", 0)
    assert produce(town, 0, "solo", b"1").error_code == 0
    spoil(town, 0, solo, broken)
    assert produce(town, 0, "solo", b"2").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    town.run_until(lambda: town.everybody_sees("solo", (NO_LEADER, [0])))
    assert read(town, 0, "solo")[0] == ErrorCode.KAFKA_STORAGE_ERROR
    town.run(5_000)
    assert town.everybody_sees("solo", (NO_LEADER, [0])), "it is not elected again"
    town.kill(0)
    town.disk(0, folder(town.node(0), solo)).before_call = None
    for index in range(2):
        town.disk(0, index).crash()
    town.start(0)
    town.run_until(lambda: town.everybody_sees("solo", (0, [0])))
    assert town.record(1, "solo").failed == ()
    assert read(town, 0, "solo") == (0, [b"1"])
    assert any("may be lost" in text for text in town.reports), "what it could not write is gone"


def test_a_new_controller_knows_of_it(town: Town) -> None:
    spoil(town, 2, A, broken)
    produce(town, 0, "a", b"1")
    town.run(50)
    assert town.everybody_sees("a", (0, [0, 1]))
    town.kill(town.controller)
    town.run_until(lambda: [life for life in town.lives.values() if life.node.controlling.active])
    town.run(2_000)
    survivor = next(broker for broker in (0, 1) if town.lives[broker].alive)
    assert town.record(survivor, "a").failed == (2,)


def test_it_is_told_again_until_it_is_known(town: Town) -> None:
    """The controller's answer is lost, then there is no controller for a while."""
    controller = town.controller
    victim = next(broker for broker in (0, 1, 2) if broker != controller)
    lost: list[Message] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if isinstance(message, ReportOfflineReplicasRequest) and len(lost) < 2:
            lost.append(message)
            return True
        return False

    town.lose_send = lose
    spoil(town, victim, A, broken)
    leader = town.record(victim, "a").leader
    produce(town, leader, "a", b"1", acks=1)
    town.run(30_000)
    assert len(lost) == 2
    assert town.record(controller, "a").failed == (victim,)


def test_a_report_of_an_earlier_life_counts_for_nothing(town: Town) -> None:
    controller = town.controller
    victim = next(broker for broker in (0, 1, 2) if broker != controller)
    held: list[Message] = []

    def hold(source: int, target: int, message: Message) -> bool:
        if isinstance(message, ReportOfflineReplicasRequest) and source == victim:
            held.append(message)
            return True
        return False

    town.lose_send = hold
    spoil(town, victim, A, broken)
    produce(town, town.record(victim, "a").leader, "a", b"1", acks=1)
    town.run(50)
    town.kill(victim)
    for index in range(2):
        town.disk(victim, index).before_call = None
        town.disk(victim, index).crash()
    town.lose_send = lambda source, target, message: False
    town.start(victim)
    town.run_until(lambda: set(town.record(controller, "a").isr) == {0, 1, 2})
    message = held[0]
    assert isinstance(message, ReportOfflineReplicasRequest)
    assert message.broker_epoch < town.node(victim).broker_epoch
    answers: list[int] = []
    town.node(victim).send(
        town.node(victim).cluster.brokers[controller],
        message,
        lambda answer: answers.append(answer.message.error_code),  # type: ignore[union-attr]
    )
    town._carry_out(town.lives[victim], town.node(victim)._take_outputs())
    town.run(100)
    assert answers == [ErrorCode.STALE_BROKER_EPOCH]
    assert town.record(controller, "a").failed == ()


def test_both_folders_of_a_broker_fail_and_it_ends(town: Town) -> None:
    for tp in (A, B):
        spoil(town, 0, tp, broken)
        produce(town, 0, tp.topic, b"1")
    town.run_until(lambda: not town.lives[0].alive)
    stopped = town.lives[0].stopped
    assert stopped is not None and stopped.failed
    town.run_until(
        lambda: town.everybody_sees("a", (1, [1, 2])) and town.everybody_sees("b", (1, [1, 2]))
    )


def test_a_broker_whose_disk_failed_is_not_relied_on_after_a_restart() -> None:
    """Nobody heard from it that its disk had failed, and its host did not restart: it counts as one
    that lost nothing, but for the id of its folder."""
    town = Town(settings={"min.insync.replicas": "2"})
    for broker in (0, 1, 2):
        town.folders[broker] = checkpoints.claim_folder(
            town.disk(broker), cluster_id="c", node_id=broker, directory_id=f"id {broker}"
        )
    town.start()
    witness = town.controller
    victim, other = (broker for broker in (0, 1, 2) if broker != witness)
    town.create("a", [victim, other])
    assert produce(town, victim, "a", b"1").error_code == 0
    town.lose_send = lambda source, target, message: isinstance(
        message, ReportOfflineReplicasRequest
    )
    town.disk(victim).before_call = broken_logs
    produce(town, victim, "a", b"2")
    town.run_until(lambda: not town.lives[victim].alive)
    town.run_until(lambda: list(town.record(witness, "a").isr) == [other])
    assert town.record(witness, "a").elr == (victim,), "it counts as killed"
    town.kill(other)
    town.run(500)
    town.disk(victim).before_call = None
    town.disk(victim).crash()
    meta = checkpoints.read_meta(town.disk(victim))
    assert meta is not None
    town.folders[victim] = meta.directory_id
    town.start(victim)
    town.run(20_000)
    assert town.record(witness, "a").leader == NO_LEADER
    town.disk(other).crash()
    town.start(other)
    town.run_until(lambda: town.everybody_sees("a", (other, [other, victim])))
    assert read(town, other, "a") == (0, [b"1"])


# ---- a disk is full ----------------------------------------------------------------------------


@pytest.mark.scenario(32)
def test_a_leaders_disk_is_full_and_another_leads(town: Town) -> None:
    assert produce(town, 0, "a", b"1").error_code == 0
    spoil(town, 0, A, full)
    assert produce(town, 0, "a", b"2").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    town.run_until(lambda: town.everybody_sees("a", (1, [1, 2])))
    assert produce(town, 1, "a", b"3").base_offset == 1
    town.run(5_000)
    assert town.everybody_sees("a", (1, [1, 2])), "it copies nothing, and does not come back"
    partition = town.node(0).partitions.get(A)
    assert partition is not None and partition.log_end_offset == 1
    town.kill(0)
    for index in range(2):
        town.disk(0, index).before_call = None
        town.disk(0, index).crash()
    town.start(0)
    town.run_until(lambda: set(town.record(1, "a").isr) == {0, 1, 2})


def test_who_is_alone_goes_on_being_read_and_hands_over_when_somebody_has_caught_up() -> None:
    town = Town(log_folders=2, settings={"min.insync.replicas": "1"})
    town.start()
    town.create("a", [0, 1])
    assert produce(town, 0, "a", b"1").error_code == 0
    town.kill(1)
    town.run_until(lambda: list(town.record(0, "a").isr) == [0])
    assert produce(town, 0, "a", b"2").error_code == 0
    spoil(town, 0, A, full)
    assert produce(town, 0, "a", b"3").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    town.run(3_000)
    assert town.record(0, "a").leader == 0
    assert read(town, 0, "a") == (0, [b"1", b"2"])
    town.disk(1).crash()
    town.disk(1, 1).crash()
    town.start(1)
    town.run_until(lambda: town.everybody_sees("a", (1, [1])))
    assert read(town, 1, "a") == (0, [b"1", b"2"])
    assert produce(town, 1, "a", b"4").base_offset == 2
