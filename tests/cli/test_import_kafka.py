"""`replog import kafka-data`: what it takes, what it refuses, and that nothing is half made."""

import fcntl
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.kafka_folder import TIME, KafkaFolder, batch, topic_id
from tests.log import transactions
from tests.support.cluster import Cluster, replog

from replog.cli.main import run
from replog.core.controller import stored
from replog.log import checkpoints
from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.model.coordination import CONFIG_TOPICS, PRODUCER_ID_BLOCK, TOPICS, Create
from replog.model.ids import TopicPartition
from replog.records.batch import read_records
from replog.runtime.coordination.sqlite import SqliteCoordination
from replog.runtime.os_disk import OsDisk

PORT = "39092"  # nothing listens there: no broker is started


class Importing:
    """The command, run in this process, on a cluster that is made and never started."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.data = home / "cluster"
        self._capsys = capsys
        self.stderr = ""

    def __call__(self, *words: str | Path) -> Any:
        """Its JSON; None when it failed."""
        where = ("--data", str(self.data), "--port", PORT, "--format", "json")
        code = run(["import", "kafka-data", *map(str, words), *where])
        captured = self._capsys.readouterr()
        self.stderr = captured.err
        assert (code == 0) == bool(captured.out), captured
        return json.loads(captured.out) if code == 0 else None

    def nodes(self) -> dict[str, bytes]:
        coordination = SqliteCoordination(self.data / "coordinator" / "replog.db")
        try:
            found = coordination.read_now([TOPICS, CONFIG_TOPICS, PRODUCER_ID_BLOCK])
            return {path: node.data for path, node in found.items()}
        finally:
            coordination.close()

    def write(self, path: str, data: bytes) -> None:
        coordination = SqliteCoordination(self.data / "coordinator" / "replog.db")
        coordination.write_now([Create(path, data)])
        coordination.close()

    def values(self, broker: int, name: str, index: int = 0) -> list[bytes | None]:
        """What a broker will find."""
        disk = OsDisk(self.data / f"broker-{broker}" / "data")
        tp = TopicPartition(name, index)
        points = checkpoints.read(disk, checkpoints.RECOVERY_POINTS)[0]
        starts = checkpoints.read(disk, checkpoints.LOG_STARTS)[0]
        log = PartitionLog.open(
            disk,
            str(tp),
            LogConfig(),
            topic_id=topic_id(name),
            recovery_point=points.get(tp, 0),
            clean=False,
            log_start_offset=starts.get(tp, 0),
        )
        found: list[bytes | None] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20, upto=log.log_end_offset, min_one=True)
            for record in read_records(read.range.read()):  # type: ignore[union-attr]
                if record.offset >= offset:
                    found.append(record.value)
                    offset = record.offset + 1
        log.abandon()
        return found

    def left(self) -> list[str]:
        """Partitions' folders, and what is beside log folders."""
        found = [str(p.relative_to(self.data)) for p in self.data.glob("broker-*/data/*-*")]
        found = [f for f in found if not f.endswith("-checkpoint")]
        return sorted(found + [str(p) for p in self.data.glob("broker-*/importing")])


@pytest.fixture
def importing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Importing:
    return Importing(tmp_path, capsys)


@pytest.fixture
def kafka(tmp_path: Path) -> KafkaFolder:
    """Two topics: `orders` with two partitions, `small` with one, stopped where a test says so."""
    made = KafkaFolder(tmp_path / "kafka")
    made.partition("orders", 0, [batch(b"a", b"b"), batch(b"c")], epoch=3, segment_bytes=80)
    made.partition("orders", 1, [batch(b"d", codec=4)], log_start=0)
    made.partition("small", 0, [batch(b"x", b"y", b"z")], log_start=2)
    made.topic("orders", 2, retention__ms="-1", cleanup__policy="compact")
    made.topic("small", 1)
    return made


def test_everything_is_brought(importing: Importing, kafka: KafkaFolder) -> None:
    done = importing(kafka.stop())
    assert [t["name"] for t in done["topics"]] == ["orders", "small"]
    assert [p["records"] for p in done["partitions"]] == [3, 1, 3]
    assert done["notes"] == []
    for broker in range(3):
        assert importing.values(broker, "orders") == [b"a", b"b", b"c"]
        assert importing.values(broker, "orders", 1) == [b"d"]
        assert importing.values(broker, "small") == [b"z"]
        disk = OsDisk(importing.data / f"broker-{broker}" / "data")
        marks = checkpoints.read(disk, checkpoints.HIGH_WATERMARKS)[0]
        assert marks[TopicPartition("orders", 0)] == 3
    nodes = importing.nodes()
    topic = stored.decode_topic(nodes[stored.topic_path("orders")])
    assert topic.topic_id == topic_id("orders")
    assert [len(replicas) for replicas in topic.replicas] == [3, 3]
    state = json.loads(nodes[stored.partition_path(TopicPartition("orders", 0))])
    assert state["leader_epoch"] >= 3 and sorted(state["isr"]) == [0, 1, 2]
    configs = stored.decode_configs(nodes[stored.topic_config_path("orders")])
    assert configs == {"retention.ms": "-1", "cleanup.policy": "compact"}
    assert stored.decode_configs(nodes[stored.topic_config_path("small")]) == {}


def test_a_transaction_that_is_open_is_told(importing: Importing, kafka: KafkaFolder) -> None:
    kafka.partition("paid", 0, [bytes(transactions.data(7, 0))])
    kafka.topic("paid", 1)
    done = importing(kafka.stop())
    assert [p["open_transactions"] for p in done["partitions"] if p["topic"] == "paid"] == [1]
    (note,) = done["notes"]
    assert note.startswith("paid-0: open transactions")


def test_no_leader_epoch_of_kafka_is_used_again(importing: Importing, kafka: KafkaFolder) -> None:
    """Recovery forgets one in which nothing was written; clients have heard of it."""
    for leader in (1, -2, -1, 1, -2, 1):
        kafka.led_anew("orders", 1, leader)
    epochs = kafka.kill() / "small-0" / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 2\n7 3\n")
    importing(kafka.root)
    for name, index, epoch in (("small", 0, 7), ("orders", 1, 4), ("orders", 0, 3)):
        partition = stored.partition_path(TopicPartition(name, index))
        assert json.loads(importing.nodes()[partition])["leader_epoch"] == epoch, name


def test_fewer_copies(importing: Importing, kafka: KafkaFolder) -> None:
    importing(kafka.stop(), "--replication-factor", "1", "--brokers", "2")
    assert len(importing.left()) == 3
    assert importing(kafka.root, "--replication-factor", "3") is None


def test_a_dry_run_changes_nothing(importing: Importing, kafka: KafkaFolder) -> None:
    before = sorted(kafka.stop().rglob("*"))
    done = importing(kafka.root, "--dry-run")
    assert done["dry_run"] and [t["name"] for t in done["topics"]] == ["orders", "small"]
    assert not importing.data.exists()
    assert sorted(kafka.root.rglob("*")) == before


def test_only_some_topics(importing: Importing, kafka: KafkaFolder) -> None:
    folder = kafka.stop()
    assert [t["name"] for t in importing(folder, "--topic", "small", "--dry-run")["topics"]] == [
        "small"
    ]
    assert [t["name"] for t in importing(folder, "--skip", "small", "--dry-run")["topics"]] == [
        "orders"
    ]
    assert importing(folder, "--skip", "smal") is None and "smal" in importing.stderr


def test_topics_that_are_there_are_refused(importing: Importing, kafka: KafkaFolder) -> None:
    importing(kafka.stop(), "--topic", "small")
    left = importing.left()
    assert importing(kafka.root) is None
    assert "small" in importing.stderr and "orders" not in importing.stderr
    assert importing.left() == left
    assert importing(kafka.root, "--skip", "small") is not None


def test_new_producers_are_not_taken_for_old_ones(importing: Importing, kafka: KafkaFolder) -> None:
    kafka.topic("written", 1)
    kafka.partition("written", 0, [batch(b"v", producer=(4_711, 0, 0))])
    kafka.producer_ids(3_000)
    importing(kafka.stop())
    block = json.loads(importing.nodes()[PRODUCER_ID_BLOCK])
    assert int(block["block_end"]) >= 4_711


def test_a_missing_partition_is_refused(importing: Importing, kafka: KafkaFolder) -> None:
    kafka.topic("wide", 3)
    kafka.partition("wide", 1, [batch(b"v")])
    assert importing(kafka.stop()) is None
    assert "wide lacks 0, 2 of 3" in importing.stderr
    assert not importing.data.exists()


def test_partitions_of_several_folders(
    importing: Importing, kafka: KafkaFolder, tmp_path: Path
) -> None:
    """Of a partition in both, the copy with the newest epoch counts, then the longer one."""
    other = KafkaFolder(tmp_path / "other", node=2)
    other.partition("orders", 0, [batch(b"a", b"b"), batch(b"C"), batch(b"D")], epoch=2)
    other.partition("small", 0, [batch(b"x", b"y", b"z", b"!")])
    other.partition("more", 0, [batch(b"v")])
    kafka.topic("more", 1)
    assert importing(kafka.stop(), other.stop()) is not None
    assert importing.values(0, "orders") == [b"a", b"b", b"c"]
    assert importing.values(0, "small") == [b"x", b"y", b"z", b"!"]
    assert importing.values(0, "more") == [b"v"]


@pytest.mark.parametrize("known", [True, False])
def test_one_name_for_two_topics(
    importing: Importing, kafka: KafkaFolder, tmp_path: Path, known: bool
) -> None:
    """The controllers know which one was deleted; without them nobody does."""
    other = KafkaFolder(tmp_path / "other", node=2)
    path = other.partition("small", 0, [batch(b"v") for _ in range(9)])
    metadata = (path / "partition.metadata").read_text()
    (path / "partition.metadata").write_text(metadata[:-22] + "A" * 22)
    folders = kafka.stop(), other.stop()
    if not known:
        shutil.rmtree(kafka.root / "__cluster_metadata-0")
        assert importing(*folders) is None
        assert "two topics of one name" in importing.stderr
    else:
        (note,) = importing(*folders)["notes"]
        assert "deleted" in note and str(path) in note
        assert importing.values(0, "small") == [b"z"]


def test_folders_of_two_clusters_are_refused(
    importing: Importing, kafka: KafkaFolder, tmp_path: Path
) -> None:
    other = KafkaFolder(tmp_path / "other")
    other.partition("more", 0, [batch(b"v")])
    (other.root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=another\n")
    assert importing(kafka.stop(), other.stop()) is None
    assert "one cluster at a time" in importing.stderr


def test_without_the_controllers_log_nothing_expires(importing: Importing, tmp_path: Path) -> None:
    kafka = KafkaFolder(tmp_path / "kafka")
    kafka.partition("plain", 0, [batch(b"v")])
    kafka.partition("kept", 0, [batch(b"v")], cleaned_to=1)
    done = importing(kafka.stop(), "--config", "plain:retention.ms=5", "--config", "plain:a=b")
    assert done is None and "a" in importing.stderr
    done = importing(kafka.root, "--config", "plain:retention.ms=5")
    configs = {t["name"]: t["configs"] for t in done["topics"]}
    assert configs == {
        "plain": {"retention.ms": "5"},
        "kept": {"retention.ms": "-1", "cleanup.policy": "compact"},
    }
    assert len(done["notes"]) == 2


# ---- damage ------------------------------------------------------------------------------------


def test_damage_is_refused_and_nothing_is_left(importing: Importing, kafka: KafkaFolder) -> None:
    path = kafka.root / "orders-1" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert importing(kafka.stop()) is None
    assert "orders-1" in importing.stderr and "CRC" in importing.stderr
    assert not importing.data.exists()


def test_what_a_kill_left_half_written_is_cut(importing: Importing, kafka: KafkaFolder) -> None:
    path = kafka.root / "orders-1" / f"{0:020d}.log"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    done = importing(kafka.kill())
    (partition,) = [p for p in done["partitions"] if (p["topic"], p["partition"]) == ("orders", 1)]
    assert partition["cut"] and partition["cut"] in done["notes"][0]
    assert importing.values(2, "orders", 1) == [b"d"]


def test_what_was_flushed_is_never_cut(importing: Importing, kafka: KafkaFolder) -> None:
    path = kafka.root / "small-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-5])
    assert importing(kafka.kill()) is None
    assert "small-0" in importing.stderr
    assert not importing.data.exists()


@pytest.mark.parametrize("clean", [True, False])
def test_older_formats_are_named(importing: Importing, kafka: KafkaFolder, clean: bool) -> None:
    message = b"\1\0" + TIME.to_bytes(8, "big") + b"\xff\xff\xff\xff" + b"\0\0\0\1v"
    crc = zlib.crc32(message).to_bytes(4, "big")
    old = bytes(8) + (len(message) + 4).to_bytes(4, "big") + crc + message
    (kafka.root / "small-0" / f"{0:020d}.log").write_bytes(old)
    assert importing(kafka.stop() if clean else kafka.kill()) is None
    assert "format 1" in importing.stderr
    assert not importing.data.exists()


# ---- places ------------------------------------------------------------------------------------


def test_a_folder_of_somebody_elses_topic_undoes_all(
    importing: Importing, kafka: KafkaFolder
) -> None:
    importing(kafka.stop(), "--topic", "orders")
    before = importing.left()
    offsets = {p: p.read_bytes() for p in importing.data.glob("broker-*/data/*-checkpoint")}
    disk = OsDisk(importing.data / "broker-2" / "data")
    PartitionLog.open(
        disk, "small-0", LogConfig(), topic_id=bytes(16), recovery_point=0, clean=False
    ).abandon()
    assert importing(kafka.root, "--topic", "small") is None
    assert "small-0" in importing.stderr
    assert importing.left() == sorted([*before, "broker-2/data/small-0"])
    found = {p: p.read_bytes() for p in importing.data.glob("broker-*/data/*-checkpoint")}
    assert found == offsets
    assert stored.topic_path("small") not in importing.nodes()


def test_what_the_coordinator_refuses_is_undone(importing: Importing, kafka: KafkaFolder) -> None:
    importing(kafka.stop(), "--topic", "orders")
    before = importing.left()
    importing.write(stored.partition_path(TopicPartition("tiny", 0)) + "/odd", b"")
    kafka.topic("tiny", 1)
    kafka.partition("tiny", 0, [batch(b"v")])
    assert importing(kafka.stop(), "--topic", "tiny") is None
    assert importing.left() == before


def test_an_import_that_was_killed_is_no_obstacle(importing: Importing, kafka: KafkaFolder) -> None:
    importing(kafka.stop(), "--topic", "orders")
    root = importing.data / "broker-1"
    (root / "importing" / "small-0").mkdir(parents=True)
    PartitionLog.open(
        OsDisk(root / "data"),
        "small-0",
        LogConfig(),
        topic_id=topic_id("small"),
        recovery_point=0,
        clean=False,
    ).abandon()
    assert importing(kafka.root, "--topic", "small") is not None
    assert importing.values(1, "small") == [b"z"]
    assert not (root / "importing").exists()


def test_a_folder_in_use_is_refused(importing: Importing, kafka: KafkaFolder) -> None:
    with open(kafka.stop() / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert importing(kafka.root) is None
    assert "in use" in importing.stderr
    assert importing(kafka.root) is not None


@pytest.mark.parametrize("name", ["empty", "nothing", "kafka/orders-0"])
def test_what_is_no_log_folder(importing: Importing, kafka: KafkaFolder, name: str) -> None:
    folder = kafka.stop().parent / name
    if name == "empty":
        folder.mkdir()
    assert importing(folder) is None
    assert str(folder) in importing.stderr


# ---- with brokers ------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path) -> Any:
    made = Cluster(tmp_path)
    yield made
    made.down()


def test_into_a_running_cluster_that_keeps_offsets_of_its_own(
    running: Cluster, kafka: KafkaFolder
) -> None:
    from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
    from confluent_kafka import TopicPartition as At
    from confluent_kafka.admin import AdminClient

    running.create_topic("own", partitions=1)
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "own-readers"})
    consumer.commit(offsets=[At("own", 0, 0)], asynchronous=False)
    consumer.close()
    kafka.topic("__consumer_offsets", 2)
    kafka.offsets("readers", {TopicPartition("orders", 0): 2, TopicPartition("gone", 0): 9})
    folder = str(kafka.stop())
    words = ["import", "kafka-data", folder, "--data", str(running.data), "--format", "json"]
    refused = replog(*words, home=running.home)
    assert refused.returncode == 1 and "--restart" in refused.stderr
    done = replog(*words, "--restart", home=running.home)
    assert done.returncode == 0, done.stderr
    assert {(c["topic"], c["offset"]) for c in json.loads(done.stdout)["committed_offsets"]} == {
        ("orders", 2),
        ("gone", 9),
    }
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    for group, wanted in (("readers", {("orders", 2)}), ("own-readers", {("own", 0)})):
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = answer[group].result(30).topic_partitions
        assert {(tp.topic, tp.offset) for tp in found} == wanted
    view = running.wait_in_sync("orders")
    assert view["topic_id"] and len(view["partitions"]) == 2
    read = running.try_to("consume", "orders", "--exit")
    assert sorted(read.stdout.split()) == ["a", "b", "c", "d"], read.stderr
