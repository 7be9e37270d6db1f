"""Faults that hit more than one broker, or leave one half alive. `make torture` goes further."""

import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.support.cluster import Cluster, wait_until
from tests.support.load import all_go_on, check_promise, load

from replog.cli.replica_files import compare_replicas

TOPIC = "faults"
PARTITIONS = (0, 1, 2)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_all_brokers_are_killed_at_once(own_cluster: Cluster) -> None:
    """Promise 1: what was acknowledged is in page caches, which outlive processes."""
    cluster = own_cluster
    cluster.create_topic(TOPIC)
    with load(cluster, TOPIC, PARTITIONS) as producers:
        assert all_go_on(producers, 300), cluster.logs()
        for broker in cluster.broker_ids:
            cluster.local.kill(broker)
        cluster.run("up", "--detach")
        assert all_go_on(producers, 100), cluster.logs()
    check_promise(cluster, TOPIC, PARTITIONS, producers)
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, PARTITIONS)
    assert same, text


def test_a_frozen_leader_is_replaced_and_comes_back_as_a_follower(own_cluster: Cluster) -> None:
    """It keeps its connections and its lock: only silence tells. Awake again it must not commit."""
    cluster = own_cluster
    cluster.create_topic(TOPIC)
    with load(cluster, TOPIC, PARTITIONS) as producers:
        assert all_go_on(producers, 100), cluster.logs()
        frozen = cluster.seats(TOPIC)[0][0]
        cluster.local.pause(frozen)
        took_s = wait_until(
            "nobody took partition 0 over",
            lambda: cluster.seats(TOPIC, but=frozen)[0][0] not in (frozen, -1),
        )
        assert took_s < 15
        cluster.local.resume(frozen)
        # The others are asked: it shows what it knew before it slept until it hears the news.
        wait_until(
            f"broker {frozen} is not back in sync",
            lambda: all(len(isr) == 3 for _, isr in cluster.seats(TOPIC, but=frozen).values()),
        )
        leader = cluster.seats(TOPIC, but=frozen)[0][0]
        assert leader != frozen  # it does not move back by itself
    check_promise(cluster, TOPIC, PARTITIONS, producers)


def test_produce_says_that_it_waits_and_goes_on_when_it_can(own_cluster: Cluster) -> None:
    cluster = own_cluster
    config = ("--config", "min.insync.replicas=3")
    cluster.run("topic", "create", TOPIC, "--partitions", "1", *config)
    cluster.local.kill(0)
    words = ("produce", TOPIC, "--bootstrap-server", cluster.bootstrap)
    with subprocess.Popen(
        [sys.executable, "-m", "replog", *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdin is not None and command.stderr is not None
        try:
            command.stdin.write(b"patient\n")
            command.stdin.close()
            said = command.stderr.readline().decode()
            assert "no answer for 5 s (1 records wait)" in said and "replog status" in said
            cluster.local.start(0)
            assert (command.wait(60), command.stderr.read()) == (0, b"")
        finally:
            command.kill()
    assert cluster.try_to("consume", TOPIC, "-e").stdout == "patient\n"


def test_a_group_survives_its_coordinator(own_cluster: Cluster) -> None:
    """Committed offsets are read by the next coordinator, so no committed record comes again."""
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=1)
    done = cluster.try_to("produce", TOPIC, stdin=b"".join(b"%d\n" % n for n in range(500)))
    assert done.returncode == 0, done.stderr
    assert read_in_group(cluster, 200) == list(range(200))
    offsets = cluster.seats("__consumer_offsets")
    coordinators = {leader for leader, _ in offsets.values()}
    victim = coordinators.pop()
    cluster.local.kill(victim)
    for broker in coordinators:  # each of them in turn, so the group's own one is among them
        cluster.local.start(victim)
        wait_until(
            "the offsets topic is not in sync",
            lambda: all(len(isr) == 3 for _, isr in cluster.seats("__consumer_offsets").values()),
        )
        cluster.local.kill(broker)
        victim = broker
    cluster.local.start(victim)
    assert read_in_group(cluster, 300) == list(range(200, 500))


def read_in_group(cluster: Cluster, count: int) -> list[int]:
    """Read `count` records as the only member of the group, and commit exactly those."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "survivors",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    read: list[int] = []
    limit = time.monotonic() + 60
    while len(read) < count and time.monotonic() < limit:
        for message in consumer.consume(count - len(read), timeout=0.2):
            if message.error() is None:
                read.append(int(message.value()))
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, read[-1] + 1)], asynchronous=False)
    consumer.close()
    return read
