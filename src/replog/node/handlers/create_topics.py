"""CreateTopics, API key 19, versions 2-7.

Versions: 5 the answer shows configurations (KIP-525), 7 topic ids (KIP-516).

Any broker takes it; the controller carries it out. Topics of one request are judged one by one, and
those that are sound are made in one multi. The answer comes once the new leaders and the broker
that the client talks to know of the topics, and for a short while waits for all others, so that the
client finds them wherever it asks next. An allowed time of nothing is over at once: nothing is
made.

Kafka's limit on partitions in one request (10,000) holds for the request as a whole. Not done:
policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.changes import new_partition
from replog.core.controller.placement import assign_replicas, check_assignment
from replog.core.controller.state import Draft
from replog.core.topics import MetricNames, topic_name_fault
from replog.model.cluster import TopicRecord
from replog.model.config import validate_topic_configs
from replog.model.config_entries import topic_entries
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import ZERO_TOPIC_ID
from replog.model.inputs import Received
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.node.handlers.admin import AdminCall, named_once
from replog.node.handlers.describe_configs import effective_config

if TYPE_CHECKING:
    from replog.node.node import Node

# Kafka's bound on one request, so that one write to the coordinator stays bounded.
PARTITIONS_MAX = 10_000
# How long a client waits for brokers that it does not depend on.
OTHERS_WAIT_MS = 250
METADATA_TOPIC = "__cluster_metadata"  # Kafka's own: nobody may make it
USE_DEFAULT = -1


def handle(node: Node, request: Received, message: CreateTopicsRequest) -> None:
    node.forwarding.pass_on(node, request, message)


def execute(node: Node, message: CreateTopicsRequest, call: AdminCall) -> None:
    """Carry it out on the controller; `call` is answered exactly once."""
    once = named_once(topic.name for topic in message.topics)
    timed_out = refuse(message, ErrorCode.REQUEST_TIMED_OUT)
    if not call.has_time(node, message.timeout_ms, timed_out, needed=bool(once - {METADATA_TOPIC})):
        return
    total = sum(_partition_count(node, topic) for topic in message.topics if topic.name in once)
    if total > PARTITIONS_MAX:
        text = f"{total} partitions in one request: {PARTITIONS_MAX} are the limit"
        call.answer(refuse(message, ErrorCode.POLICY_VIOLATION, text))
        return

    def plan(draft: Draft) -> Callable[[], None]:
        if call.answered:
            return lambda: None
        leaders: set[int] = set()
        results = []
        taken = MetricNames(draft.topic_names())  # before this request, as in Kafka
        for topic in {topic.name: topic for topic in message.topics}.values():
            if topic.name not in once:
                outcome: TopicRecord | Refused = Refused(
                    ErrorCode.INVALID_REQUEST, f"topic {topic.name} comes more than once"
                )
            else:
                outcome = _judge(node, draft, topic, taken)
            if isinstance(outcome, Refused):
                results.append(_refused(topic.name, outcome))
                continue
            results.append(_result(node, outcome))
            if not message.validate_only:
                draft.create_topic(outcome)
                leaders.update(record.leader for record in outcome.partitions)
        response = CreateTopicsResponse(topics=results)
        if not leaders:
            return lambda: call.answer(response)
        return lambda: when_told(node, call, leaders, lambda: call.answer(response))

    node.controlling.submit(plan, lambda error: call.fail(error, refuse(message, error)))


def when_told(node: Node, call: AdminCall, brokers: set[int], action: Callable[[], None]) -> None:
    """Run `action` once `brokers` and the client's broker know of what is committed.

    All others are waited for a short while.
    """
    everybody = set(node.cluster.brokers)

    def then() -> None:
        grace_ms = min(call.deadline_ms, node.now_ms + OTHERS_WAIT_MS)
        node.controlling.when_known(everybody, grace_ms, action)

    node.controlling.when_known({*brokers, call.origin}, call.deadline_ms, then)


def refuse(
    message: CreateTopicsRequest, error: ErrorCode, text: str | None = None
) -> CreateTopicsResponse:
    """The answer that refuses every topic, as often as it is named."""
    refused = Refused(error, text)
    return CreateTopicsResponse(topics=[_refused(topic.name, refused) for topic in message.topics])


def _refused(name: str, refused: Refused) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, topic_id=ZERO_TOPIC_ID, error_code=refused.error, error_message=refused.message
    )


def _partition_count(node: Node, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == USE_DEFAULT:
        return node.config.num_partitions
    return max(0, topic.num_partitions)


def _judge(
    node: Node, draft: Draft, topic: CreatableTopic, taken: MetricNames
) -> TopicRecord | Refused:
    """The topic that is to be made, with everything that has to be drawn drawn."""
    refusal = _refuse_name(draft, topic.name, taken) or _refuse_configs(topic)
    if refusal is not None:
        return refusal
    assignment = _assignment(node, draft, topic)
    if isinstance(assignment, Refused):
        return assignment
    eligible = draft.liveness.eligible
    return TopicRecord(
        topic.name,
        _random_topic_id(node),
        [
            new_partition(replicas, eligible, controller_epoch=draft.epoch)
            for replicas in assignment
        ],
        {config.name: config.value for config in topic.configs if config.value is not None},
    )


def _refuse_name(draft: Draft, name: str, taken: MetricNames) -> Refused | None:
    if name == METADATA_TOPIC:
        return Refused(ErrorCode.INVALID_REQUEST, f"{name} can't be made: it is Kafka's own")
    fault = topic_name_fault(name)
    if fault is not None:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    if draft.topic(name) is not None:
        return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"there is a topic {name} already")
    twin = taken.twin(name)
    if twin is not None:
        return Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name} collides with {twin}: '.' and '_' are the same in metrics",
        )
    return None


def _refuse_configs(topic: CreatableTopic) -> Refused | None:
    fault = validate_topic_configs({config.name: config.value for config in topic.configs})
    return None if fault is None else Refused(ErrorCode.INVALID_CONFIG, str(fault))


def _assignment(node: Node, draft: Draft, topic: CreatableTopic) -> list[tuple[int, ...]] | Refused:
    eligible = draft.liveness.eligible
    partitions, replication_factor = topic.num_partitions, topic.replication_factor
    if topic.assignments:
        if replication_factor != USE_DEFAULT or partitions != USE_DEFAULT:
            return Refused(
                ErrorCode.INVALID_REQUEST,
                "with an assignment, partitions and replication factor are both -1",
            )
        given = [(a.partition_index, a.broker_ids) for a in topic.assignments]
        return check_assignment(given, registered=draft.brokers, eligible=eligible)
    if replication_factor < USE_DEFAULT or replication_factor == 0:
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "the replication factor is positive, or -1 for the default",
        )
    if partitions < USE_DEFAULT or partitions == 0:
        return Refused(
            ErrorCode.INVALID_PARTITIONS,
            "the number of partitions is positive, or -1 for the default",
        )
    if partitions == USE_DEFAULT:
        partitions = node.config.num_partitions
    if replication_factor == USE_DEFAULT:
        replication_factor = node.config.default_replication_factor
    candidates = {b: r.rack for b, r in draft.brokers.items() if b in eligible}
    return assign_replicas(
        candidates,
        partitions=partitions,
        replication_factor=replication_factor,
        start_index=node.rng.randrange(max(1, len(candidates))),
        shift=node.rng.randrange(max(1, len(candidates))),
    )


def _random_topic_id(node: Node) -> bytes:
    """A UUID of version 4."""
    raw = bytearray(node.rng.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def _result(node: Node, topic: TopicRecord) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.key.name,
                value=topic.configs.get(entry.key.name, entry.value),  # as given: so does Kafka
                read_only=entry.key.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in topic_entries(effective_config(node), topic.configs)
        ],
    )
