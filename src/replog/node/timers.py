"""Deadlines of one node, in its own monotonic time."""

import heapq
from collections.abc import Callable


class Timer:
    """A deadline that can be cancelled; cancelling one that has fired does nothing."""

    __slots__ = ("action", "deadline_ms")

    def __init__(self, deadline_ms: float, action: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timers:
    """A heap of timers. Those due at one instant fire in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = 0

    def call_at(self, deadline_ms: float, action: Callable[[], None]) -> Timer:
        """Run `action` in the first step at or after `deadline_ms`."""
        timer = Timer(deadline_ms, action)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))
        return timer

    def next_deadline_ms(self) -> float:
        """When the next live timer is due; infinity when there is none."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else float("inf")

    def fire(self, now_ms: float) -> None:
        """Run every timer that is due; one set meanwhile waits for the next step."""
        due = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            due.append(heapq.heappop(heap)[2])
        for timer in due:
            action = timer.action
            timer.action = None
            if action is not None:
                action()
