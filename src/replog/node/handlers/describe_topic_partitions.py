"""DescribeTopicPartitions, API key 75, version 0: topics in pages, with eligible leaders (KIP-966).

Topics come by name, partitions by number. A page holds as many partitions as the client wants, at
least one and at most `max.request.partition.size.limit`; a cursor says where the next one begins. A
cursor that names a topic which is gone goes on with the next name. No topic is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.topics import topic_name_fault
from replog.model.cluster import Endpoint, TopicRecord
from replog.model.errors import ErrorCode
from replog.model.ids import INTERNAL_TOPICS, NO_LEADER
from replog.model.inputs import Received
from replog.model.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from replog.model.partition import PartitionRecord
from replog.node.cluster_view import TOPIC_OPERATIONS, reachable

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """One page."""
    names = sorted({topic.name for topic in message.topics} or node.cluster.topics)
    first = 0
    if message.cursor is not None:
        start = message.cursor.topic_name
        if message.cursor.partition_index < 0 or (message.topics and start not in names):
            return _refuse_all(message)
        names = [name for name in names if name >= start]
        if names and names[0] == start:
            first = message.cursor.partition_index
    limit = node.config.int("max.request.partition.size.limit")
    return _page(node, request, names, first, max(1, min(message.response_partition_limit, limit)))


def _refuse_all(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The cursor leads nowhere: below partition 0, or to a topic that is not asked for.

    Answered in the words of the request, as by Kafka: who asks for all topics gets none.
    """
    refused = ErrorCode.INVALID_REQUEST
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=refused)
            for topic in message.topics
        ]
    )


def _page(
    node: Node, request: Received, names: list[str], first: int, room: int
) -> DescribeTopicPartitionsResponse:
    """As many partitions of `names` as there is room for, beginning with the `first` of the first
    topic."""
    response = DescribeTopicPartitionsResponse()
    endpoints = reachable(node.cluster, request)
    for name in names:
        if room == 0:  # whether there is such a topic, the next page will say
            response.next_cursor = _cursor(name, 0)
            break
        topic = node.cluster.topics.get(name)
        if topic is None:
            bad = topic_name_fault(name) is not None
            error = (
                ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            response.topics.append(_without(name, error))
            first = 0
            continue
        end = min(first + room, len(topic.partitions))
        response.topics.append(_topic(topic, range(first, end), endpoints))
        room -= max(0, end - first)
        if end < len(topic.partitions):
            response.next_cursor = _cursor(name, end)
            break
        first = 0
    return response


def _cursor(name: str, index: int) -> DescribeTopicPartitionsResponseCursor:
    return DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=index)


def _without(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        error_code=error,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(
    topic: TopicRecord, indexes: range, endpoints: dict[int, Endpoint]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, topic.partitions[index], endpoints) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    index: int, record: PartitionRecord, endpoints: dict[int, Endpoint]
) -> DescribeTopicPartitionsResponsePartition:
    """A leader that the client can't reach is shown as none, with the reason."""
    error, leader = ErrorCode.NONE, record.leader
    if leader not in endpoints:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if leader != NO_LEADER:
            error = ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=record.leader_epoch,
        replica_nodes=list(record.replicas),
        isr_nodes=list(record.isr),
        eligible_leader_replicas=list(record.elr),
        last_known_elr=list(record.last_known_elr),
        offline_replicas=[
            broker
            for broker in record.replicas
            if broker not in endpoints or broker in record.failed
        ],
    )
