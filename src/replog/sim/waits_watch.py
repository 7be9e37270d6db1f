"""The oracle's view of what waits: it waits for something that is not there yet.

Whoever was not woken is served all the same when its time is over, and nobody notices anything but
time. So this looks at what waits, not at what comes of it.
"""

from typing import Final

from replog.node.fetch_context import FetchItem
from replog.node.node import Node
from replog.sim.broker import Life
from replog.sim.violation import Violation

# Of the steps of all nodes, one in so many is looked at: who was forgotten waits for longer.
LOOK_EVERY: Final = 8


class WaitsWatch:
    """Raises Violation."""

    def __init__(self) -> None:
        self._steps = 0

    def look(self, life: Life) -> None:
        """`life` has taken a step, and has woken everybody whom it concerns."""
        self._steps += 1
        if self._steps % LOOK_EVERY:
            return
        node = life.node
        for tp, offset in node.waits.parked_commits():
            partition = node.partitions.get(tp)
            if partition is None or offset <= partition.high_watermark:
                raise Violation(
                    "a write waits for its commit, and no longer",
                    f"{life.name} {tp}: one that ends at {offset}, HW is "
                    f"{None if partition is None else partition.high_watermark}",
                )
        for fetch in node.waits.parked():
            if fetch.context.follower is not None:
                continue  # its session keeps partitions of which it was told, and asks anew
            for item in fetch.context.items.values():
                end = _readable_up_to(node, item)
                if item.fetch_offset < end:
                    raise Violation(
                        "a consumer waits for records, and no longer",
                        f"{life.name} {item.tp} from {item.fetch_offset}: records up to {end}",
                    )


def _readable_up_to(node: Node, item: FetchItem) -> int:
    """For a consumer, where it is answered at all; -1 elsewhere."""
    partition = None if item.tp is None else node.partitions.get(item.tp)
    if partition is None or partition.topic_id != item.topic_id:
        return -1
    if partition.is_leader and not node.lease.valid:
        return -1  # it may be answered with nothing else than that
    return partition.high_watermark
