"""Produce, API key 0, versions 3-13 (0-2 are advertised and refused, see `wire.versions`).

Versions: 5 log start offset, 8 record errors (KIP-467), 9 flexible, 10 the current leader in
refusals (KIP-951), 13 topic ids (KIP-516).

One batch a partition is checked by its header and CRC, stamped where it lies in the receive buffer
and written from there. acks=1 is answered at once, acks=all when the high watermark has passed,
acks=0 never; an error with acks=0 closes the connection, as there is no other way to tell. A
timeout or a lost leadership after the append leaves the outcome open: the record may still be
committed. The client's time counts from there.

A batch that is not in the topic's `compression.type`, or whose records must be looked at, is worked
on outside the step first; later ones for the partition wait behind it (`node.recompression`).

Not done yet: transactions (a transactional batch is refused).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replog.core.producer.state import Duplicate
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import INTERNAL_TOPICS, ZERO_TOPIC_ID, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.base import blank
from replog.model.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from replog.node.cluster_view import endpoints
from replog.node.partition import HeldBack, Partition
from replog.records.header import begins_transactional, read_producer
from replog.records.validate import LookInside, RefusedBatch, validate_produce

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.recompression import Preparation
    from replog.node.timers import Timer
    from replog.node.waits import CommitWait
    from replog.records.header import BatchHeader

ALL = -1
FIRST_VERSION_WITH_ZSTD = 7  # KIP-110
FIRST_VERSION_WITH_ABORTABLE = 11  # KIP-890
FIRST_VERSION_WITH_IDS = 13
# How long a refusal for want of replicas speaks for what follows it: clients send again within a
# second. After that a gap is a gap.
HELD_BACK_MS = 5_000
HELD_BACK_MAX = 1_000  # producers of one partition
ADMIN_CLIENT = "__admin_client"  # Kafka's tools may write internal topics under this client id


def handle(node: Node, request: Received, message: ProduceRequest) -> ProduceResponse | None:
    """Append what is good, refuse the rest, answer as `acks` wants."""
    produce = _Produce(node, request, message)
    if message.transactional_id is None and _has_transactional(message):
        produce.refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for topic in message.topic_data:
        produce.append_topic(topic)
    return produce.finish()


def _has_transactional(message: ProduceRequest) -> bool:
    return any(
        isinstance(data.records, memoryview) and begins_transactional(data.records)
        for topic in message.topic_data
        for data in topic.partition_data
    )


_new_response = blank(ProduceResponse)
_new_topic = blank(TopicProduceResponse)
_new_answer = blank(PartitionProduceResponse)


class _Waiting(NamedTuple):
    """A write that is not committed yet, and the answer that it will have."""

    tp: TopicPartition
    wait: CommitWait
    answer: PartitionProduceResponse


class _Produce:
    """One request on its way: its answer, and the writes that it still waits for."""

    __slots__ = (
        "_deadline",
        "_preparing",
        "_waiting",
        "failed",
        "message",
        "node",
        "refusal",
        "request",
        "response",
    )

    def __init__(self, node: Node, request: Received, message: ProduceRequest) -> None:
        self.node = node
        self.request = request
        self.message = message
        self.response = _new_response()
        self.failed = False
        self.refusal: ErrorCode | None = None  # of everything in it
        # By identity of the answer: answers may be equal, and a partition may come more than once.
        self._waiting: dict[int, _Waiting] = {}
        self._preparing = 0  # batches that are neither appended nor refused yet
        self._deadline: Timer | None = None

    # ---- appending ---------------------------------------------------------------------

    def append_topic(self, topic: TopicProduceData) -> None:
        if not topic.partition_data:
            return  # Kafka answers by partition, and so says nothing of such a topic
        node = self.node
        name: str | None = topic.name
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.request.version >= FIRST_VERSION_WITH_IDS:
            name = node.cluster.topic_names.get(topic.topic_id)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        answers = [self._append(name, data, unknown) for data in topic.partition_data]
        for known in self.response.responses:
            if known.topic_id == topic.topic_id and known.name == topic.name:
                known.partition_responses.extend(answers)
                return
        answered = _new_topic()
        answered.name = topic.name
        answered.topic_id = topic.topic_id if topic.topic_id else ZERO_TOPIC_ID
        answered.partition_responses = answers
        self.response.responses.append(answered)

    def _append(
        self, name: str | None, data: PartitionProduceData, unknown: ErrorCode
    ) -> PartitionProduceResponse:
        if self.refusal is not None:
            text = "there are transactions in it, and no transactional id"
            return self._refuse(data.index, self.refusal, text=text)
        if name is None:
            return self._refuse(data.index, unknown)
        tp = TopicPartition(name, data.index)
        partition = self.node.partitions.find(tp)
        if partition is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._refuse(data.index, partition, tp)
        if self.message.acks not in (ALL, 0, 1):
            return self._refuse(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
        if name in INTERNAL_TOPICS and self.request.client_id != ADMIN_CLIENT:
            return self._refuse(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not isinstance(partition, Partition):
            return self._refuse(data.index, partition, tp)
        error = self._admission(partition)
        if error:
            if error is ErrorCode.NOT_ENOUGH_REPLICAS and isinstance(data.records, memoryview):
                self._hold_back(partition, data.records)
            return self._refuse(data.index, error, tp)
        return self._check(partition, data)

    def _hold_back(self, partition: Partition, buffer: memoryview) -> None:
        """Remember whose batch is refused: those that follow it must not seem out of order.

        They may be under way already, and enough replicas in sync when they come. librdkafka takes
        a gap for the end of its sequence numbers, and begins new ones on all its partitions: what
        it does not know to be written there, it writes once more. Nor may they pass it where the
        producer is not known yet, and any sequence would do: clients take it for written then.
        """
        if len(partition.held_back) >= HELD_BACK_MAX:
            partition.held_back.clear()
        producer_id, sequence = read_producer(buffer)
        if producer_id >= 0:
            before = self._held_back(partition, producer_id)
            if before is not None:
                sequence = min(sequence, before.sequence)
            partition.held_back[producer_id] = HeldBack(self.node.now_ms, sequence)

    def _held_back(self, partition: Partition, producer_id: int) -> HeldBack | None:
        held = partition.held_back.get(producer_id)
        return None if held is None or self.node.now_ms - held.since_ms >= HELD_BACK_MS else held

    def _admission(self, partition: Partition) -> ErrorCode:
        """Whether this replica takes a write now."""
        leader = partition.leader
        if leader is None or not self.node.lease.valid:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.message.acks == ALL and not leader.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return ErrorCode.NONE

    def _check(self, partition: Partition, data: PartitionProduceData) -> PartitionProduceResponse:
        buffer = data.records
        if not isinstance(buffer, memoryview):
            return self._refuse(data.index, ErrorCode.INVALID_RECORD, text="no records are given")
        checked = validate_produce(
            buffer,
            rules=partition.produce_rules,
            now_ms=self.node.wall_ms,
            zstd_allowed=self.request.version >= FIRST_VERSION_WITH_ZSTD,
        )
        if isinstance(checked, RefusedBatch):
            return self._refuse_batch(partition, data.index, checked)
        preparation = self.node.recompression.needed(partition, buffer, checked)
        if preparation is not None:
            return self._prepare(partition, data.index, preparation)
        headers = checked.headers if isinstance(checked, LookInside) else checked
        return self._write(partition, data.index, buffer, headers)

    def _prepare(
        self, partition: Partition, index: int, preparation: Preparation
    ) -> PartitionProduceResponse:
        """The answer is filled in when the batch has been worked on."""
        answer = PartitionProduceResponse(index=index)

        def ready(failure: str | None) -> None:
            self._preparing -= 1
            settled = self._write_prepared(partition, answer, preparation, failure)
            if settled is not answer:
                for name in PartitionProduceResponse.__slots__:
                    setattr(answer, name, getattr(settled, name))
            self._reply_when_settled()

        if not self.node.recompression.submit(partition, preparation, ready):
            text = "too many batches wait to be compressed"
            return self._refuse(index, ErrorCode.REQUEST_TIMED_OUT, text=text)
        self._preparing += 1
        return answer

    def _write_prepared(
        self,
        partition: Partition,
        answer: PartitionProduceResponse,
        preparation: Preparation,
        failure: str | None,
    ) -> PartitionProduceResponse:
        index = answer.index
        if failure is not None:
            return self._refuse(index, ErrorCode.UNKNOWN_SERVER_ERROR, text=failure)
        if preparation.refused is not None:
            return self._refuse_batch(partition, index, preparation.refused)
        found = self.node.partitions.find(partition.tp)  # much may have happened meanwhile
        if found is not partition:
            error = found if isinstance(found, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            error = self._admission(partition)
        if error:
            return self._refuse(index, error, partition.tp)
        return self._write(partition, index, preparation.buffer, preparation.headers, answer)

    def _refuse_batch(
        self, partition: Partition, index: int, refused: RefusedBatch
    ) -> PartitionProduceResponse:
        answer = self._refuse(index, refused.error, text=refused.message)
        if refused.knows_log_start:
            answer.log_start_offset = partition.log_start_offset
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in refused.record_errors
        ]
        return answer

    def _write(
        self,
        partition: Partition,
        index: int,
        buffer: memoryview,
        headers: list[BatchHeader],
        answer: PartitionProduceResponse | None = None,
    ) -> PartitionProduceResponse:
        """Append, unless the producer's sequence forbids it or says that it was done before."""
        if answer is None:
            answer = _new_answer()
            answer.index = index
        answer.log_start_offset = partition.log_start_offset
        header = headers[0]
        if header.transactional and header.producer_id >= 0:
            # The bit alone means nothing: without a producer there is no transaction.
            return self._refuse_transaction(index)
        if header.producer_id >= 0:
            verdict = partition.producers.check(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.last_sequence,
            )
            if isinstance(verdict, Refused):
                gap = verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                if gap and self._held_back(partition, header.producer_id) is None:
                    return self._refuse_gap(partition, verdict, answer)
                error = ErrorCode.NOT_ENOUGH_REPLICAS if gap else verdict.error
                answer = self._refuse(index, error, text=verdict.message)
                answer.log_start_offset = partition.log_start_offset
                return answer
            if isinstance(verdict, Duplicate):
                answer.base_offset = verdict.batch.base_offset
                answer.log_append_time_ms = verdict.batch.max_timestamp
                self._await(partition, verdict.batch.last_offset + 1, answer)
                return answer
            if partition.held_back:
                held = self._held_back(partition, header.producer_id)
                if held is not None and header.base_sequence > held.sequence:
                    return self._refuse(index, ErrorCode.NOT_ENOUGH_REPLICAS)
                partition.held_back.pop(header.producer_id, None)
        written = self.node.partitions.write(partition, buffer, headers)
        if isinstance(written, Refused):
            return self._refuse(index, written.error, text=written.message)
        answer.base_offset = written.first_offset
        answer.log_append_time_ms = written.log_append_time_ms
        self._await(partition, partition.log_end_offset, answer)
        return answer

    def _refuse_gap(
        self, partition: Partition, refused: Refused, answer: PartitionProduceResponse
    ) -> PartitionProduceResponse:
        """The answer is filled in when this broker is known to lead: what is missing may be with
        a leader after it. librdkafka takes a gap for the end where nothing else is open."""

        def settle(leads: bool) -> None:
            self._preparing -= 1
            self.failed = True
            answer.error_code = refused.error if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer.error_message = refused.message if leads else "not known to lead any more"
            answer.base_offset = -1
            self._reply_when_settled()

        self._preparing += 1
        self.node.confirming.ask(partition, settle)
        return answer

    def _refuse_transaction(self, index: int) -> PartitionProduceResponse:
        """No partition is ever in a transaction: there is no coordinator that could end one."""
        error = ErrorCode.INVALID_TXN_STATE
        if self.request.version >= FIRST_VERSION_WITH_ABORTABLE:
            error = ErrorCode.TRANSACTION_ABORTABLE
        return self._refuse(index, error, text="transactions can't be written yet")

    def _refuse(
        self,
        index: int,
        error: ErrorCode,
        tp: TopicPartition | None = None,
        *,
        text: str | None = None,
    ) -> PartitionProduceResponse:
        self.failed = True
        answer = PartitionProduceResponse(
            index=index, error_code=error, base_offset=-1, error_message=text
        )
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and tp is not None:
            self._hint_leader(answer, tp)
        return answer

    def _hint_leader(self, answer: PartitionProduceResponse, tp: TopicPartition) -> None:
        record = self.node.cluster.partition(tp)
        if record is None:
            return
        answer.current_leader = LeaderIdAndEpoch(
            leader_id=record.leader, leader_epoch=record.leader_epoch
        )
        known = {endpoint.node_id for endpoint in self.response.node_endpoints or ()}
        for broker, end in endpoints(self.node.cluster, (record.leader,), self.request):
            if broker.broker_id not in known:
                endpoint = NodeEndpoint(
                    node_id=broker.broker_id, host=end.host, port=end.port, rack=broker.rack
                )
                self.response.node_endpoints = [*(self.response.node_endpoints or ()), endpoint]

    # ---- waiting for the high watermark --------------------------------------------------

    def _await(self, partition: Partition, offset: int, answer: PartitionProduceResponse) -> None:
        if self.message.acks != ALL or partition.high_watermark >= offset:
            return
        tp = partition.tp

        def done(error: ErrorCode) -> None:
            del self._waiting[id(answer)]
            leader = partition.leader
            if error is ErrorCode.NONE and (leader is None or not leader.enough_in_sync):
                error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            answer.error_code = error  # with the offset that it has all the same, as in Kafka
            self._reply_when_settled()

        wait = self.node.waits.park_commit(tp, offset, done)
        self._waiting[id(answer)] = _Waiting(tp, wait, answer)

    def finish(self) -> ProduceResponse | None:
        """The answer, or None when it comes later or never."""
        if not self._waiting and not self._preparing:
            return self._end()
        self._limit_wait()
        return None

    def _limit_wait(self) -> None:
        """The client's time is for what is appended and not committed yet, as in Kafka: it may be
        none at all, and what this broker can tell by itself is answered all the same."""
        if not self._preparing:
            node = self.node
            timeout_ms = max(self.message.timeout_ms, 0)
            self._deadline = node.timers.call_at(node.now_ms + timeout_ms, self._expire)

    def _end(self) -> ProduceResponse | None:
        """What is answered when all is settled; acks=0 gets no message."""
        if self.message.acks != 0:
            return self.response
        if self.failed:
            self.node.close(self.request, "a write with acks=0 was refused")
        else:
            self.node.reply(self.request, None)
        return None

    def _expire(self) -> None:
        for waiting in self._waiting.values():
            self.node.waits.drop_commit(waiting.tp, waiting.wait)
            waiting.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        self._reply_when_settled()

    def _reply_when_settled(self) -> None:
        if self._waiting or self._preparing:
            if self._deadline is None:
                self._limit_wait()
            return
        if self._deadline is not None:
            self._deadline.cancel()
        response = self._end()
        if response is not None:
            self.node.reply(self.request, response)
