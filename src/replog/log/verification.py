"""Is a partition's folder what its files say that it is? Reads everything, changes nothing.

Indexes are read before the log that they point into, so that a log that grows meanwhile is no
fault. Files that leave meanwhile are passed over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from replog.log import epoch_file, files
from replog.log.disk import Disk, DiskError
from replog.log.errors import LogCorrupt
from replog.log.walk import walk_unchecked
from replog.records.header import NO_TIMESTAMP, BatchHeader, crc_ok

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
_OFFSETS_OF_SEGMENT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, in which file, and at which byte of it where that can be said."""

    path: str
    position: int | None
    what: str


@dataclass(slots=True)
class Verified:
    """What was looked at, and what is wrong with it."""

    directory: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    first_offset: int | None = None  # of the first segment
    end_offset: int = 0
    faults: list[Fault] = field(default_factory=list)

    def fault(self, path: str, position: int | None, what: str) -> None:
        self.faults.append(Fault(path, position, what))


def verify(
    disk: Disk, directory: str, *, log_start_offset: int = 0, gaps_allowed: bool = False
) -> Verified:
    """Look at a whole folder. `gaps_allowed`: compaction may have taken offsets away.

    Raises DiskError when the folder itself can't be read.
    """
    verified = Verified(directory)
    check = _Folder(disk, verified, log_start_offset, gaps_allowed=gaps_allowed)
    epochs_before = check.epochs()
    names = disk.list(directory)
    found = (files.base_offset_of(name, files.LOG_SUFFIX) for name in names)
    bases = sorted(base for base in found if base is not None)
    for base_offset, following in zip(bases, [*bases[1:], None], strict=True):
        check.segment(base_offset, following)
    # The log may grow: what was read before it can't be ahead of it, what is read after not behind.
    check.compare_epochs(epochs_before, check.epochs())
    check.metadata(names)
    return verified


class _Folder:
    """One folder, segment after segment."""

    def __init__(
        self, disk: Disk, verified: Verified, log_start_offset: int, *, gaps_allowed: bool
    ) -> None:
        self._disk = disk
        self._verified = verified
        self._log_start_offset = log_start_offset
        self._gaps_allowed = gaps_allowed
        self._expected: int | None = None  # the next batch begins here
        self._replaced = False  # the segment begins inside the one in front of it
        self._reaches_over = False
        self._epoch = -1
        self._epochs: list[tuple[int, int]] = []  # each with the first offset seen of it
        self._epoch_path = f"{verified.directory}/{files.LEADER_EPOCH_CHECKPOINT}"

    # ---- segments ------------------------------------------------------------------------------

    def segment(self, base_offset: int, following: int | None) -> None:
        """One segment with its indexes; `following` is the base of the next one."""
        verified, stem = self._verified, files.stem(self._verified.directory, base_offset)
        path = stem + files.LOG_SUFFIX
        try:
            indexes = _Indexes(self._disk, stem, base_offset)
            file = self._disk.open(path)
        except DiskError as error:
            if self._disk.exists(path):
                verified.fault(path, None, str(error))
            return  # it left just now
        try:
            size = file.size()
            verified.segments += 1
            verified.bytes += size
            if verified.first_offset is None:
                verified.first_offset = base_offset
            if self._expected is None or (self._gaps_allowed and base_offset > self._expected):
                self._expected = base_offset
            self._replaced = base_offset < self._expected
            self._reaches_over = False
            for position, header, batch in walk_unchecked(file, size):
                if not crc_ok(batch, header):
                    verified.fault(path, position, "the CRC does not match")
                self._batch(path, position, header, base_offset, following)
                indexes.batch(position, header)
        except (DiskError, LogCorrupt) as error:
            verified.fault(path, indexes.end, _without_path(str(error), path))
        finally:
            file.close()
        for fault in indexes.faults():
            verified.faults.append(fault)
        verified.end_offset = self._expected or 0

    def _batch(
        self,
        path: str,
        position: int,
        header: BatchHeader,
        base_offset: int,
        following: int | None,
    ) -> None:
        verified = self._verified
        verified.batches += 1
        verified.records += max(header.count, 0)
        if self._replaced:
            return  # the one in front of it has its offsets, which was told there
        for what in (
            self._offsets(header, base_offset, following),
            self._count(header),
            self._leader_epoch(header),
        ):
            if what is not None:
                verified.fault(path, position, what)
        self._expected = max(self._expected or 0, header.next_offset)

    def _offsets(self, header: BatchHeader, base_offset: int, following: int | None) -> str | None:
        expected, first, last = self._expected or 0, header.base_offset, header.last_offset
        if first < base_offset:
            return f"offset {first} is before the segment's first one"
        if last - base_offset > _OFFSETS_OF_SEGMENT_MAX:
            return f"offset {last} does not belong into this segment"
        if following is not None and following <= last and not self._reaches_over:
            self._reaches_over = True  # told once
            return (
                f"offset {last} is in the next segment, from {following} on: a compaction is under "
                "way, or a crash cut it short and the next start ends it"
            )
        if first < expected:
            return f"offset {first} comes after {expected - 1}"
        if first > expected and not self._gaps_allowed:
            return f"offsets {expected} to {first - 1} are missing"
        return None

    def _count(self, header: BatchHeader) -> str | None:
        offsets = header.last_offset_delta + 1
        if header.last_offset_delta < 0 or not 0 <= header.count <= offsets:
            return f"{header.count} records at {offsets} offsets"
        if header.count < offsets and not self._gaps_allowed:
            return f"only {header.count} records at {offsets} offsets"
        return None

    def _leader_epoch(self, header: BatchHeader) -> str | None:
        epoch = header.leader_epoch
        if epoch < self._epoch:
            return f"epoch {epoch} comes after {self._epoch}"
        if epoch > self._epoch:
            self._epochs.append((epoch, header.base_offset))
            self._epoch = epoch
        return None

    # ---- other files ---------------------------------------------------------------------------

    def epochs(self) -> list[tuple[int, int]] | str:
        """The entries of the epoch file, or what is wrong with it."""
        data = self._disk.read_file(self._epoch_path)
        if data is None:
            return "it is missing"
        entries = epoch_file.parse(data)
        return "it can't be read as epochs with their offsets" if entries is None else entries

    def compare_epochs(
        self, before: list[tuple[int, int]] | str, after: list[tuple[int, int]] | str
    ) -> None:
        """The file tells of every epoch that has a batch, and of none behind the end."""
        verified, path = self._verified, self._epoch_path
        if isinstance(before, str) or isinstance(after, str):
            verified.fault(path, None, str(after if isinstance(after, str) else before))
            return
        start = self._log_start_offset
        ends = [first for _, first in self._epochs[1:]] + [verified.end_offset]
        for (epoch, first), end in zip(self._epochs, ends, strict=True):
            if end <= start:
                continue  # all of it is deleted, though its segment is still there
            known = [entry for entry in after if entry[1] <= max(first, start)]
            if not known or known[-1][0] != epoch:
                told = f"epoch {known[-1][0]}" if known else "no epoch"
                verified.fault(
                    path, None, f"offset {first} has epoch {epoch}, the file tells of {told}"
                )
        if before and before[-1][1] > verified.end_offset:
            epoch, first = before[-1]
            verified.fault(
                path,
                None,
                f"epoch {epoch} begins at {first}, the log ends at {verified.end_offset}",
            )

    def metadata(self, names: list[str]) -> None:
        """The folder says which topic it belongs to."""
        path = f"{self._verified.directory}/{files.PARTITION_METADATA}"
        if files.PARTITION_METADATA not in names:
            self._verified.fault(path, None, "it is missing")
            return
        data = self._disk.read_file(path)
        if data is not None and files.parse_metadata(data) is None:
            self._verified.fault(path, None, "it tells no topic id")


class _Indexes:
    """Both indexes of one segment, compared with its batches as they pass."""

    def __init__(self, disk: Disk, stem: str, base_offset: int) -> None:
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
        if entry is not None and entry[1] < header.base_offset:
            self._note(
                self._offset_path,
                entry[0] * _OFFSET_ENTRY.size,
                f"offset {entry[1]} is said to be at {position}, where {header.base_offset} is",
            )
        self._newest = max(self._newest, header.max_timestamp)
        while self._next_time < len(self._times):
            number, timestamp, relative = self._times[self._next_time]
            if self._base_offset + relative > header.last_offset:
                break
            if timestamp < self._newest:
                self._note(
                    self._time_path,
                    number * _TIME_ENTRY.size,
                    f"up to offset {self._base_offset + relative} nothing is said to be later than "
                    f"{timestamp}, but {self._newest} is",
                )
            self._next_time += 1
        self.end = position + header.length

    def faults(self) -> list[Fault]:
        """What was found, once all batches have passed."""
        for position, (number, _) in self._entries.items():
            self._note(
                self._offset_path,
                number * _OFFSET_ENTRY.size,
                f"it points to {position}, where no batch begins",
            )
        stamps = [timestamp for _, timestamp, _ in self._times]
        for index in range(1, len(stamps)):
            if stamps[index] <= stamps[index - 1]:
                self._note(self._time_path, index * _TIME_ENTRY.size, "its times do not rise")
        return self._faults


def _without_path(text: str, path: str) -> str:
    """The fault names its file already."""
    at = text.find(path)
    return text if at < 0 else text[at + len(path) :].lstrip(": ")
