"""How a log gets smaller at its front and inside: its start moves, old segments leave, compacted
ones stand for others. (At its end it is cut; that is `partition_log`'s own affair.)

Crashes: a segment leaves only after a start behind it is on stable storage, so what a power cut
brings back is below the start and leaves again. A compacted segment takes the name of the first of
those that it stands for; the others keep theirs until that is on stable storage. A segment that
begins inside the one in front of it is therefore always a left-over: `leftovers` removes it.
"""

from collections.abc import Sequence
from typing import Final

from replog.log.cleaner import Replacement
from replog.log.cleaner_writer import CLEANED_SUFFIX, SUFFIXES
from replog.log.config import LogConfig
from replog.log.disk import Disk
from replog.log.epoch_file import EpochFile
from replog.log.files import TRANSACTION_INDEX_SUFFIX
from replog.log.segment import Segment
from replog.log.transaction_index import AbortedTransactions

DELETED_SUFFIX: Final = ".deleted"

_FILES_OF_SEGMENT: Final = (*SUFFIXES, TRANSACTION_INDEX_SUFFIX)


class ShrinkingLog:
    """The part of `PartitionLog` that this module is about."""

    directory: str
    config: LogConfig
    aborted: AbortedTransactions
    log_start_offset: int
    log_end_offset: int
    _disk: Disk
    _segments: list[Segment]
    _active: Segment
    _loaded: list[Segment]
    _epochs: EpochFile
    _cuts: int

    def __init__(self) -> None:
        self._replaced: list[Segment] = []  # no longer in the log, but still in the folder
        self.cleaned_to = 0  # compaction has seen every record below

    @property
    def segments(self) -> Sequence[Segment]:
        """All of them, oldest first; the last is the active one. Not to be changed."""
        return self._segments

    @property
    def cuts(self) -> int:
        """How often the log was cut so far."""
        return self._cuts

    # ---- the front -----------------------------------------------------------------------------

    def start_at(self, offset: int) -> None:
        """Records below `offset` (within the log) are no longer there.

        Their files stay until `leave` takes them, and their epochs are known until then: a restart
        may find the log with its former start.
        """
        self.log_start_offset = max(self.log_start_offset, min(offset, self.log_end_offset))

    def below_start(self, start: int | None = None) -> int:
        """How many segments hold nothing but what is below `start`: by default, the log's start."""
        if start is None:
            start = self.log_start_offset
        count = 0
        while count + 1 < len(self._segments):
            if self._segments[count + 1].base_offset > start:
                break
            count += 1
        return count

    def leave(self, count: int, start: int) -> list[str]:
        """Take the first `count` segments, at most, that are below `start` out of the log.

        `start` is the log's, or an earlier one, and on stable storage: power may give some of the
        files their names back, and not others. Returns the names that they have from now on, for
        whoever removes them later: readers that hold a range of one read on. Raises DiskError.
        """
        self._epochs.truncate_from_start(start)
        left: list[str] = []
        for _ in range(min(count, self.below_start(start))):
            segment = self._segments[0]
            left += self._retire(segment)
            self._forget(segment)
        return left

    def _retire(self, segment: Segment) -> list[str]:
        renamed = []
        for suffix in _FILES_OF_SEGMENT:
            path = segment.stem + suffix
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed

    def _forget(self, segment: Segment) -> None:
        self._segments.remove(segment)
        if segment in self._loaded:
            self._loaded.remove(segment)
        self.aborted.forget(segment.base_offset)
        segment.file.close()

    # ---- compacted segments --------------------------------------------------------------------

    def replace(self, replacement: Replacement) -> bool:
        """Let a compacted segment stand for those that it was made of. Raises DiskError.

        False when these are not in the log any more; its files are removed then. After True,
        `sync_replaced` has to run on any thread, and then `leave_replaced`.
        """
        old, cleaned = replacement.old, replacement.files
        first = next((i for i, s in enumerate(self._segments) if s is old[0]), None)
        if (
            first is None
            or tuple(self._segments[first : first + len(old)]) != old
            or old[-1] is self._active
        ):
            cleaned.discard(self._disk)
            return False
        self.aborted.prepare(old, cleaned.markers)
        # The log's file first: until it has its name, the indexes belong to what was there before.
        for suffix in SUFFIXES:
            self._disk.rename(cleaned.stem + suffix + CLEANED_SUFFIX, cleaned.stem + suffix)
        new = Segment.open(
            self._disk, self.directory, cleaned.base_offset, self.config.index_interval_bytes
        )
        new.next_offset = cleaned.next_offset
        new.max_timestamp = cleaned.max_timestamp
        new.max_timestamp_offset = cleaned.max_timestamp_offset
        new.first_timestamp = cleaned.first_timestamp
        new.dirty = new.entries_dirty = False
        for segment in old:
            self._forget(segment)
        self._segments.insert(first, new)
        self.aborted.replaced(new.base_offset)
        self._replaced += old[1:]
        return True

    def sync_replaced(self) -> None:
        """The new names are on stable storage when this returns. Raises DiskError."""
        self._disk.sync_directory(self.directory)

    def leave_replaced(self) -> list[str]:
        """Take the files that were replaced out of the folder, as `leave` does."""
        self.aborted.settle_aside()
        replaced, self._replaced = self._replaced, []
        return [path for segment in replaced for path in self._retire(segment)]

    def _drop_replaced(self) -> None:
        """Before the log is cut: what was replaced must not be taken for what comes after."""
        if self._replaced:
            self.sync_replaced()
            for path in self.leave_replaced():
                self._disk.remove(path)
            self.sync_replaced()
