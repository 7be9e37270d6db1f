"""Whatever members, log and clock do in whatever order: the promises that a group always keeps."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.core.group.driver import Driver

from replog.core.group.facts import JoinAnswer, SyncAnswer
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode

INSTANCES = st.sampled_from([None, None, "i1", "i2"])
PROTOCOLS = st.sampled_from([{"range": b"1"}, {"range": b"2"}, {"range": b"1", "sticky": b"3"}])
FAILURES = st.sampled_from([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR])


class AnyOrder(RuleBasedStateMachine):
    """Members that come, go, repeat themselves and fall silent; a log that is slow or fails."""

    def __init__(self) -> None:
        super().__init__()
        self.d = Driver(initial_delay_ms=100, max_size=4)
        self.generation = 0
        self.handed_out: dict[tuple[int, str], bytes] = {}

    def some_id(self, index: int) -> str:
        known = [member.member_id for member in self.d.group.members]
        known += [a.member_id for a in self.d.answers.values() if isinstance(a, JoinAnswer)][-4:]
        known.append("nobody")
        return known[index % len(known)]

    @rule(protocols=PROTOCOLS, instance=INSTANCES, id_first=st.booleans(), skips=st.booleans())
    def join_anew(
        self, protocols: dict[str, bytes], instance: str | None, id_first: bool, skips: bool
    ) -> None:
        self.d.join("", protocols, instance_id=instance, id_first=id_first, skips=skips)

    @rule(who=st.integers(0, 9), protocols=PROTOCOLS, instance=INSTANCES)
    def join_again(self, who: int, protocols: dict[str, bytes], instance: str | None) -> None:
        self.d.join(self.some_id(who), protocols, instance_id=instance)

    @rule(who=st.integers(0, 9))
    def sync(self, who: int) -> None:
        generation = self.d.group.generation
        parts = {m.member_id: f"{generation}".encode() for m in self.d.group.members}
        self.d.sync(self.some_id(who), parts)

    @rule(who=st.integers(0, 9), back=st.integers(0, 1))
    def beat(self, who: int, back: int) -> None:
        self.d.heartbeat(self.some_id(who), self.d.group.generation - back)

    @rule(who=st.integers(0, 9))
    def leave(self, who: int) -> None:
        self.d.leave(self.some_id(who))

    @rule(instance=st.sampled_from(["i1", "i2"]))
    def remove_instance(self, instance: str) -> None:
        self.d.leave("", instance_id=instance)

    @precondition(lambda self: self.d.writes)
    @rule()
    def commit(self) -> None:
        self.d.store()

    @precondition(lambda self: self.d.writes)
    @rule(error=FAILURES)
    def fail(self, error: ErrorCode) -> None:
        self.d.store(error)

    @rule(ms=st.sampled_from([1, 100, 5_000, 10_000, 60_000]))
    def wait(self, ms: int) -> None:
        self.d.wait(ms)

    # ---- what always holds -----------------------------------------------------------------

    @invariant()
    def generations_rise(self) -> None:
        assert self.d.group.generation >= self.generation
        self.generation = self.d.group.generation

    @invariant()
    def members_have_one_leader_among_them(self) -> None:
        members = self.d.group.members
        assert (members.leader is None) is (len(members) == 0)
        assert members.leader is None or members.leader in members
        assert members.awaiting_join == sum(m.join_ticket is not None for m in members)
        instances = [m.instance_id for m in members if m.instance_id is not None]
        assert len(instances) == len(set(instances)), "one member for each instance"
        assert all(
            members.static_id(m.instance_id) == m.member_id for m in members if m.instance_id
        )

    @invariant()
    def the_state_fits_the_members(self) -> None:
        state, members = self.d.group.state, self.d.group.members
        if state is GroupState.EMPTY:
            assert len(members) == 0
        if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert len(members) > 0
            assert members.supports_any(tuple(next(iter(members)).protocols))
        if state is not GroupState.COMPLETING_REBALANCE:
            assert all(m.sync_ticket is None for m in members)

    @invariant()
    def nobody_gets_an_assignment_of_another_generation(self) -> None:
        for answer in self.d.answers.values():
            if isinstance(answer, SyncAnswer) and answer.assignment:
                stored = [w.group for w in self.d.stored if w.group.members]
                assert any(f"{g.generation}".encode() == answer.assignment for g in stored)

    @invariant()
    def whoever_waits_has_a_deadline(self) -> None:
        group = self.d.group
        if any(m.join_ticket is not None for m in group.members) and not self.d.writes:
            assert group.next_deadline_ms() < float("inf")

    def teardown(self) -> None:
        """With a log that works and silent members everybody is answered, and the group empties."""
        d = self.d
        for _ in range(20):
            d.store()
            d.wait(60_000)
        assert d.group.state is GroupState.EMPTY
        unanswered = [t for t in range(1, d.tickets + 1) if d.waits(t)]
        assert not unanswered, f"never answered: {unanswered}"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
