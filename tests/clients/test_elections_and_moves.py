"""Real clients move partitions between brokers under load, and elect leaders."""

import threading

from confluent_kafka import Consumer, ElectionType, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from tests.support.cluster import Cluster, wait_until

RECORDS = 3_000


def _assigned(cluster: Cluster, topic: str) -> list[int]:
    replicas: list[int] = cluster.describe(topic)["partitions"][0]["assigned_replicas"]
    return replicas


def test_a_partition_moves_under_load_and_goes_back(cluster: Cluster, topic: str) -> None:
    """From one broker to the two others and back, while an idempotent producer goes on."""
    cluster.create_topic(topic, partitions=1, replicas=1)
    (home,) = _assigned(cluster, topic)
    others = [broker for broker in (0, 1, 2) if broker != home]
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
        }
    )
    failed: list[object] = []
    done = threading.Event()

    def produce() -> None:
        for number in range(RECORDS):
            producer.produce(
                topic,
                b"%d" % number,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.poll(0.001)
        producer.flush(30)
        done.set()

    writer = threading.Thread(target=produce)
    writer.start()
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        moved = TopicPartition(topic, 0)
        for target in (others, [home, others[0]], [home]):
            assert admin.alter_partition_reassignments({moved: target}) == {moved: None}
            wait_until("the partition has moved", lambda t=target: _assigned(cluster, topic) == t)
        assert admin.list_partition_reassignments() == {}
    finally:
        admin.close()
        writer.join()
    assert done.is_set() and not failed
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic})
    consumer.assign([Position(topic, 0, 0)])
    read: list[bytes] = []
    while len(read) < RECORDS:
        messages = consumer.consume(500, timeout=10)
        assert messages, f"{len(read)} of {RECORDS}"
        read += [message.value() or b"" for message in messages]
    consumer.close()
    assert read == [b"%d" % number for number in range(RECORDS)]


def test_an_admin_client_elects_the_preferred_leader(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1, replicas=2)
    first, second = _assigned(cluster, topic)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    moved = TopicPartition(topic, 0)
    assert admin.alter_partition_reassignments({moved: [second, first]}) == {moved: None}
    admin.close()
    assert cluster.describe(topic)["partitions"][0]["leader"] == first
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    outcome = client.elect_leaders(ElectionType.PREFERRED, [Position(topic, 0)]).result()
    assert all(error is None for error in outcome.values())
    assert cluster.describe(topic)["partitions"][0]["leader"] == second
    again = client.elect_leaders(ElectionType.PREFERRED, [Position(topic, 0)]).result()
    assert [error.name() for error in again.values()] == ["ELECTION_NOT_NEEDED"]
