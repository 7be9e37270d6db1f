"""Topics of many kinds, written to a running Apache Kafka: what its log folders can look like."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MB = 1 << 20
# The smallest that Kafka takes since 4.0 (KIP-1030); a short time makes more segments than size.
SMALL_SEGMENTS = {"segment.bytes": str(MB), "segment.ms": "400"}
CLEANED_SOON = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "100",
}
DAY_MS = 86_400_000


@dataclass
class Kafka:
    """Where to write, and with what."""

    bootstrap: str
    plain: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.plain = self.producer()

    def producer(self, **settings: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 2,
                "acks": "all",
                "message.max.bytes": 8 * MB,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )

    def transactional(self, name: str) -> Producer:
        made = self.producer(transactional_id=name, transaction_timeout_ms=900_000)
        made.init_transactions(60)
        return made

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})


@dataclass(frozen=True)
class Kind:
    """A topic of its own, and how it comes to what is in it."""

    topic: str
    write: Callable[[Kafka, str], None]
    configs: dict[str, str] = field(default_factory=dict)
    partitions: int = 1


def flush(producer: Producer) -> None:
    assert producer.flush(60) == 0


def codecs(kafka: Kafka, topic: str) -> None:
    """Keys and values that are null, empty and binary; headers; one batch and many."""
    for codec in CODECS:
        producer = kafka.producer(compression_type=codec)
        for number in range(60):
            key = (None, b"", b"\0\xff", b"key %d" % number)[number % 4]
            value = (None, b"", os.urandom(40), f"{codec} {number} ".encode() * 30)[number % 5 % 4]
            headers = [("h", b"1"), ("null", None), ("h", b"again")] if number % 7 == 0 else None
            producer.produce(topic, value, key=key, headers=headers)
            if number % 20 == 19:
                flush(producer)


def large(kafka: Kafka, topic: str) -> None:
    """Batches of more than a megabyte, and of more than a read for a look at headers."""
    for codec in CODECS:
        producer = kafka.producer(compression_type=codec, batch_size=4 * MB, linger_ms=50)
        for size in (10, 3 * MB // 2, 300_000, 700_000, 5):
            producer.produce(topic, os.urandom(size // 2) + bytes(size - size // 2))
        flush(producer)


def rounds(kafka: Kafka, topic: str) -> None:
    """Each key again and again, some of them deleted."""
    for turn in range(6):
        for number in range(10):
            value = None if (number, turn) in ((7, 5), (3, 2), (4, 4)) else b"turn %d" % turn
            kafka.plain.produce(topic, value, key=b"key %d" % number)
        flush(kafka.plain)
        time.sleep(0.25)


def hole(kafka: Kafka, topic: str) -> None:
    """After compaction more offsets are missing than 16 bits can tell, in batches and between."""
    producer = kafka.producer(compression_type="lz4", batch_num_messages=10_000)
    producer.produce(topic, b"first", key=b"first")
    for number in range(90_000):
        producer.produce(topic, b"%d" % number, key=b"same" if number % 30_000 else b"rare")
        if number % 5_000 == 0:
            producer.poll(0)
    flush(producer)
    time.sleep(0.3)
    producer.produce(topic, b"last", key=b"last")
    flush(producer)


def many_segments(kafka: Kafka, topic: str) -> None:
    for number in range(400):
        kafka.plain.produce(topic, b"%4d " % number * 40, key=b"%d" % (number % 5))
        flush(kafka.plain)
        time.sleep(0.004)


def megabytes(kafka: Kafka, topic: str) -> None:
    producer = kafka.producer(compression_type="snappy")
    for number in range(3_000):
        producer.produce(topic, os.urandom(700) + b"%d" % number * 60, partition=0)
    flush(producer)


def front_deleted(kafka: Kafka, topic: str) -> None:
    """The log starts inside a batch; in partition 1 nothing is left."""
    producer = kafka.producer(compression_type="gzip", linger_ms=50)
    for number in range(1_000):
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, partition=partition)
    flush(producer)
    ends = [TopicPartition(topic, 0, 777), TopicPartition(topic, 1, -1)]
    admin = kafka.admin()
    for done in admin.delete_records(ends).values():
        done.result(30)


def times(kafka: Kafka, topic: str) -> None:
    """Out of order; before the first of 1970's seconds is over, and in a thousand years."""
    producer = kafka.producer(compression_type="zstd", linger_ms=20)
    now = 1_700_000_000_000
    for stamp in (now, 1, now + 5, 32_503_680_000_000, now - DAY_MS, 2, now + 5, 999):
        for number in range(3):
            producer.produce(topic, b"%d" % stamp, timestamp=stamp + number * (stamp % 3 - 1) or 1)
        flush(producer)


def numbers(kafka: Kafka, topic: str) -> None:
    for number in range(500):
        kafka.plain.produce(topic, b"%d" % number)
    flush(kafka.plain)


def idempotent(kafka: Kafka, topic: str) -> None:
    producers = [kafka.producer(enable_idempotence=True) for _ in range(3)]
    for turn in range(8):
        for number, producer in enumerate(producers):
            producer.produce(topic, b"%d of %d" % (turn, number))
            flush(producer)


def transactions(kafka: Kafka, topic: str) -> None:
    """Several at a time, with records of others between them; a producer that is there again."""
    one, two = kafka.transactional(f"{topic}-one"), kafka.transactional(f"{topic}-two")
    for turn in range(8):
        one.begin_transaction()
        two.begin_transaction()
        for number in range(3):
            one.produce(topic, b"one %d %d" % (turn, number), key=b"%d" % number)
            two.produce(topic, b"two %d %d" % (turn, number), key=b"%d" % number)
            if turn % 2:
                flush(one)
        kafka.plain.produce(topic, b"plain %d" % turn, key=b"p")
        for producer in (one, two, kafka.plain):
            flush(producer)
        one.abort_transaction(30) if turn % 2 else one.commit_transaction(30)
        two.abort_transaction(30) if turn % 3 else two.commit_transaction(30)
        time.sleep(0.15)
    one.begin_transaction()
    one.produce(topic, b"fenced", key=b"f")
    flush(one)
    again = kafka.transactional(f"{topic}-one")  # which aborts what the one before it had begun
    again.begin_transaction()
    again.produce(topic, b"again", key=b"a")
    again.commit_transaction(30)


def all_aborted(kafka: Kafka, topic: str) -> None:
    """Compaction leaves the markers alone."""
    producer = kafka.transactional(topic)
    for turn in range(4):
        producer.begin_transaction()
        for number in range(5):
            producer.produce(topic, b"%d" % turn, key=b"%d" % number)
        flush(producer)
        producer.abort_transaction(30)
        time.sleep(0.15)


# Whose transactions stay open as long as this process lives.
_HANGING: list[Producer] = []


def left_open(kafka: Kafka, topic: str) -> None:
    """Two open transactions, with decided ones and plain records behind their beginnings."""
    kafka.plain.produce(topic, b"before")
    flush(kafka.plain)
    for name in ("first", "second"):
        hanging = kafka.transactional(f"{topic}-{name}")
        hanging.begin_transaction()
        hanging.produce(topic, b"undecided")
        flush(hanging)
        _HANGING.append(hanging)
    decided = kafka.transactional(f"{topic}-decided")
    for turn in range(3):
        decided.begin_transaction()
        decided.produce(topic, b"decided %d" % turn)
        flush(decided)
        decided.abort_transaction(30) if turn % 2 else decided.commit_transaction(30)
    kafka.plain.produce(topic, b"after")
    flush(kafka.plain)


def elections(kafka: Kafka, topic: str) -> None:
    """Leaders change, with records in an epoch and without any. Written to by `after_election`."""
    numbers(kafka, topic)


def after_election(kafka: Kafka, turn: int) -> None:
    """One more epoch of the kind `epochs`; every second one stays empty."""
    admin = kafka.admin()
    elected = admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
    assert elected is not None
    if turn % 2 == 0:
        for number in range(5):
            kafka.plain.produce("epochs", b"turn %d %d" % (turn, number))
        flush(kafka.plain)


def nothing(kafka: Kafka, topic: str) -> None:
    """Partitions that were never written to."""


KINDS: Sequence[Kind] = (
    Kind("codecs", codecs),
    Kind("large", large, {"max.message.bytes": str(8 * MB)}),
    Kind("compacted", rounds, CLEANED_SOON | {"delete.retention.ms": "100"}),
    Kind("compacted.tombstones_kept", rounds, CLEANED_SOON),
    Kind(
        "compacted-and_deleted",
        rounds,
        CLEANED_SOON | {"cleanup.policy": "compact,delete", "retention.ms": "1500"},
    ),
    Kind("hole", hole, CLEANED_SOON | {"delete.retention.ms": "100"}),
    Kind("segments", many_segments, SMALL_SEGMENTS | {"index.interval.bytes": "64"}),
    Kind("index-full", many_segments, {"segment.index.bytes": "120", "index.interval.bytes": "0"}),
    Kind("retained", megabytes, {"retention.bytes": str(MB), "segment.bytes": str(MB)}),
    Kind("front-deleted", front_deleted, partitions=2),
    Kind("times", times, {"message.timestamp.after.max.ms": str(2**62), "retention.ms": "-1"}),
    Kind("append-time", numbers, {"message.timestamp.type": "LogAppendTime"}),
    Kind("recompressed", megabytes, {"compression.type": "zstd", "segment.bytes": str(MB)}),
    # Kafka's own libraries write other frames of the same codecs than clients in C do.
    *(
        Kind(f"recompressed.{codec}", numbers, {"compression.type": codec})
        for codec in ("uncompressed", "gzip", "snappy", "lz4")
    ),
    Kind("preallocated", numbers, {"preallocate": "true", "segment.bytes": str(4 * MB)}),
    Kind("idempotent", idempotent),
    Kind("transactions", transactions),
    Kind("transactions-compacted", transactions, CLEANED_SOON | {"delete.retention.ms": "100"}),
    Kind("transactions-segments", transactions, SMALL_SEGMENTS | {"segment.ms": "100"}),
    Kind("all-aborted", all_aborted, CLEANED_SOON | {"delete.retention.ms": "100"}),
    Kind("left-open", left_open),
    Kind("epochs", elections),
    Kind("never-written", nothing, partitions=3),
    Kind("n" * 240 + "._-.name9", numbers),
)

GROUPS = ("readers", "in transactions: 1", "ünïcode/…", "of the new protocol")


def create(kafka: Kafka, replicas: int) -> None:
    """All topics. Those of one partition are led by different nodes."""
    admin = kafka.admin()
    made = admin.create_topics(
        [
            NewTopic(
                kind.topic,
                kind.partitions,
                config=kind.configs,
                replica_assignment=[
                    [(number + index + step) % replicas + 1 for step in range(replicas)]
                    for index in range(kind.partitions)
                ],
            )
            for number, kind in enumerate(KINDS)
        ]
    )
    for done in made.values():
        done.result(60)


def commit_offsets(kafka: Kafka) -> None:
    """Groups of all protocols; some of which, or whose offsets, are deleted again."""
    settings = {"bootstrap.servers": kafka.bootstrap, "enable.auto.commit": False, "log_level": 0}
    places = [TopicPartition("codecs", 0, 17, metadata="seventeen"), TopicPartition("times", 0, 3)]
    for group in ("readers", "ünïcode/…", "deleted", *(f"one-of-many-{n}" for n in range(20))):
        consumer = Consumer({**settings, "group.id": group})
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
    admin = kafka.admin()
    gone = ["deleted", *(f"one-of-many-{n}" for n in range(0, 20, 2))]
    for done in admin.delete_consumer_groups(gone).values():
        done.result(30)
    producer = kafka.transactional("offsets")
    readers = Consumer({**settings, "group.id": "in transactions: 1"})
    for turn in range(4):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition("codecs", 0, 100 + turn)], readers.consumer_group_metadata(), 30
        )
        producer.abort_transaction(30) if turn % 2 else producer.commit_transaction(30)
    readers.close()
    new = Consumer(
        {
            **settings,
            "group.id": "of the new protocol",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    new.subscribe(["append-time"])
    message = new.poll(30)
    assert message is not None and message.error() is None
    new.commit(message=message, asynchronous=False)
    new.close()


def delete_at_last(kafka: Kafka, topic: str, replicas: int) -> None:
    """A topic whose folders wait for their removal when they are copied."""
    admin = kafka.admin()
    for done in admin.create_topics([NewTopic(topic, 1, replicas)]).values():
        done.result(30)
    numbers(kafka, topic)
    for done in admin.delete_topics([topic]).values():
        done.result(30)
