"""What the controller looks at every so often, from one controllership to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node


class Look:
    """One such thing. `interval_ms` is asked for anew each time."""

    def __init__(
        self, node: Node, interval_ms: Callable[[], int], look: Callable[[], None]
    ) -> None:
        self._node = node
        self._interval_ms = interval_ms
        self._look = look
        self._timer: Timer | None = None

    def start(self) -> None:
        """This broker has become the controller."""
        self.stop()
        self._timer = self._node.timers.call_at(self._node.now_ms + self._interval_ms(), self._due)

    def stop(self) -> None:
        """It is the controller no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self.start()
        if self._node.controlling.active:
            self._look()
