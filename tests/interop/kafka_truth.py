"""What a cluster serves, as clients see it: to compare Apache Kafka with a Replog with its data.

Everything is asked of the leaders, by librdkafka and by requests of our own. What a new leadership
changes (the newest leader epoch) is left out of the comparison.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from tests.support.cluster import wait_until

from replog.model.ids import TopicPartition as Partition
from replog.model.messages import Request
from replog.model.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from replog.model.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from replog.runtime.client import AdminClient

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
TIMES_MAX = 40  # that are looked up in one partition
LIST_OFFSETS_VERSION = 8
R = TypeVar("R")


class Served(NamedTuple):
    """One record."""

    offset: int
    timestamp: tuple[int, int]  # type, milliseconds
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass
class PartitionTruth:
    """All that is compared of one partition. The keys of dicts say what was asked."""

    start: int = 0
    ends: dict[str, int] = field(default_factory=dict)  # by isolation level
    records: dict[str, list[Served]] = field(default_factory=dict)
    times: dict[int, tuple[int, int]] = field(default_factory=dict)  # offset, timestamp
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)  # largest known, its end
    producers: list[tuple[int, int, int, int]] = field(default_factory=list)


class Cluster:
    """A cluster to ask."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._client = AdminClient(bootstrap, 30)
        self._leaders: dict[Partition, int] = {}

    def wait_for_leaders(self, topics: Sequence[str]) -> None:
        """Until every partition of these topics has one."""

        def done() -> bool:
            found = self._client.metadata(topics).topics
            self._leaders = {
                Partition(topic.name or "", each.partition_index): each.leader_id
                for topic in found
                for each in topic.partitions
            }
            return all(t.partitions for t in found) and min(self._leaders.values()) >= 0

        wait_until(f"leaders of {topics}", done, 60)

    @property
    def partitions(self) -> list[Partition]:
        """Of the topics that were waited for."""
        return sorted(self._leaders)

    def ask(
        self, tp: Partition, message: Request, answer: type[R], version: int | None = None
    ) -> R:
        """The answer of the leader of `tp`."""
        found = self._client.call(message, version, self._leaders[tp])
        assert isinstance(found, answer), found
        return found

    def truth(self, tp: Partition) -> PartitionTruth:
        """All that this cluster says of a partition."""
        truth = PartitionTruth(start=self.offset_at(tp, EARLIEST)[0])
        for level, isolation in enumerate(("read_uncommitted", "read_committed")):
            truth.ends[isolation] = self.offset_at(tp, LATEST, level)[0]
            truth.records[isolation] = list(
                read(self.bootstrap, tp, truth.start, truth.ends[isolation], isolation)
            )
        stamps = sorted({r.timestamp[1] for r in truth.records["read_uncommitted"]})
        chosen = stamps[:: max(1, len(stamps) // TIMES_MAX)] + stamps[-1:]
        for stamp in {each + by for each in chosen for by in (0, 1)} | {0, MAX_TIMESTAMP}:
            truth.times[stamp] = self.offset_at(tp, stamp)
        truth.producers = self.producers(tp)
        return truth

    def offset_at(self, tp: Partition, stamp: int, level: int = 0) -> tuple[int, int]:
        """(offset, timestamp) for a time, or for one of the special ones."""
        where = ListOffsetsPartition(partition_index=tp.partition, timestamp=stamp)
        topic = ListOffsetsTopic(name=tp.topic, partitions=[where])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[topic])
        answer = self.ask(tp, request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0, (tp, stamp, found.error_code)
        return found.offset, found.timestamp

    def end_of_epoch(self, tp: Partition, epoch: int) -> tuple[int, int]:
        """(largest known epoch that is not newer, where it ends)."""
        where = OffsetForLeaderPartition(partition=tp.partition, leader_epoch=epoch)
        topic = OffsetForLeaderTopic(topic=tp.topic, partitions=[where])
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        found = self.ask(tp, request, OffsetForLeaderEpochResponse).topics[0].partitions[0]
        assert found.error_code == 0, (tp, epoch, found.error_code)
        return found.leader_epoch, found.end_offset

    def newest_epoch(self, tp: Partition) -> int:
        """Of the leadership."""
        topic = self._client.metadata([tp.topic]).topics[0]
        return next(p.leader_epoch for p in topic.partitions if p.partition_index == tp.partition)

    def producers(self, tp: Partition) -> list[tuple[int, int, int, int]]:
        """(id, epoch, last sequence, where its open transaction begins) of each, by id."""
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=tp.topic, partition_indexes=[tp.partition])]
        )
        answer = self.ask(tp, request, DescribeProducersResponse)
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0, (tp, found.error_code)
        return sorted(
            (p.producer_id, p.producer_epoch, p.last_sequence, p.current_txn_start_offset)
            for p in found.active_producers
        )

    def committed(self, groups: Sequence[str]) -> dict[str, tuple[int, str | None]]:
        """Offset and metadata by `group topic-partition`."""
        found = {}
        for group in groups:
            offsets = self._committed_of(group)
            for topic in offsets.groups[0].topics:
                for each in topic.partitions:
                    tp = Partition(topic.name, each.partition_index)
                    found[f"{group} {tp}"] = each.committed_offset, each.metadata
        return found

    def _committed_of(self, group: str) -> OffsetFetchResponse:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        answers: list[OffsetFetchResponse] = []

        def asked() -> bool:
            for broker in self._client.brokers():
                answer = self._client.call(request, 9, broker)
                assert isinstance(answer, OffsetFetchResponse)
                if answer.groups[0].error_code == 0:
                    answers.append(answer)
            return bool(answers)

        wait_until(f"the coordinator of {group}", asked)
        return answers[0]

    def close(self) -> None:
        self._client.close()


def read(bootstrap: str, tp: Partition, start: int, end: int, isolation: str) -> Iterator[Served]:
    """What a consumer gets of one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(tp.topic, tp.partition, start)])
        while True:
            message = consumer.poll(30)
            assert message is not None, f"{tp}: no record and no end within half a minute"
            error = message.error()
            if error is None:
                yield _served(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                assert message.offset() <= end
                return
            else:
                raise AssertionError(error)
    finally:
        consumer.close()


def _served(message: Message) -> Served:
    return Served(
        message.offset(),
        message.timestamp(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
