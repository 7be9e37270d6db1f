"""ElectLeaders, API key 43, versions 0-2 (KIP-183): preferred leaders, and unclean elections.

Versions: 1 unclean elections and an error for the whole (KIP-460), 2 flexible.

Any broker takes it; the controller carries it out. Null instead of partitions means all of them,
and then only those are answered where there was something to do. The answer comes once the new
leaders and the broker that the client talks to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from replog.core.controller.preferred import elect_preferred, elect_unclean
from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from replog.node.handlers.admin import AdminCall
from replog.node.handlers.create_topics import when_told

if TYPE_CHECKING:
    from replog.node.node import Node

PREFERRED = 0
UNCLEAN = 1


def handle(node: Node, request: Received, message: ElectLeadersRequest) -> None:
    node.forwarding.pass_on(node, request, message)


def execute(node: Node, message: ElectLeadersRequest, call: AdminCall) -> None:
    """Carry it out on the controller; `call` is answered exactly once."""
    if message.topic_partitions is not None and not message.topic_partitions:
        call.answer(ElectLeadersResponse())  # Kafka's answer, whatever else is asked for
        return
    timed_out = refuse(message, ErrorCode.REQUEST_TIMED_OUT)
    if not call.has_time(node, message.timeout_ms, timed_out):
        return
    if message.election_type not in (PREFERRED, UNCLEAN):
        call.answer(refuse(message, ErrorCode.INVALID_REQUEST))
        return

    def plan(draft: Draft) -> Callable[[], None]:
        if call.answered:
            return lambda: None
        leaders: set[int] = set()
        results = []
        for topic, indexes in _asked(draft, message):
            result = ReplicaElectionResult(topic=topic)
            results.append(result)
            for index in indexes:
                outcome = _elect(draft, TopicPartition(topic, index), message.election_type)
                if isinstance(outcome, int):
                    leaders.add(outcome)
                    result.partition_result.append(_result(index, None))
                elif message.topic_partitions is not None or (
                    outcome.error is not ErrorCode.ELECTION_NOT_NEEDED
                ):
                    result.partition_result.append(_result(index, outcome))
        response = ElectLeadersResponse(replica_election_results=results)
        if not leaders:
            return lambda: call.answer(response)
        return lambda: when_told(node, call, leaders, lambda: call.answer(response))

    node.controlling.submit(plan, lambda error: call.fail(error, refuse(message, error)))


def _asked(draft: Draft, message: ElectLeadersRequest) -> Iterable[tuple[str, Iterable[int]]]:
    """Topics with their partitions; every topic there is if none are named."""
    if message.topic_partitions is not None:
        return [(topic.topic, topic.partitions) for topic in message.topic_partitions]
    topics: dict[str, list[int]] = {}
    for tp, _ in draft.partitions():
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics.items()


def _elect(draft: Draft, tp: TopicPartition, election_type: int) -> int | Refused:
    """The new leader; its election is in the draft."""
    record = draft.partition(tp)
    if record is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {tp}")
    eligible = draft.liveness.eligible.difference(record.failed)
    if election_type == PREFERRED:
        change = elect_preferred(record, eligible, controller_epoch=draft.epoch)
    else:
        change = elect_unclean(
            record,
            eligible,
            controller_epoch=draft.epoch,
            min_isr=draft.rules(tp.topic).min_isr,
        )
    if isinstance(change, Refused):
        return change
    draft.put_change(tp, change)
    return change.record.leader


def refuse(message: ElectLeadersRequest, error: ErrorCode) -> ElectLeadersResponse:
    """The answer that refuses everything."""
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    _result(index, Refused(error, _EXPLAINED.get(error)))
                    for index in topic.partitions
                ],
            )
            for topic in message.topic_partitions or ()
        ],
    )


_EXPLAINED = {
    ErrorCode.INVALID_REQUEST: "the election type is 0 (preferred) or 1 (unclean)",
}


def _result(index: int, refused: Refused | None) -> PartitionResult:
    if refused is None:
        return PartitionResult(partition_id=index, error_message=None)
    return PartitionResult(
        partition_id=index, error_code=refused.error, error_message=refused.message
    )
