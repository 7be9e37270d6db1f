"""Metadata, API key 3, versions 0-13: brokers, controller, topics and their partitions.

Versions: 1 racks, controller and internal topics, and null for all topics where 0 has an empty
list; 4 the client decides whether unknown topics are made; 5 offline replicas; 7 leader epochs;
8-10 authorized operations (KIP-430); 10 topic ids (KIP-516); 12 asking by id; 13 an error for the
whole.

Answered by any broker from what it was told by the controller; where that is nothing yet, the
request waits: see `node.early_requests`.

An unknown topic that is to be made is answered UNKNOWN_TOPIC_OR_PARTITION this time; the client
asks again. When any topic is asked for by id, those asked for by name are passed over, as Kafka
does. Topics come in the order of the request.

Who asks for topics by name or id is told of brokers that have just left, too: see
`node.former_brokers`. They count as alive for nothing. A leader that has just stopped answering
this broker is shown as none: see `node.reach`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replog.core.topics import topic_name_fault
from replog.model.cluster import BrokerRecord, Endpoint, TopicRecord
from replog.model.errors import ErrorCode
from replog.model.ids import INTERNAL_TOPICS, NO_LEADER, ZERO_TOPIC_ID
from replog.model.inputs import Received
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from replog.model.partition import PartitionRecord
from replog.node.cluster_view import (
    CLUSTER_OPERATIONS,
    NO_OPERATIONS,
    TOPIC_OPERATIONS,
    client_endpoint,
    reachable,
)

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_NULL_FOR_ALL = 1
FIRST_VERSION_WITH_LISTENER_ERROR = 6
FIRST_VERSION_BY_ID = 12


class _View(NamedTuple):
    """What the answer depends on besides the topics."""

    version: int
    endpoints: dict[int, Endpoint]  # of live brokers, as the client reaches them
    doubtful: frozenset[int]  # those among them that have just stopped answering


def handle(node: Node, request: Received, message: MetadataRequest) -> MetadataResponse:
    """What this broker knows of the topics asked for, and of the cluster."""
    fault = _fault(request.version, message.topics)
    if fault is not ErrorCode.NONE:
        return _refused(fault, message.topics or [])
    cluster = node.cluster
    endpoints = reachable(cluster, request)
    doubtful = frozenset(b for b in endpoints if node.reach.doubtful(b, node.now_ms))
    if not node.lease.valid:
        doubtful |= {node.broker_id}
    view = _View(request.version, endpoints, doubtful)
    wanted = message.include_cluster_authorized_operations
    brokers = [_broker(cluster.brokers[b], endpoint) for b, endpoint in endpoints.items()]
    if message.topics:
        for former in node.membership.former_brokers.listed(node.now_ms):
            endpoint = client_endpoint(former, request)
            if endpoint is not None:
                brokers.append(_broker(former, endpoint))
    return MetadataResponse(
        brokers=brokers,
        cluster_id=node.setup.cluster_id,
        controller_id=cluster.controller_id,
        topics=_topics(node, message, view),
        cluster_authorized_operations=CLUSTER_OPERATIONS if wanted else NO_OPERATIONS,
    )


def _broker(broker: BrokerRecord, endpoint: Endpoint) -> MetadataResponseBroker:
    return MetadataResponseBroker(
        node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
    )


def _fault(version: int, topics: list[MetadataRequestTopic] | None) -> ErrorCode:
    """Why the request as a whole can't be answered."""
    by_name = [t for t in topics or [] if t.topic_id == ZERO_TOPIC_ID]
    if version < FIRST_VERSION_BY_ID:
        if len(by_name) != len(topics or []) or any(t.name is None for t in by_name):
            return ErrorCode.INVALID_REQUEST
    elif len(by_name) == len(topics or []) and any(t.name is None for t in by_name):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _refused(error: ErrorCode, topics: list[MetadataRequestTopic]) -> MetadataResponse:
    return MetadataResponse(
        cluster_id=None,
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in topics
        ],
        error_code=error,
    )


def _topics(node: Node, message: MetadataRequest, view: _View) -> list[MetadataResponseTopic]:
    """One answer for each topic asked for; a topic asked for twice is answered once."""
    cluster = node.cluster
    topics = message.topics
    if topics is None or (not topics and view.version < FIRST_VERSION_WITH_NULL_FOR_ALL):
        chosen = list(cluster.topics.values())
        return [_topic(topic, message, view) for topic in chosen]
    answers: dict[bytes | str, MetadataResponseTopic] = {}
    ids = [topic.topic_id for topic in topics if topic.topic_id != ZERO_TOPIC_ID]
    for topic_id in ids:
        name = cluster.topic_names.get(topic_id)
        if name is None:
            answers[topic_id] = MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
            )
        else:
            answers[topic_id] = _topic(cluster.topics[name], message, view)
    if ids:
        return list(answers.values())
    missing = []
    for name in dict.fromkeys(topic.name or "" for topic in topics):
        record = cluster.topics.get(name)
        if record is not None:
            answers[name] = _topic(record, message, view)
        elif topic_name_fault(name) is not None:
            answers[name] = _missing(name, message, ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            answers[name] = _missing(name, message, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            missing.append(name)
    if missing and message.allow_auto_topic_creation and node.config.auto_create_topics_enable:
        node.controlling.auto_create(missing)
    return list(answers.values())


def _missing(name: str, message: MetadataRequest, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=_operations(message),
    )


def _operations(message: MetadataRequest) -> int:
    """What may be done with a topic that is asked for by name, even if it is not there."""
    return TOPIC_OPERATIONS if message.include_topic_authorized_operations else NO_OPERATIONS


def _topic(topic: TopicRecord, message: MetadataRequest, view: _View) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(index, record, view) for index, record in enumerate(topic.partitions)
        ],
        topic_authorized_operations=_operations(message),
    )


def _partition(index: int, record: PartitionRecord, view: _View) -> MetadataResponsePartition:
    """A leader that the client can't reach is shown as none, with the reason."""
    error, leader = ErrorCode.NONE, record.leader
    if leader not in view.endpoints or leader in view.doubtful:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        hidden = leader != NO_LEADER and leader not in view.doubtful
        if hidden and view.version >= FIRST_VERSION_WITH_LISTENER_ERROR:
            error = ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=record.leader_epoch,
        replica_nodes=list(record.replicas),
        isr_nodes=list(record.isr),
        offline_replicas=[
            broker
            for broker in record.replicas
            if broker not in view.endpoints or broker in record.failed
        ],
    )
