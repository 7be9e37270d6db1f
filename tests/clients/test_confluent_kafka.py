"""librdkafka, through confluent-kafka."""

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.clients.conftest import (
    CODECS,
    PARTITIONS,
    RECORDS,
    check_all_in_order,
    partition_of,
    values,
)
from tests.support.cluster import Cluster

pytestmark = pytest.mark.clients


def create(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(30)
    found = admin.list_topics(topic, timeout=10).topics[topic]
    assert found.error is None and sorted(found.partitions) == [0, 1, 2]
    assert all(sorted(p.replicas) == sorted(p.isrs) == [0, 1, 2] for p in found.partitions.values())


def produce(cluster: Cluster, topic: str, **options: object) -> None:
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, **options}
    )
    for number, value in enumerate(values()):
        producer.produce(
            topic,
            value,
            partition=partition_of(number),
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures, failures[:3]


def consume(cluster: Cluster, topic: str, group: str, count: int) -> list[tuple[int, int, bytes]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    consumer.subscribe([topic])
    read: list[tuple[int, int, bytes]] = []
    idle = 0
    while len(read) < count and idle < 300:
        batch = consumer.consume(1000, timeout=0.1)
        idle = 0 if batch else idle + 1
        for message in batch:
            assert message.error() is None, message.error()
            read.append((message.partition(), message.offset(), message.value()))
    consumer.close()  # commits
    return read


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_writes_and_reads_in_a_group(
    cluster: Cluster, topic: str, codec: str, idempotent: bool
) -> None:
    create(cluster, topic)
    produce(cluster, topic, **{"compression.type": codec, "enable.idempotence": idempotent})
    check_all_in_order(consume(cluster, topic, f"group-{topic}", RECORDS))


def test_a_group_goes_on_where_it_stopped(cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    produce(cluster, topic)
    first = consume(cluster, topic, f"group-{topic}", RECORDS)
    produce(cluster, topic)
    second = consume(cluster, topic, f"group-{topic}", RECORDS)
    assert len(first) == len(second) == RECORDS
    assert not {(p, o) for p, o, _ in first} & {(p, o) for p, o, _ in second}
