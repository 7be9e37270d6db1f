"""Brokers leave in good order and come back, or others come in their place, while clients work.

The clients have the settings that they come with, retries above all: not one operation may fail.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from tests.support.cluster import Cluster, wait_until

from replog.cli.replica_files import compare_replicas
from replog.cli.traffic import read_everything
from replog.runtime.client import AdminClient

TOPIC = "rolling"
PARTITIONS = 3
PAUSE_S = 0.005  # between two records of one client

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


class Client(threading.Thread):
    """Something that works until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.servers = bootstrap
        self.done: list[bytes] = []  # values written, or read
        self.failed: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # noqa: BLE001  # the test tells
            self.failed.append(repr(error))

    def work(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self.stopping.set()
        self.join(60)


class LibrdkafkaProducer(Client):
    def work(self) -> None:
        client = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        number = 0

        def answered(error: Any, message: Any) -> None:
            if error is None:
                self.done.append(message.value())
            else:
                self.failed.append(error.str())

        while not self.stopping.is_set():
            value = b"librdkafka %d" % number
            client.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=answered)
            client.poll(PAUSE_S)
            number += 1
        client.flush(60)


class AioKafkaProducer(Client):
    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        from aiokafka import AIOKafkaProducer

        client = AIOKafkaProducer(bootstrap_servers=self.servers, acks="all")
        await client.start()
        number = 0
        sent = []
        while not self.stopping.is_set():
            value = b"aiokafka %d" % number
            sent.append((value, await client.send(TOPIC, value, partition=number % PARTITIONS)))
            await asyncio.sleep(PAUSE_S)
            number += 1
        for value, answer in sent:
            try:
                await answer
                self.done.append(value)
            except Exception as error:  # noqa: BLE001  # whatever it is, the operation has failed
                self.failed.append(repr(error))
        await client.stop()


class GroupMember(Client):
    """Reads, and commits what it has read before it reads on."""

    def work(self) -> None:
        client = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "rolling",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        client.subscribe([TOPIC])
        while not self.stopping.is_set():
            messages = client.consume(200, timeout=0.2)
            for message in messages:
                if message.error() is not None:
                    self.failed.append(message.error().str())
                else:
                    self.done.append(message.value())
            if messages:
                try:
                    client.commit(asynchronous=False)
                except KafkaException as error:
                    self.failed.append(f"commit: {error}")
        client.close()


@contextmanager
def clients(cluster: Cluster) -> Iterator[list[Client]]:
    """All kinds at work; in the end they have done something, and nothing has failed."""
    kinds = (LibrdkafkaProducer, AioKafkaProducer, GroupMember)
    working: list[Client] = [kind(cluster.bootstrap) for kind in kinds]
    for client in working:
        client.start()
    wait_until("the clients do not work", lambda: all(c.done for c in (working[0], working[2])))
    try:
        yield working
        time.sleep(0.5)
    finally:
        for client in working:
            client.finish()
    for client in working:
        assert client.failed == [], (type(client).__name__, client.failed[:3], cluster.logs())
        assert client.done


def check_everything(cluster: Cluster, working: list[Client]) -> None:
    """Whatever was acknowledged is there, and the replicas are equal."""
    cluster.wait_in_sync(TOPIC)
    logs = read_everything(cluster.bootstrap, TOPIC, range(PARTITIONS))
    there = {value for records in logs.values() for _, value in records}
    for client in working:
        assert there >= set(client.done)


@pytest.mark.scenario(50, 82)
def test_no_operation_fails_while_all_brokers_are_restarted(own_cluster: Cluster) -> None:
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    with clients(cluster) as working:
        for broker in cluster.broker_ids:
            assert cluster.local.stop(broker), f"broker {broker} had to be killed"
            cluster.local.start(broker)
            cluster.wait_in_sync(TOPIC)
            cluster.wait_in_sync("__consumer_offsets")
    check_everything(cluster, working)
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, range(PARTITIONS))
    assert same, text


@pytest.mark.scenario(84)
def test_brokers_come_and_go_under_load(own_cluster: Cluster, tmp_path: Path) -> None:
    """A new broker takes the place of one that is emptied and leaves; then it all goes back."""
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    home = cluster.seats(TOPIC)
    leaving = 0
    with cluster.one_more(9, tmp_path) as folder:
        with clients(cluster) as working:
            wait_until("broker 9 does not join", lambda: 9 in registered(cluster))
            move(cluster, [9, 1, 2])
            assert not list(cluster.log_folders()[leaving].glob(f"{TOPIC}-?"))
            assert cluster.local.stop(leaving)
            time.sleep(0.5)
            assert all(isr == {9, 1, 2} for _, isr in cluster.seats(TOPIC).values())
            cluster.local.start(leaving)
            move(cluster, [leaving, 1, 2])
            assert not list(folder.glob(f"{TOPIC}-?"))
        check_everything(cluster, working)
    assert {index: isr for index, (_, isr) in cluster.seats(TOPIC).items()} == {
        index: isr for index, (_, isr) in home.items()
    }
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, range(PARTITIONS))
    assert same, text


def registered(cluster: Cluster) -> set[int]:
    with AdminClient(cluster.bootstrap, 10) as client:
        return set(client.brokers())


def move(cluster: Cluster, replicas: list[int]) -> None:
    """Move all partitions there, and wait until nobody else holds them."""
    brokers = ",".join(map(str, replicas))
    words = [f"{TOPIC}:{index}={brokers}" for index in range(PARTITIONS)]
    cluster.run("reassign", "apply", *words, "--wait")
    wait_until(
        f"the partitions are not on brokers {brokers}",
        lambda: all(isr == set(replicas) for _, isr in cluster.seats(TOPIC).values()),
    )
