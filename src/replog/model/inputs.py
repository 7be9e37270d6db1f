"""What happens to a broker. One `Node.step` takes one of these.

Plain slotted classes: one is made for each request, so they are cheap; nobody changes one after it
was handed over.
"""

from dataclasses import dataclass

from replog.model.coordination import StoredNode, WriteResult
from replog.model.messages import Message


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """Who is at the other end of a connection that proved to be a broker of this cluster."""

    broker_id: int
    broker_epoch: int


@dataclass(slots=True)
class Received:
    """A decoded request. Exactly one `Reply` or `CloseConnection` must answer it, now or later."""

    connection: int
    token: int  # names the request on its connection; replies leave in the order of requests
    version: int  # of the API; only for rules that Kafka itself ties to a version
    message: Message
    client_id: str | None = None
    client_host: str = ""
    listener: str = ""
    peer: PeerIdentity | None = None


@dataclass(slots=True)
class ConnectionClosed:
    """No reply can reach `connection` any more."""

    connection: int


@dataclass(slots=True)
class PeerReplied:
    """The answer to a `Send`."""

    token: int
    broker_id: int
    message: Message


@dataclass(slots=True)
class PeerFailed:
    """A `Send` has no answer: refused, disconnected or timed out. It may have been carried out."""

    token: int
    broker_id: int
    reason: str


@dataclass(slots=True)
class SessionStarted:
    """A session with the coordinator holds; ephemeral nodes of an earlier one are gone or going."""

    session: str
    patience_ms: float = 0.0  # what a dead process has left behind is gone after so long


@dataclass(slots=True)
class SessionEnded:
    """The session is over, and with it this broker's registration and any controllership."""

    reason: str


@dataclass(slots=True)
class CoordinatorReach:
    """The coordinator can't be used any more, or can again. Sessions are another matter."""

    reachable: bool


@dataclass(slots=True)
class CoordinatorChanged:
    """A hint, never a fact: these nodes may have changed. Read them again."""

    paths: frozenset[str]


@dataclass(slots=True)
class CoordinatorWritten:
    """The outcome of a `CoordinatorWrite`."""

    token: int
    result: WriteResult


@dataclass(slots=True)
class CoordinatorRead:
    """The answer to a `ReadCoordinator`: one consistent view; None when it can't be reached."""

    token: int
    nodes: dict[str, StoredNode] | None


@dataclass(slots=True)
class JobDone:
    """A `RunJob` ended: `error` says how the disk failed, None that it did not."""

    token: int
    error: str | None = None


@dataclass(slots=True)
class Tick:
    """Time has passed: the deadline that `Node.next_deadline_ms` named is here."""


@dataclass(slots=True)
class StopRequested:
    """Somebody asked this broker to stop in good order (SIGTERM)."""


Input = (
    Received
    | ConnectionClosed
    | PeerReplied
    | PeerFailed
    | SessionStarted
    | SessionEnded
    | CoordinatorReach
    | CoordinatorChanged
    | CoordinatorWritten
    | CoordinatorRead
    | JobDone
    | Tick
    | StopRequested
)
