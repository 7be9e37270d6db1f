"""Deadlines of one node, in its own monotonic time."""

import heapq
from collections.abc import Callable
from typing import Final

# Cancelled timers stay in the heap until they are due, which a client's timeout may put off for
# weeks. Beyond so many, and half of the heap, they are cleared out.
CANCELLED_MAX: Final = 1_000


class Timer:
    """A deadline that can be cancelled; cancelling one that has fired does nothing."""

    __slots__ = ("_timers", "action", "deadline_ms", "in_heap")

    def __init__(self, timers: "Timers", deadline_ms: float, action: Callable[[], None]) -> None:
        self._timers = timers
        self.deadline_ms = deadline_ms
        self.action: Callable[[], None] | None = action
        self.in_heap = True

    def cancel(self) -> None:
        if self.action is not None:
            self.action = None
            if self.in_heap:
                self._timers.cancelled()


class Timers:
    """A heap of timers. Those due at one instant fire in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = 0
        self._cancelled = 0  # in the heap

    def __len__(self) -> int:
        """Timers that are kept, cancelled ones among them."""
        return len(self._heap)

    def call_at(self, deadline_ms: float, action: Callable[[], None]) -> Timer:
        """Run `action` in the first step at or after `deadline_ms`."""
        timer = Timer(self, deadline_ms, action)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))
        return timer

    def next_deadline_ms(self) -> float:
        """When the next live timer is due; infinity when there is none."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else float("inf")

    def fire(self, now_ms: float) -> None:
        """Run every timer that is due; one set meanwhile waits for the next step."""
        heap = self._heap
        if not heap or heap[0][0] > now_ms:
            return
        due = []
        while heap and heap[0][0] <= now_ms:
            timer = heapq.heappop(heap)[2]
            if timer.action is None:
                self._cancelled -= 1
            else:
                timer.in_heap = False
                due.append(timer)
        for timer in due:
            action = timer.action
            timer.action = None
            if action is not None:
                action()

    def cancelled(self) -> None:
        """One more timer of the heap is cancelled."""
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
