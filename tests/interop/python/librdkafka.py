"""confluent-kafka (librdkafka) against a cluster."""

from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from program import Admin, Consume, Produce, Program, key, number_of, soon, steps, told, value


def produce(run: Produce) -> None:
    producer = Producer(
        {
            "bootstrap.servers": run.bootstrap,
            "acks": "all",
            "compression.type": run.codec,
            "enable.idempotence": run.idempotent,
            "linger.ms": 5,
        }
    )
    failed: list[Any] = []

    def answered(number: int, error: Any, message: Any) -> None:
        if error is not None:
            failed.append(error)
        else:
            told(message.partition(), message.offset(), number)

    for numbers in run.chunks():
        for number in numbers:
            producer.produce(
                run.topic,
                key=key(number),
                value=value(number),
                on_delivery=lambda error, message, n=number: answered(n, error, message),
            )
        producer.poll(0)
    producer.flush()
    if failed:
        raise KafkaException(failed[0])


def consume(run: Consume) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": run.bootstrap,
            "group.id": run.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "check.crcs": True,
        }
    )
    consumer.subscribe([run.topic])
    seen: set[int] = set()
    while len(seen) < run.count:
        messages = [m for m in consumer.consume(500, timeout=0.1) if m.error() is None]
        for message in messages:
            number = number_of(message.value())
            seen.add(number)
            told(message.partition(), message.offset(), number)
        if messages and len(seen) < run.count:
            consumer.commit(asynchronous=True)
    consumer.commit(asynchronous=False)
    consumer.close()


def admin(run: Admin) -> None:
    client = AdminClient({"bootstrap.servers": run.bootstrap})
    retention = ConfigResource(ResourceType.TOPIC, run.topic)
    places = [TopicPartition(run.data, partition) for partition in range(3)]

    def only(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result(30)

    def config() -> object:
        return only(client.describe_configs([retention]))["retention.ms"].value

    def alter() -> object:
        entry = ConfigEntry("retention.ms", "654321", incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, run.topic, incremental_configs=[entry])
        only(client.incremental_alter_configs([changed]))
        return config()

    def partitions() -> object:
        return len(client.list_topics(run.topic, timeout=30).topics[run.topic].partitions)

    def create() -> object:
        topic = NewTopic(run.topic, 3, 3, config={"retention.ms": "123456"})
        return only(client.create_topics([topic])) or "ok"

    def grow() -> object:
        only(client.create_partitions([NewPartitions(run.topic, 5)]))
        return soon(5, partitions)

    def groups() -> object:
        listed = client.list_consumer_groups().result(30)
        return run.group in {found.group_id for found in listed.valid}

    def offsets() -> object:
        asked = [ConsumerGroupTopicPartitions(run.group, places)]
        found = only(client.list_consumer_group_offsets(asked))
        return sum(place.offset for place in found.topic_partitions)

    def ends() -> object:
        asked = client.list_offsets({place: OffsetSpec.latest() for place in places})
        return sum(future.result(30).offset for future in asked.values())

    steps(
        {
            "cluster": lambda: len(client.describe_cluster().result(30).nodes),
            "create": create,
            "describe": lambda: soon(3, partitions),
            "config": config,
            "alter": alter,
            "grow": grow,
            "groups": groups,
            "group": lambda: only(client.describe_consumer_groups([run.group])).state.name.title(),
            "offsets": offsets,
            "ends": ends,
            "delete-records": lambda: (
                only(client.delete_records([TopicPartition(run.data, 0, 5)])).low_watermark
            ),
            "delete-group": lambda: only(client.delete_consumer_groups([run.group])) or "ok",
            "delete": lambda: only(client.delete_topics([run.topic])) or "ok",
        }
    )


Program(confluent_kafka.__version__, produce, consume, admin).run()
