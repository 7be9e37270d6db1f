"""`replog log`: look into partitions' folders, those of Apache Kafka too, without a broker.

Nothing is written, so a folder may be in use meanwhile.
"""

import base64
import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replog.cli.errors import FAILED, OK, Failure
from replog.cli.options import Arguments, Parser, add_format, examples
from replog.cli.read_only_disk import ReadOnlyDisk
from replog.log import checkpoints, files
from replog.log.checkpoints import WrongFolder
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.results import Fault
from replog.log.verification import Verified, verify
from replog.log.walk import walk_unchecked
from replog.model.ids import TopicPartition
from replog.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    CorruptBatch,
    crc_ok,
    records_of,
)
from replog.records.rewrite import ABORT_MARKER, COMMIT_MARKER, delete_horizon, marker_type

# How often a partition with faults is looked at again, if they are others each time, and after what
# pause: a broker that has written what compaction left needs a moment to remove the old segments.
LOOKS_MAX = 5
PAUSE_S = 0.2

_MARKERS = {ABORT_MARKER: "abort", COMMIT_MARKER: "commit"}


# ---- which folders ---------------------------------------------------------------------------


def _partitions(folder: str) -> tuple[ReadOnlyDisk, list[str]]:
    """The log folder, and the partitions' folders in it that are meant. Raises Failure."""
    path = Path(folder)
    if not path.is_dir():
        raise Failure(f"{folder} is no folder")
    path = path.resolve()
    if _is_partition(path):
        return ReadOnlyDisk(path.parent), [path.name]
    inside = [child.name for child in sorted(path.iterdir()) if _is_partition(child)]
    if inside:
        return ReadOnlyDisk(path), inside
    nearby = sorted({str(found.parent.parent) for found in path.glob("*/**/partition.metadata")})
    hint = f"; log folders below it: {', '.join(nearby)}" if nearby else ""
    raise Failure(f"{folder} is neither a partition's folder nor a log folder{hint}")


def _is_partition(path: Path) -> bool:
    if not path.is_dir() or checkpoints.partition_of_directory(path.name) is None:
        return False
    return any(
        name.name == files.PARTITION_METADATA
        or files.base_offset_of(name.name, files.LOG_SUFFIX) is not None
        for name in path.iterdir()
    )


# ---- dump --------------------------------------------------------------------------------------


def dump_options(parser: Parser) -> None:
    """Options of `replog log dump`."""
    examples(
        parser,
        "replog log dump /var/lib/replog/events-0                 its batches",
        "replog log dump /var/lib/replog/events-0 --records       and their records",
        "replog log dump /var/lib/replog --format json            every partition, a line a batch",
    )
    parser.add_argument("folder", metavar="DIR", help="a partition's folder, or a log folder")
    parser.add_argument("--records", action="store_true", help="print the records too")
    add_format(parser)


def dump(arguments: Arguments) -> int:
    """Print every batch; 1 when a segment can't be followed to its end."""
    disk, directories = _partitions(arguments.folder)
    code = OK
    for directory in directories:
        for line, fault in _dump_partition(disk, directory, arguments):
            if fault is not None:
                code = FAILED
            print(line if fault is None else _told(fault, arguments.format))
    return code


def _dump_partition(
    disk: ReadOnlyDisk, directory: str, arguments: Arguments
) -> Iterator[tuple[str, Fault | None]]:
    for name in disk.list(directory):
        if files.base_offset_of(name, files.LOG_SUFFIX) is None:
            continue
        path = f"{directory}/{name}"
        end = 0
        try:
            file = disk.open(path)
        except DiskError as error:
            yield "", Fault(path, None, str(error))
            continue
        try:
            for position, header, batch in walk_unchecked(file, file.size()):
                found = describe(path, position, header, batch, records=arguments.records)
                as_json = arguments.format == "json"
                yield json.dumps(found) if as_json else _as_text(found), None
                end = position + header.length
        except (DiskError, LogCorrupt) as error:
            yield "", Fault(path, end, str(error))
        finally:
            file.close()


def describe(
    path: str, position: int, header: BatchHeader, batch: memoryview, *, records: bool
) -> dict[str, Any]:
    """One batch as JSON has it. Times in milliseconds since 1970, -1 for none."""
    codec = header.compression
    found: dict[str, Any] = {
        "file": path,
        "position": position,
        "bytes": header.length,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "codec": Compression(codec).name.lower() if codec <= Compression.ZSTD else str(codec),
        "timestamp_type": "LogAppendTime" if header.log_append_time else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "delete_horizon": delete_horizon(header),
        "transactional": header.transactional,
        "control": header.control,
        "crc": "ok" if crc_ok(batch, header) else "bad",
    }
    try:
        if header.control:
            kind = marker_type(batch, header)
            found["marker"] = None if kind is None else _MARKERS.get(kind, str(kind))
        if records:
            found["records"] = [_record(record) for record in records_of(batch, header)]
    except CorruptBatch as error:
        found["unreadable"] = str(error)
    return found


def _record(record: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    for name, data in (("key", record.key), ("value", record.value)):
        try:
            shown[name] = None if data is None else data.decode()
        except UnicodeDecodeError:
            shown[f"{name}_base64"] = base64.b64encode(data).decode()
    if record.headers:
        shown["headers"] = [
            [name, None if data is None else data.decode(errors="replace")]
            for name, data in record.headers
        ]
    return shown


def _as_text(found: dict[str, Any]) -> str:
    parts = [
        f"{found['file']}:{found['position']}",
        f"offsets {found['base_offset']}-{found['last_offset']}",
        f"{found['count']} records",
        f"{found['bytes']} bytes",
        f"epoch {found['leader_epoch']}",
        found["codec"],
        f"{found['timestamp_type']} {_time(found['max_timestamp'])}",
    ]
    if found["producer_id"] >= 0:
        parts.append(f"producer {found['producer_id']} epoch {found['producer_epoch']}")
        if found["base_sequence"] >= 0:
            parts.append(f"sequence {found['base_sequence']}-{found['last_sequence']}")
    if found["delete_horizon"] is not None:
        parts.append(f"tombstones until {_time(found['delete_horizon'])}")
    parts += [word for word in ("transactional", "control") if found[word]]
    if "marker" in found:
        parts.append(f"marker {found['marker']}")
    parts.append(f"crc {found['crc']}")
    if "unreadable" in found:
        parts.append(f"unreadable: {found['unreadable']}")
    lines = ["  ".join(parts)]
    lines += [f"    {json.dumps(record)}" for record in found.get("records", ())]
    return "\n".join(lines)


def _time(timestamp: int) -> str:
    if timestamp == NO_TIMESTAMP:
        return "without a time"
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp)


# ---- verify ------------------------------------------------------------------------------------


def verify_logs_options(parser: Parser) -> None:
    """Options of `replog log verify`."""
    examples(
        parser,
        "replog log verify /var/lib/replog                  all partitions and the checkpoints",
        "replog log verify /var/lib/replog/events-0 --format json",
        "replog log verify /var/lib/replog/users-0 --allow-gaps   a compacted topic",
    )
    parser.add_argument("folder", metavar="DIR", help="a partition's folder, or a log folder")
    parser.add_argument(
        "--allow-gaps",
        action="store_true",
        help="offsets may be missing (known by itself where this broker has compacted)",
    )
    add_format(parser)


def verify_logs(arguments: Arguments) -> int:
    """Print what is wrong, where, and what was looked at; 1 when anything is wrong."""
    disk, directories = _partitions(arguments.folder)
    known, faults = _checkpoints(disk)
    faults += _whose(disk, directories)
    looked_at: list[Verified] = []
    for directory in directories:
        verified = _verify_one(disk, directory, known, gaps_allowed=arguments.allow_gaps)
        before: list[Fault] = []
        # A broker may be about to change something: what is wrong is wrong in the same way twice.
        for _ in range(LOOKS_MAX):
            if verified.faults == before:
                break
            before = verified.faults
            time.sleep(PAUSE_S)
            known = _checkpoints(disk)[0]
            verified = _verify_one(disk, directory, known, gaps_allowed=arguments.allow_gaps)
        looked_at.append(verified)
        faults += verified.faults
    for fault in faults:
        print(_told(fault, arguments.format))
    print(_summary(looked_at, len(faults), arguments.format))
    return FAILED if faults else OK


Known = dict[str, dict[TopicPartition, int]]


def _verify_one(
    disk: ReadOnlyDisk, directory: str, known: Known, *, gaps_allowed: bool
) -> Verified:
    tp = checkpoints.partition_of_directory(directory)
    if tp is None:
        return Verified(directory)
    try:
        verified = verify(
            disk,
            directory,
            log_start_offset=known[checkpoints.LOG_STARTS].get(tp, 0),
            gaps_allowed=gaps_allowed or tp in known[checkpoints.CLEANED],
        )
    except DiskError as error:
        verified = Verified(directory)
        verified.fault(directory, None, str(error))
        return verified
    for name, offsets in known.items():
        if offsets.get(tp, 0) > verified.end_offset:
            end = verified.end_offset
            verified.fault(name, None, f"{tp} has {offsets[tp]}, but its log ends at {end}")
    return verified


def _checkpoints(disk: ReadOnlyDisk) -> tuple[Known, list[Fault]]:
    """What the log folder's own files say, by file; read before the logs, which only grow."""
    known: Known = {}
    faults = []
    for name in (
        checkpoints.RECOVERY_POINTS,
        checkpoints.HIGH_WATERMARKS,
        checkpoints.LOG_STARTS,
        checkpoints.CLEANED,
    ):
        known[name], reason = checkpoints.read(disk, name)
        if reason is not None:
            faults.append(Fault(name, None, reason))
    return known, faults


def _whose(disk: ReadOnlyDisk, directories: Sequence[str]) -> list[Fault]:
    """The log folder says whose it is, and all partitions of a topic name one topic id."""
    faults = []
    try:
        checkpoints.read_meta(disk)
    except WrongFolder as error:
        faults.append(Fault(checkpoints.META_PROPERTIES, None, str(error)))
    ids: dict[str, tuple[str, bytes]] = {}
    for directory in directories:
        tp = checkpoints.partition_of_directory(directory)
        topic_id = checkpoints.topic_id_of(disk, directory)
        if tp is None or topic_id is None:
            continue
        first, known = ids.setdefault(tp.topic, (directory, topic_id))
        if topic_id != known:
            path = f"{directory}/{files.PARTITION_METADATA}"
            faults.append(Fault(path, None, f"it tells another topic id than that of {first}"))
    return faults


def _told(fault: Fault, form: str) -> str:
    if form == "json":
        told = {"file": fault.path, "position": fault.position, "fault": fault.what}
        return json.dumps(told)
    at = "" if fault.position is None else f" at byte {fault.position}"
    return f"{fault.path}{at}: {fault.what}"


def _summary(verified: list[Verified], faults: int, form: str) -> str:
    totals = {
        "partitions": len(verified),
        "segments": sum(one.segments for one in verified),
        "batches": sum(one.batches for one in verified),
        "records": sum(one.records for one in verified),
        "bytes": sum(one.bytes for one in verified),
        "faults": faults,
    }
    if form == "json":
        return json.dumps(totals)
    return ", ".join(f"{number} {name}" for name, number in totals.items())
