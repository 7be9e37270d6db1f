"""One of two log folders of a broker runs full, on a real file system.

Others lead what was led from there, what nobody else has can still be read, and the broker's other
folder does not notice. With room again, a restart takes everything back into use.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.cluster import replog, wait_until
from tests.support.mounts import make_room, small_disk

from replog.cli.ports import free_ports

SMALL_MB = 4
VALUE = b"v" * 10_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@dataclass
class Pair:
    """Broker 1, with a small disk and a large one, and broker 2 with a large one."""

    home: Path
    port: int
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def small(self) -> Path:
        return self.home / "small"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port},127.0.0.1:{self.port + 1}"

    def start(self, broker: int) -> None:
        folders = [self.home / f"large-{broker}"]
        if broker == 1:
            folders.insert(0, self.small)
        settings = {
            "node.id": broker,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port + broker - 1}",
            "log.dirs": ",".join(map(str, folders)),
            "replog.coordinator": f"sqlite:{self.home / 'coordinator' / 'replog.db'}",
            "auto.leader.rebalance.enable": "false",
            "offsets.topic.replication.factor": 1,
        }
        path = self.home / f"server-{broker}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with open(self.home / f"log-{broker}", "ab") as log:
            self.running[broker] = subprocess.Popen(
                [sys.executable, "-m", "replog.runtime", str(path)], stderr=log, stdout=log
            )

    def stop(self, broker: int) -> int:
        child = self.running.pop(broker)
        child.terminate()
        return child.wait(30)

    def said(self, broker: int) -> str:
        return (self.home / f"log-{broker}").read_text()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def serves(self) -> bool:
        """Both brokers are there. They take a while to start."""
        try:
            return len(self.admin().list_topics(timeout=5).brokers) == 2
        except KafkaException:
            return False

    def seats(self, topic: str) -> tuple[int, set[int]]:
        """Leader and ISR of partition 0."""
        found = self.admin().list_topics(topic, timeout=10)
        partition = found.topics[topic].partitions.get(0)
        return (-1, set()) if partition is None else (partition.leader, set(partition.isrs))

    def create(self, topic: str, *replicas: int) -> None:
        admin = self.admin()
        made = admin.create_topics([NewTopic(topic, 1, replica_assignment=[list(replicas)])])
        made[topic].result(30)

    def send(self, topic: str, count: int, *, timeout_ms: int = 30_000) -> list[int]:
        """Offsets of those of `count` records that were acknowledged."""
        acknowledged: list[int] = []

        def answered(error: Any, message: Any) -> None:
            if error is None:
                acknowledged.append(message.offset())

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "message.timeout.ms": timeout_ms,
                "linger.ms": 5,
                "batch.size": 100_000,
                "log_level": 0,
            }
        )
        for _ in range(count):
            producer.produce(topic, VALUE, partition=0, on_delivery=answered)
            producer.poll(0)
        producer.flush(60)
        return acknowledged

    def status(self) -> Any:
        """What `replog status` shows."""
        words = ("status", "--bootstrap-server", self.bootstrap, "--format", "json")
        done = replog(*words, home=self.home)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def read(self, topic: str, count: int) -> list[int]:
        """Offsets of the first `count` records."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "log_level": 0}
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        offsets: list[int] = []
        while len(offsets) < count:
            found = consumer.consume(count - len(offsets), timeout=20)
            assert found, f"{len(offsets)} of {count}"
            offsets += [m.offset() for m in found if m.error() is None and m.value() == VALUE]
        consumer.close()
        return offsets


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with small_disk(tmp_path / "small", SMALL_MB):
        made = Pair(tmp_path, free_ports(2))
        try:
            for broker in (1, 2):
                made.start(broker)
            wait_until("both serve", made.serves)
            yield made
        finally:
            for child in made.running.values():
                child.kill()
                child.wait()


def test_a_folder_runs_full(pair: Pair) -> None:
    pair.create("shared", 1, 2)  # the first partition goes into the first folder, and so on
    pair.create("elsewhere", 1)
    pair.create("alone", 1)
    assert (pair.small / "shared-0").is_dir() and (pair.small / "alone-0").is_dir()
    kept = pair.send("alone", 50)
    assert len(kept) == 50

    everything = SMALL_MB * 200  # twice as much as there is room for
    assert len(pair.send("shared", everything)) == everything, pair.said(1)
    assert pair.seats("shared") == (2, {2})
    assert "is full, and only read from until a restart" in pair.said(1)
    shown = pair.status()
    (folder,) = shown["log_folders"]
    assert (folder["broker"], folder["path"]) == (1, str(pair.small))
    assert (folder["state"], folder["replicas"]) == ("full", 2)

    assert pair.send("alone", 5, timeout_ms=1_500) == []
    assert pair.seats("alone") == (1, {1})
    assert pair.read("alone", 50) == kept
    assert len(pair.send("elsewhere", 100)) == 100

    make_room(pair.small, 10 * SMALL_MB)
    assert pair.stop(1) == 0, pair.said(1)
    pair.start(1)
    wait_until("back in sync", lambda: pair.seats("shared") == (2, {1, 2}))
    assert pair.read("alone", 50) == kept
    assert pair.send("alone", 5) == [*range(50, 55)]
    assert pair.read("shared", everything) == [*range(everything)]
