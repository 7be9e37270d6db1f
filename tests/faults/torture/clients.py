"""Clients of every kind that write and read while the cluster is tortured.

All producers use acks=all. An idempotent one promises no repeats and no other order; one that tries
only once is told what became of each single request, so its definite failures can be held to.
"""

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.faults.torture.history import DEFINITE, History, Problems, Reading

from replog.cli.traffic import QUICK, log_end
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch
from replog.runtime.client import Address, AdminClient, ClientError, error_name

DELIVERY_TIMEOUT_MS = 60_000
IN_FLIGHT_MAX = 1_000  # records of one writer that wait for an answer; then it pauses
ANSWER_TIMEOUT_S = 120.0
SINGLE_TIMEOUT_S = 6.0  # for the answer to a request that is tried once
SINGLE_VERSION = 9  # the last that names topics, not ids
Place = tuple[str, int]  # topic, partition


def quiet(error: Any) -> None:
    """Clients tell of every broken connection; here they break all the time."""


class LastWords(logging.Handler):
    """The newest that librdkafka said, for when nobody knows what a client is waiting for."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._said: deque[logging.LogRecord] = deque(maxlen=5_000)
        self.logger = logging.Logger(name, logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record)

    def lines(self) -> list[str]:
        """One for each message, with the time in seconds since 1970."""
        return [f"{record.created:.3f} {record.getMessage()}" for record in list(self._said)]


def behind(readings: Mapping[Place, Reading], ends: Mapping[Place, int]) -> list[str]:
    """What is not read yet, in words; nothing when all of it is."""
    found = ((place, readings[place].next_offset, end) for place, end in ends.items())
    return [f"{t}-{p} at {offset} of {end}" for (t, p), offset, end in found if offset < end]


class Writer(threading.Thread):
    """A client that writes what the history gives it, to its places in turn."""

    def __init__(
        self, history: History, names: Sequence[str], places: Sequence[Place], *, rate: float
    ) -> None:
        """`names` are the writers' names by topic, in the order of the topics in `places`."""
        super().__init__(name=names[0], daemon=True)
        self._history = history
        self._names = {history.writers[name].topic: name for name in names}
        self._places = list(places)
        self._pause_s = 1 / rate
        self._stopping = threading.Event()

    def _acknowledged(self, place: Place, number: int, offset: int) -> None:
        topic, partition = place
        now = time.monotonic()
        self._history.acknowledged(self._names[topic], partition, number, offset, now)

    def _refused(self, place: Place, number: int, reason: str, *, definite: bool = False) -> None:
        topic, partition = place
        self._history.refused(self._names[topic], partition, number, reason, definite=definite)

    def _invoke(self, place: Place) -> tuple[int, bytes]:
        """The number and value of the next record for a place."""
        topic, partition = place
        return self._history.invoke(self._names[topic], partition)


class ConfluentWriter(Writer):
    """librdkafka, through confluent-kafka."""

    def __init__(
        self,
        bootstrap: str,
        history: History,
        names: Sequence[str],
        places: Sequence[Place],
        *,
        rate: float,
        **settings: Any,
    ) -> None:
        super().__init__(history, names, places, rate=rate)
        self.fatal: str | None = None  # the client has given up for good
        self._waiting = 0
        self._client = Producer(
            {
                **QUICK,
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "error_cb": quiet,
                **settings,
            }
        )

    def run(self) -> None:
        due = time.monotonic()
        turn = 0
        while not self._stopping.is_set():
            if self._waiting < IN_FLIGHT_MAX:
                self._send(self._places[turn % len(self._places)])
                turn += 1
            due = max(due + self._pause_s, time.monotonic() - 0.1)
            while not self._stopping.is_set() and (left_s := due - time.monotonic()) > 0:
                self._client.poll(left_s)

    def _send(self, place: Place) -> None:
        number, value = self._invoke(place)

        def answered(error: KafkaError | None, message: Any) -> None:
            self._waiting -= 1
            if error is None:
                self._acknowledged(place, number, message.offset())
                return
            self._refused(place, number, error.name())
            if error.fatal():
                self.fatal = error.str()

        self._waiting += 1
        topic, partition = place
        self._client.produce(topic, value, partition=partition, on_delivery=answered)

    def finish(self) -> int:
        """Stop, and wait for all answers. Returns how many records have none."""
        self._stopping.set()
        self.join()
        return int(self._client.flush(ANSWER_TIMEOUT_S))


class SingleWriter(Writer):
    """A client that tries each record once and knows what it was told: its refusals are held to.

    librdkafka sends a record again after NOT_LEADER_OR_FOLLOWER whatever `retries` says, so with it
    nobody can tell which attempt a refusal was for.
    """

    def __init__(
        self,
        bootstrap: str,
        history: History,
        names: Sequence[str],
        places: Sequence[Place],
        *,
        rate: float,
    ) -> None:
        super().__init__(history, names, places, rate=rate)
        self._servers = bootstrap
        self._client: AdminClient | None = None
        self._leaders: dict[Place, Address] = {}

    def run(self) -> None:
        turn = 0
        while not self._stopping.wait(self._pause_s):
            place = self._places[turn % len(self._places)]
            turn += 1
            try:
                leader = self._leader(place)
            except ClientError:
                self._forget()
                continue
            if leader is not None:
                self._send(place, leader)
        self._forget()

    def _leader(self, place: Place) -> Address | None:
        if self._client is None:
            servers = random.sample(self._servers.split(","), len(self._servers.split(",")))
            self._client = AdminClient(",".join(servers), SINGLE_TIMEOUT_S)
        if place not in self._leaders:
            seen = self._client.metadata(sorted(self._names))
            addresses = {broker.node_id: (broker.host, broker.port) for broker in seen.brokers}
            for topic in seen.topics:
                for partition in topic.partitions:
                    if partition.leader_id in addresses:
                        found = addresses[partition.leader_id]
                        self._leaders[topic.name or "", partition.partition_index] = found
        return self._leaders.get(place)

    def _send(self, place: Place, leader: Address) -> None:
        assert self._client is not None
        topic, partition = place
        number, value = self._invoke(place)
        batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=int(SINGLE_TIMEOUT_S * 500),
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        try:
            answer = self._client.call_at(leader, request, SINGLE_VERSION)
        except ClientError as error:
            self._forget()
            reason = str(error).partition(": ")[2] or str(error)
            self._refused(place, number, reason)
            return
        assert isinstance(answer, ProduceResponse)
        told = answer.responses[0].partition_responses[0]
        if told.error_code:
            self._leaders.clear()
            definite = told.error_code in DEFINITE
            self._refused(place, number, error_name(told.error_code), definite=definite)
        else:
            self._acknowledged(place, number, told.base_offset)

    def _forget(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None
        self._leaders.clear()

    def finish(self) -> int:
        """Stop. Nothing is ever left unanswered."""
        self._stopping.set()
        self.join()
        return 0


class ConfluentReader(threading.Thread):
    """Follows all partitions from offset 0 on; as a member of a group when it has one."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        places: Sequence[Place],
        problems: Problems,
        *,
        group: str | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.readings = {place: Reading(name, *place) for place in places}
        self._problems = problems
        self._again = group is not None
        self._stopping = threading.Event()
        self.last_words = LastWords(name)
        self._client = Consumer(
            {
                **QUICK,
                "bootstrap.servers": bootstrap,
                "group.id": group or name,
                "enable.auto.commit": group is not None,
                "auto.commit.interval.ms": 500,
                "auto.offset.reset": "earliest" if group else "error",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 200,
                "error_cb": quiet,
                "log_level": 7,
                "debug": "cgrp,consumer,topic",
            },
            logger=self.last_words.logger,
        )
        if group is None:
            self._client.assign([TopicPartition(t, p, 0) for t, p in places])
        else:
            self._client.subscribe(sorted({topic for topic, _ in places}))

    def run(self) -> None:
        while not self._stopping.is_set():
            for message in self._client.consume(500, timeout=0.2):
                error = message.error()
                if error is None:
                    reading = self.readings[message.topic(), message.partition()]
                    value = message.value() or b""
                    reading.take(message.offset(), value, self._problems, again=self._again)
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._problems.add(f"{self.name} was sent out of range: {error.str()}")
        self._client.close()

    def finish(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self.join()


class AioClients(Writer):
    """aiokafka: a producer and a reader, on an event loop of their own."""

    def __init__(
        self,
        bootstrap: str,
        history: History,
        names: Sequence[str],
        places: Sequence[Place],
        problems: Problems,
        *,
        rate: float,
        idempotent: bool,
    ) -> None:
        super().__init__(history, names, places, rate=rate)
        self.readings = {place: Reading("aiokafka", *place) for place in places}
        self.unanswered = 0
        self.failure: BaseException | None = None
        self._servers = bootstrap
        self._problems = problems
        self._idempotent = idempotent
        self._reading = True
        self._written = threading.Event()

    def run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:  # noqa: BLE001  # told in the report
            self.failure = error
        finally:
            self._written.set()

    async def _main(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # as `quiet`
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
        from aiokafka import TopicPartition as Partition

        producer = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            acks="all",
            enable_idempotence=self._idempotent,
            request_timeout_ms=10_000,
            retry_backoff_ms=50,
            metadata_max_age_ms=5_000,
        )
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            auto_offset_reset="none",
            request_timeout_ms=10_000,
            retry_backoff_ms=50,
            fetch_max_wait_ms=200,
            metadata_max_age_ms=5_000,
        )
        await producer.start()
        await consumer.start()
        consumer.assign([Partition(*place) for place in self._places])
        for place in self._places:
            consumer.seek(Partition(*place), 0)
        reader = asyncio.create_task(self._read(consumer))
        try:
            await self._write(producer)
            self._written.set()
            await reader
        finally:
            await consumer.stop()
            await producer.stop()

    async def _write(self, producer: Any) -> None:
        waiting: set[asyncio.Task[None]] = set()
        turn = 0
        while not self._stopping.is_set():
            if len(waiting) < IN_FLIGHT_MAX:
                place = topic, partition = self._places[turn % len(self._places)]
                number, value = self._invoke(place)
                # One after the other: records have an order once `send` has returned.
                sent = await producer.send(topic, value, partition=partition)
                task = asyncio.create_task(self._answered(sent, place, number))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
                turn += 1
            await asyncio.sleep(self._pause_s)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=ANSWER_TIMEOUT_S)
            self.unanswered = len(late)

    async def _answered(self, sent: asyncio.Future[Any], place: Place, number: int) -> None:
        from aiokafka.errors import KafkaError as AioKafkaError

        try:
            offset = (await sent).offset
        except AioKafkaError as error:
            self._refused(place, number, type(error).__name__)
        else:
            self._acknowledged(place, number, offset)

    async def _read(self, consumer: Any) -> None:
        while self._reading:
            batches = await consumer.getmany(timeout_ms=200)
            for partition, messages in batches.items():
                reading = self.readings[partition.topic, partition.partition]
                for message in messages:
                    reading.take(message.offset, message.value, self._problems)

    def finish_writing(self) -> int:
        """Stop writing, and wait for all answers. Returns how many records have none."""
        self._stopping.set()
        self._written.wait()
        return self.unanswered

    def finish(self) -> None:
        """Stop reading, too."""
        self._reading = False
        self.join()


def read_all(
    bootstrap: str,
    ends: dict[Place, int],
    take: Callable[[Place, int, bytes], None],
    timeout_s: float,
) -> bool:
    """Read everything from offset 0 with a new consumer; False when that takes too long."""
    client = Consumer(
        {
            **QUICK,
            "bootstrap.servers": bootstrap,
            "group.id": "last-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "error_cb": quiet,
        }
    )
    left = {place: end for place, end in ends.items() if end}
    client.assign([TopicPartition(topic, partition, 0) for topic, partition in left])
    limit = time.monotonic() + timeout_s
    try:
        while left and time.monotonic() < limit:
            for message in client.consume(5_000, timeout=0.5):
                if message.error() is None:
                    place = (message.topic(), message.partition())
                    take(place, message.offset(), message.value() or b"")
                    if message.offset() + 1 >= left.get(place, 0):
                        left.pop(place, None)
    finally:
        client.close()
    return not left


def log_ends(bootstrap: str, places: Sequence[Place]) -> dict[Place, int]:
    """End of each partition's log as consumers see it."""
    client = Consumer({**QUICK, "bootstrap.servers": bootstrap, "group.id": "ends"})
    try:
        return {place: log_end(client, TopicPartition(*place), 30) for place in places}
    finally:
        client.close()
