"""aiokafka."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tests.clients.conftest import PARTITIONS, RECORDS, check_all_in_order, partition_of, values
from tests.support.cluster import Cluster

pytestmark = pytest.mark.clients


async def create(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics(
            [NewTopic(name=topic, num_partitions=PARTITIONS, replication_factor=3)]
        )
        described = (await admin.describe_topics([topic]))[0]
        for partition in described["partitions"]:
            assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [0, 1, 2]
    finally:
        await admin.close()


async def produce(bootstrap: str, topic: str, *, idempotent: bool) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, enable_idempotence=idempotent
    )
    await producer.start()
    try:
        sent = [
            await producer.send(topic, value, partition=partition_of(number))
            for number, value in enumerate(values())
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def consume(bootstrap: str, topic: str) -> list[tuple[int, int, bytes]]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"group-{topic}",
        auto_offset_reset="earliest",
    )
    read: list[tuple[int, int, bytes]] = []
    await consumer.start()
    try:
        while len(read) < RECORDS:
            batches = await asyncio.wait_for(consumer.getmany(timeout_ms=1000), 30)
            for place, records in batches.items():
                read += [(place.partition, record.offset, record.value) for record in records]
        await consumer.commit()
        committed = [await consumer.committed(place) for place in consumer.assignment()]
        assert sum(offset or 0 for offset in committed) == RECORDS
    finally:
        await consumer.stop()
    return read


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_writes_and_reads_in_a_group(cluster: Cluster, topic: str, idempotent: bool) -> None:
    async def all_of_it() -> list[tuple[int, int, bytes]]:
        await create(cluster.bootstrap, topic)
        await produce(cluster.bootstrap, topic, idempotent=idempotent)
        return await consume(cluster.bootstrap, topic)

    check_all_in_order(asyncio.run(all_of_it()))
