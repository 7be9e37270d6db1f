"""What is known of producers is on stable storage before the segments leave that would tell it.

A snapshot is written whenever a segment is full, but outside the step and in no order with other
jobs, and a name that is not synced goes with the power. Without it a broker that was killed would
take any sequence from a producer whose records are gone: repetitions, and what is behind a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.node.disk_jobs import run_disk_job

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition


def are_kept(partition: Partition) -> bool:
    """Whether the segments below the log's start may leave."""
    log = partition.log
    leaving = log.below_start()
    return (
        not leaving
        or not partition.producers.producers
        or log.snapshots.synced >= log.base_offsets[leaving]
    )


def keep(node: Node, partition: Partition, then: Callable[[], None]) -> None:
    """Do the next thing for that outside the step; `then` has to look again. A job that fails is
    the folder's affair, and nothing follows."""
    log, disk = partition.log, partition.folder.disk
    snapshots = log.snapshots

    def done(error: DiskError | None, note: Callable[[], None]) -> None:
        if node.partitions.get(partition.tp) is not partition:
            return
        try:
            if error is not None:
                raise error
            note()
        except DiskError as failure:
            partition.folder.failed(failure)
            return
        then()

    if snapshots.offsets and snapshots.offsets[-1] >= log.base_offsets[log.below_start()]:
        sync = snapshots.begin_sync()
        run_disk_job(
            node,
            lambda: disk.sync_directory(log.directory),
            lambda error: done(error, lambda: snapshots.note_synced(sync)),
        )
        return
    snapshot = snapshots.begin(log.log_end_offset)
    entries = partition.producers.copy().entries
    run_disk_job(
        node,
        lambda: snapshot(entries()),
        lambda error: done(error, lambda: snapshots.keep(snapshot, frozenset(log.base_offsets))),
    )
