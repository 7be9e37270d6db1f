"""Making sealed segments durable outside the step, so that a restart need not check them."""

from collections.abc import Callable, Sequence

from replog.log.disk import DiskError
from replog.log.segment import Segment


class RolledFlush:
    """The work of one flush: call it on any thread, then hand it to `PartitionLog.flushed`.

    It touches only the disk and segments that are no longer appended to. `offset` is the recovery
    point that holds afterwards, unless the log was cut meanwhile: `cuts` tells.
    """

    __slots__ = ("_flush_names", "_segments", "cuts", "log_closed", "offset")

    def __init__(
        self,
        segments: Sequence[Segment],
        *,
        offset: int,
        cuts: int,
        flush_names: Callable[[], None],
    ) -> None:
        self._segments = segments
        self._flush_names = flush_names
        self.offset = offset
        self.cuts = cuts
        self.log_closed = False

    def __call__(self) -> None:
        """Waits for the device. Raises DiskError, but not for a log that is gone by now."""
        try:
            self._flush_names()
            for segment in self._segments:
                segment.sync()
        except DiskError:
            if not self.log_closed:
                raise
