"""Disk work outside the step whose failure keeps its kind: a full disk is not a broken one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.model.inputs import JobDone

if TYPE_CHECKING:
    from replog.node.node import Node


def run_disk_job(
    node: Node, work: Callable[[], object], on_done: Callable[[DiskError | None], None]
) -> None:
    """Run `work` as a job; `on_done` runs in the step that brings its end, with what it raised."""
    failures: list[DiskError] = []

    def caught() -> None:
        try:
            work()
        except DiskError as error:
            failures.append(error)
            raise

    def done(ended: JobDone) -> None:
        if failures:
            on_done(failures[0])
        else:
            on_done(None if ended.error is None else DiskError(ended.error))

    node.run_job(caught, done)
