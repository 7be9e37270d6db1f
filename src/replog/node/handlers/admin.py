"""One try to carry an admin request out on the controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.messages import Response

if TYPE_CHECKING:
    from replog.node.node import Node


def named_once(names: Iterable[Hashable]) -> set[Hashable]:
    """Those that come once. Others are refused at sight, however little time the client allows."""
    return {name for name, count in Counter(names).items() if count == 1}


@dataclass(slots=True)
class AdminCall:
    """By which broker the request came in, and how it is answered.

    It is answered once, by `answer` or `fail`; what comes later is dropped.
    """

    respond: Callable[[Response], None]
    not_controller: Callable[[], None]  # this broker can't say: ask whoever is controller now
    deadline_ms: float  # of this node's clock
    origin: int  # broker that the client is connected to: it should know what it has brought about
    version: int  # of the API
    answered: bool = False

    def answer(self, response: Response) -> None:
        """Answer, unless that was done."""
        if not self.answered:
            self.answered = True
            self.respond(response)

    def fail(self, error: ErrorCode, refusal: Response) -> None:
        """Answer a request that the controller's pipeline gave back."""
        if error is not ErrorCode.NOT_CONTROLLER:
            self.answer(refusal)
        elif not self.answered:
            self.answered = True
            self.not_controller()

    def has_time(
        self, node: Node, allowed_ms: int, refusal: Response, *, needed: bool = True
    ) -> bool:
        """Whether there is time to carry it out; else it is answered with `refusal`.

        No time is `needed` for what is refused at sight.
        """
        if allowed_ms > 0:
            self.limit(node, refusal)
        elif needed:
            self.answer(refusal)
            return False
        return True

    def limit(self, node: Node, refusal: Response) -> None:
        """Answer with `refusal` in time; what is not begun by then is not begun at all."""
        node.timers.call_at(self.deadline_ms, lambda: self.answer(refusal))
