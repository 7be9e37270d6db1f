"""Virtual time: one heap of (time, sequence, target, item).

Whatever happens in a run is the delivery of one item to one target. Items due at one instant are
delivered in the order in which they were scheduled, so a run is a function of its seed.
"""

import heapq
import zlib
from typing import Any


class Target:
    """Something that items are delivered to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tag = zlib.crc32(name.encode())  # stands for the name in the digest

    def take(self, item: Any) -> None:
        """One item is here."""
        raise NotImplementedError


class Schedule:
    """The heap, the time in milliseconds, and a digest of all that happened."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.delivered = 0
        self.digest = 0
        self._heap: list[tuple[float, int, Target, Any]] = []
        self._sequence = 0

    def at(self, time_ms: float, target: Target, item: Any) -> None:
        """Deliver `item` at `time_ms`, or now when that is past."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(time_ms, self.now_ms), self._sequence, target, item))

    def after(self, delay_ms: float, target: Target, item: Any) -> None:
        """Deliver `item` when `delay_ms` have passed."""
        self.at(self.now_ms + delay_ms, target, item)

    def run_until(self, time_ms: float) -> None:
        """Deliver everything that is due up to `time_ms`; that is the time afterwards."""
        heap = self._heap
        while heap and heap[0][0] <= time_ms:
            due, _, target, item = heapq.heappop(heap)
            self.now_ms = due
            self.delivered += 1
            self.digest = hash((self.digest, due, target.tag))
            target.take(item)
        self.now_ms = time_ms

    def mix(self, *facts: int) -> None:
        """Let numbers that must not differ between two runs of a seed take part in the digest."""
        self.digest = hash((self.digest, facts))
