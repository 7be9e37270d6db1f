"""Are snapshots of producers and indexes of aborted transactions what the log says?

A snapshot has a checksum; what it says of a producer's last batch is held against that batch. An
index of aborted transactions has none, and readers of committed records believe it: each entry is
worked out anew from the records of the transaction and its marker, as far as the log still has
them.
"""

from collections.abc import Collection
from typing import Final

from replog.log import files, producer_snapshot, transaction_index
from replog.log.disk import Disk
from replog.log.results import Fault
from replog.model.producers import AbortedTransaction, ProducerEntry
from replog.records.errors import CorruptBatch
from replog.records.header import BatchHeader
from replog.records.rewrite import ABORT_MARKER, COMMIT_MARKER, marker_type

_NOWHERE: Final = -1


class ProducerFiles:
    """All such files of one folder, read when this is made, and compared with the batches as they
    pass."""

    def __init__(
        self, disk: Disk, directory: str, names: Collection[str], *, gaps_allowed: bool
    ) -> None:
        """Raises DiskError."""
        self._gaps_allowed = gaps_allowed
        self._faults: list[Fault] = []
        self._first_offset: int | None = None
        # By the last offset of the batch that they tell of.
        self._entries: dict[int, list[tuple[str, ProducerEntry]]] = {}
        self._aborted: dict[int, tuple[str, int, AbortedTransaction]] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset of its transaction
        self._ended: dict[int, int] = {}  # producer id -> offset of its last marker
        self._index_paths: dict[int, str] = {}
        for name in names:
            path = f"{directory}/{name}"
            offset = files.base_offset_of(name, files.SNAPSHOT_SUFFIX)
            if offset is not None:
                self._read_snapshot(disk, path, offset)
            offset = files.base_offset_of(name, files.TRANSACTION_INDEX_SUFFIX)
            if offset is not None:
                self._read_index(disk, path, offset)

    def _read_snapshot(self, disk: Disk, path: str, offset: int) -> None:
        data = disk.read_file(path)
        if data is None:
            return  # it left just now
        entries = producer_snapshot.decode(data, offset)
        if isinstance(entries, str):
            self._note(path, None, entries)
            return
        for entry in entries:
            if entry.last_offset >= 0:
                self._entries.setdefault(entry.last_offset, []).append((path, entry))

    def _read_index(self, disk: Disk, path: str, offset: int) -> None:
        data = disk.read_file(path)
        if data is None:
            return
        entries = transaction_index.decode(data, offset)
        if isinstance(entries, str):
            self._note(path, None, entries)
            return
        for number, entry in enumerate(entries):
            at = number * transaction_index.ENTRY_SIZE
            self._aborted[entry.last_offset] = path, at, entry

    def _note(self, path: str, position: int | None, what: str) -> None:
        self._faults.append(Fault(path, position, what))

    def batch(self, path: str, header: BatchHeader, batch: memoryview) -> None:
        """The next batch of the log, which is in the file `path`."""
        if self._first_offset is None:
            self._first_offset = header.base_offset
        for snapshot, entry in self._entries.pop(header.last_offset, ()):
            if (header.producer_id, header.producer_epoch, header.last_sequence) != entry[:3]:
                self._note(snapshot, None, f"{entry} is not the batch that ends there")
        if not header.transactional:
            return
        if header.control:
            self._marker(path, header, batch)
        elif header.count:
            self._open.setdefault(header.producer_id, header.base_offset)

    def _marker(self, path: str, header: BatchHeader, batch: memoryview) -> None:
        try:
            kind = marker_type(batch, header)
        except CorruptBatch:
            return  # which was told as a fault of the batch
        if kind not in (ABORT_MARKER, COMMIT_MARKER):
            return
        producer, offset = header.producer_id, header.last_offset
        first = self._open.pop(producer, None)
        before = self._ended.get(producer, _NOWHERE)
        self._ended[producer] = offset
        found = self._aborted.pop(offset, None)
        if found is None:
            if kind == ABORT_MARKER and first is not None:
                index = path.removesuffix(files.LOG_SUFFIX) + files.TRANSACTION_INDEX_SUFFIX
                self._note(
                    index, None, f"it lacks what producer {producer} aborted from {first} on"
                )
            return
        index, at, entry = found
        stable = min(self._open.values(), default=offset + 1)
        # Compaction takes records of transactions, but never begins one earlier.
        begins = entry.first_offset == first or (
            (first is None or self._gaps_allowed)
            and before < entry.first_offset <= (offset if first is None else first)
        )
        if kind != ABORT_MARKER or entry.producer_id != producer:
            self._note(index, at, f"{entry} has no marker at {offset}")
        elif not begins:
            self._note(index, at, f"{entry} begins elsewhere, at {first}")
        elif entry.last_stable_offset > stable:
            self._note(index, at, f"{entry}: {stable} was not decided yet")

    def faults(self, end_offset: int) -> list[Fault]:
        """What was found, once all batches have passed and the log ends at `end_offset`."""
        first = end_offset if self._first_offset is None else self._first_offset
        for offset, told in self._entries.items():
            # Compaction, and deletion at the front, may have taken the batch.
            if offset >= end_offset or (offset >= first and not self._gaps_allowed):
                for path, entry in told:
                    self._note(path, None, f"no batch ends where {entry} says")
        for offset, (path, at, aborted) in self._aborted.items():
            if offset >= first:
                self._note(path, at, f"{aborted} has no marker at {offset}")
        return self._faults
