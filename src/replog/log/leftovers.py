"""What a crash in the middle of compaction leaves in a folder: finished, or undone, at the start.

Ours: a compacted segment takes the name of the first of those that it stands for, and the others go
when that is safe. If they are still there, they begin inside the segment in front of them. Kafka's:
a segment that is ready to replace others is called `.swap` until they are gone.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from replog.log import files
from replog.log.cleaner_writer import CLEANED_SUFFIX
from replog.log.disk import Disk
from replog.log.errors import LogCorrupt
from replog.log.offset_index import ENTRY_SIZE
from replog.log.results import RecoveryReport
from replog.log.scan import walk_headers
from replog.log.segment import Segment
from replog.records.header import HEADER_SIZE, BatchHeader, crc_ok

SWAP_SUFFIX: Final = ".swap"
_INDEXES: Final = (files.INDEX_SUFFIX, files.TIME_INDEX_SUFFIX)
_SUFFIXES: Final = (*_INDEXES, files.TRANSACTION_INDEX_SUFFIX, files.LOG_SUFFIX)


def settle_swaps(disk: Disk, directory: str, names: Sequence[str], report: RecoveryReport) -> bool:
    """Finish or undo what the names in a folder tell of. True when names have changed.

    A `.swap` takes its place, unless a `.cleaned` segment lies at or before it: then a segment was
    being split, and not all of its parts are there. Raises DiskError.
    """
    names = [name for name in names if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]
    if not names:
        return False
    cleaned = _bases(names, files.LOG_SUFFIX + CLEANED_SUFFIX)
    swaps = _bases(names, files.LOG_SUFFIX + SWAP_SUFFIX)
    changed = False
    for base_offset in sorted(swaps):
        stem = files.stem(directory, base_offset)
        undone = bool(cleaned) and base_offset >= min(cleaned)
        for suffix in _SUFFIXES:
            if undone:
                disk.remove(stem + suffix + SWAP_SUFFIX)
            elif disk.exists(stem + suffix + SWAP_SUFFIX):
                disk.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
        verb = "was not finished and is undone" if undone else "is finished"
        report.reasons.append(f"{stem}.log: a replacement {verb}")
        changed = True
    for base_offset in _without_log(names, CLEANED_SUFFIX) | _without_log(names, SWAP_SUFFIX):
        # The log's file has its name already, and these may still be the indexes of the old one.
        stem = files.stem(directory, base_offset)
        for suffix in _INDEXES:
            disk.remove(stem + suffix)
            disk.remove(stem + suffix + SWAP_SUFFIX)
        changed = True
    if changed:
        disk.sync_directory(directory)
    return changed


def _without_log(names: Sequence[str], ending: str) -> set[int]:
    """Bases of the indexes with this ending whose log has it no more."""
    indexes = set[int]().union(*(_bases(names, suffix + ending) for suffix in _INDEXES))
    return indexes - _bases(names, files.LOG_SUFFIX + ending)


def _bases(names: Sequence[str], suffix: str) -> set[int]:
    found = (files.base_offset_of(name, suffix) for name in names)
    return {base_offset for base_offset in found if base_offset is not None}


def drop_replaced(
    disk: Disk, directory: str, segments: list[Segment], report: RecoveryReport
) -> None:
    """Remove segments that begin inside the one in front of them. Not after a clean stop, which
    leaves none. Raises DiskError."""
    dropped = False
    index = 0
    while index + 1 < len(segments):
        segment, following = segments[index], segments[index + 1]
        if _reaches_into(disk, segment, following):
            following.remove()
            del segments[index + 1]
            report.reasons.append(f"{following.stem}.log was replaced by {segment.stem}.log")
            dropped = True
        else:
            index += 1
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset
    if dropped:
        disk.sync_directory(directory)


def _reaches_into(disk: Disk, segment: Segment, following: Segment) -> bool:
    """Whether the last batch of `segment`, which must be sound, has offsets of `following`."""
    try:
        last = _last_batch(segment, _last_entry(disk, segment))
    except LogCorrupt:
        return False  # recovery will find out
    if last is None or last.last_offset < following.base_offset:
        return False
    batch = segment.file.read(last.position, last.length)
    return len(batch) == last.length and crc_ok(batch, BatchHeader(batch, 0))


def _last_entry(disk: Disk, segment: Segment) -> int:
    path = segment.stem + files.INDEX_SUFFIX
    if not disk.exists(path):
        return 0
    file = disk.open(path)
    try:
        size = file.size() // ENTRY_SIZE * ENTRY_SIZE
        entry = file.read(size - ENTRY_SIZE, ENTRY_SIZE) if size else bytes(ENTRY_SIZE)
    finally:
        file.close()
    position = int.from_bytes(entry[4:], "big")
    return position if position + HEADER_SIZE <= segment.size else 0


def _last_batch(segment: Segment, position: int) -> BatchHeader | None:
    """The last one from the batch at `position` on. An index that leads astray is not believed."""
    last: BatchHeader | None = None
    try:
        for header in walk_headers(segment.file, position, segment.size):
            last = header
    except LogCorrupt:
        if not position:
            raise
        return _last_batch(segment, 0)
    return last
