"""kafka-python 3."""

from collections.abc import Collection

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from tests.clients.conftest import PARTITIONS, RECORDS, check_all_in_order, partition_of, values
from tests.support.cluster import Cluster, wait_until

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


class Assignments(ConsumerRebalanceListener):  # type: ignore[misc]
    """What a member was assigned, one round after the other."""

    def __init__(self) -> None:
        self.rounds: list[set[TopicPartition]] = []

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Nothing was done with them."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.rounds.append(set(assigned))


def test_who_comes_back_to_a_group_is_assigned_its_partitions_at_once(
    cluster: Cluster, topic: str
) -> None:
    """And not none, for want of metadata when it is made leader of the group.

    It would join again then, and it loses the assignment of that round when it comes between two
    calls of poll: it reads nothing any more. So it does with Apache Kafka where groups don't wait.
    """
    cluster.create_topic(topic, partitions=PARTITIONS)
    for _ in range(4):
        seen = Assignments()
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","), group_id=f"group-{topic}"
        )
        consumer.subscribe([topic], listener=seen)

        def is_assigned(member: KafkaConsumer = consumer, seen: Assignments = seen) -> bool:
            member.poll(timeout_ms=100)
            return bool(seen.rounds)

        wait_until("it is assigned something", is_assigned)
        consumer.close()
        assert seen.rounds[0] == {TopicPartition(topic, number) for number in range(PARTITIONS)}
