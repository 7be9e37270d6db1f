"""Compaction of transactions and tombstones: what Apache Kafka leaves of a log, we leave of it.

Kafka is written to while it may not compact. Then it does, and so does our cleaner, each on the
same bytes; what is left is compared when further passes change nothing any more. Nothing depends on
how long that takes: what is to stay for `delete.retention.ms` stays for a day, or for no time.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.interop.housekeeping import PATIENCE_S, cleaned_to
from tests.interop.kafka import Java, KafkaServer, copy, kafka_ports
from tests.interop.kafka_kinds import Kafka, flush
from tests.interop.kafka_truth import Cluster
from tests.log.batches import append
from tests.log.compaction import compact, keyed, seal
from tests.support.cluster import wait_until

from replog.log.cleaner import CleanRules
from replog.log.config import LogConfig
from replog.log.identity import topic_id_of
from replog.log.partition_log import PartitionLog
from replog.model.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from replog.records.batch import records_of
from replog.records.header import iterate
from replog.records.rewrite import ABORT_MARKER, delete_horizon, marker_type
from replog.runtime.client import AdminClient
from replog.runtime.os_disk import OsDisk

DAY_MS = 86_400_000
TICK = "tick"  # the key of records that only make another pass
SEGMENT_MS = 100
UNCHANGED = 2  # passes that must change nothing before all is taken for settled
BROKER, SET = 4, 0  # kinds of resources and operations

pytestmark = pytest.mark.surface(60)

# Offset of a batch, what is in it, and until when it is to stay.
Left = list[tuple[int, str, int | None]]


@pytest.fixture(scope="module")
def node(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    settings = {"producer.id.expiration.check.interval.ms": "200"}
    home = tmp_path_factory.mktemp("compacting")
    server = KafkaServer(java, home / "kafka", kafka_ports(1), settings=settings)
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.stop(kill=True)


class Writers:
    """Everything that a reader of a compacted topic may meet, at offsets that are known."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._a, self._b = (kafka.transactional(f"{topic}-{name}") for name in "ab")
        self.transactions = 0  # that were decided

    def _put(self, producer: Producer, **values: str | None) -> None:
        for key, value in values.items():
            producer.produce(self._topic, value, key=key, partition=0)
            flush(producer)  # a batch for each record

    def plain(self, **values: str | None) -> None:
        self._put(self._kafka.plain, **values)

    def transaction(self, producer: Producer, *, commit: bool, **values: str | None) -> None:
        producer.begin_transaction()
        self._put(producer, **values)
        if commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
        self.transactions += 1

    def write(self) -> None:
        a, b = self._a, self._b
        self.transaction(a, commit=True, kept="1", deleted="1")
        self.plain(gone="1")
        self.transaction(b, commit=False, kept="aborted", never="aborted")
        self.transaction(a, commit=True, deleted=None)
        self.plain(gone=None)
        self.transaction(a, commit=True, superseded="1")
        self.plain(superseded="2")
        self.transaction(b, commit=True, other="1")
        self.transaction(b, commit=False, other="aborted")
        self.transaction(a, commit=True, last="1")
        self.plain(last="2")


def left_in(batches: bytes) -> Left:
    """Markers, and batches of what is not a tick, empty ones of producers among them."""
    found: Left = []
    for header in iterate(batches):
        horizon = delete_horizon(header)
        if header.control:
            kind = "abort" if marker_type(batches, header) == ABORT_MARKER else "commit"
            found.append((header.base_offset, kind, horizon))
            continue
        records = [
            f"{record.offset}: {(record.key or b'').decode()}={record.value!r}"
            for record in records_of(batches, header)
            if record.key != TICK.encode()
        ]
        if records or (header.count == 0 and header.producer_id >= 0):
            found.append((header.base_offset, ", ".join(records) or "empty", horizon))
    return found


def segments_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def settled(one_pass: Callable[[], Left]) -> Left:
    """What is left when passes change nothing any more."""
    last, same = one_pass(), 0
    while same < UNCHANGED:
        now = one_pass()
        same, last = (same + 1 if now == last else 0), now
    return last


class KafkasCleaner:
    """Compacts a topic of a running Kafka, one pass after the other."""

    def __init__(self, node: KafkaServer, kafka: Kafka, topic: str) -> None:
        self._node = node
        self._kafka = kafka
        self._topic = topic
        self.folder = node.data / f"{topic}-0"

    def one_pass(self) -> Left:
        """A record after `segment.ms` begins a new segment: all before it may be compacted."""
        time.sleep(1.5 * SEGMENT_MS / 1_000)
        offsets: list[int] = []

        def told(_: object, message: Message) -> None:
            offsets.append(message.offset())

        self._kafka.plain.produce(self._topic, "", key=TICK, partition=0, on_delivery=told)
        flush(self._kafka.plain)
        wait_until(
            "Kafka compacts",
            lambda: cleaned_to(self._node.data, self.folder.name) >= offsets[0],
            PATIENCE_S,
        )
        return left_in(segments_of(self.folder))


class OurCleaner:
    """Compacts a copy of the topic's folder, by a clock of its own."""

    def __init__(self, folder: Path, *, retention_ms: int) -> None:
        self._disk = OsDisk(folder.parent)
        topic_id = topic_id_of(self._disk, folder.name)
        assert topic_id is not None
        self._folder = folder
        self._log = PartitionLog.open(
            self._disk,
            folder.name,
            LogConfig(cleanup_policy=("compact",)),
            topic_id=topic_id,
            recovery_point=0,
            clean=False,
        )
        self._retention_ms = retention_ms
        self._now_ms = int(time.time() * 1_000)
        self.expiration_ms = DAY_MS

    def one_pass(self) -> Left:
        self._now_ms += SEGMENT_MS
        append(self._log, keyed((TICK, ""), time=self._now_ms))
        seal(self._log)
        rules = CleanRules(
            wall_ms=self._now_ms,
            delete_retention_ms=self._retention_ms,
            producer_expiration_ms=self.expiration_ms,
            keys_max=1_000,
        )
        work = compact(self._disk, self._log, rules)
        assert work is not None and work.failure is None
        return left_in(segments_of(self._folder))

    def close(self) -> None:
        self._log.abandon()


def alter(kafka: Kafka, topic: str, **configs: str) -> None:
    entries = [
        ConfigEntry(name.replace("__", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource("topic", topic, incremental_configs=entries)
    client = kafka.admin()  # its futures live no longer than itself
    client.incremental_alter_configs([resource])[resource].result(30)


def expire_producers(bootstrap: str, after_ms: int) -> None:
    """For all brokers, which librdkafka can't name."""
    config = AlterableConfig(
        name="producer.id.expiration.ms", config_operation=SET, value=str(after_ms)
    )
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    with AdminClient(bootstrap, 30) as admin:
        answer = admin.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert [r.error_code for r in answer.responses] == [0], answer.responses[0].error_message


def shape(left: Left) -> list[tuple[int, str, bool]]:
    return [(offset, what, horizon is not None) for offset, what, horizon in left]


class Comparison:
    """One topic and its copy; `delete.retention.ms` is a day, or no time."""

    def __init__(self, node: KafkaServer, kafka: Kafka, folder: Path, retention_ms: int) -> None:
        topic = f"compacted-{retention_ms}"
        configs = {
            "cleanup.policy": "compact",
            "segment.ms": str(SEGMENT_MS),
            "min.compaction.lag.ms": str(DAY_MS),
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": str(retention_ms),
        }
        client = kafka.admin()
        client.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(60)
        writers = Writers(kafka, topic)
        writers.write()
        self.topic = topic
        self.stays = retention_ms > 0
        self._retention_ms = retention_ms
        self._theirs = KafkasCleaner(node, kafka, topic)
        copied = self._theirs.folder

        def decided() -> bool:
            """Kafka writes markers behind the answer to their producer."""
            found = [what for _, what, _ in left_in(segments_of(copied))]
            return found.count("commit") + found.count("abort") == writers.transactions

        wait_until("all markers are in the log", decided, PATIENCE_S)
        with node.frozen():
            copy(copied, folder)
        self._ours = OurCleaner(folder / copied.name, retention_ms=retention_ms)
        self._began_ms = int(time.time() * 1_000)
        alter(kafka, topic, min__compaction__lag__ms="0")

    def while_producers_are_known(self) -> None:
        """Their last batches stay, without records, and so do the markers behind them."""
        left = self._compare()
        assert [what for _, what, _ in left].count("empty") == 2
        tombstones = [what for _, what, _ in left if what.endswith("=None")]
        assert len(tombstones) == (2 if self.stays else 0)
        horizons = [horizon for *_, horizon in left if horizon is not None]
        assert bool(horizons) == self.stays
        now_ms = time.time() * 1_000
        assert all(self._began_ms <= h - self._retention_ms <= now_ms for h in horizons)

    def when_producers_are_forgotten(self) -> None:
        """Markers without records go, after `delete.retention.ms`."""
        self._ours.expiration_ms = 1
        left = self._compare()
        assert not [what for _, what, _ in left if what == "empty"]
        markers = [horizon for _, what, horizon in left if what in ("commit", "abort")]
        # Of those with records: of `kept`, `other`, and of one tombstone while that is there.
        assert markers.count(None) == (3 if self.stays else 2)
        assert (len(markers) > markers.count(None)) == self.stays

    def _compare(self) -> Left:
        left = settled(self._theirs.one_pass)
        assert shape(settled(self._ours.one_pass)) == shape(left)
        return left

    def close(self) -> None:
        self._ours.close()


def test_we_leave_what_kafka_leaves(node: KafkaServer, tmp_path: Path) -> None:
    kafka = Kafka(node.bootstrap)
    both = [Comparison(node, kafka, tmp_path, retention_ms) for retention_ms in (DAY_MS, 0)]
    for each in both:
        each.while_producers_are_known()
    expire_producers(node.bootstrap, 1)
    with closing(Cluster(node.bootstrap)) as served:
        served.wait_for_leaders([each.topic for each in both])
        for tp in served.partitions:
            wait_until("producers expire", lambda tp=tp: not served.producers(tp), PATIENCE_S)
    for each in both:
        each.when_producers_are_forgotten()
        each.close()
