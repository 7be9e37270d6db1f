"""The `Coordination` port: all that a broker may ask of the coordinator.

It is the tree of `model.coordination`. Nothing here waits: a backend has threads of its own and
reports through `post`, which it may call from any of them. Hints name paths that may have changed,
the broker's own writes among them: those at and below `HINTED`, and others as the backend likes.
What has come and gone may be named by its parent, and ANYTHING means that all may have changed.

What is intentionally not here: watches on single nodes (every hint goes to every broker, and paths
are filtered by who gets it), children lists (read the subtree), and time: a session lives as long
as the backend finds its process alive, by rules of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from replog.model.coordination import Operation, StoredNode, WriteResult
from replog.model.inputs import Input

ANYTHING: Final = "/"  # a hint of this path: any node may have changed

Post = Callable[[Input], None]


class CoordinationError(Exception):
    """The coordinator can't be used at all; the text is one line for the operator."""


class CoordinationUnreachable(CoordinationError):
    """The coordinator does not answer now, and may do so later."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a broker shows that it lives."""

    broker_id: int
    process: str = ""  # only one process at a time can have this name: an earlier one of it is dead
    address: tuple[str, int] | None = None  # where other brokers reach this one
    silence_ms: int = 1500  # without a ping for so long, a session is suspected
    stall_ms: int = 5000  # with an event loop that has not turned for so long, likewise
    ping_ms: int = 250


class Coordination(Protocol):
    """One broker's door to the coordinator."""

    def start(self, settings: SessionSettings, post: Post) -> None:
        """Begin a session: SessionStarted follows, now or when the coordinator can be reached.

        A session that is lost is reported (SessionEnded) and a new one begun, until `close`.
        """
        ...

    def write(self, token: int, operations: Sequence[Operation], session: str | None) -> None:
        """Exactly one CoordinatorWritten with `token` follows. Writes and reads keep their order.

        `session` is the one that the writer believes to hold: a write that was decided before the
        news of a session's end came must not be carried out under the next one.
        """
        ...

    def read(self, token: int, roots: Sequence[str]) -> None:
        """Exactly one CoordinatorRead with `token` follows: all at and below `roots`, at once."""
        ...

    def loop_turned(self) -> None:
        """The event loop turns: called by it at least every quarter of a second."""
        ...

    def read_now(self, roots: Sequence[str]) -> dict[str, StoredNode]:
        """As `read`, waiting for the answer. Raises CoordinationError. For start-up and tools."""
        ...

    def write_now(self, operations: Sequence[Operation]) -> WriteResult:
        """As `write`, waiting for the answer, outside of any session (so nothing ephemeral)."""
        ...

    def close(self) -> None:
        """End the session in good order (its ephemeral nodes go at once) and give all back."""
        ...
