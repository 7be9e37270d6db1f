"""Brokers that the others can't reach, while all reach the coordinator.

Real processes, with a network between them that can be cut (`tests.faults.torture.proxy`).
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.torture.brokers import Brokers

from replog.model.errors import ErrorCode
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch
from replog.runtime.client import AdminClient

TOPIC = "cut"
PATIENCE_S = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    cluster = Brokers(tmp_path, 3)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.kill_all()


def create(brokers: Brokers, replicas: list[int]) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    topic = CreatableTopic(
        name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment]
    )
    with brokers.admin() as client:
        answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    assert isinstance(answer, CreateTopicsResponse) and not answer.topics[0].error_code
    brokers.wait("the topic is not in sync", lambda: brokers.in_sync([TOPIC]))


def produce(brokers: Brokers, broker: int, value: bytes, *, acks: int = -1) -> ErrorCode:
    """Write one record at this broker."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[topic])
    with AdminClient([("127.0.0.1", brokers._ports[broker])], PATIENCE_S) as client:
        answer = client.call(request, 9)
    assert isinstance(answer, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.scenario(85)
@pytest.mark.parametrize("controls", [False, True], ids=["a broker", "the controller"])
def test_a_leader_cut_off_from_all_brokers_is_replaced_while_the_cut_lasts(
    brokers: Brokers, controls: bool
) -> None:
    controller = brokers.metadata().controller_id
    leader = controller if controls else next(b for b in brokers.ids if b != controller)
    others = [broker for broker in brokers.ids if broker != leader]
    create(brokers, [leader, *others])
    assert produce(brokers, leader, b"before") is ErrorCode.NONE
    both_ways = [pair for other in others for pair in ((leader, other), (other, leader))]

    def leads_now() -> int:
        (topic,) = brokers.metadata([TOPIC], but=[leader]).topics
        return topic.partitions[0].leader_id

    brokers.cut(both_ways)
    brokers.wait("it leads still", lambda: leads_now() in others, timeout_s=30.0)
    assert produce(brokers, leads_now(), b"during") is ErrorCode.NONE
    assert produce(brokers, leader, b"weakly", acks=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = brokers.metadata([TOPIC], but=[leader]).topics[0].partitions[0].leader_epoch
    time.sleep(5.0)
    after = brokers.metadata([TOPIC], but=[leader]).topics[0].partitions[0]
    assert after.leader_epoch == epoch, "it comes and goes no more"
    assert leader not in {b.node_id for b in brokers.metadata(but=[leader]).brokers}
    brokers.heal(both_ways)
    brokers.wait("it is not back in sync", lambda: brokers.in_sync([TOPIC]))
    assert produce(brokers, leads_now(), b"after") is ErrorCode.NONE
    brokers.down()
