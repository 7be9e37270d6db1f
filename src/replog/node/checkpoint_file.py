"""One of the log folder's files of offsets, written while the broker works.

Writing one waits for the device, so it is a job: the new content goes to a file aside, and takes
the old one's place in the step that hears of its end. Where the file must change before anything
else happens it is written in the step, and what a job prepared meanwhile is thrown away: an older
content never replaces a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from replog.log import checkpoints
from replog.log.disk import Disk, DiskError
from replog.model.ids import TopicPartition
from replog.model.outputs import Level
from replog.node.disk_jobs import run_disk_job

if TYPE_CHECKING:
    from replog.node.node import Node

Offsets = Mapping[TopicPartition, int]
Written = Callable[[str | None], None]  # with the error, if there was one


class CheckpointFile:
    """`collect` gives the offsets as they are now."""

    def __init__(
        self,
        node: Node,
        disk: Disk,
        name: str,
        collect: Callable[[], Offsets],
        on_failed: Callable[[DiskError], None],
    ) -> None:
        """`on_failed` hears of it when `disk` does not take the file."""
        self._node = node
        self._disk = disk
        self._on_failed = on_failed
        self._name = name
        self._collect = collect
        self._written: Offsets | None = None
        self._turn = 0  # of the newest content that was begun
        self._under_way = False
        self._pending: Offsets = {}  # what the job that is under way will put in place
        # Whom the file mentions no more, until its last change is sure to outlive a power cut.
        self._may_come_back: set[TopicPartition] = set()
        self._again = False
        self._waiting: list[Written] = []

    def read(self) -> dict[TopicPartition, int]:
        """What the last process wrote; empty, with a report, when it makes no sense."""
        found, reason = checkpoints.read(self._disk, self._name)
        if reason is not None:
            self._node.report(Level.WARNING, f"{self._name} is not used: {reason}")
        self._may_come_back.update(found)
        return found

    def write_now(self) -> None:
        """Durable when this returns. Raises DiskError."""
        self._turn += 1
        offsets = self._collect()
        checkpoints.write(self._disk, self._name, offsets)
        self._written = offsets
        self._pending = {}  # it is thrown away
        self._may_come_back.clear()

    def mentions(self, tp: TopicPartition) -> bool:
        """Whether the file has an offset for `tp`, or may have one, after a power cut too, or
        will."""
        if self._written is None or tp in self._written or tp in self._pending:
            return True
        return tp in self._may_come_back

    def write_durably(self, then: Written) -> None:
        """As `write_later`; `then` runs once the offsets of this moment outlive a power cut."""
        self._waiting.append(then)
        self.write_later()

    def write_later(self) -> None:
        """Have it written if anything changed; one job is under way at a time."""
        if self._under_way:
            self._again = True
            return
        waiting, self._waiting = self._waiting, []
        offsets = self._collect()
        if offsets == self._written:
            self._make_durable(waiting)
            return
        self._turn += 1
        turn, disk, aside = self._turn, self._disk, f"{self._name}.next"
        self._under_way = True
        self._pending = offsets

        def done(error: DiskError | None) -> None:
            self._under_way = False
            self._pending = {}
            if error is None and turn == self._turn:
                try:
                    disk.rename(aside, self._name)
                    self._may_come_back.update(() if self._written is None else self._written)
                    self._may_come_back.difference_update(offsets)
                    self._written = offsets
                except DiskError as failure:
                    error = failure
            if error is not None:
                self._on_failed(error)
                for then in waiting:
                    then(str(error))
            else:
                self._make_durable(waiting)
            if self._again:
                self._again = False
                self.write_later()

        run_disk_job(self._node, lambda: checkpoints.write(disk, aside, offsets), done)

    def _make_durable(self, waiting: list[Written]) -> None:
        """The file has its name, and keeps it through a power cut, if anybody wants it to."""
        if not waiting and not self._may_come_back:
            return
        disk, turn = self._disk, self._turn

        def done(error: DiskError | None) -> None:
            if error is not None:
                self._on_failed(error)
            elif turn == self._turn:
                self._may_come_back.clear()
            for then in waiting:
                then(None if error is None else str(error))

        run_disk_job(self._node, lambda: disk.sync_directory(""), done)
