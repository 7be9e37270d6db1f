"""OffsetDelete, API key 47, version 0: positions of a group are forgotten (KIP-496).

Positions in topics that a member is subscribed to stay. Where members of a consumer group say that
in a form that can't be read, every topic counts as subscribed; a group of another kind with members
is refused as a whole. Answered when it is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.codec import MalformedMessage, decode_oldest
from replog.core.group.classic_group import ClassicGroup
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.consumer_protocol import ConsumerProtocolSubscription
from replog.model.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from replog.node.group_answers import named_once
from replog.node.group_partition import GroupEntry, GroupPartition
from replog.node.group_storage import OffsetStored
from replog.node.led_log import seen_by_clients

if TYPE_CHECKING:
    from replog.node.node import Node

CONSUMER = "consumer"  # the protocol type whose members say what they are subscribed to
TOPICS_OF_A_MEMBER_MAX = 100_000  # a member that says more can't be read


def handle(
    node: Node, request: Received, message: OffsetDeleteRequest
) -> OffsetDeleteResponse | None:
    """Forget what may be forgotten; a position that is not there is forgotten already."""
    found = _find(node, message.group_id)
    if isinstance(found, ErrorCode):
        return OffsetDeleteResponse(error_code=found)
    home, entry = found
    response, doomed = _sort_out(node, entry.group, message)
    known = home.places(entry)
    changes = [OffsetStored(message.group_id, tp, None) for tp in doomed if tp in known]
    if not changes:
        return response

    def done(error: ErrorCode) -> None:
        home.dispose(entry)
        failed = OffsetDeleteResponse(error_code=seen_by_clients(error))
        node.reply(request, response if error is ErrorCode.NONE else failed)

    home.write(entry, changes, done)
    return None


def _find(node: Node, group_id: str) -> tuple[GroupPartition, GroupEntry] | ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    home = node.groups.home_of(group_id)
    if isinstance(home, ErrorCode):
        return home
    home.settle()
    entry = home.groups.get(group_id)
    if entry is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    group = entry.group
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return ErrorCode.NON_EMPTY_GROUP
    return home, entry


def _sort_out(
    node: Node, group: ClassicGroup, message: OffsetDeleteRequest
) -> tuple[OffsetDeleteResponse, list[TopicPartition]]:
    """The answer, if all goes well, and the partitions whose position is to go."""
    subscribed = _subscribed_topics(group)
    response = OffsetDeleteResponse()
    refused = False
    doomed: dict[TopicPartition, None] = {}
    for asked in message.topics:
        known = node.cluster.topics.get(asked.name)
        if known is not None and not asked.partitions:
            continue  # answered by partition, as by Kafka; a topic that is not there is named
        refused = refused or known is None
        topic = OffsetDeleteResponseTopic(name=asked.name)
        response.topics.append(topic)
        for partition in asked.partitions:
            index = partition.partition_index
            error = ErrorCode.NONE
            if known is None or not 0 <= index < len(known.partitions):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed is None or asked.name in subscribed:
                error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            topic.partitions.append(
                OffsetDeleteResponsePartition(partition_index=index, error_code=error)
            )
            refused = refused or error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if error is ErrorCode.NONE:
                doomed[TopicPartition(asked.name, index)] = None
    if refused:
        response.topics = named_once((topic.name, topic) for topic in response.topics)
    return response, list(doomed)


def _subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics of this generation's members, which every version of what they say has; None when
    a member's can't be told."""
    topics: set[str] = set()
    if group.state is GroupState.EMPTY:
        return topics
    if group.subscriptions is None:
        return None
    for subscription in group.subscriptions:
        try:
            said = decode_oldest(
                ConsumerProtocolSubscription, subscription, elements_max=TOPICS_OF_A_MEMBER_MAX
            )
        except MalformedMessage:
            return None
        topics.update(said.topics)
    return topics
