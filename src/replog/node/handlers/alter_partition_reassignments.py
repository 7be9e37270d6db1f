"""AlterPartitionReassignments, API key 45, versions 0-1: moving partitions to other brokers
(KIP-455).

Versions: 1 the client may forbid another replication factor (KIP-860).

Any broker takes it; the controller carries it out. Each partition is judged by itself. A partition
with null replicas is left where it was. The answer says that the move is decided and stored, and
that the broker that the client talks to and the leaders know; how far it is, is asked with
ListPartitionReassignments and DescribeReplicas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller import reassignment
from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from replog.model.partition import PartitionRecord
from replog.node.handlers.admin import AdminCall
from replog.node.handlers.create_topics import when_told

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(node: Node, request: Received, message: AlterPartitionReassignmentsRequest) -> None:
    node.forwarding.pass_on(node, request, message)


def execute(node: Node, message: AlterPartitionReassignmentsRequest, call: AdminCall) -> None:
    """Carry it out on the controller; `call` is answered exactly once."""
    if not message.topics:  # Kafka's answer, whatever else is asked for
        call.answer(AlterPartitionReassignmentsResponse(error_message=None))
        return
    timed_out = refuse(message, ErrorCode.REQUEST_TIMED_OUT)
    if not call.has_time(node, message.timeout_ms, timed_out):
        return

    def plan(draft: Draft) -> Callable[[], None]:
        if call.answered:
            return lambda: None
        leaders: set[int] = set()
        before: dict[TopicPartition, PartitionRecord | None] = {}
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=message.allow_replication_factor_change,
            error_message=None,
        )
        for topic in message.topics:
            answer = ReassignableTopicResponse(name=topic.name)
            response.responses.append(answer)
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                record = before.setdefault(tp, draft.partition(tp))
                outcome = _move(
                    draft,
                    tp,
                    record,
                    partition,
                    may_change=message.allow_replication_factor_change,
                )
                if isinstance(outcome, Refused):
                    answer.partitions.append(_result(tp.partition, outcome))
                else:
                    leaders |= outcome
                    answer.partitions.append(_result(tp.partition, None))
        if not leaders:
            return lambda: call.answer(response)
        return lambda: when_told(node, call, leaders, lambda: call.answer(response))

    node.controlling.submit(plan, lambda error: call.fail(error, refuse(message, error)))


def _move(
    draft: Draft,
    tp: TopicPartition,
    record: PartitionRecord | None,
    asked: ReassignablePartition,
    *,
    may_change: bool,
) -> set[int] | Refused:
    """Put the move into the draft. Returns the leaders that should know of it.

    `record` is the partition before the request: the last move of a partition that is named twice
    counts, and a move that the request itself begins can't be cancelled in it.
    """
    if record is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {tp}")
    eligible = draft.liveness.eligible.difference(record.failed)
    min_isr = draft.rules(tp.topic).min_isr
    if asked.replicas is None:
        outcome = reassignment.cancel(
            record, eligible, controller_epoch=draft.epoch, min_isr=min_isr
        )
    else:
        target = tuple(asked.replicas)
        refused = reassignment.check_target(
            record, target, draft.brokers, may_change_factor=may_change
        )
        begun = refused or reassignment.begin(
            record, target, eligible, controller_epoch=draft.epoch, min_isr=min_isr
        )
        if begun is None:
            return set()
        outcome = begun
    if isinstance(outcome, Refused):
        return outcome
    draft.put_partition(tp, outcome)
    return {broker for broker in (record.leader, outcome.leader) if broker in draft.brokers}


def refuse(
    message: AlterPartitionReassignmentsRequest, error: ErrorCode
) -> AlterPartitionReassignmentsResponse:
    """The answer that refuses everything."""
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _result(partition.partition_index, Refused(error))
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ],
    )


def _result(index: int, refused: Refused | None) -> ReassignablePartitionResponse:
    if refused is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=refused.error, error_message=refused.message
    )
