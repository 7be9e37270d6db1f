"""OffsetCommit, API key 8, versions 2-10: positions of a group, stored with acks=all.

Versions: 2-4 a retention of the client's own, 6 leader epochs (KIP-320), 7 static members
(KIP-345), 8 flexible, 9 an unknown group with a generation is GROUP_ID_NOT_FOUND (KIP-848), 10
topic ids.

All positions of a request go into one batch, and are answered when that is committed. Partitions
that do not exist, and texts that are too long, are refused one by one; everything else concerns the
whole request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.facts import MemberCall
from replog.core.group.offsets import NO_EXPIRY, CommittedOffset, check_offset
from replog.model.cluster import TopicRecord
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from replog.node.group_answers import named_once
from replog.node.group_partition import GroupEntry, GroupPartition
from replog.node.group_storage import OffsetStored
from replog.node.led_log import seen_by_clients

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_GROUP_NOT_FOUND = 9
FIRST_VERSION_WITH_TOPIC_IDS = 10
NO_RETENTION = -1
TIME_MAX_MS = (1 << 63) - 1  # what a field of the log can hold


class _Wanted:
    """One position of the request that may be stored, and its place in the answer."""

    __slots__ = ("answer", "asked", "topic")

    def __init__(
        self,
        topic: TopicRecord,
        asked: OffsetCommitRequestPartition,
        answer: OffsetCommitResponsePartition,
    ) -> None:
        self.topic = topic
        self.asked = asked
        self.answer = answer


def handle(
    node: Node, request: Received, message: OffsetCommitRequest
) -> OffsetCommitResponse | None:
    """Store what may be stored; answer when it is committed."""
    response, wanted = _sort_out(node, request.version, message)
    if not wanted:
        return response
    found = _group(node, request.version, message)
    if isinstance(found, ErrorCode):
        return _with_error(response, wanted, found)
    home, entry = found
    accepted = _within_limits(node, wanted)
    if not accepted:
        home.dispose(entry)
        return response
    changes = [
        OffsetStored(
            message.group_id,
            TopicPartition(one.topic.name, one.asked.partition_index),
            _committed(node, message, one),
        )
        for one in accepted
    ]

    def done(error: ErrorCode) -> None:
        node.reply(request, _with_error(response, accepted, _seen(error)))
        home.dispose(entry)

    home.write(entry, changes, done)
    return None


def _sort_out(
    node: Node, version: int, message: OffsetCommitRequest
) -> tuple[OffsetCommitResponse, list[_Wanted]]:
    """The answer with every partition in it, and those whose partition exists."""
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    response = OffsetCommitResponse()
    refused = False
    wanted: list[_Wanted] = []
    for asked in message.topics:
        name = node.cluster.topic_names.get(asked.topic_id) if by_id else asked.name
        topic = None if name is None else node.cluster.topics.get(name)
        if topic is not None and not asked.partitions:
            continue  # answered by partition, as by Kafka; a topic that is not there is named
        answer = OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        response.topics.append(answer)
        refused = refused or topic is None
        for partition in asked.partitions:
            place = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            answer.partitions.append(place)
            if not node.cluster.brokers:  # nobody has told us of any topic yet
                place.error_code = ErrorCode.NOT_COORDINATOR
            elif topic is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                place.error_code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else unknown
            elif not 0 <= partition.partition_index < len(topic.partitions):
                place.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                wanted.append(_Wanted(topic, partition, place))
            refused = refused or bool(place.error_code)
    if refused:
        named = [((topic.name, topic.topic_id), topic) for topic in response.topics]
        response.topics = named_once(named)
    return response, wanted


def _group(
    node: Node, version: int, message: OffsetCommitRequest
) -> tuple[GroupPartition, GroupEntry] | ErrorCode:
    """The group, if whoever asks may commit there. A simple consumer's is made on the way."""
    generation = message.generation_id_or_member_epoch
    home = node.groups.home_of(message.group_id)
    if isinstance(home, ErrorCode):
        return home
    if message.group_id not in home.groups and generation >= 0:
        if version >= FIRST_VERSION_WITH_GROUP_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    entry = home.open_group(message.group_id)
    if isinstance(entry, Refused):
        return entry.error
    call = MemberCall(message.member_id, message.group_instance_id, generation)
    error = entry.group.check_commit(call, home.instant())
    return (home, entry) if error is ErrorCode.NONE else error


def _within_limits(node: Node, wanted: list[_Wanted]) -> list[_Wanted]:
    limit = node.config.offset_metadata_max_bytes
    accepted = []
    for one in wanted:
        error = check_offset(one.asked.committed_metadata, metadata_max_bytes=limit)
        one.answer.error_code = error
        if error is ErrorCode.NONE:
            accepted.append(one)
    return accepted


def _committed(node: Node, message: OffsetCommitRequest, one: _Wanted) -> CommittedOffset:
    retention_ms = message.retention_time_ms
    expires = NO_EXPIRY
    if retention_ms != NO_RETENTION:
        expires = min(node.wall_ms + retention_ms, TIME_MAX_MS)
    return CommittedOffset(
        offset=one.asked.committed_offset,
        leader_epoch=one.asked.committed_leader_epoch,
        metadata=one.asked.committed_metadata or "",
        committed_wall_ms=node.wall_ms,
        expires_wall_ms=expires,
        topic_id=one.topic.topic_id,
    )


def _seen(error: ErrorCode) -> ErrorCode:
    if error in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return seen_by_clients(error)


def _with_error(
    response: OffsetCommitResponse, places: list[_Wanted], error: ErrorCode
) -> OffsetCommitResponse:
    for one in places:
        one.answer.error_code = error
    return response
