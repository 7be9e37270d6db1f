"""Making a log durable outside the step: sealed segments, so that a restart need not check them, or
all of it, so that a power cut can't take it away."""

from collections.abc import Callable, Sequence

from replog.log.disk import Disk, DiskError, DiskFile
from replog.log.epoch_file import EpochFile
from replog.log.identity import sync_identity
from replog.log.segment import Segment
from replog.log.transaction_index import AbortedTransactions


class LogFlush:
    """The work of one flush: call it on any thread, then hand it to `PartitionLog.flushed`.

    It touches only the disk, segments that are no longer appended to, and the `active` one's file
    when that is to be flushed too. `offset` is the recovery point that holds afterwards, unless the
    log was cut meanwhile: `cuts` tells. `names` counts the changes of the folder.
    """

    __slots__ = (
        "_active",
        "_flush_names",
        "_segments",
        "cuts",
        "log_closed",
        "names",
        "offset",
    )

    def __init__(
        self,
        segments: Sequence[Segment],
        active: DiskFile | None = None,
        *,
        offset: int,
        cuts: int,
        names: int,
        flush_names: Callable[[], None],
    ) -> None:
        self._segments = segments
        self._active = active
        self._flush_names = flush_names
        self.offset = offset
        self.cuts = cuts
        self.names = names
        self.log_closed = False

    @property
    def to_end(self) -> bool:
        """Whether it takes in all that was appended, and not sealed segments alone."""
        return self._active is not None

    def __call__(self) -> None:
        """Waits for the device. Raises DiskError, but not for a log that is gone by now."""
        try:
            self._flush_names()
            for segment in self._segments:
                segment.sync()
            if self._active is not None:
                self._active.sync()
        except DiskError:
            if not self.log_closed:
                raise


class DurableLog:
    """The part of `PartitionLog` that this module is about."""

    directory: str
    aborted: AbortedTransactions
    log_end_offset: int
    _disk: Disk
    _segments: list[Segment]
    _active: Segment
    _epochs: EpochFile
    _cuts: int

    def __init__(self) -> None:
        self.recovery_point = 0  # everything below was flushed
        # Where it was truncated, or may have been, until that is on stable storage.
        self.unsynced_cut: int | None = None
        self._names = 1  # changes of the folder so far, and how many of them are durable
        self._names_synced = 0
        self._flushes: list[LogFlush] = []  # under way

    @property
    def certain_end(self) -> int:
        """No power cut leaves other records below this offset than are there now. A truncation that
        is not synced may come undone: what was cut off would stand there again."""
        return self.log_end_offset if self.unsynced_cut is None else self.unsynced_cut

    def flush(self) -> int:
        """Everything appended so far is on stable storage; returns the new recovery point.

        Waits for the device. Raises DiskError: then the pages are lost for good, do not try again.
        """
        self._flush_names()
        for segment in self._segments:
            if segment is self._active:
                segment.sync_bytes()  # recovery looks behind what its indexes say
            else:
                segment.sync()
        self.recovery_point = self.log_end_offset
        self.unsynced_cut = None
        return self.recovery_point

    def begin_flush(self, *, to_end: bool) -> LogFlush:
        """The work of making sealed segments durable, or all that was appended so far, for another
        thread; then `flushed`."""
        active = self._active
        flush = LogFlush(
            [s for s in self._segments[:-1] if s.dirty or s.entries_dirty],
            active.file if to_end else None,
            offset=self.log_end_offset if to_end else active.base_offset,
            cuts=self._cuts,
            names=self._names,
            flush_names=self._sync_names,
        )
        self._flushes.append(flush)
        return flush

    def flushed(self, flush: LogFlush) -> int:
        """`flush` ended without an error; returns the recovery point."""
        self._flushes.remove(flush)
        self._names_synced = max(self._names_synced, flush.names)
        if flush.cuts == self._cuts:
            self.recovery_point = max(self.recovery_point, flush.offset)
            if self.unsynced_cut is not None and (flush.to_end or self.unsynced_cut < flush.offset):
                self.unsynced_cut = None
        return self.recovery_point

    def _flush_names(self) -> None:
        self._sync_names()
        self._names_synced = self._names

    def _sync_names(self) -> None:
        self._epochs.sync()
        self.aborted.sync()
        if self._names_synced < self._names:
            sync_identity(self._disk, self.directory)
