"""What compaction has to know of a log before it may drop anything: transactions and producers.

Found by one walk over the headers of all segments that may be compacted; the transaction index of
another program is not needed. A transaction whose outcome is not among them keeps everything from
its first record on from being touched.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

from replog.log.scan import walk_headers
from replog.log.segment import Segment
from replog.model.ids import NO_OFFSET
from replog.records.header import BatchHeader
from replog.records.rewrite import ABORT_MARKER, COMMIT_MARKER, marker_type


@dataclass(slots=True)
class _LastWords:
    """The last that a producer has written: what its state is made of."""

    data_offset: int  # last offset of its last batch with data, -1 when it wrote markers alone
    epoch: int
    timestamp: int


@dataclass(slots=True)
class Survey:
    """Filled by `note`, batch after batch in the order of the log."""

    _aborted: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _open: dict[int, int] = field(default_factory=dict)  # producer id -> first offset
    _producers: dict[int, _LastWords] = field(default_factory=dict)

    @property
    def first_undecided(self) -> int | None:
        """Where the first transaction without a marker begins, None without one."""
        return min(self._open.values(), default=None)

    def note(self, header: BatchHeader, marker: int | None) -> None:
        """One more batch; `marker` is the type of a control batch."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        if header.control:
            if marker in (ABORT_MARKER, COMMIT_MARKER):
                first = self._open.pop(producer_id, None)
                if first is not None and marker == ABORT_MARKER:
                    self._aborted.setdefault(producer_id, []).append((first, header.last_offset))
        elif header.transactional and header.count:
            self._open.setdefault(producer_id, header.base_offset)
        known = self._producers.get(producer_id)
        data_offset = header.last_offset if not header.control else NO_OFFSET
        if header.control and known is not None and known.epoch == header.producer_epoch:
            data_offset = known.data_offset
        self._producers[producer_id] = _LastWords(
            data_offset,
            header.producer_epoch,
            max(header.max_timestamp, known.timestamp if known else header.max_timestamp),
        )

    def aborted(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to a transaction that was aborted."""
        if not header.transactional or header.control:
            return False
        spans = self._aborted.get(header.producer_id, [])
        found = bisect_right(spans, header.base_offset, key=itemgetter(0))
        return found > 0 and header.base_offset < spans[found - 1][1]

    def last_of_producer(self, header: BatchHeader, *, active_since: int) -> bool:
        """Whether the producer's state hangs on this batch: it has its last sequence, or, when only
        markers are left of it, its epoch. Not of one that wrote nothing since `active_since`."""
        known = self._producers.get(header.producer_id)
        if header.producer_id < 0 or known is None or known.timestamp < active_since:
            return False
        if known.data_offset >= 0:
            return not header.control and header.last_offset == known.data_offset
        return header.control and header.producer_epoch == known.epoch


def walk(segment: Segment) -> Iterator[tuple[BatchHeader, int | None]]:
    """Every batch of a sealed segment with the type of its marker, if it is one.

    Raises DiskError, LogCorrupt, CorruptBatch.
    """
    for header in walk_headers(segment.file, 0, segment.size):
        marker = None
        if header.control:
            data = segment.file.read(header.position, header.length)
            marker = marker_type(data, BatchHeader(data, 0))
        yield header, marker
