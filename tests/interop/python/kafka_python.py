"""kafka-python against a cluster."""

from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic, OffsetSpec
from kafka.errors import KafkaError
from program import Admin, Consume, Produce, Program, key, number_of, soon, steps, told, value


def produce(run: Produce) -> None:
    producer = KafkaProducer(
        bootstrap_servers=run.bootstrap.split(","),
        acks="all",
        compression_type=None if run.codec == "none" else run.codec,
        enable_idempotence=run.idempotent,
        linger_ms=5,
    )
    sent: list[tuple[int, Any]] = []

    def collect() -> None:
        """Tell of those that are answered, in the order in which they were sent."""
        while sent and sent[0][1].is_done:
            number, future = sent.pop(0)
            answer = future.get()
            told(answer.partition, answer.offset, number)

    for numbers in run.chunks():
        sent += [(n, producer.send(run.topic, key=key(n), value=value(n))) for n in numbers]
        collect()
    producer.flush()
    collect()
    producer.close()


def consume(run: Consume) -> None:
    consumer = KafkaConsumer(
        run.topic,
        bootstrap_servers=run.bootstrap.split(","),
        group_id=run.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    while not consumer.partitions_for_topic(run.topic):
        pass  # asks again. A member that joins without knowing them can lose what it is assigned
    seen: set[int] = set()
    while len(seen) < run.count:
        for place, records in consumer.poll(timeout_ms=100).items():
            for record in records:
                number = number_of(record.value)
                seen.add(number)
                told(place.partition, record.offset, number)
        if len(seen) < run.count:
            try:
                consumer.commit()
            except KafkaError:
                pass  # no coordinator, or a rebalance has begun: the next one tells all
    consumer.commit()
    consumer.close()


def admin(run: Admin) -> None:
    client = KafkaAdminClient(bootstrap_servers=run.bootstrap.split(","))
    places = [TopicPartition(run.data, partition) for partition in range(3)]

    def config() -> object:
        asked = ConfigResource(ConfigResourceType.TOPIC, run.topic)
        return client.describe_configs([asked])["topic"][run.topic]["retention.ms"]["value"]

    def alter() -> object:
        change = ConfigResource(ConfigResourceType.TOPIC, run.topic, {"retention.ms": "654321"})
        client.alter_configs([change])
        return config()

    def partitions() -> object:
        return len(client.describe_topics([run.topic])[0]["partitions"])

    def create() -> object:
        client.create_topics([NewTopic(run.topic, 3, 3, topic_configs={"retention.ms": "123456"})])
        return "ok"

    def grow() -> object:
        client.create_partitions({run.topic: 5})
        return soon(5, partitions)

    def offsets() -> object:
        found = client.list_group_offsets({run.group: None})[run.group]
        return sum(offset.offset for offset in found.values())

    def ends() -> object:
        found = client.list_partition_offsets({place: OffsetSpec.LATEST for place in places})
        return sum(offset.offset for offset in found.values())

    def delete_records() -> object:
        return client.delete_records({places[0]: 5})[places[0]]["low_watermark"]

    def delete_group() -> object:
        client.delete_groups([run.group])
        return "ok"

    def delete() -> object:
        client.delete_topics([run.topic])
        return "ok"

    steps(
        {
            "cluster": lambda: len(client.describe_cluster()["brokers"]),
            "create": create,
            "describe": lambda: soon(3, partitions),
            "config": config,
            "alter": alter,
            "grow": grow,
            "groups": lambda: run.group in {found["group_id"] for found in client.list_groups()},
            "group": lambda: client.describe_groups([run.group])[run.group]["group_state"],
            "offsets": offsets,
            "ends": ends,
            "delete-records": delete_records,
            "delete-group": delete_group,
            "delete": delete,
        }
    )
    client.close()


Program(kafka.__version__, produce, consume, admin).run()
