"""ISR changes on their way to the controller: those of one step travel in one AlterPartition, and
one is on its way at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, TopicPartition
from replog.model.inputs import PeerFailed, PeerReplied
from replog.model.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from replog.model.partition import PartitionRecord
from replog.node.handlers import alter_partition

if TYPE_CHECKING:
    from replog.node.node import Node

IsrAnswer = Callable[[ErrorCode, PartitionRecord | None], None]

# While there is no controller, or no registration, proposals wait and are tried again after this
# time.
RETRY_MS = 100
TIMEOUT_MS = 5_000


@dataclass(slots=True)
class _Proposal:
    tp: TopicPartition
    topic_id: bytes
    isr: Sequence[tuple[int, int]]
    leader_epoch: int
    partition_epoch: int
    on_answer: IsrAnswer


class IsrProposals:
    """The queue of one broker. A newer proposal for a partition replaces one that waits."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[TopicPartition, _Proposal] = {}
        self._in_flight = False
        self._timer_set = False

    def propose(
        self,
        tp: TopicPartition,
        isr: Sequence[tuple[int, int]],
        leader_epoch: int,
        partition_epoch: int,
        on_answer: IsrAnswer,
    ) -> None:
        """Queue a proposal; it leaves at the end of this step."""
        topic = self._node.cluster.topics.get(tp.topic)
        if topic is None:
            on_answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            return
        replaced = self._waiting.pop(tp, None)
        self._waiting[tp] = _Proposal(
            tp, topic.topic_id, tuple(isr), leader_epoch, partition_epoch, on_answer
        )
        self._flush_at(self._node.now_ms)
        if replaced is not None:
            replaced.on_answer(ErrorCode.NETWORK_EXCEPTION, None)

    def on_controller(self) -> None:
        """There may be a controller now."""
        self._flush()

    def _flush_at(self, deadline_ms: float) -> None:
        if not self._timer_set:
            self._timer_set = True
            self._node.timers.call_at(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer_set = False
        self._flush()

    def _flush(self) -> None:
        node = self._node
        if self._in_flight or not self._waiting:
            return
        controller = node.membership.controller()
        reachable = node.controlling.active or (
            controller is not None and controller.broker_id != node.broker_id
        )
        if not reachable or node.broker_epoch == NO_EPOCH:
            self._flush_at(node.now_ms + RETRY_MS)
            return
        proposals = list(self._waiting.values())
        self._waiting.clear()
        self._in_flight = True
        message = _request(node.broker_id, node.broker_epoch, proposals)

        def on_response(answer: AlterPartitionResponse) -> None:
            self._in_flight = False
            self._answer(proposals, answer)
            self._flush()

        def on_reply(answer: PeerReplied | PeerFailed) -> None:
            if isinstance(answer, PeerReplied) and isinstance(
                answer.message, AlterPartitionResponse
            ):
                on_response(answer.message)
            else:
                on_response(AlterPartitionResponse(error_code=ErrorCode.NETWORK_EXCEPTION))

        if node.controlling.active:
            alter_partition.execute(node, message, on_response)
        elif controller is not None:
            node.send(controller, message, on_reply, timeout_ms=TIMEOUT_MS)

    def _answer(self, proposals: list[_Proposal], answer: AlterPartitionResponse) -> None:
        answers = {
            (topic.topic_id, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        for proposal in proposals:
            error = ErrorCode(answer.error_code)
            record = None
            if error is ErrorCode.NONE:
                part = answers.get((proposal.topic_id, proposal.tp.partition))
                if part is None:
                    error = ErrorCode.UNKNOWN_SERVER_ERROR
                else:
                    error = ErrorCode(part.error_code)
                    record = self._record(proposal, part) if error is ErrorCode.NONE else None
            proposal.on_answer(error, record)

    def _record(
        self, proposal: _Proposal, part: AlterPartitionResponsePartitionData
    ) -> PartitionRecord | None:
        """The committed record; None when the topic is gone meanwhile."""
        topic = self._node.cluster.topics.get(proposal.tp.topic)
        known = self._node.cluster.partition(proposal.tp)
        if known is None or topic is None or topic.topic_id != proposal.topic_id:
            return None
        return replace(
            known,
            leader=part.leader_id,
            leader_epoch=part.leader_epoch,
            isr=tuple(part.isr),
            partition_epoch=part.partition_epoch,
            elr=tuple(part.elr),
        )


def _request(
    broker_id: int, broker_epoch: int, proposals: Sequence[_Proposal]
) -> AlterPartitionRequest:
    topics: dict[bytes, AlterPartitionRequestTopicData] = {}
    for proposal in proposals:
        topic = topics.get(proposal.topic_id)
        if topic is None:
            topic = AlterPartitionRequestTopicData(topic_id=proposal.topic_id)
            topics[proposal.topic_id] = topic
        topic.partitions.append(
            AlterPartitionRequestPartitionData(
                partition_index=proposal.tp.partition,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=broker, broker_epoch=epoch)
                    for broker, epoch in proposal.isr
                ],
            )
        )
    return AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
