"""DescribeProducers, API key 61, version 0: who writes to partitions with an id (KIP-664).

Answered by any replica, from what its log says: it knows a producer until nothing was heard of it
for `producer.id.expiration.ms`. The first offset of an open transaction finds those that hang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.topics import topic_name_fault
from replog.model.errors import ErrorCode
from replog.model.ids import NO_OFFSET, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from replog.node.partition import Partition

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: DescribeProducersRequest
) -> DescribeProducersResponse:
    """The producers of each partition asked for."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _described(node, TopicPartition(topic.name, index))
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics
        ]
    )


def _described(node: Node, tp: TopicPartition) -> PartitionResponse:
    found: Partition | ErrorCode = ErrorCode.INVALID_TOPIC_EXCEPTION
    if topic_name_fault(tp.topic) is None:
        found = node.partitions.find(tp)
    if isinstance(found, Partition):
        return PartitionResponse(partition_index=tp.partition, active_producers=_producers(found))
    text = None
    if found is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        text = f"broker {node.broker_id} has no replica of {tp}"
    return PartitionResponse(partition_index=tp.partition, error_code=found, error_message=text)


def _producers(partition: Partition) -> list[ProducerState]:
    table = partition.producers
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=table.transactions.open.get(producer_id, NO_OFFSET),
        )
        for producer_id, producer in table.producers.items()
    ]
