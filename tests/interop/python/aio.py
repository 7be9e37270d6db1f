"""aiokafka against a cluster. Its admin can't delete groups, and knows no ends of partitions."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from program import Admin, Consume, Produce, Program, key, number_of, soon, steps, told, value


async def produce(run: Produce) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=run.bootstrap,
        acks="all",
        compression_type=None if run.codec == "none" else run.codec,
        enable_idempotence=run.idempotent,
        linger_ms=5,
    )
    await producer.start()

    async def send(number: int) -> None:
        answer = await (await producer.send(run.topic, key=key(number), value=value(number)))
        told(answer.partition, answer.offset, number)

    async with asyncio.TaskGroup() as answers:
        chunks = run.chunks()
        while (numbers := await asyncio.to_thread(next, chunks, None)) is not None:
            for number in numbers:
                answers.create_task(send(number))
    await producer.stop()


async def consume(run: Consume) -> None:
    consumer = AIOKafkaConsumer(
        run.topic,
        bootstrap_servers=run.bootstrap,
        group_id=run.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    await consumer.start()
    seen: set[int] = set()
    while len(seen) < run.count:
        for place, records in (await consumer.getmany(timeout_ms=100)).items():
            for record in records:
                number = number_of(record.value)
                seen.add(number)
                told(place.partition, record.offset, number)
        if len(seen) < run.count:
            try:
                await consumer.commit()
            except KafkaError:
                pass  # no coordinator, or a rebalance has begun: the next one tells all
    await consumer.commit()
    await consumer.stop()


def admin(run: Admin) -> None:
    with asyncio.Runner() as loop:
        _administer(run, loop)


def _administer(run: Admin, loop: asyncio.Runner) -> None:  # noqa: C901 - a list of calls
    def wait(call: Awaitable[Any]) -> Any:
        async def answered() -> Any:
            return await call

        return loop.run(answered())

    async def connect() -> AIOKafkaAdminClient:
        made = AIOKafkaAdminClient(bootstrap_servers=run.bootstrap)
        await made.start()
        return made

    client = wait(connect())

    def config() -> object:
        asked = ConfigResource(ConfigResourceType.TOPIC, run.topic)
        (answer,) = wait(client.describe_configs([asked]))
        return next(entry[1] for entry in answer.resources[0][4] if entry[0] == "retention.ms")

    def alter() -> object:
        change = ConfigResource(ConfigResourceType.TOPIC, run.topic, {"retention.ms": "654321"})
        wait(client.alter_configs([change]))
        return config()

    def partitions() -> object:
        return len(wait(client.describe_topics([run.topic]))[0]["partitions"])

    def create() -> object:
        topic = NewTopic(run.topic, 3, 3, topic_configs={"retention.ms": "123456"})
        wait(client.create_topics([topic]))
        return "ok"

    def grow() -> object:
        wait(client.create_partitions({run.topic: NewPartitions(5)}))
        return soon(5, partitions)

    def offsets() -> object:
        found = wait(client.list_consumer_group_offsets(run.group))
        return sum(offset.offset for offset in found.values())

    def delete_records() -> object:
        place = TopicPartition(run.data, 0)
        return wait(client.delete_records({place: RecordsToDelete(5)}))[place]

    def delete() -> object:
        wait(client.delete_topics([run.topic]))
        return "ok"

    def group() -> object:
        (answer,) = wait(client.describe_consumer_groups([run.group]))
        return answer.groups[0][2]

    steps(
        {
            "cluster": lambda: len(wait(client.describe_cluster())["brokers"]),
            "create": create,
            "describe": lambda: soon(3, partitions),
            "config": config,
            "alter": alter,
            "grow": grow,
            "groups": lambda: (
                run.group in {found[0] for found in wait(client.list_consumer_groups())}
            ),
            "group": group,
            "offsets": offsets,
            "delete-records": delete_records,
            "delete": delete,
        }
    )
    wait(client.close())


Program(
    aiokafka.__version__,
    lambda run: asyncio.run(produce(run)),
    lambda run: asyncio.run(consume(run)),
    admin,
).run()
