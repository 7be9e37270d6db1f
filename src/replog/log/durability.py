"""Making a log durable outside the step: sealed segments, so that a restart need not check them, or
all of it, so that a power cut can't take it away."""

from collections.abc import Callable, Sequence

from replog.log.disk import DiskError, DiskFile
from replog.log.segment import Segment


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
