"""Topics under torture: made, moved to other brokers, deleted and made again under their names."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.torture.brokers import Brokers
from tests.faults.torture.clients import Place, log_ends, quiet, read_all
from tests.faults.torture.history import Problems

from replog.cli.traffic import QUICK
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.runtime.client import error_name

REPLICAS = 3
RECREATED = "recreated"
RECORDS = 60  # of each life of that topic
PATIENCE_S = 120.0


class Topics:
    """What is done to topics, and checked at once where it can be."""

    def __init__(self, brokers: Brokers, places: Sequence[Place], problems: Problems) -> None:
        self._brokers = brokers
        self._places = list(places)
        self._problems = problems
        self._life = 0  # of RECREATED
        self._recreating = threading.Lock()

    def create_all(self) -> None:
        """Make the topics that are written to all the time."""
        partitions: dict[str, int] = {}
        for topic, partition in self._places:
            partitions[topic] = max(partitions.get(topic, 0), partition + 1)
        for topic, count in partitions.items():
            self._create(topic, count)

    def reassign(self, chance: random.Random) -> str:
        """Move one or two partitions to brokers drawn by chance."""
        by_topic: dict[str, ReassignableTopic] = {}
        moves = []
        for topic, partition in chance.sample(self._places, chance.choice((1, 2))):
            replicas = chance.sample(self._brokers.ids, REPLICAS)
            moves.append(f"{topic}-{partition} to {','.join(map(str, replicas))}")
            wanted = by_topic.setdefault(topic, ReassignableTopic(name=topic, partitions=[]))
            wanted.partitions.append(
                ReassignablePartition(partition_index=partition, replicas=replicas)
            )
        with self._brokers.admin() as client:
            answer = client.call(
                AlterPartitionReassignmentsRequest(
                    topics=list(by_topic.values()), timeout_ms=10_000
                )
            )
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        codes = {answer.error_code}
        codes |= {p.error_code for topic in answer.responses for p in topic.partitions}
        refused = [error_name(code) for code in sorted(codes) if code]
        return f"move {', '.join(moves)}" + (f" (refused: {' '.join(refused)})" if refused else "")

    def recreate(self, chance: random.Random) -> str:
        """Delete a topic and make it again under its name; write to the new one, and read it."""
        with self._recreating:
            self._delete(RECREATED)
            self._create(RECREATED, chance.choice((1, 2)))
            self._life += 1
            return self._use(RECREATED, self._life, chance)

    # ---- admin requests that survive the loss of their answers ----------------------------------

    def _client(self) -> AdminClient:
        return AdminClient(
            {**QUICK, "bootstrap.servers": self._brokers.bootstrap, "error_cb": quiet}
        )

    def _create(self, topic: str, partitions: int) -> None:
        def create() -> None:
            client = self._client()  # its futures live no longer than itself
            client.create_topics([NewTopic(topic, partitions, REPLICAS)])[topic].result(15)

        self._insist(create, KafkaError.TOPIC_ALREADY_EXISTS)

    def _delete(self, topic: str) -> None:
        def delete() -> None:
            client = self._client()
            client.delete_topics([topic])[topic].result(15)

        self._insist(delete, KafkaError.UNKNOWN_TOPIC_OR_PART)

    @staticmethod
    def _insist(action: Callable[[], None], done_already: int) -> None:
        """Ask until it is carried out. Raises the last refusal."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            try:
                action()
            except (KafkaException, FutureTimeout) as error:
                known = isinstance(error, KafkaException)
                if known and error.args[0].code() == done_already:
                    return
                if time.monotonic() > limit:
                    raise
            else:
                return
            time.sleep(0.2)

    def _use(self, topic: str, life: int, chance: random.Random) -> str:
        client = Producer(
            {
                **QUICK,
                "bootstrap.servers": self._brokers.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(PATIENCE_S * 1000),
                "error_cb": quiet,
            }
        )
        refused: list[str] = []
        for number in range(RECORDS):
            client.produce(
                topic,
                b"%d/%d" % (life, number),
                partition=0,
                on_delivery=lambda error, _: refused.append(error.name()) if error else None,
            )
        unanswered = client.flush(PATIENCE_S)
        if unanswered or refused:
            self._problems.add(
                f"{topic} in its life {life}: {unanswered} unanswered, refused: {refused[:3]}"
            )
        ends = log_ends(self._brokers.bootstrap, [(topic, 0)])
        found: list[bytes] = []
        read_all(
            self._brokers.bootstrap,
            ends,
            lambda place, offset, value: found.append(value),
            PATIENCE_S,
        )
        wanted = [b"%d/%d" % (life, number) for number in range(RECORDS)]
        if found != wanted and not refused:
            self._problems.add(
                f"{topic} in its life {life} holds {found[:3]}..., {len(found)} records"
            )
        return f"delete {topic} and make it again (life {life})"
