"""Simulated consumers: they read every partition from offset 0 on, following its leaders.

They check what any client could check: batches arrive whole, with a correct CRC, at the very next
offset. Whether these are the committed ones, the oracle says at the moment of delivery.
"""

from typing import Final, Protocol

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from replog.records.header import BatchHeader, crc_ok, iterate
from replog.sim.client import Ground, SimClient
from replog.sim.history import History
from replog.sim.violation import Violation

FETCHED_EPOCH_FROM: Final = 12  # first version of Fetch with the epoch of the last record read
FETCH_TIMEOUT_MS: Final = 700.0
LEADER_IS_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Witness(Protocol):
    """Told of each batch that a consumer got."""

    def consumed(self, consumer: str, topic_id: bytes, partition: int, batch: BatchHeader) -> None:
        """The batch was committed, or this raises."""
        ...


class _Position:
    """How far one partition was read."""

    __slots__ = ("epoch", "offset", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.offset = 0
        self.epoch = -1  # of the last batch read


class SimConsumer(SimClient):
    """One consumer of all partitions."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        partitions: list[TopicPartition],
        *,
        history: History,
        witness: Witness,
        max_wait_ms: int,
    ) -> None:
        super().__init__(ground, name, dict.fromkeys(tp.topic for tp in partitions))
        self._history = history
        self._witness = witness
        self._max_wait_ms = max_wait_ms
        self._positions = {tp: _Position(tp) for tp in partitions}
        self._fetching: set[int] = set()  # brokers that are being asked

    def start(self) -> None:
        """Begin to read."""
        self.refresh()

    def position(self, tp: TopicPartition) -> int:
        """The next offset to read."""
        return self._positions[tp].offset

    def refreshed(self) -> None:
        self._poll()

    def _poll(self) -> None:
        """Ask each leader that is not being asked."""
        if self.stopped:
            return
        led: dict[int, list[_Position]] = {}
        for tp, position in self._positions.items():
            leader = self.leaders.get(tp, (-1, -1))[0]
            if leader >= 0:
                led.setdefault(leader, []).append(position)
        for leader, positions in led.items():
            if leader not in self._fetching:
                self._fetch(leader, positions)

    def _fetch(self, leader: int, positions: list[_Position]) -> None:
        self._fetching.add(leader)
        asked = {position.tp: position.offset for position in positions}
        self.ask(
            leader,
            self._request(positions),
            lambda message: self._on_fetched(leader, asked, message),
            FETCH_TIMEOUT_MS,
        )

    def _request(self, positions: list[_Position]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        tells_epoch = self.versions.get(FetchRequest, FETCHED_EPOCH_FROM) >= FETCHED_EPOCH_FROM
        for position in positions:
            name = position.tp.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(topic=name, topic_id=self.topic_ids[name])
            topic.partitions.append(
                FetchPartition(
                    partition=position.tp.partition,
                    current_leader_epoch=self.leaders[position.tp][1],
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.epoch if tells_epoch else -1,
                    partition_max_bytes=4_096,
                )
            )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=16_384,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
        )

    def _on_fetched(
        self, leader: int, asked: dict[TopicPartition, int], message: Message | None
    ) -> None:
        self._fetching.discard(leader)
        if message is None:
            self.refresh()
            return
        assert isinstance(message, FetchResponse)
        moved = False
        if message.error_code:
            self._history.refused(ErrorCode(message.error_code).name)
            moved = True
        for topic in message.responses:
            name = topic.topic or self._name_of(topic.topic_id)
            for part in topic.partitions:
                tp = TopicPartition(name, part.partition_index)
                # Another leader may have been asked meanwhile, and have answered sooner.
                if asked[tp] == self._positions[tp].offset:
                    moved = self._take(tp, part) or moved
        if moved:
            self.refresh()
        else:
            self._poll()

    def _name_of(self, topic_id: bytes) -> str:
        return next(name for name, known in self.topic_ids.items() if known == topic_id)

    def _take(self, tp: TopicPartition, part: PartitionData) -> bool:
        """Look at one partition of an answer; True when its leader may be elsewhere."""
        error = ErrorCode(part.error_code)
        if error in LEADER_IS_ELSEWHERE:
            self._history.refused(error.name)
            return True
        position = self._positions[tp]
        if error or part.diverging_epoch is not None:
            raise Violation(
                "what a consumer has read stays there",
                f"{self.name} at offset {position.offset} (epoch {position.epoch}) of {tp} got "
                f"{error.name}, diverging epoch {part.diverging_epoch}",
            )
        if part.records is None:
            return False
        assert isinstance(part.records, memoryview)
        topic_id = self.topic_ids[tp.topic]
        for batch in iterate(part.records):
            self._check(tp, position, batch, part.records)
            self._witness.consumed(self.name, topic_id, tp.partition, batch)
            seen = self._history.seen_by(self.name, tp)
            seen.batches.append(
                (batch.base_offset, batch.next_offset, batch.leader_epoch, batch.crc)
            )
            self._history.consumed += batch.count
            position.offset = batch.next_offset
            position.epoch = batch.leader_epoch
        return False

    def _check(
        self, tp: TopicPartition, position: _Position, batch: BatchHeader, buffer: memoryview
    ) -> None:
        if batch.base_offset != position.offset:
            raise Violation(
                "a consumer reads every offset once, in order",
                f"{self.name} wants offset {position.offset} of {tp} and got {batch!r}",
            )
        if not crc_ok(buffer, batch):
            raise Violation("batches arrive unharmed", f"{self.name}, {tp}: CRC of {batch!r}")
