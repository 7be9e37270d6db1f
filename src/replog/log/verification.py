"""Is a partition's folder what its files say that it is? Reads everything, changes nothing.

Indexes are read before the log that they point into, so that a log that grows meanwhile is no
fault. Files that leave meanwhile are passed over.
"""

from dataclasses import dataclass, field
from typing import Final

from replog.log import epoch_file, files
from replog.log.disk import Disk, DiskError, DiskFile
from replog.log.errors import LogCorrupt
from replog.log.results import Fault
from replog.log.verified_indexes import SegmentIndexes
from replog.log.verified_producers import ProducerFiles
from replog.log.walk import READ_BYTES, walk_unchecked
from replog.records.errors import CorruptBatch
from replog.records.header import HEADER_SIZE, BatchHeader, crc_ok
from replog.records.rewrite import expand
from replog.records.walk import check_records

_OFFSETS_OF_SEGMENT_MAX: Final = 2**31 - 1


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
    names = disk.list(directory)
    producers = ProducerFiles(disk, directory, names, gaps_allowed=gaps_allowed)
    check = _Folder(disk, verified, producers, log_start_offset, gaps_allowed=gaps_allowed)
    epochs_before = check.epochs()
    found = (files.base_offset_of(name, files.LOG_SUFFIX) for name in names)
    bases = sorted(base for base in found if base is not None)
    for base_offset, following in zip(bases, [*bases[1:], None], strict=True):
        check.segment(base_offset, following)
    verified.faults += producers.faults(verified.end_offset)
    # The log may grow: what was read before it can't be ahead of it, what is read after not behind.
    check.compare_epochs(epochs_before, check.epochs())
    check.metadata(names)
    return verified


class _Folder:
    """One folder, segment after segment."""

    def __init__(
        self,
        disk: Disk,
        verified: Verified,
        producers: ProducerFiles,
        log_start_offset: int,
        *,
        gaps_allowed: bool,
    ) -> None:
        self._disk = disk
        self._verified = verified
        self._producers = producers
        self._log_start_offset = log_start_offset
        self._gaps_allowed = gaps_allowed
        self._expected: int | None = None  # the next batch begins here
        self._replaced = False  # the segment begins inside the one in front of it
        self._reaches_over = False
        self._epoch = -1
        # Each with the first and the last offset seen of it.
        self._epochs: list[tuple[int, int, int]] = []
        self._epoch_path = f"{verified.directory}/{files.LEADER_EPOCH_CHECKPOINT}"

    # ---- segments ------------------------------------------------------------------------------

    def segment(self, base_offset: int, following: int | None) -> None:
        """One segment with its indexes; `following` is the base of the next one."""
        verified, producers = self._verified, self._producers
        stem = files.stem(verified.directory, base_offset)
        path = stem + files.LOG_SUFFIX
        try:
            indexes = SegmentIndexes(self._disk, stem, base_offset)
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
                elif (what := _records_fault(header, batch)) is not None:
                    verified.fault(path, position, what)
                self._batch(path, position, header, base_offset, following)
                indexes.batch(position, header)
                if not self._replaced:
                    producers.batch(path, header, batch)
        except LogCorrupt as error:
            what = _without_path(str(error), path)
            if _only_zeros(file, indexes.end):
                what = (
                    f"only zeros from here to {size}: room that was made in advance, which the "
                    "next start cuts off, or records that a power cut has taken"
                )
            verified.fault(path, indexes.end, what)
        except DiskError as error:
            verified.fault(path, indexes.end, _without_path(str(error), path))
        finally:
            file.close()
        verified.faults += indexes.faults(sealed=following is not None)
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
            self._epochs.append((epoch, header.base_offset, header.last_offset))
            self._epoch = epoch
        elif epoch >= 0:
            self._epochs[-1] = (epoch, self._epochs[-1][1], header.last_offset)
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
        for epoch, first, last in self._epochs:
            # What is deleted has no entry, though its segment is still there.
            for offset in (max(first, start), last) if last >= start else ():
                known = [entry[0] for entry in after if entry[1] <= offset]
                if known[-1:] != [epoch]:
                    told = f"epoch {known[-1]}" if known else "no epoch"
                    verified.fault(
                        path, None, f"offset {offset} has epoch {epoch}, the file tells of {told}"
                    )
                    break
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


def _records_fault(header: BatchHeader, batch: memoryview) -> str | None:
    """Why the payload is not the records that the header tells of."""
    if not header.count and header.length == HEADER_SIZE:
        return None  # compaction left the header alone
    try:
        check_records(expand(batch, header), header.count)
    except CorruptBatch as error:
        return f"its records can't be read: {error}"
    return None


def _only_zeros(file: DiskFile, position: int) -> bool:
    while data := file.read(position, READ_BYTES):
        if data.strip(b"\0"):
            return False
        position += len(data)
    return True


def _without_path(text: str, path: str) -> str:
    """The fault names its file already."""
    at = text.find(path)
    return text if at < 0 else text[at + len(path) :].lstrip(": ")
