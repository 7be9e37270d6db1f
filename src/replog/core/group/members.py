"""The members of one classic group: a table with the group's leader and the static instances.

Holds who is there and what they offer. When to rebalance is decided in `classic_group`.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from replog.core.group.facts import JoinCall, JoinedMember, Protocol, StoredMember
from replog.core.group.hashing import in_java_map_order

NEVER = math.inf  # a deadline that is not running


@dataclass(slots=True)
class Member:
    """One member. The caller's clock is monotonic milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    join_ticket: int | None = None  # its JoinGroup waits
    sync_ticket: int | None = None  # its SyncGroup waits
    is_new: bool = False  # in its first JoinGroup: it can't send heartbeats yet
    session_ends_at: float = NEVER

    @property
    def waits(self) -> bool:
        """A member whose request is parked here is alive: its session does not end."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said for `protocol`; empty when it does not offer that."""
        return next((p.metadata for p in self.protocols if p.name == protocol), b"")

    def offers(self, protocol: str) -> bool:
        return any(p.name == protocol for p in self.protocols)


def member_from_call(call: JoinCall, member_id: str) -> Member:
    """A new member as its JoinGroup describes it."""
    return Member(
        member_id=member_id,
        instance_id=call.instance_id,
        client_id=call.client_id,
        client_host=call.client_host,
        session_timeout_ms=call.session_timeout_ms,
        rebalance_timeout_ms=call.rebalance_timeout_ms,
        protocols=call.protocols,
    )


def member_from_store(stored: StoredMember, protocol: str | None) -> Member:
    """A member as a new coordinator reads it: of its protocols only the chosen one is known."""
    return Member(
        member_id=stored.member_id,
        instance_id=stored.instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        protocols=(Protocol(protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )


class Members:
    """The table. The leader is the first that came, and another one when it goes."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}  # instance id -> member id
        self._offers: Counter[str] = Counter()  # protocol -> members that offer it
        self.leader: str | None = None
        self.awaiting_join = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        return self._by_id.get(member_id)

    def static_id(self, instance_id: str) -> str | None:
        """The member id that the instance has now (KIP-345)."""
        return self._static.get(instance_id)

    def add(self, member: Member) -> None:
        """A member that is not in the table yet."""
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._count(member, 1)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Take a member out, of which nothing is parked; None when it is not there."""
        member = self._by_id.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        instance = member.instance_id
        if instance is not None and self._static.get(instance) == member_id:
            del self._static[instance]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """A static member came back with another id; it keeps its place, also as leader."""
        was_leader = self.leader == member.member_id
        del self._by_id[member.member_id]
        member.member_id = member_id
        self._by_id[member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member_id
        if was_leader:
            self.leader = member_id

    def offer(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """A member changes what it offers."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)

    def _count(self, member: Member, step: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self._offers[name] += step
            if not self._offers[name]:
                del self._offers[name]

    def await_join(self, member: Member, ticket: int | None) -> int | None:
        """Park a JoinGroup (or, with None, take the parked one out). Returns the one before."""
        before = member.join_ticket
        member.join_ticket = ticket
        self.awaiting_join += (ticket is not None) - (before is not None)
        return before

    # ---- protocols -----------------------------------------------------------------------

    def supports_any(self, protocols: tuple[Protocol, ...]) -> bool:
        """Whether one of `protocols` is offered by every member."""
        everybody = len(self._by_id)
        return any(self._offers[protocol.name] == everybody for protocol in protocols)

    def select_protocol(self) -> str | None:
        """The protocol that all offer and most prefer; None when they have none in common.

        A member votes for the first of its list that all offer. Java's hash decides ties.
        """
        everybody = len(self._by_id)
        votes: Counter[str] = Counter()
        for member in self._by_id.values():
            choice = next(
                (p.name for p in member.protocols if self._offers[p.name] == everybody), None
            )
            if choice is not None:
                votes[choice] += 1
        names = in_java_map_order(votes)
        return max(names, key=votes.__getitem__) if names else None

    def elect_joined_leader(self) -> bool:
        """Give the lead to a member that has joined, if the leader has not. False: nobody has."""
        leader = self._by_id.get(self.leader) if self.leader is not None else None
        if leader is None:
            return False
        if leader.join_ticket is None:
            joined = next((m for m in self._by_id.values() if m.join_ticket is not None), None)
            if joined is None:
                return False
            self.leader = joined.member_id
        return True

    def rebalance_timeout_ms(self) -> int:
        """The longest time that any member asks for; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def describe(self, protocol: str | None) -> tuple[JoinedMember, ...]:
        """The members as the group's leader gets them."""
        return tuple(JoinedMember(m.member_id, m.instance_id, m.metadata(protocol)) for m in self)

    def stored(
        self, protocol: str | None, assignments: dict[str, bytes] | None
    ) -> tuple[StoredMember, ...]:
        """The members as they are kept in the log; with new assignments, or (None) the present."""
        return tuple(
            StoredMember(
                member_id=m.member_id,
                instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout_ms=m.rebalance_timeout_ms,
                session_timeout_ms=m.session_timeout_ms,
                subscription=m.metadata(protocol),
                assignment=m.assignment
                if assignments is None
                else assignments.get(m.member_id, b""),
            )
            for m in self
        )
