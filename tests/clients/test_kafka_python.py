"""kafka-python 3."""

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from tests.clients.conftest import PARTITIONS, RECORDS, check_all_in_order, partition_of, values
from tests.support.cluster import Cluster

pytestmark = pytest.mark.clients


def test_writes_and_reads_in_a_group(cluster: Cluster, topic: str) -> None:
    servers = cluster.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(name=topic, num_partitions=PARTITIONS, replication_factor=3)])
    described = admin.describe_topics([topic])[0]
    assert all(
        sorted(p["replica_nodes"]) == sorted(p["isr_nodes"]) == [0, 1, 2]
        for p in described["partitions"]
    )
    admin.close()

    producer = KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=5)
    sent = [
        producer.send(topic, value, partition=partition_of(number))
        for number, value in enumerate(values())
    ]
    producer.flush(60)
    assert all(future.get(10).offset >= 0 for future in sent)
    producer.close()

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"group-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
    )
    read = []
    for record in consumer:
        read.append((record.partition, record.offset, record.value))
        if len(read) == RECORDS:
            break
    consumer.commit()
    committed = sum(consumer.committed(place) or 0 for place in consumer.assignment())
    consumer.close()
    check_all_in_order(read)
    assert committed == RECORDS
