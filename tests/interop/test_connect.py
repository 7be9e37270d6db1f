"""Kafka Connect moves lines from file to file while a broker dies; MirrorMaker copies a cluster."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.interop.clients import PATIENCE_S, SHORT
from tests.interop.kafka import CONNECT_JARS, Java
from tests.support.cluster import Cluster, wait_until

from replog.cli.ports import free_ports
from replog.cli.traffic import QUICK, read_everything

pytestmark = pytest.mark.skipif(SHORT, reason="only in the long form: a web server to fetch")

PACKAGE = "org.apache.kafka.connect"
LINES = 2_000
PARTITIONS = range(3)


@contextmanager
def running(name: str, settings: Mapping[str, object], home: Path) -> Iterator[None]:
    """A program of Connect with these properties; it must end in good order when asked."""
    file, log = home / "worker.properties", home / "worker.log"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = Java(CONNECT_JARS).command(f"{PACKAGE}.{name}", str(file), options=("-Xmx512m",))
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield
        process.terminate()
        code = process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert code in (0, 143), log.read_text(errors="replace")[-3_000:]  # 143: by SIGTERM


class Worker:
    """The REST interface of a Connect worker."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/connectors"

    def call(self, method: str, path: str = "", body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def is_there(self) -> bool:
        try:
            return self.call("GET") == []
        except OSError:
            return False

    def begin(self, name: str, kind: str, **config: object) -> None:
        config = {"connector.class": f"{PACKAGE}.file.FileStream{kind}Connector", **config}
        self.call("PUT", f"/{name}/config", config)

    def has_stopped(self, name: str) -> bool:
        self.call("PUT", f"/{name}/stop")
        status = self.call("GET", f"/{name}/status")
        return bool(status["connector"]["state"] == "STOPPED" and not status["tasks"])


@pytest.mark.shows_tools("Kafka Connect, distributed")
def test_connect_moves_lines_from_file_to_file_across_a_kill(
    own_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    port = free_ports(1)
    came, went = tmp_path / "in.txt", tmp_path / "out.txt"
    came.touch()
    own_cluster.create_topic(topic, partitions=len(PARTITIONS))
    settings = {
        "bootstrap.servers": own_cluster.bootstrap,
        "group.id": topic,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.flush.interval.ms": 1_000,
    }
    for kind in ("config", "offset", "status"):
        settings[f"{kind}.storage.topic"] = f"{topic}-{kind}"
    for kind in ("key", "value"):
        settings[f"{kind}.converter"] = f"{PACKAGE}.storage.StringConverter"

    def write(numbers: range) -> None:
        with open(came, "a") as file:
            file.writelines(f"line {number}\n" for number in numbers)

    def all_went(lines: int) -> bool:
        """At least once: some may come twice, none is forgotten."""
        found = set(went.read_text().splitlines()) if went.exists() else set()
        return found == {f"line {number}" for number in range(lines)}

    with running("cli.ConnectDistributed", settings, tmp_path):
        worker = Worker(port)
        wait_until("Connect is there", worker.is_there, PATIENCE_S)
        worker.begin("source", "Source", file=str(came), topic=topic)
        worker.begin("sink", "Sink", file=str(went), topics=topic, **{"tasks.max": 2})
        write(range(LINES))
        wait_until("the first lines came through", lambda: all_went(LINES), PATIENCE_S)
        leader, _ = own_cluster.seats(topic)[0]
        own_cluster.local.kill(leader)
        try:
            write(range(LINES, 2 * LINES))
            wait_until("all lines came through", lambda: all_went(2 * LINES), PATIENCE_S)
        finally:
            own_cluster.local.start(leader)
        own_cluster.wait_in_sync(topic)
        wait_until("it has stopped", lambda: worker.has_stopped("sink"), PATIENCE_S)
        read = {p: offset for p, offset in _offsets(worker).items() if offset}
        assert read == {p: len(log) for p, log in _logs(own_cluster, topic).items() if log}
        beginning = [_offset(topic, p, 0) for p in PARTITIONS]
        worker.call("PATCH", "/sink/offsets", {"offsets": beginning})
        assert _offsets(worker) == dict.fromkeys(PARTITIONS, 0)
        worker.call("DELETE", "/sink/offsets")
        assert _offsets(worker) == {}
    own_cluster.wait_in_sync("__consumer_offsets")
    own_cluster.run("elect", "--all")


def _offset(topic: str, partition: int, offset: int) -> dict[str, object]:
    place = {"kafka_topic": topic, "kafka_partition": partition}
    return {"partition": place, "offset": {"kafka_offset": offset}}


def _offsets(worker: Worker) -> dict[int, int]:
    return {
        each["partition"]["kafka_partition"]: each["offset"]["kafka_offset"]
        for each in worker.call("GET", "/sink/offsets")["offsets"]
    }


def _logs(cluster: Cluster, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    return read_everything(cluster.bootstrap, topic, PARTITIONS)


@pytest.mark.shows_tools("MirrorMaker 2")
def test_mirror_maker_copies_topics_and_what_groups_have_read(
    own_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    own_cluster.create_topic(topic, partitions=len(PARTITIONS))
    other = Cluster(tmp_path, brokers=1)
    settings: dict[str, object] = {
        "clusters": "here, there",
        "here.bootstrap.servers": own_cluster.bootstrap,
        "there.bootstrap.servers": other.bootstrap,
        "here->there.enabled": "true",
        "here->there.topics": topic,
        "here->there.groups": topic,
        "sync.group.offsets.enabled": "true",
        "replication.factor": 1,
    }
    for kind in ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"):
        settings[f"{kind}.replication.factor"] = 1
    for kind in ("config", "offset", "status"):
        settings[f"{kind}.storage.replication.factor"] = 1
    for what in ("refresh.topics", "refresh.groups", "emit.checkpoints", "sync.group.offsets"):
        settings[f"{what}.interval.seconds"] = 1
    producer = Producer({**QUICK, "bootstrap.servers": own_cluster.bootstrap})
    for number in range(LINES):
        producer.produce(topic, str(number), partition=number % len(PARTITIONS))
    assert producer.flush(60) == 0
    places = [TopicPartition(topic, p) for p in PARTITIONS]
    copies = [TopicPartition(f"here.{topic}", p) for p in PARTITIONS]
    ends = {p: len(log) for p, log in _logs(own_cluster, topic).items()}
    reader = _member(own_cluster, topic)
    reader.commit(
        offsets=[TopicPartition(topic, p.partition, ends[p.partition]) for p in places],
        asynchronous=False,
    )
    reader.close()

    def is_there() -> bool:
        return f"here.{topic}" in {each["name"] for each in other.run("topic", "list")}

    def all_copied() -> bool:
        return _logs(other, f"here.{topic}") == _logs(own_cluster, topic)

    def read_there() -> bool:
        member = _member(other, topic)
        try:
            found = member.committed(copies, timeout=30)
        finally:
            member.close()
        return {place.partition: place.offset for place in found} == ends

    try:
        with running("mirror.MirrorMaker", settings, tmp_path):
            wait_until("there is a copy", is_there, PATIENCE_S)
            wait_until("all is copied", all_copied, PATIENCE_S)
            wait_until("the group has read there what it has here", read_there, PATIENCE_S)
    finally:
        other.down()


def _member(cluster: Cluster, group: str) -> Consumer:
    return Consumer({**QUICK, "bootstrap.servers": cluster.bootstrap, "group.id": group})
