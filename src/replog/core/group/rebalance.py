"""How a group gets from one generation to the next: the state machine of a classic group.

A rebalance has two rounds. In the first every member (re)joins and the group's leader learns who
is there; in the second the leader hands in the assignment and every member fetches its part.
Members that stay away are dropped when a deadline passes: `join_ends_at` for the first round,
`sync_ends_at` for the second, a member's own session at any time.

Requests and their checks are in `classic_group`; this file decides what time and membership do.
"""

from replog.core.group.facts import (
    GroupSettings,
    Instant,
    JoinAnswer,
    JoinedMember,
    Outcome,
    StoredGroup,
    SyncAnswer,
    Write,
)
from replog.core.group.members import NEVER, Member, Members
from replog.core.group.state import LEGAL_TRANSITIONS, GroupState, IllegalTransition
from replog.model.errors import ErrorCode

# Milliseconds until another look when time is up and nobody has joined again: static members stay
# until their sessions end. Only a floor under the group's own rebalance timeout, which may be 0.
POSTPONE_MS_MIN = 1000
GENERATION_MAX = 2**31 - 1  # no message and no record has a field for a greater one


class Rebalance:
    """State, members, generation and deadlines of one group."""

    def __init__(self, settings: GroupSettings, at: Instant) -> None:
        self.settings = settings
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_since_wall_ms = at.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members = Members()
        # What the members of this generation said for its protocol; None before the first one.
        self.subscriptions: tuple[bytes, ...] | None = None
        self.pending: dict[str, float] = {}  # ids given and not used yet -> when they lapse
        self.pending_sync: set[str] = set()  # members of this generation that have not synced
        self.join_ends_at = NEVER
        self.sync_ends_at = NEVER
        self._more_delay_ms = 0  # by how much the initial delay may still be extended
        self._new_member_added = False  # since the initial delay was last set
        self._writes = 0

    # ---- state ---------------------------------------------------------------------------

    def become(self, state: GroupState, at: Instant) -> None:
        """Take one of the legal transitions. Raises IllegalTransition on any other."""
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalTransition(self.state, state)
        self.previous_state = self.state
        self.state = state
        self.state_since_wall_ms = at.wall_ms

    @property
    def can_begin(self) -> bool:
        """Whether a rebalance can be begun from here."""
        return GroupState.PREPARING_REBALANCE in LEGAL_TRANSITIONS[self.state]

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.members.awaiting_join and not self.pending

    def snapshot(self, assignments: dict[str, bytes] | None = None) -> StoredGroup:
        """The group as it is kept in the log, with new assignments or with the present ones."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            state_since_wall_ms=self.state_since_wall_ms,
            members=self.members.stored(self.protocol, assignments),
        )

    def write(self, out: Outcome, group: StoredGroup) -> int:
        """Ask the caller to store `group`; the number by which its fate comes back."""
        self._writes += 1
        out.writes.append(Write(self._writes, group))
        return self._writes

    def keep_session(self, member: Member, at: Instant) -> None:
        """A sign of life."""
        member.session_ends_at = at.now_ms + member.session_timeout_ms

    # ---- first round: joining --------------------------------------------------------------

    def note_new_member(self) -> None:
        """A member is about to be added; in the initial delay it makes the group wait longer."""
        if self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY:
            self._new_member_added = True

    def begin_or_complete(self, reason: str, at: Instant, out: Outcome) -> None:
        """Membership changed: begin a rebalance, or end the first round if all are there now."""
        if self.can_begin:
            self.begin(reason, at, out)
        else:
            self.complete_if_joined(at, out)

    def begin(self, reason: str, at: Instant, out: Outcome) -> None:
        """Ask all members to join again."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_syncs(ErrorCode.REBALANCE_IN_PROGRESS, at, out)
        self.sync_ends_at = NEVER
        self.pending_sync.clear()
        initial = self.state is GroupState.EMPTY
        self.become(GroupState.PREPARING_REBALANCE, at)
        out.notes.append(f"rebalance of generation {self.generation} begins: {reason}")
        if not initial:
            if self.all_joined:
                self.complete_join(at, out)
            else:
                self.join_ends_at = at.now_ms + self.members.rebalance_timeout_ms()
            return
        delay = self.settings.initial_rebalance_delay_ms
        self._new_member_added = False
        self._more_delay_ms = max(self.members.rebalance_timeout_ms() - delay, 0)
        if delay > 0:
            self.join_ends_at = at.now_ms + delay
        else:
            self.complete_join(at, out)

    def complete_if_joined(self, at: Instant, out: Outcome) -> None:
        """End the first round when everybody is there. The initial delay is always waited for."""
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and self.previous_state is not GroupState.EMPTY
            and self.all_joined
        ):
            self.complete_join(at, out)

    def complete_join(self, at: Instant, out: Outcome) -> None:
        """End the first round: whoever has not joined again is out, but for static members."""
        self.join_ends_at = NEVER
        for member in [m for m in self.members if m.join_ticket is None]:
            if member.instance_id is None:
                self.members.remove(member.member_id)
                out.notes.append(f"member {member.member_id} did not rejoin")
        if len(self.members) and not self.members.elect_joined_leader():
            # Only static members are left and none has come back: their sessions decide.
            wait = max(self.members.rebalance_timeout_ms(), POSTPONE_MS_MIN)
            self.join_ends_at = at.now_ms + wait
            return
        self.generation = self.generation + 1 if self.generation < GENERATION_MAX else 1
        if not len(self.members):
            self.protocol = None
            self.note_subscriptions()
            self.become(GroupState.EMPTY, at)
            out.notes.append(f"the group is empty in generation {self.generation}")
            self.write(out, self.snapshot())
            return
        self.protocol = self.members.select_protocol()
        self.note_subscriptions()
        self.become(GroupState.COMPLETING_REBALANCE, at)
        self._answer_joins(at, out)
        out.notes.append(
            f"generation {self.generation} has {len(self.members)} members,"
            f" protocol {self.protocol}"
        )

    def note_subscriptions(self) -> None:
        """Those who come, go or change their minds count from the next generation on."""
        self.subscriptions = tuple(member.metadata(self.protocol) for member in self.members)

    def _answer_joins(self, at: Instant, out: Outcome) -> None:
        everybody = self.members.describe(self.protocol)
        self.pending_sync = {member.member_id for member in self.members}
        for member in self.members:
            member.is_new = False
            leads = member.member_id == self.members.leader
            self.answer_join(member, out, everybody if leads else ())
            self.keep_session(member, at)
        self.sync_ends_at = at.now_ms + self.members.rebalance_timeout_ms()

    def answer_join(
        self,
        member: Member,
        out: Outcome,
        members: tuple[JoinedMember, ...],
        *,
        leader: str | None = None,
        skip_assignment: bool = False,
    ) -> None:
        """Answer the parked JoinGroup of a member, if there is one, with the present generation."""
        ticket = self.members.await_join(member, None)
        if ticket is None:
            return
        out.answers.append(
            JoinAnswer(
                ticket=ticket,
                error=ErrorCode.NONE,
                member_id=member.member_id,
                generation=self.generation,
                protocol_type=self.protocol_type,
                protocol_name=self.protocol,
                leader=(self.members.leader or "") if leader is None else leader,
                members=members,
                skip_assignment=skip_assignment,
            )
        )

    def refuse_join(
        self, member: Member, error: ErrorCode, out: Outcome, member_id: str | None = None
    ) -> None:
        """Answer the parked JoinGroup of a member, if there is one, with an error."""
        ticket = self.members.await_join(member, None)
        if ticket is not None:
            shown = member.member_id if member_id is None else member_id
            out.answers.append(JoinAnswer(ticket, error, shown))

    # ---- second round: the assignment --------------------------------------------------------

    def note_synced(self, member_id: str) -> None:
        """A member of this generation has asked for its assignment."""
        self.pending_sync.discard(member_id)
        if not self.pending_sync:
            self.sync_ends_at = NEVER

    def hand_out(self, assignments: dict[str, bytes], at: Instant, out: Outcome) -> None:
        """The assignment is stored: everybody who waits for it gets it."""
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        self.become(GroupState.STABLE, at)
        out.notes.append(f"generation {self.generation} is stable")
        for member in self.members:
            if member.sync_ticket is not None:
                self.answer_sync(member, member.sync_ticket, out)
                member.sync_ticket = None
                self.keep_session(member, at)

    def answer_sync(self, member: Member, ticket: int, out: Outcome) -> None:
        """Give a member its part of the assignment."""
        out.answers.append(
            SyncAnswer(ticket, ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)
        )

    def refuse_syncs(self, error: ErrorCode, at: Instant, out: Outcome) -> None:
        """No assignment will come: whoever waits for it is told, and nobody keeps one."""
        for member in self.members:
            member.assignment = b""
            if member.sync_ticket is not None:
                self.refuse_sync(member, error, out)
                self.keep_session(member, at)

    def refuse_sync(self, member: Member, error: ErrorCode, out: Outcome) -> None:
        """Answer the parked SyncGroup of a member, if there is one, with an error."""
        if member.sync_ticket is not None:
            out.answers.append(SyncAnswer(member.sync_ticket, error))
            member.sync_ticket = None

    # ---- leaving -----------------------------------------------------------------------------

    def drop(self, member_id: str, out: Outcome) -> bool:
        """Take a member out and answer what it has parked. False when it is not there.

        The caller goes on with `membership_shrank`, once for all that it drops.
        """
        member = self.members.get(member_id)
        if member is None:
            return False
        self.refuse_join(member, ErrorCode.UNKNOWN_MEMBER_ID, out, member_id="")
        self.refuse_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, out)
        self.members.remove(member_id)
        self.pending_sync.discard(member_id)
        return True

    def membership_shrank(self, reason: str, at: Instant, out: Outcome) -> None:
        """Members, or ids not used yet, have gone."""
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.begin(reason, at, out)
        else:
            self.complete_if_joined(at, out)

    # ---- time --------------------------------------------------------------------------------

    def next_deadline_ms(self) -> float:
        """When `on_time` has something to do at the latest; infinity when nothing runs."""
        return min(
            self.join_ends_at,
            self.sync_ends_at,
            min((m.session_ends_at for m in self.members), default=NEVER),
            min(self.pending.values(), default=NEVER),
        )

    def on_time(self, at: Instant, out: Outcome) -> None:
        """End what is due."""
        self._end_sessions(at, out)
        if self.sync_ends_at <= at.now_ms:
            self._end_syncing(at, out)
        if self.join_ends_at <= at.now_ms:
            self._end_joining(at, out)

    def _end_sessions(self, at: Instant, out: Outcome) -> None:
        """One after the other, as by Kafka: the first begins a rebalance that counts the others."""
        for member_id in [m for m, ends in self.pending.items() if ends <= at.now_ms]:
            del self.pending[member_id]
            self.complete_if_joined(at, out)
        for member in list(self.members):
            if member.session_ends_at > at.now_ms or member.member_id not in self.members:
                continue
            if member.waits and not member.is_new:
                member.session_ends_at = NEVER  # runs again when its request is answered
                continue
            self.drop(member.member_id, out)
            out.notes.append(f"the session of member {member.member_id} has ended")
            self.membership_shrank("sessions have ended", at, out)

    def _end_syncing(self, at: Instant, out: Outcome) -> None:
        """Members that never fetched their assignment hold up nobody."""
        self.sync_ends_at = NEVER
        late = sorted(self.pending_sync)
        for member_id in late:
            self.drop(member_id, out)
            out.notes.append(f"member {member_id} did not sync")
        if late:
            self.membership_shrank("members did not sync", at, out)

    def _end_joining(self, at: Instant, out: Outcome) -> None:
        more = self._more_delay_ms
        if self.previous_state is GroupState.EMPTY and self._new_member_added and more > 0:
            self._new_member_added = False
            delay = min(self.settings.initial_rebalance_delay_ms, more)
            self._more_delay_ms = max(more - self.settings.initial_rebalance_delay_ms, 0)
            self.join_ends_at = at.now_ms + delay
        else:
            self.complete_join(at, out)
