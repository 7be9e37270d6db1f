"""What is known of producers is on stable storage before the segments leave that would tell it.

The first segment that stays must begin with a snapshot. One further behind tells as much, but only
until the log is cut back to before it. A snapshot is written whenever a segment is full, but
outside the step and in no order with other jobs, and power may take it: at the next start it is
written anew. Without it a broker that was killed would take any sequence from a producer whose
records are gone: repetitions, and what is behind a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from replog.log.disk import DiskError
from replog.node.disk_jobs import run_disk_job

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# A snapshot that is missing is being written, or is not going to be before the next start.
LOOK_AGAIN_MS: Final = 10_000


def may_leave(partition: Partition, start: int) -> int:
    """How many of the segments below `start` may leave."""
    log = partition.log
    count = log.below_start(start)
    if partition.producers.producers:
        bases = log.base_offsets
        while count and not log.snapshots.is_kept(bases[count]):
            count -= 1
    return count


def keep(node: Node, partition: Partition, start: int, then: Callable[[], None]) -> None:
    """Do the next thing for more of them to leave, outside the step; `then` has to look again. A
    job that fails is the folder's affair, and nothing follows."""
    log = partition.log
    bases = log.base_offsets[1 : log.below_start(start) + 1]
    written = [base for base in bases if base in log.snapshots.offsets]
    if not written:
        node.timers.call_at(node.now_ms + LOOK_AGAIN_MS, then)
        return
    sync = log.snapshots.begin_sync(written[-1])

    def done(error: DiskError | None) -> None:
        if node.partitions.get(partition.tp) is not partition:
            return
        if error is not None:
            partition.folder.failed(error)
            return
        log.snapshots.note_synced(sync)
        then()

    run_disk_job(node, sync, done)
