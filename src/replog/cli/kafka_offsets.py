"""Committed offsets in Kafka's `__consumer_offsets`, for a cluster that has such a topic already.

Then the folder can't take its place: groups are told apart by it in partitions of another number.
The offsets are read out of it, and committed as a client would commit them.
"""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from replog.cli.errors import Failure
from replog.cli.read_only_disk import ReadOnlyDisk
from replog.codec import MalformedMessage
from replog.core.group.offsets import CommittedOffset
from replog.log import files
from replog.log.walk import walk_batches
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.node.group_storage import OffsetStored, from_record
from replog.records.batch import BatchHeader, records_of
from replog.records.rewrite import ABORT_MARKER, COMMIT_MARKER, marker_type
from replog.runtime.client import AdminClient, ClientError, error_name

Offsets = dict[str, dict[TopicPartition, CommittedOffset]]  # by group

COMMIT_VERSION: Final = 9  # the last one with topics' names
PATIENCE_S: Final = 30.0

_SOON = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def read_offsets(root: Path, partitions: Iterable[TopicPartition]) -> Offsets:
    """What the folders of these partitions below `root` say at their ends. Raises DiskError,
    LogCorrupt, CorruptBatch."""
    offsets: Offsets = {}
    disk = ReadOnlyDisk(root)
    for tp in partitions:
        undecided: dict[int, list[OffsetStored]] = {}
        for header, batch in _batches(disk, str(tp)):
            if header.control:
                kind = marker_type(batch, header)
                if kind in (ABORT_MARKER, COMMIT_MARKER):
                    ended = undecided.pop(header.producer_id, [])
                    _apply(offsets, ended if kind == COMMIT_MARKER else [])
            elif header.transactional:
                undecided.setdefault(header.producer_id, []).extend(_stored(batch, header))
            else:
                _apply(offsets, _stored(batch, header))
    return {group: found for group, found in offsets.items() if found}


def _batches(disk: ReadOnlyDisk, directory: str) -> Iterable[tuple[BatchHeader, memoryview]]:
    for name in disk.list(directory):
        if files.base_offset_of(name, files.LOG_SUFFIX) is None:
            continue
        file = disk.open(f"{directory}/{name}")
        try:
            for _, header, batch in walk_batches(file, file.size()):
                yield header, batch
        finally:
            file.close()


def _stored(batch: memoryview, header: BatchHeader) -> list[OffsetStored]:
    found = []
    for record in records_of(batch, header):
        try:
            change = from_record(record)
        except MalformedMessage:
            continue  # a broker passes it over as well
        if isinstance(change, OffsetStored):
            found.append(change)
    return found


def _apply(offsets: Offsets, changes: Iterable[OffsetStored]) -> None:
    for change in changes:
        group = offsets.setdefault(change.group_id, {})
        if change.committed is None:
            group.pop(change.tp, None)
        else:
            group[change.tp] = change.committed


def commit(
    client: AdminClient, offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
) -> list[str]:
    """Commit them; returns what was refused, a line each. Raises ClientError."""
    refused = []
    for group, found in sorted(offsets.items()):
        if not found:
            continue
        limit = time.monotonic() + PATIENCE_S
        while True:
            errors = _commit_once(client, group, found)
            if not errors or not set(errors.values()) <= _SOON or time.monotonic() > limit:
                break
            time.sleep(0.1)
        refused += [
            f"group {group}, {tp} at offset {found[tp].offset}: {error_name(error)}"
            for tp, error in sorted(errors.items())
        ]
    return refused


def _commit_once(
    client: AdminClient, group: str, found: Mapping[TopicPartition, CommittedOffset]
) -> dict[TopicPartition, ErrorCode]:
    """The errors of those that were not taken."""
    answer = client.call(FindCoordinatorRequest(coordinator_keys=[group], key_type=0), version=4)
    if not isinstance(answer, FindCoordinatorResponse) or not answer.coordinators:
        raise ClientError("the answer tells no coordinator")
    coordinator = answer.coordinators[0]
    if coordinator.error_code:
        return dict.fromkeys(found, ErrorCode(coordinator.error_code))
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, committed in found.items():
        topic = topics.setdefault(tp.topic, OffsetCommitRequestTopic(name=tp.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=-1, topics=list(topics.values())
    )
    where = (coordinator.host, coordinator.port)
    response = client.call_at(where, request, version=COMMIT_VERSION)
    if not isinstance(response, OffsetCommitResponse):
        raise Failure(f"the coordinator of group {group} answered {type(response).__name__}")
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    }
