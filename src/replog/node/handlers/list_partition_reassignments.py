"""ListPartitionReassignments, API key 46, version 0: which partitions are being moved (KIP-455).

Any broker takes it; the controller answers, so that whoever has begun a move sees it wherever it
asks. Null instead of topics means all; a partition that is at rest, or not there, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from replog.core.controller.reassignment import under_way
from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from replog.node.handlers.admin import AdminCall

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(node: Node, request: Received, message: ListPartitionReassignmentsRequest) -> None:
    node.forwarding.pass_on(node, request, message)


def execute(node: Node, message: ListPartitionReassignmentsRequest, call: AdminCall) -> None:
    """Answer on the controller, after what was asked before is committed."""
    call.limit(node, refuse(message, ErrorCode.REQUEST_TIMED_OUT))

    def plan(draft: Draft) -> Callable[[], None]:
        response = _listed(draft, message)
        return lambda: call.answer(response)

    node.controlling.submit(plan, lambda error: call.fail(error, refuse(message, error)))


def _listed(
    draft: Draft, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    topics: dict[str, OngoingTopicReassignment] = {}
    for tp in dict.fromkeys(_asked(draft, message)):
        record = draft.partition(tp)
        if record is None or not under_way(record):
            continue
        topic = topics.setdefault(tp.topic, OngoingTopicReassignment(name=tp.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=tp.partition,
                replicas=list(record.replicas),
                adding_replicas=list(record.adding),
                removing_replicas=list(record.removing),
            )
        )
    return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


def _asked(draft: Draft, message: ListPartitionReassignmentsRequest) -> Iterator[TopicPartition]:
    if message.topics is None:
        yield from [tp for tp, _ in draft.partitions()]
        return
    for topic in message.topics:
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index)


def refuse(
    message: ListPartitionReassignmentsRequest, error: ErrorCode
) -> ListPartitionReassignmentsResponse:
    """The answer that lists nothing."""
    return ListPartitionReassignmentsResponse(error_code=error, error_message=None)
