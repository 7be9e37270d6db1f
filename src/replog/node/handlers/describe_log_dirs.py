"""DescribeLogDirs, API key 35, versions 1-5: the log folders of this broker and what is in them.

Versions: 2 flexible, 3 an error for the whole, 4 size and free space of the file system (KIP-827),
5 whether a folder is cordoned (KIP-1066).

A folder that failed is shown with KAFKA_STORAGE_ERROR and without partitions. Replicas are not
moved between folders, so none is a future one, and none lags behind itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import Received
from replog.model.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from replog.node.log_folder import FolderState, LogFolder

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """One result for each folder; of partitions, those that are asked for and here."""
    wanted: set[TopicPartition] | None = None
    if message.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index)
            for topic in message.topics
            for index in topic.partitions
        }
    folders = node.partitions.logs.folders
    return DescribeLogDirsResponse(results=[_folder(node, folder, wanted) for folder in folders])


def _folder(
    node: Node, folder: LogFolder, wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    cordoned = node.partitions.logs.is_cordoned(folder)
    result = DescribeLogDirsResult(log_dir=folder.path, is_cordoned=cordoned)
    if folder.state is FolderState.FAILED:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        result.total_bytes, result.usable_bytes = folder.disk.space()
    except DiskError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in node.partitions.all():
        tp = partition.tp
        if partition.folder is not folder or (wanted is not None and tp not in wanted):
            continue
        topic = topics.setdefault(tp.topic, DescribeLogDirsTopic(name=tp.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=tp.partition, partition_size=partition.log.size
            )
        )
    result.topics = list(topics.values())
    return result
