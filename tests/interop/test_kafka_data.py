"""Data folders of a running Apache Kafka, brought into a cluster: every record, every transaction,
every committed offset, after a stop in good order and after a kill.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop import housekeeping
from tests.interop.kafka import Java, KafkaServer, copy
from tests.support.cluster import replog

from replog.cli.ports import free_ports

Read = list[tuple[int, int, bytes | None, bytes | None, object]]

TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "codecs": (1, {}),
    "transactions": (2, {}),
    "left-open": (1, {}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
        },
    ),
    "compacted-transactions": (
        1,
        {
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.01",
            "max.compaction.lag.ms": "100",
            "delete.retention.ms": "100",
        },
    ),
    "retained": (1, {"retention.bytes": "1048576", "segment.bytes": "1048576"}),
    "broker-compressed": (1, {"compression.type": "zstd", "segment.bytes": "1048576"}),
    "append-time": (1, {"message.timestamp.type": "LogAppendTime"}),
    "front-deleted": (1, {}),
    "never-written": (3, {}),
}
GROUP = "readers"
IN_TRANSACTIONS = "readers-in-transactions"
NEW_GROUP = "readers-of-the-new-protocol"
GROUPS = (GROUP, IN_TRANSACTIONS, NEW_GROUP)


@dataclass
class Truth:
    """What clients got from Kafka itself."""

    watermarks: dict[tuple[str, int, str], tuple[int, int]] = field(default_factory=dict)
    records: dict[tuple[str, int, str], Read] = field(default_factory=dict)
    committed: dict[str, tuple[int, str]] = field(default_factory=dict)


def read_all(bootstrap: str) -> Truth:
    truth = Truth()
    for isolation in ("read_uncommitted", "read_committed"):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        for topic, (partitions, _) in TOPICS.items():
            for index in range(partitions):
                where = topic, index, isolation
                tp = TopicPartition(topic, index)
                truth.watermarks[where] = consumer.get_watermark_offsets(tp, timeout=30)
                consumer.assign([TopicPartition(topic, index, truth.watermarks[where][0])])
                truth.records[where] = [
                    (m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers())
                    for m in until_the_end(consumer)
                ]
        consumer.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for group in GROUPS:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        for tp in asked[group].result(30).topic_partitions:
            truth.committed[f"{group} {tp.topic}-{tp.partition}"] = tp.offset, tp.metadata
    return truth


def until_the_end(consumer: Consumer) -> Iterator[Message]:
    while True:
        message = consumer.poll(30)
        assert message is not None, "no record and no end within half a minute"
        if message.error() is None:
            yield message
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise AssertionError(message.error())


def write_all(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(
        [NewTopic(name, count, 1, config=config) for name, (count, config) in TOPICS.items()]
    ).values():
        made.result(60)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for number in range(50):
            headers = [("h", b"1"), ("null", None)] if number % 7 == 0 else None
            producer.produce("codecs", f"{codec} {number} ".encode() * 20, headers=headers)
        producer.flush(30)
    plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(2_000):
        plain.produce("broker-compressed", b"%d" % number * 300, key=b"k")
        plain.produce("append-time", b"%d" % number, timestamp=1_700_000_000_000 + number)
        plain.produce("front-deleted", b"%d" % number)
        plain.produce("retained", b"%4d" % number * 500)
    plain.flush(60)
    for turn in range(6):
        for number in range(10):
            value = None if number == 7 and turn == 5 else b"turn %d" % turn
            plain.produce("compacted", value, key=b"key %d" % number)
        plain.flush(30)
        time.sleep(0.3)
    write_transactions(bootstrap, plain)
    for done in admin.delete_records([TopicPartition("front-deleted", 0, 777)]).values():
        done.result(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    consumer.commit(
        offsets=[
            TopicPartition("codecs", 0, 17, metadata="seventeen"),
            TopicPartition("transactions", 1, 3),
        ],
        asynchronous=False,
    )
    consumer.close()
    new = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": NEW_GROUP,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    new.subscribe(["append-time"])
    message = new.poll(30)
    assert message is not None and message.error() is None
    new.commit(message=message, asynchronous=False)
    new.close()


def write_transactions(bootstrap: str, plain: Producer) -> None:
    one, two, hanging = (
        Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
        for name in ("one", "two", "hanging")
    )
    for producer in (one, two, hanging):
        producer.init_transactions(60)
    compacted = Producer({"bootstrap.servers": bootstrap, "transactional.id": "compacted"})
    compacted.init_transactions(60)
    for turn in range(6):
        compacted.begin_transaction()
        for number in range(5):
            value = None if (turn + number) % 4 == 0 else b"turn %d" % turn
            compacted.produce("compacted-transactions", value, key=b"key %d" % number)
        compacted.flush(30)
        compacted.abort_transaction(30) if turn % 2 else compacted.commit_transaction(30)
        time.sleep(0.2)
    readers = Consumer({"bootstrap.servers": bootstrap, "group.id": IN_TRANSACTIONS})
    for turn in range(4):
        compacted.begin_transaction()
        compacted.send_offsets_to_transaction(
            [TopicPartition("codecs", 0, 100 + turn)], readers.consumer_group_metadata(), 30
        )
        compacted.abort_transaction(30) if turn % 2 else compacted.commit_transaction(30)
    readers.close()
    for turn in range(8):
        one.begin_transaction()
        two.begin_transaction()
        for number in range(3):
            one.produce("transactions", b"one %d %d" % (turn, number), partition=number % 2)
            two.produce("transactions", b"two %d %d" % (turn, number), partition=0)
        plain.produce("transactions", b"plain", partition=turn % 2)
        for producer in (one, two, plain):
            producer.flush(30)
        one.abort_transaction(30) if turn % 2 else one.commit_transaction(30)
        two.abort_transaction(30) if turn % 3 else two.commit_transaction(30)
    plain.produce("left-open", b"before")
    plain.flush(30)
    hanging.begin_transaction()
    hanging.produce("left-open", b"undecided")
    hanging.flush(30)
    plain.produce("left-open", b"after")
    plain.flush(30)


@pytest.fixture(scope="module")
def truth(kafka: KafkaServer) -> Truth:
    write_all(kafka.bootstrap)
    configs = {topic: configs for topic, (_, configs) in TOPICS.items()}
    housekeeping.wait_until_done([kafka], configs)
    return read_all(kafka.bootstrap)


def check_import(folder: Path, home: Path, truth: Truth, java: Java) -> None:
    home.mkdir()
    data, port = home / "cluster", free_ports(3)
    words = ["--data", str(data), "--format", "json"]
    done = replog(
        *("import", "kafka-data", str(folder), "--port", str(port), *words),
        home=home,
        timeout_s=300,
    )
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout)
    assert not [note for note in imported["notes"] if "configuration" in note]
    assert sum(p["open_transactions"] for p in imported["partitions"]) == 1
    started = replog("up", "--detach", *words, home=home)
    assert started.returncode == 0, started.stderr
    try:
        bootstrap = json.loads(started.stdout)["bootstrap_servers"]
        found = read_all(bootstrap)
        assert found.watermarks == truth.watermarks
        for where, records in truth.records.items():
            assert found.records[where] == records, where
        # One client library leaves a stray byte behind metadata; what is compared is the text.
        assert {tp: offset for tp, (offset, _) in found.committed.items()} == {
            tp: offset for tp, (offset, _) in truth.committed.items()
        }
        java.tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", "transactions", "--from-beginning"),
            *("--isolation-level", "read_committed", "--timeout-ms", "60000"),
            *("--max-messages", str(committed_records(truth))),
        )
        # And it is a cluster like any other: new records go behind the old ones.
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for topic in TOPICS:
            producer.produce(topic, b"new", key=b"new", on_delivery=_must_arrive)
        assert producer.flush(30) == 0
    finally:
        replog("down", "--data", str(data), home=home)
    verified = replog("log", "verify", str(data / "broker-0" / "data"), home=home)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def committed_records(truth: Truth) -> int:
    return sum(
        len(records)
        for (topic, _, isolation), records in truth.records.items()
        if (topic, isolation) == ("transactions", "read_committed")
    )


def _must_arrive(error: object, message: object) -> None:
    assert error is None, error


def test_what_was_written_is_worth_the_test(truth: Truth) -> None:
    records = truth.records
    assert len(records["transactions", 0, "read_committed"]) < len(
        records["transactions", 0, "read_uncommitted"]
    )
    assert truth.watermarks["left-open", 0, "read_committed"][1] == 1
    assert truth.watermarks["left-open", 0, "read_uncommitted"][1] == 3
    assert truth.watermarks["front-deleted", 0, "read_uncommitted"][0] == 777
    assert len(records["compacted", 0, "read_uncommitted"]) < 60, "the cleaner has not run"
    assert truth.watermarks["retained", 0, "read_uncommitted"][0] > 0, "nothing was deleted"
    assert len(records["compacted-transactions", 0, "read_uncommitted"]) < 30
    assert truth.committed[f"{GROUP} codecs-0"][0] == 17
    assert truth.committed[f"{IN_TRANSACTIONS} codecs-0"][0] == 102
    assert truth.committed[f"{NEW_GROUP} append-time-0"][0] == 1


def test_after_a_stop_and_after_a_kill(
    truth: Truth, kafka: KafkaServer, java: Java, tmp_path: Path
) -> None:
    """A copy of the folder of a frozen node is what a kill leaves."""
    busy = replog("import", "kafka-data", str(kafka.data), "--dry-run", home=tmp_path)
    assert busy.returncode == 1 and "running" in busy.stderr, busy.stderr
    with kafka.frozen():
        copy(kafka.data, tmp_path / "killed")
    kafka.stop()
    check_import(kafka.data, tmp_path / "one", truth, java)
    check_import(tmp_path / "killed", tmp_path / "two", truth, java)
