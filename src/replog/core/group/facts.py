"""What goes into a group and what comes out: plain values, no protocol messages.

A `ticket` is a number by which the caller knows a request that waits; the group never looks at it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from replog.model.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""


class Instant(NamedTuple):
    """One moment on both clocks."""

    now_ms: float  # monotonic: for every interval
    wall_ms: int  # since 1970: only for what is stored


@dataclass(frozen=True, slots=True)
class Protocol:
    """One assignment strategy that a member offers, with what it says to the group's leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's rules for groups; times in milliseconds."""

    initial_rebalance_delay_ms: int
    max_size: int


@dataclass(frozen=True, slots=True)
class JoinCall:
    """A JoinGroup request."""

    ticket: int
    member_id: str
    instance_id: str | None  # KIP-345: of a static member
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    new_member_id: str  # used when the group has to give one
    known_member_id_required: bool = False  # KIP-394: join twice, the second time with the id
    skip_assignment_known: bool = False  # KIP-814: the client understands `skip_assignment`


@dataclass(frozen=True, slots=True)
class SyncCall:
    """A SyncGroup request. Protocol type and name are None where the version has none."""

    ticket: int
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MemberCall:
    """Who speaks: the fields that every later request of a member carries."""

    member_id: str
    instance_id: str | None
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True)
class LeaveCall:
    """One member that leaves. No member id: an administrator removes a static member."""

    member_id: str
    instance_id: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as its group's leader learns of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """Answers the JoinGroup `ticket`."""

    ticket: int
    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """Answers the SyncGroup `ticket`."""

    ticket: int
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredMember:
    """One member as it is kept in the log."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes  # its metadata for the chosen protocol
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as it is kept in the log."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_wall_ms: int  # wall clock; -1 when unknown (written by an old Kafka)
    members: tuple[StoredMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """The group has to be stored. The caller says how it went with `ClassicGroup.stored`."""

    number: int  # names this write
    group: StoredGroup


@dataclass(slots=True)
class Outcome:
    """What a call led to, in order. Empty when nothing has to be done."""

    answers: list[JoinAnswer | SyncAnswer] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # for the operator's log
