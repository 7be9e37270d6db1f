"""Producers and consumers that run while brokers come and go, through librdkafka.

They belong to `replog demo failover` and to the fault tests. Each keeps what it was told, for the
ledger to judge.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

from replog.cli.errors import Failure
from replog.cli.ledger import Acknowledged, Writer, value_of

# A client that is quick to notice: a failover takes a fraction of a second, and librdkafka's own
# pauses (100 ms to 10 s) would hide how long it took.
QUICK: dict[str, Any] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 250,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 250,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.timeout.ms": 10_000,
    "log_level": 0,
}
BURST_S = 0.02  # records of so long are sent at once: one at a time would cost a core
IN_FLIGHT_MAX = 2_000  # records that wait for their acknowledgement; then the producer pauses


def client_library() -> Any:
    """The module `confluent_kafka`. Raises Failure, saying how to get it, when it is missing."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise Failure(
            "this needs the package confluent-kafka: pip install confluent-kafka"
        ) from error
    return confluent_kafka


class Producer(threading.Thread):
    """Writes numbered records round the partitions with acks=all, until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        writer: Writer,
        *,
        partitions: Sequence[int],
        records_per_second: int = 1_000,
    ) -> None:
        super().__init__(name=f"producer-{writer.name}", daemon=True)
        self.writer = writer
        self.acknowledged: list[Acknowledged] = []  # only grows; the client's thread appends
        self.refused: list[str] = []
        self.sent = 0
        self.longest_silence_s = 0.0  # between two acknowledgements
        self._topic = topic
        self._partitions = list(partitions)
        self._burst = max(1, round(records_per_second * BURST_S))
        self._pause_s = self._burst / records_per_second
        self._stopping = threading.Event()
        self._answered_at = time.monotonic()
        self._client = client_library().Producer(
            {
                **QUICK,
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": writer.idempotent,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "error_cb": lambda error: None,
            }
        )

    def run(self) -> None:
        numbers = dict.fromkeys(self._partitions, 0)
        due = time.monotonic()
        while not self._stopping.is_set():
            for _ in range(self._burst):
                if self.sent - len(self.acknowledged) - len(self.refused) >= IN_FLIGHT_MAX:
                    break
                partition = self._partitions[self.sent % len(self._partitions)]
                self._send(partition, numbers[partition])
                numbers[partition] += 1
            due = max(due + self._pause_s, time.monotonic() - self._pause_s)
            while not self._stopping.is_set() and (left_s := due - time.monotonic()) > 0:
                self._client.poll(left_s)

    def _send(self, partition: int, number: int) -> None:
        def answered(error: Any, message: Any) -> None:
            if error is not None:
                self.refused.append(f"{self.writer.name} {partition}/{number}: {error.str()}")
                return
            now = time.monotonic()
            self.longest_silence_s = max(self.longest_silence_s, now - self._answered_at)
            self._answered_at = now
            self.acknowledged.append(
                Acknowledged(self.writer.name, partition, number, message.offset())
            )

        value = value_of(self.writer.name, partition, number)
        try:
            self._client.produce(self._topic, value, partition=partition, on_delivery=answered)
            self.sent += 1
        except BufferError:
            self._client.poll(0.01)
            self._client.produce(self._topic, value, partition=partition, on_delivery=answered)
            self.sent += 1

    def wait_for_more(self, records: int, timeout_s: float) -> bool:
        """Whether `records` further ones are acknowledged in time."""
        return _grows(lambda: len(self.acknowledged), records, timeout_s)

    def finish(self, timeout_s: float = 60.0) -> int:
        """Stop, and wait for the last answers. Returns how many records have none."""
        self._stopping.set()
        self.join(timeout_s)
        return int(self._client.flush(timeout_s))


class Consumer(threading.Thread):
    """Reads a topic in a group of its own from the beginning on, until it is told to stop.

    A group member that moves to another coordinator may be handed records again that it had, so
    what it must show is: no offset is skipped, and an offset always has the same value.
    """

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(name=f"consumer-{group}", daemon=True)
        self.values: dict[tuple[int, int], bytes] = {}  # (partition, offset) -> value
        self.problems: list[str] = []
        self.read_again = 0
        self._next: dict[int, int] = {}
        self._stopping = threading.Event()
        self._topic = topic
        self._client = client_library().Consumer(
            {
                **QUICK,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 100,
                "error_cb": lambda error: None,
            }
        )

    def run(self) -> None:
        self._client.subscribe([self._topic])
        while not self._stopping.is_set():
            for message in self._client.consume(500, timeout=0.1):
                if message.error() is None:
                    self._take(message.partition(), message.offset(), message.value())
        self._client.close()

    def _take(self, partition: int, offset: int, value: bytes) -> None:
        expected = self._next.get(partition, 0)
        if offset > expected:
            self.problems.append(f"skipped: partition {partition} went from {expected} to {offset}")
        before = self.values.setdefault((partition, offset), value)
        if before != value:
            self.problems.append(f"changed: partition {partition} offset {offset} read differently")
        if offset < expected:
            self.read_again += 1
        self._next[partition] = max(expected, offset + 1)

    def wait_for_more(self, records: int, timeout_s: float) -> bool:
        """Whether `records` further ones are read in time."""
        return _grows(lambda: len(self.values), records, timeout_s)

    def finish(self, timeout_s: float = 30.0) -> None:
        """Stop and leave the group."""
        self._stopping.set()
        self.join(timeout_s)


def log_end(client: Any, place: Any, timeout_s: float) -> int:
    """End of the log at `place` (a TopicPartition) as consumers see it.

    librdkafka asks again whom it asked before; while leadership moves, that may be the wrong one,
    and a broker may hear a moment later than others of a topic that was just made. Raises
    KafkaException for what does not pass by itself, and after `timeout_s`.
    """
    library = client_library()
    codes = library.KafkaError
    passing = (
        codes.NOT_LEADER_FOR_PARTITION,
        codes.LEADER_NOT_AVAILABLE,
        codes.OFFSET_NOT_AVAILABLE,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.UNKNOWN_TOPIC_OR_PART,
        codes._UNKNOWN_TOPIC,
        codes._UNKNOWN_PARTITION,
    )
    limit = time.monotonic() + timeout_s
    while True:
        left_s = max(0.1, limit - time.monotonic())
        try:
            return int(client.get_watermark_offsets(place, timeout=left_s)[1])
        except library.KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > limit:
                raise
        time.sleep(0.05)


def read_everything(
    bootstrap: str, topic: str, partitions: Sequence[int], timeout_s: float = 60.0
) -> dict[int, list[tuple[int, bytes]]]:
    """All (offset, value) pairs of `partitions`, from offset 0 to the end as it is now.

    Raises Failure when that takes more than `timeout_s`.
    """
    library = client_library()
    client = library.Consumer(
        {
            **QUICK,
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "error_cb": lambda error: None,
        }
    )
    logs: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
    limit = time.monotonic() + timeout_s
    try:
        places = [library.TopicPartition(topic, partition, 0) for partition in partitions]
        ends = {place.partition: log_end(client, place, timeout_s) for place in places}
        client.assign(places)
        while any(len(logs[partition]) < end for partition, end in ends.items()):
            if time.monotonic() > limit:
                raise Failure(f"reading {topic} to its end took more than {timeout_s:g} s")
            for message in client.consume(5_000, timeout=0.2):
                if message.error() is None:
                    logs[message.partition()].append((message.offset(), message.value()))
    finally:
        client.close()
    return logs


def _grows(count: Any, by: int, timeout_s: float) -> bool:
    wanted = count() + by
    limit = time.monotonic() + timeout_s
    while count() < wanted:
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True
