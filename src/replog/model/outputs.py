"""What a broker wants done. `Node.step` returns these; a world carries them out in order."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from replog.model.config import BrokerConfig
from replog.model.coordination import Operation
from replog.model.messages import Message
from replog.model.records import RangeFile


class Channel(Enum):
    """Connections to one peer are apart by purpose: a parked fetch must not hold up the others."""

    FETCH = "fetch"
    CONTROL = "control"  # controller to broker, and AlterPartition
    FORWARD = "forward"  # clients' admin requests on their way to the controller


@dataclass(slots=True)
class Reply:
    """Answers the request `token` of `connection`; `message` None means that none is expected."""

    connection: int
    token: int
    message: Message | None


@dataclass(slots=True)
class CloseConnection:
    """The connection is closed without an answer; `reason` is logged once."""

    connection: int
    reason: str


@dataclass(slots=True)
class Send:
    """Ask a peer. Exactly one PeerReplied or PeerFailed with this token follows.

    The peer must be the very registration `broker_epoch`; the world fails the send otherwise.
    Sends of one `channel` and `lane` keep their order: each pair is a connection of its own.
    """

    broker_id: int
    broker_epoch: int
    host: str
    port: int
    channel: Channel
    token: int
    message: Message
    timeout_ms: int
    lane: int = 0


@dataclass(slots=True)
class CoordinatorWrite:
    """One atomic multi. Exactly one CoordinatorWritten with this token follows."""

    token: int
    operations: tuple[Operation, ...]


@dataclass(slots=True)
class ReadCoordinator:
    """Read each of `roots` and all below it. Exactly one CoordinatorRead follows."""

    token: int
    roots: tuple[str, ...]


@dataclass(slots=True)
class RunJob:
    """Run `work` outside the step, on another thread; exactly one JobDone with this token follows.

    `work` touches only the disk (waiting for the device is what jobs are for) and what was handed
    to it, never the node. It may raise DiskError. `for_request` marks a part of a client's request:
    it has threads of its own, and clients are not read from while too many such jobs wait.
    """

    token: int
    work: Callable[[], object]
    for_request: bool = False


@dataclass(slots=True)
class RangeInvalidated:
    """Bytes of `file` from `position` on are about to be replaced (truncation).

    A connection that still has to send any of them is closed: a reply never changes under way.
    """

    file: RangeFile
    position: int


class Level(Enum):
    """How loud a `Report` is."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(slots=True)
class Report:
    """One line for the operator's log."""

    level: Level
    text: str


@dataclass(slots=True)
class Reconfigured:
    """Settings changed while the node runs: those of the runtime obey `config` from now on."""

    config: BrokerConfig


@dataclass(slots=True)
class Stopped:
    """The node is done: logs are flushed and closed, and the process may end."""

    reason: str
    failed: bool = False


Output = (
    Reply
    | CloseConnection
    | Send
    | CoordinatorWrite
    | ReadCoordinator
    | RunJob
    | RangeInvalidated
    | Report
    | Reconfigured
    | Stopped
)
