"""A log folder that failed is marked as one to be doubted: it takes another id.

The kernel may have dropped what it could not write. It shows that all the same, and no later sync
writes it: a next process that went by what it reads would take for safe what is on no device. By
its other id the controller takes the folder for a replaced one, and by letting go of cached pages
the next process finds what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from replog.log import checkpoints
from replog.log.disk import Disk, DiskError
from replog.model.ids import topic_id_text
from replog.model.outputs import Level
from replog.node.disk_jobs import run_disk_job

if TYPE_CHECKING:
    from replog.node.node import Node

# How often a broker whose last folder failed tries to mark it before it stops, and how far apart.
MARK_TRIES: Final = 5
MARK_RETRY_MS: Final = 1_000


class FolderDoubt:
    """Whether one folder is in doubt, and marked so. `settled` is called once it is known whether
    it could be marked for now."""

    def __init__(self, node: Node, disk: Disk, path: str, settled: Callable[[], None]) -> None:
        self._node = node
        self._disk = disk
        self._path = path
        self._settled = settled
        # It failed, and a next process would trust it all the same, as it is not marked yet.
        self.unmarked = False
        self.settling = False  # it is going to be marked soon, or never
        self._marking = False  # it is being marked
        self._id = ""

    def begin(self) -> None:
        """The folder failed. A disk that refuses may take the mark later: it is tried again for as
        long as the process lives."""
        self._begin()
        self.settling = True
        self._try(tries_left=MARK_TRIES)

    def begin_at_last(self) -> None:
        """It failed as the process ends: there is one try."""
        self._begin()
        try:
            self._mark_now()
        except DiskError as error:
            self._report(error)

    def end(self) -> None:
        """The process ends: one more try, where others were in vain."""
        if self.unmarked and not self._marking:
            with suppress(DiskError):  # that has been told of
                self._mark_now()

    def _begin(self) -> None:
        self.unmarked = True
        self._id = topic_id_text(self._node.rng.randbytes(16))

    def _try(self, tries_left: int) -> None:
        node = self._node

        def done(error: DiskError | None) -> None:
            self._marking = False
            if error is None:
                self.unmarked = False
            else:
                if tries_left == MARK_TRIES:
                    self._report(error)
                node.timers.call_at(
                    node.now_ms + MARK_RETRY_MS, lambda: self._try(max(tries_left - 1, 0))
                )
            if self.settling and (error is None or tries_left <= 1):
                self.settling = False
                self._settled()

        self._marking = True
        run_disk_job(node, self._mark, done)

    def _mark_now(self) -> None:
        self._mark()
        self.unmarked = False

    def _mark(self) -> None:
        """Waits for the device. Raises DiskError."""
        # First the name: a folder that has less than before and its old name is trusted.
        try:
            checkpoints.disown(self._disk, self._id)
        except checkpoints.WrongFolder as error:
            raise DiskError(str(error)) from error
        self._disk.forget_cached()

    def _report(self, error: DiskError) -> None:
        self._node.report(
            Level.ERROR,
            f"log folder {self._path} can't be marked as one that failed: replace it before the "
            f"next start, if the broker ends before it is: {error}",
        )
