"""Groups and offsets as records of `__consumer_offsets`, in Kafka's own layout, and back.

The key tells the kind: 0 and 1 an offset, 2 a group; a null value takes it back. Newer kinds belong
to group protocols that are not served here, and are passed over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from replog.codec import (
    MalformedMessage,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    prefix_of,
)
from replog.core.group.facts import StoredGroup, StoredMember
from replog.core.group.offsets import NO_EXPIRY, CommittedOffset
from replog.model.ids import TopicPartition
from replog.model.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from replog.records.batch import Record, build_batch

# Versions of values as Apache Kafka 4.4 writes them: the field for a client's own retention exists
# in version 1 alone, the topic id from 4 on.
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3


@dataclass(frozen=True, slots=True)
class OffsetStored:
    """One position was committed, or (None) forgotten."""

    group_id: str
    tp: TopicPartition
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupStored:
    """A group was stored, or (None) forgotten."""

    group_id: str
    group: StoredGroup | None


Stored = OffsetStored | GroupStored


def to_batch(changes: Sequence[Stored], *, wall_ms: int, compression: int) -> bytearray:
    """One batch for all of `changes` (at least one), ready to be appended."""
    records = [_to_record(change, wall_ms) for change in changes]
    return bytearray(build_batch(records, compression=compression))


def _to_record(change: Stored, wall_ms: int) -> Record:
    key, value = _to_bytes(change)
    return Record(0, wall_ms, key, value)


def _to_bytes(change: Stored) -> tuple[bytes, bytes | None]:
    if isinstance(change, GroupStored):
        key = encode_key(GroupMetadataKey(group=change.group_id))
        return key, None if change.group is None else _group_value(change.group)
    topic, partition = change.tp
    key = encode_key(OffsetCommitKey(group=change.group_id, topic=topic, partition=partition))
    return key, None if change.committed is None else _offset_value(change.committed)


def _offset_value(committed: CommittedOffset) -> bytes:
    expires = committed.expires_wall_ms
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_wall_ms,
        expire_timestamp=expires,
        topic_id=committed.topic_id,
    )
    if expires == NO_EXPIRY:
        return encode_value(value, OFFSET_VALUE_VERSION)
    return encode_value(value, OFFSET_VALUE_VERSION_WITH_EXPIRY)


def _group_value(group: StoredGroup) -> bytes:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_wall_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in group.members
        ],
    )
    return encode_value(value, GROUP_VALUE_VERSION)


def from_record(record: Record) -> Stored | None:
    """What a record says; None for kinds that are not served. Raises MalformedMessage."""
    if record.key is None:
        raise MalformedMessage("a record without a key")
    kind = prefix_of(record.key)
    if kind == OffsetCommitKey.RECORD_TYPE:
        key = decode_key(OffsetCommitKey, record.key)
        return _offset_from(key.group, TopicPartition(key.topic, key.partition), record.value)
    if kind == LegacyOffsetCommitKey.RECORD_TYPE:
        old = decode_key(LegacyOffsetCommitKey, record.key)
        return _offset_from(old.group, TopicPartition(old.topic, old.partition), record.value)
    if kind == GroupMetadataKey.RECORD_TYPE:
        return _group_from(decode_key(GroupMetadataKey, record.key).group, record.value)
    return None


def _offset_from(group_id: str, tp: TopicPartition, stored: bytes | None) -> OffsetStored:
    if stored is None:
        return OffsetStored(group_id, tp, None)
    value = decode_value(OffsetCommitValue, stored)
    committed = CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        committed_wall_ms=value.commit_timestamp,
        expires_wall_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )
    return OffsetStored(group_id, tp, committed)


def _group_from(group_id: str, stored: bytes | None) -> GroupStored:
    if stored is None:
        return GroupStored(group_id, None)
    value = decode_value(GroupMetadataValue, stored)
    members = tuple(
        StoredMember(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            # Up to version 0 there was one timeout for both.
            rebalance_timeout_ms=member.session_timeout
            if member.rebalance_timeout < 0
            else member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            subscription=member.subscription,
            assignment=member.assignment,
        )
        for member in value.members
    )
    group = StoredGroup(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        state_since_wall_ms=value.current_state_timestamp,
        members=members,
    )
    return GroupStored(group_id, group)
