"""Simulated producers, which retry as librdkafka and the Java client do.

An idempotent producer keeps at most five unacknowledged batches in a partition, repeats what fails
with its sequence unchanged, and takes a gap (OUT_OF_ORDER_SEQUENCE_NUMBER) for what it is when an
earlier batch of its own is still open. When none is, the broker has forgotten something: a
violation. The first batch of a partition goes alone: a leader that does not know the producer takes
any sequence, as Kafka does (KIP-360), a later one that overtook the first included.
"""

from dataclasses import dataclass
from typing import Final

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import NO_PRODUCER, Producer, Record, build_batch
from replog.sim.broker import WALL_START_MS
from replog.sim.client import Ground, SimClient
from replog.sim.consumers import Witness
from replog.sim.history import History, Sent
from replog.sim.violation import Violation

BACKOFF_MS: Final = 5.0  # doubles with each failure in a row
BACKOFF_MS_MAX: Final = 120.0
BURST: Final = 20  # batches between two rests, on average
IN_FLIGHT_MAX: Final = 5  # what an idempotent producer may have open in a partition
RETRIABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """How one producer behaves. Times in milliseconds."""

    acks: int  # -1 (all), 0 or 1
    idempotent: bool
    interval_ms: float  # mean time between two new batches
    rest_ms: float  # mean pause after a burst of batches; 0: no rest
    batches_max: int  # then it only finishes what is open
    drains_first: bool  # repeats a failed batch only when nothing later is in flight, as Java does
    timeout_ms: int = 600  # given to the broker
    value_bytes: int = 20  # mean length of values


@dataclass(slots=True)
class _Batch:
    number: int  # in its lane
    values: list[bytes]
    data: bytes
    clear_before: bool = False  # all earlier ones were acknowledged when it was last sent
    sent: int = 0


class _Lane:
    """One partition: what waits, in order, and what is in flight."""

    def __init__(self, tp: TopicPartition, record: Sent) -> None:
        self.tp = tp
        self.record = record
        self.waiting: list[_Batch] = []
        self.in_flight: dict[int, _Batch] = {}
        self.next_number = 0
        self.next_sequence = 0
        self.backing_off = False
        self.failures = 0  # in a row, for the back-off
        self.known = False  # a batch was acknowledged: every leader to come knows the producer

    def lowest_open(self) -> int:
        """Number of the first batch that is not acknowledged."""
        numbers = [*self.in_flight, *(batch.number for batch in self.waiting)]
        return min(numbers) if numbers else self.next_number


class SimProducer(SimClient):
    """One producer that writes unique values to all partitions."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        partitions: list[TopicPartition],
        *,
        plan: ProducerPlan,
        history: History,
        witness: Witness,
    ) -> None:
        super().__init__(ground, name, dict.fromkeys(tp.topic for tp in partitions))
        self.plan = plan
        self._history = history
        self._witness = witness
        self._producer_id = -1 if plan.idempotent else -2
        self._made = 0
        self._lanes = [
            _Lane(tp, history.sent_by(name, tp, idempotent=plan.idempotent)) for tp in partitions
        ]
        self._expired = 0

    @property
    def finished(self) -> bool:
        """Everything was made and nothing is open."""
        return self._made >= self.plan.batches_max and not any(
            lane.waiting or lane.in_flight for lane in self._lanes
        )

    @property
    def open_batches(self) -> int:
        return sum(len(lane.waiting) + len(lane.in_flight) for lane in self._lanes)

    def start(self) -> None:
        """Begin to work."""
        self.refresh()
        if self.plan.idempotent:
            self._ask_producer_id()
        self.later(self.plan.interval_ms, self._make)

    def stop_making(self) -> None:
        """No new batches; what is open is finished."""
        self._made = self.plan.batches_max

    # ---- new batches ------------------------------------------------------------------------

    def _make(self) -> None:
        if self._made >= self.plan.batches_max:
            return
        stream = self.ground.chance.at(f"{self.name}/make")
        resting = self.plan.rest_ms and stream.random() < 1 / BURST
        mean_ms = self.plan.rest_ms if resting else self.plan.interval_ms
        self.later(0.1 + stream.expovariate(1.0) * mean_ms, self._make)
        if self._producer_id == -1:
            return
        self._made += 1
        lane = self._lanes[stream.randrange(len(self._lanes))]
        self._add(lane, 1 + int(stream.random() * 3), stream.random())
        self._pump(lane)

    def _add(self, lane: _Lane, count: int, size: float) -> None:
        filler = b"." * int(size * 2 * self.plan.value_bytes)
        number = lane.next_number
        values = [
            f"{self.name}/{lane.tp}/{number}.{index}".encode() + filler for index in range(count)
        ]
        lane.next_number += 1
        producer = NO_PRODUCER
        if self.plan.idempotent:
            producer = Producer(self._producer_id, 0, lane.next_sequence)
            lane.next_sequence += count
        timestamp = WALL_START_MS + int(self.schedule.now_ms)
        data = build_batch(
            [Record(0, timestamp, None, value) for value in values], producer=producer
        )
        lane.record.values.extend(values)
        lane.waiting.append(_Batch(number, values, data))

    def _ask_producer_id(self) -> None:
        brokers = self.ground.brokers
        broker_id = brokers[int(self.draw("id") * len(brokers))]
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.ask(broker_id, request, self._on_producer_id, 500.0)

    def _on_producer_id(self, message: Message | None) -> None:
        if not isinstance(message, InitProducerIdResponse) or message.error_code:
            if message is not None:
                self._note(message.error_code)  # type: ignore[attr-defined]  # it is a response
            self.later(20.0, self._ask_producer_id)
            return
        known = self._history.producer_ids.setdefault(message.producer_id, self.name)
        if known != self.name or message.producer_id < 0:
            raise Violation(
                "producer ids are never used twice",
                f"id {message.producer_id} went to {known} and to {self.name}",
            )
        self._producer_id = message.producer_id

    # ---- sending ----------------------------------------------------------------------------

    def refreshed(self) -> None:
        for lane in self._lanes:
            self._pump(lane)

    def _pump(self, lane: _Lane) -> None:
        """Send what may be sent."""
        while lane.waiting and not lane.backing_off and not self.stopped:
            leader = self.leaders.get(lane.tp, (-1, -1))[0]
            if leader < 0:
                self.refresh()
                return
            batch = lane.waiting[0]
            lowest = lane.lowest_open()
            if len(lane.in_flight) >= IN_FLIGHT_MAX or batch.number >= lowest + IN_FLIGHT_MAX:
                return
            if self.plan.drains_first and batch.sent and lane.in_flight:
                return
            if self.plan.idempotent and not lane.known and lane.in_flight:
                return
            del lane.waiting[0]
            self._send(lane, batch, leader, clear_before=batch.number == lowest)

    def _send(self, lane: _Lane, batch: _Batch, leader: int, *, clear_before: bool) -> None:
        self._history.retries += batch.sent > 0
        batch.sent += 1
        batch.clear_before = clear_before
        request = ProduceRequest(
            acks=self.plan.acks,
            timeout_ms=self.plan.timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=lane.tp.topic,
                    topic_id=self.topic_ids[lane.tp.topic],
                    partition_data=[
                        PartitionProduceData(index=lane.tp.partition, records=batch.data)
                    ],
                )
            ],
        )
        if self.plan.acks == 0:
            self.tell(leader, request)
            return
        lane.in_flight[batch.number] = batch
        self.ask(
            leader,
            request,
            lambda message: self._on_produced(lane, batch, message),
            self.plan.timeout_ms * 1.5,
        )

    def _on_produced(self, lane: _Lane, batch: _Batch, message: Message | None) -> None:
        if lane.in_flight.get(batch.number) is not batch:
            return  # the producer began anew meanwhile
        del lane.in_flight[batch.number]
        if message is None:
            self._again(lane, batch)
            return
        assert isinstance(message, ProduceResponse)
        part = message.responses[0].partition_responses[0]
        error = ErrorCode(part.error_code)
        if error is ErrorCode.NONE:
            self._acknowledged(lane, batch, part.base_offset)
        elif error in RETRIABLE or self._explains_itself(batch, error):
            self._note(error)
            self._again(lane, batch)
        elif self.plan.idempotent and self._witness.may_have_lost(
            self.topic_ids[lane.tp.topic], lane.tp.partition
        ):
            self._begin_anew()
        else:
            raise Violation(
                "a producer is answered as its protocol allows",
                f"{self.name} got {error.name} ({part.error_message}) for batch {batch.number} "
                f"of {lane.tp}, sent {batch.sent} times, first value {batch.values[0]!r}",
            )
        self._pump(lane)

    def _begin_anew(self) -> None:
        """The cluster may have lost what it knew of this producer: give up what is open, and go on
        under another id, as an application does after a fatal error."""
        self._history.restarts += 1
        self._producer_id = -1
        for lane in self._lanes:
            lane.record.idempotent = False  # nobody knows what became of its batches
            lane.waiting.clear()
            lane.in_flight.clear()
            lane.next_sequence = 0
            lane.known = False
        self._ask_producer_id()

    def _explains_itself(self, batch: _Batch, error: ErrorCode) -> bool:
        """A gap, when an earlier batch was open as this one was sent."""
        gap = error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return gap and self.plan.idempotent and not batch.clear_before

    def _acknowledged(self, lane: _Lane, batch: _Batch, base_offset: int) -> None:
        lane.failures = 0
        lane.known = True
        if self.plan.acks == -1:
            self._history.acknowledged += len(batch.values)
            for index, value in enumerate(batch.values):
                lane.record.acknowledged[value] = base_offset + index
        else:
            self._history.weakly_acknowledged += len(batch.values)

    def _again(self, lane: _Lane, batch: _Batch) -> None:
        lane.waiting.append(batch)
        lane.waiting.sort(key=lambda waiting: waiting.number)
        self.refresh()
        if not lane.backing_off:
            lane.backing_off = True
            lane.failures += 1
            longest = min(BACKOFF_MS * 2**lane.failures, BACKOFF_MS_MAX)
            self.later(longest * (0.5 + self.draw("retry")), lambda: self._go_on(lane))

    def _go_on(self, lane: _Lane) -> None:
        lane.backing_off = False
        self._pump(lane)

    def _note(self, error: int) -> None:
        self._history.refused(ErrorCode(error).name)
