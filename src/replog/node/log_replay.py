"""A new coordinator reads what it keeps out of its log before it answers for it.

It begins when the high watermark has reached the log's end at the election: from then on nothing
of earlier leaders can be committed that was not read. Long logs are read in slices, one a step, so
that the broker stays responsive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from replog.codec import MalformedMessage
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.results import OutOfRange
from replog.model.errors import ErrorCode
from replog.model.outputs import Level
from replog.records.batch import BatchHeader, CorruptBatch, Record, iterate, records_of
from replog.records.header import crc_ok

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# Bytes of log read in one step. A record takes some 20 us to decode and 150 bytes, so that a slice
# holds the loop up for some 10 ms.
SLICE_BYTES = 64 * 1024

COMMIT_MARKER = 1  # type of a control record; 0 aborts

T = TypeVar("T")


class LogReplay(Generic[T]):
    """Reads one partition of an internal topic, up to where it ended at the election."""

    def __init__(
        self,
        node: Node,
        partition: Partition,
        *,
        read: Callable[[Record], T | None],
        apply: Callable[[T], None],
        on_done: Callable[[bool], None],
    ) -> None:
        """`read` tells what a record says (None: nothing to us; raises MalformedMessage), `apply`
        gets that in the order of the log. `on_done(whether the log could be read)` runs once,
        unless the leadership ends before.
        """
        self._node = node
        self._partition = partition
        self._epoch = partition.leader_epoch
        self._read = read
        self._apply = apply
        self._on_done = on_done
        self._position = partition.log_start_offset
        self._end = partition.log_end_offset
        self._open: dict[int, list[T]] = {}  # producer id -> what its open transaction says
        self._poison = 0
        self._first_poison = ""

    def begin(self) -> None:
        """Wait until everything up to the end is committed, then read."""
        waits = self._node.waits
        waits.park_commit(self._partition.tp, self._end, self._on_committed)
        waits.committed(self._partition)  # it may be committed already

    def _on_committed(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._read_on()

    def _read_on(self) -> None:
        """Read a slice; go on in the next step while there is more."""
        partition = self._partition
        if not partition.is_leader or partition.leader_epoch != self._epoch:
            return
        if self._position < self._end and not self._read_slice():
            self._on_done(False)
        elif self._position < self._end:
            self._node.timers.call_at(self._node.now_ms, self._read_on)
        else:
            self._report_poison()
            self._on_done(True)

    def _read_slice(self) -> bool:
        log = self._partition.log
        try:
            read = log.read(self._position, SLICE_BYTES, upto=self._end, min_one=True)
            if isinstance(read, OutOfRange):
                if read.log_start_offset <= self._position:
                    return self._failed(f"offset {self._position} is not in the log")
                self._position = read.log_start_offset  # the front was deleted meanwhile
                return True
            if read.range is None:
                self._position = self._end  # compaction left nothing behind this offset
                return True
            buffer = read.range.read()
            headers = iterate(buffer)
        except (DiskError, LogCorrupt) as error:
            self._node.partitions.read_failed(self._partition, error)
            return self._failed(str(error))
        except CorruptBatch as error:
            return self._failed(str(error))
        if not headers:
            return self._failed(f"no whole batch is at offset {self._position}")
        for header in headers:
            if header.next_offset > self._position:
                self._take_batch(buffer, header)
                self._position = header.next_offset
        return True

    def _take_batch(self, buffer: bytes, header: BatchHeader) -> None:
        if not crc_ok(buffer, header):
            reason = f"offset {header.base_offset}: the CRC does not match"
            self._node.partitions.damaged.found(self._partition, reason)
            self._note_poison(header.base_offset, CorruptBatch(reason))
            return
        try:
            records = list(records_of(buffer, header))
        except CorruptBatch as error:
            self._note_poison(header.base_offset, error)
            return
        if header.control:
            self._end_transaction(header.producer_id, records)
            return
        changes = []
        for record in records:
            try:
                change = self._read(record)
            except MalformedMessage as error:
                self._note_poison(record.offset, error)
                continue
            if change is not None:
                changes.append(change)
        if header.transactional:
            self._open.setdefault(header.producer_id, []).extend(changes)
            return
        for change in changes:
            self._apply(change)

    def _end_transaction(self, producer_id: int, markers: list[Record]) -> None:
        changes = self._open.pop(producer_id, [])
        key = markers[0].key if markers else None
        if key is not None and len(key) >= 4 and key[3] == COMMIT_MARKER:
            for change in changes:
                self._apply(change)

    # ---- what could not be read ----------------------------------------------------------------

    def _note_poison(self, offset: int, error: Exception) -> None:
        self._poison += 1
        if self._poison == 1:
            self._first_poison = f"offset {offset}: {error}"

    def _report_poison(self) -> None:
        if self._poison:
            self._node.report(
                Level.ERROR,
                f"{self._partition.tp}: {self._poison} records or batches can't be read and were "
                f"passed over, the first at {self._first_poison}",
            )

    def _failed(self, reason: str) -> bool:
        self._node.report(Level.ERROR, f"{self._partition.tp} can't be loaded: {reason}")
        return False
