"""A group on a clock that the test moves, with the answers that every request has got."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replog.core.group.classic_group import ClassicGroup
from replog.core.group.facts import (
    GroupSettings,
    Instant,
    JoinAnswer,
    JoinCall,
    LeaveCall,
    MemberCall,
    Outcome,
    Protocol,
    SyncAnswer,
    SyncCall,
    Write,
)
from replog.model.errors import ErrorCode

START_WALL_MS = 1_700_000_000_000
RANGE = {"range": b"meta"}


@dataclass
class Driver:
    """Plays members and log. Times are milliseconds since the start."""

    initial_delay_ms: int = 0
    max_size: int = 2**31 - 1
    now_ms: float = 0.0
    answers: dict[int, JoinAnswer | SyncAnswer] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)  # on their way to the log
    stored: list[Write] = field(default_factory=list)
    tickets: int = 0
    ids: int = 0
    group: ClassicGroup = field(init=False)

    def __post_init__(self) -> None:
        settings = GroupSettings(self.initial_delay_ms, self.max_size)
        self.group = ClassicGroup("g", settings, self.at())

    def at(self) -> Instant:
        return Instant(self.now_ms, START_WALL_MS + int(self.now_ms))

    def take(self, outcome: Outcome) -> None:
        for answer in outcome.answers:
            assert answer.ticket not in self.answers, "a request was answered twice"
            self.answers[answer.ticket] = answer
        self.writes += outcome.writes

    # ---- what members do -------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        protocols: Mapping[str, bytes] = RANGE,
        *,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        id_first: bool = False,
        skips: bool = False,
    ) -> int:
        """Send a JoinGroup; its ticket."""
        self.tickets += 1
        self.ids += 1
        call = JoinCall(
            ticket=self.tickets,
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(name, data) for name, data in protocols.items()),
            new_member_id=f"m{self.ids}",
            known_member_id_required=id_first,
            skip_assignment_known=skips,
        )
        self.take(self.group.join(call, self.at()))
        return self.tickets

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        """Send a SyncGroup; its ticket."""
        self.tickets += 1
        call = SyncCall(
            ticket=self.tickets,
            member_id=member_id,
            instance_id=instance_id,
            generation=self.group.generation if generation is None else generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=dict(assignments or {}),
        )
        self.take(self.group.sync(call, self.at()))
        return self.tickets

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        generation = self.group.generation if generation is None else generation
        return self.group.heartbeat(MemberCall(member_id, instance_id, generation), self.at())

    def commit(
        self, member_id: str = "", generation: int = -1, instance_id: str | None = None
    ) -> ErrorCode:
        return self.group.check_commit(MemberCall(member_id, instance_id, generation), self.at())

    def leave(self, *members: str, instance_id: str | None = None) -> list[ErrorCode]:
        calls = [LeaveCall(member, instance_id) for member in members]
        errors, outcome = self.group.leave(calls, self.at())
        self.take(outcome)
        return errors

    # ---- what the log and the clock do ------------------------------------------------------

    def store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Every write that is on its way is committed, or fails."""
        writes, self.writes = self.writes, []
        for write in writes:
            if error is ErrorCode.NONE:
                self.stored.append(write)
            self.take(self.group.stored(write.number, error, self.at()))

    def wait(self, ms: float) -> None:
        """Let time pass, with the group woken whenever it asked for that."""
        end = self.now_ms + ms
        while self.group.next_deadline_ms() <= end:
            self.now_ms = max(self.now_ms, self.group.next_deadline_ms())
            self.take(self.group.on_time(self.at()))
        self.now_ms = end

    # ---- what members have got --------------------------------------------------------------

    def joined(self, ticket: int) -> JoinAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, ticket: int) -> SyncAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncAnswer)
        return answer

    def waits(self, ticket: int) -> bool:
        return ticket not in self.answers

    # ---- short cuts --------------------------------------------------------------------------

    def stable(self, count: int = 1, **how: object) -> list[str]:
        """Bring the group to Stable with `count` members; their ids, the leader first."""
        members: list[str] = []
        for _ in range(count):
            tickets = [self.join(**how)]  # type: ignore[arg-type]
            tickets += [self.join(member, **how) for member in members]  # type: ignore[arg-type]
            members = [self.joined(ticket).member_id for ticket in [*tickets[1:], tickets[0]]]
        leader = self.group.members.leader
        assert leader is not None
        self.sync(leader, {member: member.encode() for member in members})
        self.store()
        for member in members:
            if member != leader:
                self.sync(member)
        return members
