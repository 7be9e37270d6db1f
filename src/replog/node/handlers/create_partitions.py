"""CreatePartitions, API key 37, versions 0-3: topics get more partitions (KIP-195).

Versions: 2 flexible, 3 throttling (KIP-599).

Any broker takes it; the controller carries it out. New partitions go on with the placement of the
old ones, or are assigned by the client. The answer comes once their leaders and the broker that the
client talks to know of them, and for a short while waits for all others. Partitions never become
fewer.

Refused, other than by Kafka, for `__consumer_offsets` and `__transaction_state`: the number of
their partitions says where a group or a transaction is kept, and with another one all would be
lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.changes import new_partition
from replog.core.controller.placement import assign_replicas, check_assignment
from replog.core.controller.state import Draft
from replog.model.cluster import TopicRecord
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import INTERNAL_TOPICS
from replog.model.inputs import Received
from replog.model.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from replog.model.partition import PartitionRecord
from replog.node.handlers.admin import AdminCall, named_once
from replog.node.handlers.create_topics import PARTITIONS_MAX, when_told

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(node: Node, request: Received, message: CreatePartitionsRequest) -> None:
    node.forwarding.pass_on(node, request, message)


def execute(node: Node, message: CreatePartitionsRequest, call: AdminCall) -> None:
    """Carry it out on the controller; `call` is answered exactly once."""
    once = named_once(topic.name for topic in message.topics)
    timed_out = refuse(message, ErrorCode.REQUEST_TIMED_OUT)
    if not call.has_time(node, message.timeout_ms, timed_out, needed=bool(once)):
        return

    def plan(draft: Draft) -> Callable[[], None]:
        if call.answered:
            return lambda: None
        leaders: set[int] = set()
        results = []
        room = PARTITIONS_MAX
        for topic in {topic.name: topic for topic in message.topics}.values():
            outcome: list[PartitionRecord] | Refused
            if topic.name not in once:
                text = f"topic {topic.name} comes more than once"
                outcome = Refused(ErrorCode.INVALID_REQUEST, text)
            else:
                outcome = _judge(node, draft, topic, room)
            results.append(_result(topic.name, outcome))
            if not isinstance(outcome, Refused):
                room -= len(outcome)
                if not message.validate_only:
                    draft.add_partitions(topic.name, outcome)
                    leaders.update(record.leader for record in outcome)
        response = CreatePartitionsResponse(results=results)
        if not leaders:
            return lambda: call.answer(response)
        return lambda: when_told(node, call, leaders, lambda: call.answer(response))

    node.controlling.submit(plan, lambda error: call.fail(error, refuse(message, error)))


def refuse(message: CreatePartitionsRequest, error: ErrorCode) -> CreatePartitionsResponse:
    """The answer that refuses every topic, as often as it is named."""
    return CreatePartitionsResponse(
        results=[_result(topic.name, Refused(error)) for topic in message.topics]
    )


def _result(name: str, outcome: list[PartitionRecord] | Refused) -> CreatePartitionsTopicResult:
    if isinstance(outcome, Refused):
        return CreatePartitionsTopicResult(
            name=name, error_code=outcome.error, error_message=outcome.message
        )
    return CreatePartitionsTopicResult(name=name)


def _judge(
    node: Node, draft: Draft, asked: CreatePartitionsTopic, room: int
) -> list[PartitionRecord] | Refused:
    """The new partitions, which begin with the number after the last that there is."""
    topic = draft.topic(asked.name)
    if topic is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name}")
    if draft.is_broken(asked.name):
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"topic {asked.name} can't be read")
    more = asked.count - len(topic.partitions)
    if more <= 0:
        return Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {asked.name} has {len(topic.partitions)} partitions, and {asked.count} are "
            "not more",
        )
    if asked.name in INTERNAL_TOPICS:
        text = f"the partitions of {asked.name} say where things are kept: their number stays"
        return Refused(ErrorCode.INVALID_REQUEST, text)
    if more > room:
        text = f"{more} partitions: {PARTITIONS_MAX} are the limit of a request"
        return Refused(ErrorCode.POLICY_VIOLATION, text)
    assignment = _assignment(node, draft, asked, topic)
    if isinstance(assignment, Refused):
        return assignment
    eligible = draft.liveness.eligible
    return [
        new_partition(replicas, eligible, controller_epoch=draft.epoch) for replicas in assignment
    ]


def _assignment(
    node: Node, draft: Draft, asked: CreatePartitionsTopic, topic: TopicRecord
) -> list[tuple[int, ...]] | Refused:
    count = len(topic.partitions)
    more = asked.count - count
    first = topic.partitions[0]
    replication_factor = len([b for b in first.replicas if b not in first.adding])
    eligible = draft.liveness.eligible
    if asked.assignments is None:
        candidates = {b: r.rack for b, r in draft.brokers.items() if b in eligible}
        order = sorted(candidates)
        after = order.index(first.replicas[0]) if first.replicas[0] in candidates else 0
        return assign_replicas(
            candidates,
            partitions=more,
            replication_factor=replication_factor,
            start_index=(after + count) % max(1, len(order)),
            shift=node.rng.randrange(max(1, len(order))),
        )
    if len(asked.assignments) != more:
        return Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{more} partitions are new, and {len(asked.assignments)} are assigned",
        )
    given = [(index, a.broker_ids) for index, a in enumerate(asked.assignments)]
    checked = check_assignment(given, registered=draft.brokers, eligible=eligible)
    if isinstance(checked, Refused) or len(checked[0]) == replication_factor:
        return checked
    return Refused(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"the other partitions have {replication_factor} replicas, the new ones {len(checked[0])}",
    )
