"""Are the indexes of one segment what its batches say?

An index is a cache of the log, so each entry can be worked out anew: an offset entry has the last
offset of the batch at its position, a time entry the largest time up to and with its offset. Of a
sealed segment the last time entry has the largest time of all, which retention and the lookup of
the latest record believe. Entries that are missing elsewhere make reads longer, and are no fault.
"""

from collections.abc import Iterator
from struct import Struct

from replog.log import files
from replog.log.disk import Disk
from replog.log.results import Fault
from replog.records.header import NO_TIMESTAMP, BatchHeader

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")


class SegmentIndexes:
    """Both indexes, read when this is made, and compared with the batches as they pass."""

    def __init__(self, disk: Disk, stem: str, base_offset: int) -> None:
        """Raises DiskError."""
        self._offset_path = stem + files.INDEX_SUFFIX
        self._time_path = stem + files.TIME_INDEX_SUFFIX
        self._base_offset = base_offset
        self._faults: list[Fault] = []
        self._entries = dict(self._read(disk, self._offset_path, _OFFSET_ENTRY))
        self._times = [
            (number, timestamp, relative)
            for number, (timestamp, relative) in self._numbered(disk, self._time_path, _TIME_ENTRY)
        ]
        self._next_time = 0
        self._newest = NO_TIMESTAMP
        self.end = 0  # of the last batch that passed

    def _read(self, disk: Disk, path: str, entry: Struct) -> Iterator[tuple[int, tuple[int, int]]]:
        """Position in the log -> (number of the entry, offset)."""
        last = -1
        for number, (relative, position) in self._numbered(disk, path, entry):
            if relative <= last:
                self._note(path, number * entry.size, "its offsets do not rise")
            last = relative
            yield position, (number, self._base_offset + relative)

    def _numbered(
        self, disk: Disk, path: str, entry: Struct
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        data = disk.read_file(path)
        if data is None:
            self._note(path, None, "it is missing")
            return
        if len(data) % entry.size:
            self._note(path, len(data), f"its size is no multiple of {entry.size}")
        # A file that is in use by Kafka is larger than what is in it: zeros at the end are room.
        used = len(data.rstrip(b"\0"))
        whole = min(-(-used // entry.size), len(data) // entry.size) * entry.size
        yield from enumerate(entry.iter_unpack(data[:whole]))

    def _note(self, path: str, position: int | None, what: str) -> None:
        self._faults.append(Fault(path, position, what))

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next batch of the log."""
        entry = self._entries.pop(position, None)
        if entry is not None and entry[1] != header.last_offset:
            self._note(
                self._offset_path,
                entry[0] * _OFFSET_ENTRY.size,
                f"offset {entry[1]} is said to be the last of the batch at {position}, which ends "
                f"with {header.last_offset}",
            )
        before, self._newest = self._newest, max(self._newest, header.max_timestamp)
        while self._next_time < len(self._times):
            number, timestamp, relative = self._times[self._next_time]
            if self._base_offset + relative > header.last_offset:
                break
            what = None
            if timestamp != self._newest:
                what = f"the latest time is said to be {timestamp}, but it is {self._newest}"
            elif timestamp == before:
                what = f"{timestamp} is said to come, which came before"
            if what is not None:
                where = f"up to offset {self._base_offset + relative} "
                self._note(self._time_path, number * _TIME_ENTRY.size, where + what)
            self._next_time += 1
        self.end = position + header.length

    def faults(self, *, sealed: bool) -> list[Fault]:
        """What was found, once all batches have passed."""
        for position, (number, _) in self._entries.items():
            self._note(
                self._offset_path,
                number * _OFFSET_ENTRY.size,
                f"it points to {position}, where no batch begins",
            )
        for number, _, relative in self._times[self._next_time :]:
            self._note(
                self._time_path,
                number * _TIME_ENTRY.size,
                f"it tells of offset {self._base_offset + relative}, which is behind the end",
            )
        stamps = [timestamp for _, timestamp, _ in self._times]
        for index in range(1, len(stamps)):
            if stamps[index] <= stamps[index - 1]:
                self._note(self._time_path, index * _TIME_ENTRY.size, "its times do not rise")
        if sealed and self._newest != NO_TIMESTAMP and self._newest not in stamps[-1:]:
            self._note(
                self._time_path, None, f"it does not tell of the latest time, {self._newest}"
            )
        return self._faults
