"""AlterPartition, API key 56, version 3: a leader proposes an ISR to the controller (KIP-497).

Version 3 has the broker epochs of the members (KIP-903). Version 2, which has none, is not
understood: no release of Replog speaks it, and an ISR without epochs could let in a replica that
has lost its log.

Taken from brokers only, and never advertised. The proposal is a compare-and-set on leader epoch and
partition epoch; it is answered when it is durable. A proposer whose registration is not the current
one is refused as a whole. A proposal with which a move of the partition ends (KIP-455) is answered
with NEW_LEADER_ELECTED: it is carried out, and the leader epoch rises. The answer also says, in a
field of our own, who is eligible to lead: while there is anybody, the high watermark stands still.
Not done: leader recovery state (always RECOVERED).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.changes import IsrProposal, accept_isr
from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: AlterPartitionRequest
) -> AlterPartitionResponse | None:
    if request.peer is None or request.peer.broker_id != message.broker_id:
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    execute(node, message, lambda response: node.reply(request, response))
    return None


def execute(
    node: Node,
    message: AlterPartitionRequest,
    respond: Callable[[AlterPartitionResponse], None],
) -> None:
    """Carry it out on the controller; `respond` runs exactly once."""

    def plan(draft: Draft) -> Callable[[], None]:
        broker = draft.brokers.get(message.broker_id)
        if broker is None or broker.broker_epoch != message.broker_epoch:
            return lambda: failed(ErrorCode.STALE_BROKER_EPOCH)
        response = AlterPartitionResponse()
        for topic in message.topics:
            answer = AlterPartitionResponseTopicData(topic_id=topic.topic_id)
            answer.partitions = [
                _judge(draft, message.broker_id, topic.topic_id, partition)
                for partition in topic.partitions
            ]
            response.topics.append(answer)
        return lambda: respond(response)

    def failed(error: ErrorCode) -> None:
        respond(AlterPartitionResponse(error_code=error))

    node.controlling.submit(plan, failed)


def _judge(
    draft: Draft,
    broker_id: int,
    topic_id: bytes,
    asked: AlterPartitionRequestPartitionData,
) -> AlterPartitionResponsePartitionData:
    """The answer for one partition; what is accepted goes into the draft."""
    index = asked.partition_index
    topic = draft.topic_by_id(topic_id)
    if topic is None:
        return AlterPartitionResponsePartitionData(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
    tp = TopicPartition(topic.name, index)
    record = draft.partition(tp)
    if record is None:
        return AlterPartitionResponsePartitionData(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    members = [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]
    proposal = IsrProposal(broker_id, asked.leader_epoch, asked.partition_epoch, tuple(members))
    min_isr = draft.rules(topic.name).min_isr
    outcome = accept_isr(
        record, proposal, draft.brokers, controller_epoch=draft.epoch, min_isr=min_isr
    )
    if isinstance(outcome, Refused):
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=outcome.error)
    if outcome is not None:
        record = draft.change_isr(tp, outcome)
        if record.leader_epoch != outcome.leader_epoch:  # a move is over: the record tells all
            return AlterPartitionResponsePartitionData(
                partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED
            )
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=record.leader,
        leader_epoch=record.leader_epoch,
        isr=list(record.isr),
        partition_epoch=record.partition_epoch,
        elr=list(record.elr),
    )
