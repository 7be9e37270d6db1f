"""Brokers that are stopped by SIGSTOP and go on later, as after a long pause of any other cause.

They keep their connections and their locks, and what clients sent meanwhile waits in their sockets.
What they may do when they wake is held to the coordinator's nodes and to the bytes in the folders.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, wait_until

from replog.cli.replica_files import compare_replicas
from replog.cli.traffic import read_everything
from replog.core.controller.stored import broker_path, partition_path
from replog.model.coordination import StoredNode
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch
from replog.runtime.client import AdminClient, ClientError
from replog.runtime.coordination.opening import open_coordination

TOPIC = "frozen"
TP = TopicPartition(TOPIC, 0)
PATIENCE_S = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@contextmanager
def connected(cluster: Cluster, broker: int) -> Iterator[AdminClient]:
    """A connection that is there before the broker freezes."""
    with AdminClient([("127.0.0.1", cluster.ports[broker])], PATIENCE_S) as client:
        client.metadata([TOPIC])
        yield client


def produce(client: AdminClient, value: bytes, acks: int = -1) -> ErrorCode:
    """Write one record."""
    batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=int(PATIENCE_S * 1000), topic_data=[topic])
    answer = client.call(request, 9)
    assert isinstance(answer, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def node_at(cluster: Cluster, path: str) -> StoredNode | None:
    """What the coordinator holds there."""
    coordination = open_coordination(cluster.local.config)
    try:
        return coordination.read_now([path]).get(path)
    finally:
        coordination.close()


def stored_seats(cluster: Cluster) -> tuple[int, set[int]]:
    """Leader and ISR of the partition, by the coordinator's own node."""
    node = node_at(cluster, partition_path(TP))
    assert node is not None
    state = json.loads(node.data)  # in Kafka's layout
    return state["leader"], set(state["isr"])


def leader_of(cluster: Cluster, *, but: int) -> int:
    """Who leads instead of `but`, once somebody does."""
    wait_until(
        f"nobody leads instead of broker {but}",
        lambda: cluster.seats(TOPIC, but=but)[0][0] not in (but, -1),
    )
    return cluster.seats(TOPIC, but=but)[0][0]


def check_log(cluster: Cluster, values: list[bytes]) -> None:
    """The log is exactly `values`, for consumers and in every folder."""
    cluster.wait_in_sync(TOPIC)
    found = read_everything(cluster.bootstrap, TOPIC, [0])[0]
    assert [value for _, value in found] == values
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, [0])
    assert same, text


@pytest.mark.scenario(37)
@pytest.mark.parametrize("acks", [-1, 1])
def test_a_leader_that_slept_through_its_session_takes_nothing(
    own_cluster: Cluster, acks: int
) -> None:
    """A record waits in its socket when it wakes."""
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=1)
    frozen = cluster.seats(TOPIC)[0][0]
    with connected(cluster, frozen) as stale, ThreadPoolExecutor(1) as pool:
        assert produce(stale, b"before") is ErrorCode.NONE
        cluster.local.pause(frozen)
        queued = pool.submit(produce, stale, b"sent while it slept", acks)
        with connected(cluster, leader_of(cluster, but=frozen)) as fresh:
            assert produce(fresh, b"after") is ErrorCode.NONE
            leader, isr = stored_seats(cluster)
            assert leader != frozen and frozen not in isr
            cluster.local.resume(frozen)
            assert queued.result(PATIENCE_S) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert produce(fresh, b"later") is ErrorCode.NONE
    check_log(cluster, [b"before", b"after", b"later"])


@pytest.mark.scenario(38, 43)
def test_a_follower_that_sleeps_holds_nobody_up_for_long(own_cluster: Cluster) -> None:
    """Writing goes on without it. It wakes without a session: it registers anew at once, by itself,
    and comes back into the ISR only under its new registration."""
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=1)
    leader = cluster.seats(TOPIC)[0][0]
    frozen = next(broker for broker in cluster.broker_ids if broker != leader)
    before = node_at(cluster, broker_path(frozen))
    (pid,) = [s.pid for s in cluster.local.status() if s.broker_id == frozen]
    with connected(cluster, leader) as client:
        assert produce(client, b"before") is ErrorCode.NONE
        cluster.local.pause(frozen)
        assert produce(client, b"without it") is ErrorCode.NONE  # its silence is noticed first
        assert stored_seats(cluster) == (leader, set(cluster.broker_ids) - {frozen})
        assert node_at(cluster, broker_path(frozen)) is None
        cluster.local.resume(frozen)
        wait_until("it is not back in sync", lambda: frozen in stored_seats(cluster)[1])
        after = node_at(cluster, broker_path(frozen))
        assert before is not None and after is not None
        assert after.created_at > before.created_at and after.session != before.session
        assert [s.pid for s in cluster.local.status() if s.broker_id == frozen] == [pid]
        assert produce(client, b"with it") is ErrorCode.NONE
    check_log(cluster, [b"before", b"without it", b"with it"])


@pytest.mark.scenario(48)
def test_a_twin_that_took_the_id_of_a_sleeping_leader(own_cluster: Cluster, tmp_path: Path) -> None:
    """The sleeper's session is over, so the id is free. When it wakes it is nobody: what waits in
    its socket is not committed, and it ends, as its id belongs to a broker that lives."""
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=1)
    frozen = cluster.seats(TOPIC)[0][0]
    with connected(cluster, frozen) as stale, ThreadPoolExecutor(1) as pool:
        assert produce(stale, b"before") is ErrorCode.NONE
        cluster.local.pause(frozen)
        queued = pool.submit(produce, stale, b"sent while it slept")
        survivor = leader_of(cluster, but=frozen)
        with cluster.one_more(frozen, tmp_path):
            wait_until(
                "the twin is not in sync",
                lambda: frozen in cluster.seats(TOPIC, but=frozen)[0][1],
            )
            registered = node_at(cluster, broker_path(frozen))
            cluster.local.resume(frozen)
            try:
                assert queued.result(PATIENCE_S) is not ErrorCode.NONE
            except ClientError:
                pass
            wait_until("the sleeper goes on", lambda: frozen not in cluster.local.running())
            assert "already registered by a live broker" in cluster.logs()
            assert node_at(cluster, broker_path(frozen)) == registered
            with connected(cluster, survivor) as client:
                assert produce(client, b"after") is ErrorCode.NONE
    cluster.local.start(frozen)
    check_log(cluster, [b"before", b"after"])
