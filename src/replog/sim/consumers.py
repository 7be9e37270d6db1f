"""Simulated consumers: they read every partition from offset 0 on, following its leaders, or from
a follower where they were sent or went by themselves.

They check what any client could check: batches arrive whole, with a correct CRC, at the very next
offset. Whether these are the committed ones, the oracle says at the moment of delivery.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.fetch import FetchRequest, FetchResponse, PartitionData
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from replog.records.header import BatchHeader, crc_ok, iterate
from replog.sim.client import Ground, SimClient
from replog.sim.fetching import FetchConversation, Wanted
from replog.sim.history import History
from replog.sim.violation import Violation

FETCHED_EPOCH_FROM: Final = 12  # first version of Fetch with the epoch of the last record read
FETCH_TIMEOUT_MS: Final = 700.0
EARLIEST: Final = -2  # a timestamp that asks for the start of the log
ASK_LEADER_AGAIN: Final = 0.05  # probability, per answer, that a follower is left for the leader
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

    def may_have_lost(self, topic_id: bytes, partition: int) -> bool:
        """The cluster has said that committed records of the partition may be lost."""
        ...


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """How one consumer behaves."""

    max_wait_ms: int
    session: bool  # asks in fetch sessions
    rack: str = ""  # lets leaders send it to a follower there
    roams: bool = False  # asks any replica, as a client may


class _Position:
    """How far one partition was read, and from whom if not from the leader."""

    __slots__ = ("epoch", "offset", "reader", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.offset = 0
        self.epoch = -1  # of the last batch read
        self.reader = -1  # broker that is asked instead of the leader


class SimConsumer(SimClient):
    """One consumer of all partitions."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        partitions: list[TopicPartition],
        *,
        plan: ConsumerPlan,
        history: History,
        witness: Witness,
    ) -> None:
        super().__init__(ground, name, dict.fromkeys(tp.topic for tp in partitions))
        self._plan = plan
        self._history = history
        self._witness = witness
        self._positions = {tp: _Position(tp) for tp in partitions}
        self._fetching: set[int] = set()  # brokers that are being asked
        self._conversations: dict[int, FetchConversation] = {}

    def start(self) -> None:
        """Begin to read."""
        self.refresh()

    def position(self, tp: TopicPartition) -> int:
        """The next offset to read."""
        return self._positions[tp].offset

    def refreshed(self) -> None:
        self._poll()

    # ---- asking -----------------------------------------------------------------------------

    def _poll(self) -> None:
        """Ask each broker that has something for us and is not being asked."""
        tells_epoch = self.versions.get(FetchRequest, FETCHED_EPOCH_FROM) >= FETCHED_EPOCH_FROM
        by_broker: dict[int, dict[TopicPartition, Wanted]] = {}
        for tp, position in self._positions.items():
            leader, epoch = self.leaders.get(tp, (-1, -1))
            broker = leader if position.reader < 0 else position.reader
            if broker >= 0:
                by_broker.setdefault(broker, {})[tp] = Wanted(
                    position.offset, epoch, position.epoch if tells_epoch else -1
                )
        for broker, wanted in by_broker.items():
            if broker not in self._fetching:
                self._fetch(broker, wanted)

    def _fetch(self, broker: int, wanted: dict[TopicPartition, Wanted]) -> None:
        self._fetching.add(broker)
        conversation = self._conversations.get(broker)
        if conversation is None:
            plan = self._plan
            conversation = self._conversations[broker] = FetchConversation(
                session=plan.session, rack=plan.rack, max_wait_ms=plan.max_wait_ms
            )
        self.ask(
            broker,
            conversation.request(wanted, self.topic_ids),
            lambda message: self._on_fetched(broker, message),
            FETCH_TIMEOUT_MS,
        )

    # ---- answers ----------------------------------------------------------------------------

    def _on_fetched(self, broker: int, message: Message | None) -> None:
        self._fetching.discard(broker)
        conversation = self._conversations[broker]
        assert message is None or isinstance(message, FetchResponse)
        conversation.answered(message)
        moved = message is None
        if message is None:
            for position in self._positions.values():
                if position.reader == broker:
                    position.reader = -1
        elif message.error_code:
            self._history.refused(ErrorCode(message.error_code).name)
        for topic in () if message is None else message.responses:
            name = topic.topic or self._name_of(topic.topic_id)
            for part in topic.partitions:
                tp = TopicPartition(name, part.partition_index)
                # Another broker may have been asked meanwhile, and have answered sooner.
                if conversation.told[tp].offset == self._positions[tp].offset:
                    moved = self._take(self._positions[tp], broker, part) or moved
        if moved:
            self.refresh()
        else:
            self._poll()

    def _name_of(self, topic_id: bytes) -> str:
        return next(name for name, known in self.topic_ids.items() if known == topic_id)

    def _take(self, position: _Position, broker: int, part: PartitionData) -> bool:
        """Look at one partition of an answer; True when its leader may be elsewhere."""
        error = ErrorCode(part.error_code)
        from_follower = position.reader == broker
        lost = error not in LEADER_IS_ELSEWHERE and (error or part.diverging_epoch is not None)
        if error or part.diverging_epoch is not None:
            self._history.refused(error.name)
            position.reader = -1
            if lost and not from_follower:
                self._reset(position, broker, f"{error.name} {part.diverging_epoch}")
            return True
        if part.preferred_read_replica >= 0:
            self._history.sent_elsewhere += 1
            position.reader = part.preferred_read_replica
        elif self._plan.roams or from_follower:
            self._roam(position)
        if part.records is not None:
            assert isinstance(part.records, memoryview)
            self._history.read_from_followers += from_follower
            self._read(position, part.records)
        return False

    def _reset(self, position: _Position, broker: int, told: str) -> None:
        """What was read last is not there, or what is wanted is not: begin where the log does."""
        tp, offset = position.tp, position.offset
        where = f"{self.name} at offset {offset} (epoch {position.epoch}) of {tp}: {told}"
        wanted = ListOffsetsPartition(partition_index=tp.partition, timestamp=EARLIEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=tp.topic, partitions=[wanted])]
        )

        def answered(message: Message | None) -> None:
            if not isinstance(message, ListOffsetsResponse) or position.offset != offset:
                return
            found = message.topics[0].partitions[0]
            if found.error_code:
                return
            trimmed = found.offset > offset
            if not trimmed and not self._witness.may_have_lost(
                self.topic_ids[tp.topic], tp.partition
            ):
                raise Violation("what a consumer has read stays there", where)
            self._history.resets += 1
            position.offset = found.offset
            position.epoch = -1

        self.ask(broker, request, answered, FETCH_TIMEOUT_MS)

    def _roam(self, position: _Position) -> None:
        draw = self.draw("roam")
        if draw < ASK_LEADER_AGAIN:
            position.reader = -1
        elif self._plan.roams and draw < 2 * ASK_LEADER_AGAIN:
            brokers = self.ground.brokers
            position.reader = brokers[int(self.draw("reader") * len(brokers))]

    def _read(self, position: _Position, records: memoryview) -> None:
        tp = position.tp
        topic_id = self.topic_ids[tp.topic]
        seen = self._history.seen_by(self.name, tp)
        for batch in iterate(records):
            fits = batch.base_offset == position.offset
            if not fits and self._witness.may_have_lost(topic_id, tp.partition):
                fits = batch.base_offset < position.offset < batch.next_offset
            if not fits:
                raise Violation(
                    "a consumer reads every offset once, in order",
                    f"{self.name} wants offset {position.offset} of {tp} and got {batch!r}",
                )
            if not crc_ok(records, batch):
                if not self.ground.network.flips:
                    raise Violation("batches arrive unharmed", f"{self.name}, {tp}: {batch!r}")
                self._history.unreadable += 1
                return
            self._witness.consumed(self.name, topic_id, tp.partition, batch)
            seen.batches.append(
                (batch.base_offset, batch.next_offset, batch.leader_epoch, batch.crc)
            )
            self._history.consumed += batch.count
            position.offset = batch.next_offset
            position.epoch = batch.leader_epoch
