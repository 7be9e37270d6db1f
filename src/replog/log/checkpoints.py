"""Files of the log folder itself: offsets by partition, marker of a clean stop, whose folder it is.

All in Kafka's formats. What is read is distrusted: a checkpoint that makes no sense is empty,
with the reason for the operator, and the logs are recovered from their beginning.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from replog.log.disk import Disk
from replog.log.identity import topic_id_of
from replog.model.ids import TopicPartition
from replog.model.properties import parse_properties
from replog.version import DISK_FORMAT_VERSION

__all__ = [
    "CLEANED",
    "CLEAN_SHUTDOWN",
    "HIGH_WATERMARKS",
    "LOG_STARTS",
    "META_PROPERTIES",
    "RECOVERY_POINTS",
    "CleanShutdownMarker",
    "MetaProperties",
    "WrongFolder",
    "check_folder",
    "claim_folder",
    "disown",
    "mark_clean_shutdown",
    "partition_of_directory",
    "read",
    "read_meta",
    "take_clean_shutdown",
    "topic_id_of",
    "write",
]

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"

_OFFSETS_VERSION: Final = 0
_MARKER_VERSION: Final = 0
_META_VERSION: Final = 1
_OFFSET_MAX: Final = 2**63 - 1


class WrongFolder(Exception):
    """The log folder belongs to another broker, another cluster or a newer Replog."""


# Offsets ----------------------------------------------------------------------------------------


def read(disk: Disk, name: str) -> tuple[dict[TopicPartition, int], str | None]:
    """(offset by partition, None), or ({}, why the file can't be used). Raises DiskError."""
    data = disk.read_file(name)
    if not data:  # Kafka makes some of them empty, long before it has anything to say
        return {}, None
    try:
        lines = data.decode("utf-8").split("\n")
        if int(lines[0]) != _OFFSETS_VERSION:
            return {}, f"version {lines[0]} is unknown"
        if lines[-1] != "" or int(lines[1]) != len(lines) - 3:
            return {}, f"it has {len(lines) - 3} whole lines and says {lines[1]}"
        found = dict(_offset_line(line) for line in lines[2:-1])
        if len(found) != len(lines) - 3:
            return {}, "it has a partition twice"
    except (ValueError, IndexError) as error:
        return {}, f"it makes no sense ({error})"
    return found, None


def write(disk: Disk, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file, atomically and durably. Raises DiskError."""
    lines = [str(_OFFSETS_VERSION), str(len(offsets))]
    lines += [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    disk.write_file(name, "\n".join(lines).encode() + b"\n")


def _offset_line(line: str) -> tuple[TopicPartition, int]:
    topic, partition, text = line.split(" ")
    offset = int(text)
    if not topic or int(partition) < 0 or not 0 <= offset <= _OFFSET_MAX:
        raise ValueError(f"line {line!r}")
    return TopicPartition(topic, int(partition)), offset


def partition_of_directory(name: str) -> TopicPartition | None:
    """The partition whose folder has this name; None for any other file or folder."""
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdigit()):
        return None
    if str(int(partition)) != partition:
        return None
    return TopicPartition(topic, int(partition))


# Clean stop -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CleanShutdownMarker:
    """The last process closed all its logs. `broker_epoch` is -1 when it did not say."""

    broker_epoch: int = -1


def take_clean_shutdown(disk: Disk) -> CleanShutdownMarker | None:
    """The marker, which is removed before this returns: a crash while loading is no clean stop."""
    data = disk.read_file(CLEAN_SHUTDOWN)
    if data is None:
        return None
    disk.remove(CLEAN_SHUTDOWN)
    disk.sync_directory("")
    try:
        fields = json.loads(data)
        if fields["version"] != _MARKER_VERSION:
            return None
        return CleanShutdownMarker(int(fields["brokerEpoch"]))
    except (ValueError, KeyError, TypeError):
        return None


def mark_clean_shutdown(disk: Disk, broker_epoch: int = -1) -> None:
    """Say that every log was flushed and closed: the very last thing a process does with them."""
    text = json.dumps(
        {"version": _MARKER_VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")
    )
    disk.write_file(CLEAN_SHUTDOWN, text.encode())


# Whose folder -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What `meta.properties` says; `disk_format` is 0 in a folder that Kafka made."""

    cluster_id: str
    node_id: int
    disk_format: int
    directory_id: str = ""  # made up when the folder was; empty in one that never had it


def read_meta(disk: Disk) -> MetaProperties | None:
    """The file, or None when there is none. Raises WrongFolder when it can't be understood."""
    data = disk.read_file(META_PROPERTIES)
    if data is None:
        return None
    try:
        fields = parse_properties(data.decode("utf-8"))
        version = int(fields.get("version", "0"))
        if version > _META_VERSION:
            raise WrongFolder(
                f"{META_PROPERTIES} has version {version}, this Replog reads up to {_META_VERSION}"
            )
        node_id = int(fields["node.id"] if "node.id" in fields else fields["broker.id"])
        disk_format = int(fields.get("replog.disk.format", "0"))
        return MetaProperties(
            fields["cluster.id"], node_id, disk_format, fields.get("directory.id", "")
        )
    except KeyError as error:
        raise WrongFolder(f"{META_PROPERTIES} is damaged: it has no {error.args[0]}") from None
    except ValueError as error:
        raise WrongFolder(f"{META_PROPERTIES} is damaged: {error}") from None


def check_folder(disk: Disk, *, cluster_id: str, node_id: int) -> MetaProperties | None:
    """What the log folder says of itself; None in a new one. Raises WrongFolder when it is not this
    broker's, DiskError."""
    meta = read_meta(disk)
    if meta is None:
        return None
    if meta.disk_format > DISK_FORMAT_VERSION:
        raise WrongFolder(
            f"the log folder has disk format {meta.disk_format}, this Replog knows up to "
            f"{DISK_FORMAT_VERSION}: start it with the newer Replog that wrote it"
        )
    if meta.cluster_id != cluster_id:
        raise WrongFolder(
            f"the log folder belongs to cluster {meta.cluster_id}, not to {cluster_id}"
        )
    if meta.node_id != node_id:
        raise WrongFolder(f"the log folder belongs to broker {meta.node_id}, not to {node_id}")
    return meta


def claim_folder(disk: Disk, *, cluster_id: str, node_id: int, directory_id: str = "") -> str:
    """See that the log folder is this broker's, and say so in it. Raises WrongFolder, DiskError.

    Returns the id of the folder: its own, or `directory_id` if it has none yet.
    """
    meta = check_folder(disk, cluster_id=cluster_id, node_id=node_id)
    if meta is not None:
        if meta.disk_format == DISK_FORMAT_VERSION and (meta.directory_id or not directory_id):
            return meta.directory_id
        directory_id = meta.directory_id or directory_id
    _write_meta(disk, cluster_id, node_id, directory_id)
    return directory_id


def disown(disk: Disk, directory_id: str) -> None:
    """Give the log folder another id, as if it had been replaced by another one: what was in it is
    in doubt. Does nothing to a folder that has none. Raises WrongFolder, DiskError."""
    meta = read_meta(disk)
    if meta is not None:
        _write_meta(disk, meta.cluster_id, meta.node_id, directory_id)


def _write_meta(disk: Disk, cluster_id: str, node_id: int, directory_id: str) -> None:
    fields: dict[str, object] = {
        "version": _META_VERSION,
        "cluster.id": cluster_id,
        "node.id": node_id,
        "replog.disk.format": DISK_FORMAT_VERSION,
    }
    if directory_id:
        fields["directory.id"] = directory_id
    old = disk.read_file(META_PROPERTIES)
    kept = parse_properties(old.decode("utf-8")) if old is not None else {}
    kept.update({name: str(value) for name, value in fields.items()})
    text = "".join(f"{name}={value}\n" for name, value in kept.items())
    disk.write_file(META_PROPERTIES, text.encode())
