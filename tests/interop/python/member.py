"""One member of a group, on librdkafka: MEMBER BOOTSTRAP TOPIC GROUP STRATEGY.

Prints what happens to it, as `tests/interop/rebalance_events.py` reads it. Leaves when stdin ends.
"""

import select
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

COMMIT_EVERY_S = 0.5


class Member:
    """Reads, and commits what it has read."""

    def __init__(self, name: str, bootstrap: str, topic: str, group: str, strategy: str) -> None:
        self._name = name
        self._topic = topic
        self._next: dict[int, int] = {}  # read, and not yet committed
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "partition.assignment.strategy": strategy,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
                "max.poll.interval.ms": 60_000,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )

    def tell(self, event: str, details: object = "-") -> None:
        sys.stdout.write(f"{time.monotonic_ns()} {self._name} {event} {details or '-'}\n")
        sys.stdout.flush()

    def run(self) -> None:
        self._consumer.subscribe(
            [self._topic],
            on_assign=lambda _, places: self.tell("assigned", self._listed(places)),
            on_revoke=lambda _, places: self._revoked(places),
            on_lost=lambda _, places: self._lost(places),
        )
        due = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.tell("read", f"{message.partition()}:{message.offset()}")
                self._next[message.partition()] = message.offset() + 1
            if time.monotonic() >= due:
                self._commit()
                due = time.monotonic() + COMMIT_EVERY_S
        self._consumer.close()
        self.tell("left")

    def _commit(self) -> None:
        """A refusal costs nothing: whoever has the partitions next reads those records again."""
        if not self._next:
            return
        places = [TopicPartition(self._topic, p, offset) for p, offset in self._next.items()]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return
        taken = [place for place in done if place.error is None]
        self.tell("committed", ",".join(f"{place.partition}:{place.offset}" for place in taken))
        for place in taken:
            del self._next[place.partition]

    def _revoked(self, places: list[TopicPartition]) -> None:
        self._commit()
        for place in places:
            self._next.pop(place.partition, None)
        self.tell("revoked", self._listed(places))

    def _lost(self, places: list[TopicPartition]) -> None:
        self._next.clear()
        self.tell("lost", self._listed(places))

    @staticmethod
    def _listed(places: list[TopicPartition]) -> str:
        return ",".join(str(place.partition) for place in places)


if __name__ == "__main__":
    Member(*sys.argv[1:]).run()
