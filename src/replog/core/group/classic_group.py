"""One classic consumer group: what each request of a member leads to.

A request is checked, changes the group, and what follows from it comes back as an `Outcome`:
answers to this and to other, parked requests, and what has to be stored. The rounds of a rebalance
are in `rebalance`. A group that is Dead answers nobody: the caller has let go of it.
"""

from dataclasses import dataclass

from replog.core.group.facts import (
    NO_MEMBER_ID,
    GroupSettings,
    Instant,
    JoinAnswer,
    JoinCall,
    LeaveCall,
    MemberCall,
    Outcome,
    StoredGroup,
    SyncAnswer,
    SyncCall,
)
from replog.core.group.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_MAX
from replog.core.group.members import Member, Members, member_from_call, member_from_store
from replog.core.group.rebalance import Rebalance
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class _Assigning:
    """The leader's assignment is on its way to the log."""

    generation: int
    assignments: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _Replacing:
    """A static member's new id is on its way to the log; what it was comes back if that fails."""

    call: JoinCall
    generation: int
    old: Member
    old_leader: str
    member_id: str


class ClassicGroup:
    """A group of members that share out the partitions of topics among themselves."""

    def __init__(self, group_id: str, settings: GroupSettings, at: Instant) -> None:
        self.group_id = group_id
        self._rounds = Rebalance(settings, at)
        self._storing: dict[int, _Assigning | _Replacing] = {}

    @classmethod
    def restored(
        cls, group_id: str, settings: GroupSettings, stored: StoredGroup, at: Instant
    ) -> "ClassicGroup":
        """The group as a new coordinator finds it in the log; every session begins anew."""
        group = cls(group_id, settings, at)
        rounds = group._rounds
        rounds.generation = stored.generation
        rounds.protocol_type = stored.protocol_type or None
        rounds.protocol = stored.protocol
        rounds.state_since_wall_ms = stored.state_since_wall_ms
        for kept in stored.members:
            member = member_from_store(kept, stored.protocol)
            rounds.members.add(member)
            rounds.keep_session(member, at)
        rounds.note_subscriptions()
        if stored.members:
            rounds.state = GroupState.STABLE
            if stored.leader is not None and stored.leader in rounds.members:
                rounds.members.leader = stored.leader
        return group

    # ---- what others ask -----------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        return self._rounds.state

    @property
    def generation(self) -> int:
        return self._rounds.generation

    @property
    def protocol_type(self) -> str | None:
        """None for a group that never had members: it only keeps offsets."""
        return self._rounds.protocol_type

    @property
    def protocol(self) -> str | None:
        return self._rounds.protocol

    @property
    def subscriptions(self) -> tuple[bytes, ...] | None:
        """What the members of this generation have told its leader; None before the first one."""
        return self._rounds.subscriptions

    @property
    def members(self) -> Members:
        return self._rounds.members

    @property
    def state_since_wall_ms(self) -> int:
        """When the state was entered, by wall clock; -1 when the log does not tell."""
        return self._rounds.state_since_wall_ms

    @property
    def idle(self) -> bool:
        """No member, no id given and not used yet, nothing on its way to the log."""
        rounds = self._rounds
        return rounds.state is GroupState.EMPTY and not rounds.pending and not self._storing

    def snapshot(self) -> StoredGroup:
        return self._rounds.snapshot()

    def next_deadline_ms(self) -> float:
        """When `on_time` has something to do at the latest; infinity when nothing runs."""
        return self._rounds.next_deadline_ms()

    # ---- JoinGroup -------------------------------------------------------------------------

    def join(self, call: JoinCall, at: Instant) -> Outcome:
        """A member comes, or comes again (KIP-394, KIP-345)."""
        out = Outcome()
        if not self._has_room_for(call.member_id):
            self._rounds.pending.pop(call.member_id, None)
            if self._rounds.drop(call.member_id, out):
                self._rounds.membership_shrank("the group is too large", at, out)
            refusal = JoinAnswer(call.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
            out.answers.append(refusal)
        elif not self._supports(call):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            out.answers.append(JoinAnswer(call.ticket, error, call.member_id))
        elif call.member_id == NO_MEMBER_ID:
            self._join_unknown(call, at, out)
        else:
            self._join_known(call, at, out)
        return out

    def _has_room_for(self, member_id: str) -> bool:
        members, limit = self._rounds.members, self._rounds.settings.max_size
        if self.state is GroupState.EMPTY:
            return True
        member = members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            # By those who wait, so that a group above a lowered limit sheds whoever rejoins last.
            joined = member is not None and member.join_ticket is not None
            return joined or members.awaiting_join < limit
        return member is not None or len(members) < limit

    def _supports(self, call: JoinCall) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(call.protocol_type) and bool(call.protocols)
        if self._rounds.protocol_type != call.protocol_type:
            return False
        return self._rounds.members.supports_any(call.protocols)

    def _join_unknown(self, call: JoinCall, at: Instant, out: Outcome) -> None:
        rounds = self._rounds
        if call.instance_id is not None:
            old_id = rounds.members.static_id(call.instance_id)
            old = None if old_id is None else rounds.members.get(old_id)
            if old is None:
                self._add(call, call.new_member_id, at, out)
            else:
                self._replace_static(call, old, at, out)
        elif not call.known_member_id_required:
            self._add(call, call.new_member_id, at, out)
        elif len(rounds.pending) >= PENDING_MEMBERS_MAX:
            error = ErrorCode.GROUP_MAX_SIZE_REACHED
            out.answers.append(JoinAnswer(call.ticket, error, NO_MEMBER_ID))
        else:
            rounds.pending[call.new_member_id] = at.now_ms + call.session_timeout_ms
            error = ErrorCode.MEMBER_ID_REQUIRED
            out.answers.append(JoinAnswer(call.ticket, error, call.new_member_id))

    def _join_known(self, call: JoinCall, at: Instant, out: Outcome) -> None:
        rounds = self._rounds
        if call.member_id in rounds.pending and call.instance_id is None:
            del rounds.pending[call.member_id]
            self._add(call, call.member_id, at, out)
            return
        error = self.check_member(call.member_id, call.instance_id)
        member = rounds.members.get(call.member_id)
        if member is None or error is not ErrorCode.NONE:
            out.answers.append(JoinAnswer(call.ticket, error, call.member_id))
            return
        unchanged = member.protocols == call.protocols
        leads = rounds.members.leader == member.member_id
        if self.state is GroupState.COMPLETING_REBALANCE and unchanged:
            # It may have missed the answer to its first JoinGroup: tell it again.
            everybody = rounds.members.describe(rounds.protocol) if leads else ()
            self._park_join(member, call, out)
            rounds.answer_join(member, out, everybody)
        elif self.state is GroupState.STABLE and unchanged and not leads:
            self._park_join(member, call, out)
            rounds.answer_join(member, out, ())
        else:
            # The leader may always ask for a rebalance: it alone sees that topics have changed.
            self._update(member, call, out)
            rounds.begin_or_complete(f"member {member.member_id} joins again", at, out)

    def _add(self, call: JoinCall, member_id: str, at: Instant, out: Outcome) -> None:
        rounds = self._rounds
        if not len(rounds.members):
            rounds.protocol_type = call.protocol_type
        member = member_from_call(call, member_id)
        member.is_new = True
        member.session_ends_at = at.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        rounds.note_new_member()
        rounds.members.add(member)
        rounds.members.await_join(member, call.ticket)
        rounds.begin_or_complete(f"member {member_id} joins", at, out)

    def _park_join(self, member: Member, call: JoinCall, out: Outcome) -> None:
        before = self._rounds.members.await_join(member, call.ticket)
        if before is not None:
            # The same member on another connection: the earlier request has lost its meaning.
            error = ErrorCode.REBALANCE_IN_PROGRESS
            out.answers.append(JoinAnswer(before, error, member.member_id))

    def _update(self, member: Member, call: JoinCall, out: Outcome) -> None:
        self._rounds.members.offer(member, call.protocols)
        member.rebalance_timeout_ms = call.rebalance_timeout_ms
        member.session_timeout_ms = call.session_timeout_ms
        self._park_join(member, call, out)

    def _replace_static(self, call: JoinCall, member: Member, at: Instant, out: Outcome) -> None:
        """KIP-345: an instance came back without its id; it takes its place, under a new id."""
        rounds = self._rounds
        rounds.refuse_join(member, ErrorCode.FENCED_INSTANCE_ID, out)
        rounds.refuse_sync(member, ErrorCode.FENCED_INSTANCE_ID, out)
        old = _copy(member)
        old_leader = rounds.members.leader or ""
        rounds.pending_sync.discard(member.member_id)
        rounds.members.rename(member, call.new_member_id)
        member.is_new = False  # its session runs from now on, and waits while it does
        self._update(member, call, out)
        rounds.keep_session(member, at)
        reason = f"static member {call.instance_id} came back as {member.member_id}"
        if self.state is not GroupState.STABLE:
            rounds.begin_or_complete(reason, at, out)
        elif rounds.members.select_protocol() != rounds.protocol:
            rounds.begin(reason, at, out)
        else:
            out.notes.append(reason)
            number = rounds.write(out, rounds.snapshot())
            self._storing[number] = _Replacing(
                call, self.generation, old, old_leader, member.member_id
            )

    # ---- SyncGroup ---------------------------------------------------------------------------

    def sync(self, call: SyncCall, at: Instant) -> Outcome:
        """A member asks for its part of the assignment; the leader brings the whole."""
        out = Outcome()
        rounds = self._rounds
        member = rounds.members.get(call.member_id)
        error = self._check_sync(call)
        if member is None or error is not ErrorCode.NONE:
            out.answers.append(SyncAnswer(call.ticket, error))
            return out
        if self.state is GroupState.STABLE:
            rounds.note_synced(member.member_id)  # and no sign of life, as in Kafka
            rounds.answer_sync(member, call.ticket, out)
            return out
        rounds.refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, out)
        member.sync_ticket = call.ticket
        rounds.note_synced(member.member_id)
        if member.member_id == rounds.members.leader and not self._assigning_now():
            assignments = {
                m.member_id: call.assignments.get(m.member_id, b"") for m in self.members
            }
            number = rounds.write(out, rounds.snapshot(assignments))
            self._storing[number] = _Assigning(self.generation, assignments)
        return out

    def _check_sync(self, call: SyncCall) -> ErrorCode:
        error = self.check_member(call.member_id, call.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if call.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        rounds = self._rounds
        for told, chosen in (
            (call.protocol_type, rounds.protocol_type),
            (call.protocol_name, rounds.protocol),
        ):
            if None not in (told, chosen) and told != chosen:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _assigning_now(self) -> bool:
        return any(
            isinstance(s, _Assigning) and s.generation == self.generation
            for s in self._storing.values()
        )

    # ---- what became of a write ----------------------------------------------------------------

    def stored(self, number: int, error: ErrorCode, at: Instant) -> Outcome:
        """The write `number` is committed (NONE), or failed with an error that members may see."""
        out = Outcome()
        storing = self._storing.pop(number, None)
        if isinstance(storing, _Assigning):
            self._assigned(storing, error, at, out)
        elif isinstance(storing, _Replacing):
            self._replaced(storing, error, at, out)
        return out

    def _assigned(self, storing: _Assigning, error: ErrorCode, at: Instant, out: Outcome) -> None:
        current = (
            self.state is GroupState.COMPLETING_REBALANCE and storing.generation == self.generation
        )
        if not current:
            return  # somebody came or went meanwhile: there will be another assignment
        if error is ErrorCode.NONE:
            self._rounds.hand_out(storing.assignments, at, out)
        else:
            self._rounds.refuse_syncs(error, at, out)
            self._rounds.begin("the assignment could not be stored", at, out)

    def _replaced(self, storing: _Replacing, error: ErrorCode, at: Instant, out: Outcome) -> None:
        rounds = self._rounds
        member = rounds.members.get(storing.member_id)
        current = (
            member is not None
            and member.join_ticket == storing.call.ticket
            and self.state is GroupState.STABLE
            and storing.generation == self.generation
        )
        if member is None or not current:
            return  # a rebalance answers it, or it was replaced again
        if error is not ErrorCode.NONE:
            rounds.refuse_join(member, error, out, member_id=NO_MEMBER_ID)
            rounds.members.rename(member, storing.old.member_id)
            rounds.members.offer(member, storing.old.protocols)
            member.session_timeout_ms = storing.old.session_timeout_ms
            member.rebalance_timeout_ms = storing.old.rebalance_timeout_ms
        elif storing.call.skip_assignment_known:
            leads = rounds.members.leader == member.member_id
            everybody = rounds.members.describe(rounds.protocol) if leads else ()
            rounds.answer_join(member, out, everybody, skip_assignment=leads)
        else:
            # An old client that is told it leads would assign anew: name the former leader.
            rounds.answer_join(member, out, (), leader=storing.old_leader)
        rounds.keep_session(member, at)

    # ---- Heartbeat, LeaveGroup, OffsetCommit -----------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Is this a member, and the holder of its instance id (KIP-345)?"""
        if instance_id is not None:
            holder = self.members.static_id(instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def heartbeat(self, call: MemberCall, at: Instant) -> ErrorCode:
        """A sign of life. REBALANCE_IN_PROGRESS tells the member to join again."""
        error = self.check_member(call.member_id, call.instance_id)
        member = self.members.get(call.member_id)
        if member is None or error is not ErrorCode.NONE:
            return error
        if call.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rounds.keep_session(member, at)
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, calls: list[LeaveCall], at: Instant) -> tuple[list[ErrorCode], Outcome]:
        """Members go; one error for each, and one rebalance for all."""
        out = Outcome()
        errors: list[ErrorCode] = []
        reasons: list[str] = []
        for call in calls:
            error = self._leave_one(call, out)
            errors.append(error)
            if error is ErrorCode.NONE:
                who = call.instance_id or call.member_id
                reasons.append(f"{who} ({call.reason or 'no reason'})")
        if reasons:
            self._rounds.membership_shrank(f"left: {', '.join(reasons)}", at, out)
        return errors, out

    def _leave_one(self, call: LeaveCall, out: Outcome) -> ErrorCode:
        member_id = call.member_id
        if member_id == NO_MEMBER_ID and call.instance_id is not None:
            member_id = self.members.static_id(call.instance_id) or NO_MEMBER_ID
        elif self._rounds.pending.pop(member_id, None) is not None:
            return ErrorCode.NONE
        error = self.check_member(member_id, call.instance_id)
        if error is ErrorCode.NONE:
            self._rounds.drop(member_id, out)
        return error

    def check_commit(self, call: MemberCall, at: Instant) -> ErrorCode:
        """May these offsets be committed? The generation stops members of an earlier one."""
        if self.state is GroupState.EMPTY and call.generation < 0:
            return ErrorCode.NONE
        member_named = call.member_id != NO_MEMBER_ID or call.instance_id is not None
        if not member_named and call.generation < 0:
            return ErrorCode.UNKNOWN_MEMBER_ID  # a simple consumer, in a group with members
        error = self.check_member(call.member_id, call.instance_id)
        member = self.members.get(call.member_id)
        if member is None or error is not ErrorCode.NONE:
            return error
        if call.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._rounds.keep_session(member, at)
        return ErrorCode.NONE

    def forget_pending(self) -> None:
        """The group was deleted: who has an id of it and has not used it yet begins anew."""
        if self.state is GroupState.EMPTY:
            self._rounds.pending.clear()

    # ---- time and the end ------------------------------------------------------------------------

    def on_time(self, at: Instant) -> Outcome:
        """End the sessions and rounds that are due."""
        out = Outcome()
        self._rounds.on_time(at, out)
        return out

    def die(self, error: ErrorCode, at: Instant) -> Outcome:
        """This broker coordinates the group no more: whoever waits is told `error`."""
        out = Outcome()
        for member in self.members:
            self._rounds.refuse_join(member, error, out)
            self._rounds.refuse_sync(member, error, out)
        self._storing.clear()
        self._rounds.become(GroupState.DEAD, at)
        return out


def _copy(member: Member) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=member.protocols,
    )
