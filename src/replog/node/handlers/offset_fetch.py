"""OffsetFetch, API key 9, versions 1-10: the positions that groups have committed.

Versions: 2 all topics, and an error for the whole, 5 leader epochs (KIP-320), 6 flexible, 7 only
stable positions (KIP-447), 8 several groups (KIP-709), 9 members of KIP-848 groups, 10 topic ids.

A position that was never committed is -1, and so is one in a topic that is gone or was made anew.
There are no transactions yet, so every position is stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from replog.core.group.offsets import CommittedOffset, Offsets
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_ERROR = 2
FIRST_VERSION_WITH_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10


def handle(node: Node, request: Received, message: OffsetFetchRequest) -> OffsetFetchResponse:
    """Answered at once, from what is committed."""
    if request.version >= FIRST_VERSION_WITH_GROUPS:
        by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
        return OffsetFetchResponse(groups=[_group(node, asked, by_id) for asked in message.groups])
    topics = message.topics
    asked = OffsetFetchRequestGroup(
        group_id=message.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes)
            for t in topics
        ],
    )
    found = _group(node, asked, by_id=False)
    error = ErrorCode(found.error_code)
    if error is not ErrorCode.NONE and request.version < FIRST_VERSION_WITH_ERROR:
        found.topics = [_refused_topic(topic, error) for topic in asked.topics or []]
    return OffsetFetchResponse(topics=[_old_form(t) for t in found.topics], error_code=error)


def _group(node: Node, asked: OffsetFetchRequestGroup, by_id: bool) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id=asked.group_id)
    home = node.groups.home_of(asked.group_id)
    if isinstance(home, ErrorCode):
        answer.error_code = home
        return answer
    home.settle()
    entry = home.groups.get(asked.group_id)
    offsets = Offsets() if entry is None else entry.offsets
    if asked.topics is None:
        answer.topics = _all_topics(node, offsets)
    else:
        answer.topics = [_topic(node, offsets, topic, by_id) for topic in asked.topics]
    return answer


def _all_topics(node: Node, offsets: Offsets) -> list[OffsetFetchResponseTopics]:
    topics = []
    for name, partitions in offsets.topics().items():
        places = [
            _place(index, committed)
            for index, committed in partitions.items()
            if _of_present_topic(node, name, committed)
        ]
        if places:
            topic_id = node.cluster.topics[name].topic_id
            topics.append(
                OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=places)
            )
    return topics


def _topic(
    node: Node, offsets: Offsets, asked: OffsetFetchRequestTopics, by_id: bool
) -> OffsetFetchResponseTopics:
    name = node.cluster.topic_names.get(asked.topic_id) if by_id else asked.name
    if name is None:
        return _refused_topic(asked, ErrorCode.UNKNOWN_TOPIC_ID)
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=_places(node, offsets, name, asked.partition_indexes),
    )


def _places(
    node: Node, offsets: Offsets, name: str, indexes: Iterable[int]
) -> list[OffsetFetchResponsePartitions]:
    places = []
    for index in indexes:
        committed = offsets.get(TopicPartition(name, index))
        if committed is not None and not _of_present_topic(node, name, committed):
            committed = None
        places.append(_place(index, committed))
    return places


def _of_present_topic(node: Node, name: str, committed: CommittedOffset) -> bool:
    """Whether the position belongs to the topic that has this name now."""
    topic = node.cluster.topics.get(name)
    return topic is not None and committed.topic_id in (ZERO_TOPIC_ID, topic.topic_id)


def _place(index: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            committed_leader_epoch=NO_EPOCH,
            metadata="",
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _refused_topic(asked: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    places = [_place(index, None) for index in asked.partition_indexes]
    for place in places:
        place.error_code = error
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=places)


def _old_form(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """The same in the structures that the versions before 8 have."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=place.partition_index,
                committed_offset=place.committed_offset,
                committed_leader_epoch=place.committed_leader_epoch,
                metadata=place.metadata,
                error_code=place.error_code,
            )
            for place in topic.partitions
        ],
    )
