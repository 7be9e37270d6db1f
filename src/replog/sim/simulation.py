"""One run of one seed, from the plan to the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replog.model.coordination import Operation, StoredNode
from replog.model.ids import TopicPartition
from replog.node.power_cuts import PATIENCE_MS
from replog.sim.audit import audit, still_wrong
from replog.sim.chronicle import Chronicle
from replog.sim.plan import Plan
from replog.sim.violation import Violation
from replog.sim.world import World

# Virtual time in which a healed world must come to rest: a log that is lost for good is waited for.
REST_AFTER_MS: Final = PATIENCE_MS + 6_000.0
LOOK_EVERY_MS: Final = 50.0


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    seed: int
    problem: str | None = None  # None: all is well
    rule: str = ""  # that does not hold
    timeline: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    virtual_ms: float = 0.0
    deliveries: int = 0
    digest: int = 0

    @property
    def passed(self) -> bool:
        return self.problem is None


def simulate(plan: Plan, chronicle: Chronicle | None = None) -> Outcome:
    """Run `plan`. Never raises for what the simulated brokers do: that is the outcome.

    `chronicle` is told what happens. It makes no difference to the run.
    """
    outcome = Outcome(plan.seed)
    world = World(plan)
    if chronicle is not None:
        _let_watch(world, chronicle)
    try:
        _run(world)
    except Violation as violation:
        outcome.problem = str(violation)
        outcome.rule = violation.rule
    except Exception as error:  # noqa: BLE001  # whatever a node raises is what we are after
        outcome.rule = f"a node raised {type(error).__name__}"
        outcome.problem = f"{outcome.rule}: {error}"
        outcome.timeline.extend(_traceback(error))
    if outcome.problem is not None:
        for host in world.hosts:
            outcome.timeline.extend(host.timeline.lines())
    outcome.counts = _counts(world)
    outcome.virtual_ms = world.schedule.now_ms
    outcome.deliveries = world.schedule.delivered
    outcome.digest = world.schedule.digest
    return outcome


def _let_watch(world: World, chronicle: Chronicle) -> None:
    oracle = world.oracle
    world.observer = chronicle.before(oracle, world.schedule)
    for host in world.hosts:
        host.timeline.listener = chronicle

    def wrote(operations: Sequence[Operation], before: dict[str, StoredNode]) -> None:
        try:
            oracle.wrote(operations, before)
        finally:
            chronicle.wrote(oracle.records.records)

    world.coordinator.on_write = wrote


def _run(world: World) -> None:
    schedule = world.schedule
    world.start()
    schedule.run_until(world.plan.duration_ms)
    world.calm_down()
    for producer in world.producers:
        producer.stop_making()
    _come_to_rest(world)
    ends = audit(world)
    lives = {host.place: host.incarnations for host in world.hosts}
    world.restart_all()
    _come_to_rest(world, lives)
    _hold_to(world, ends, audit(world))
    schedule.mix(*ends.values())
    for topic_id, index in world.oracle.records.records:
        schedule.mix(world.oracle.committed_log(topic_id, index).chain)


def _hold_to(
    world: World, before: dict[TopicPartition, int], after: dict[TopicPartition, int]
) -> None:
    """All logs end where they did before the restart. Records may have come that nobody waited for
    (acks=0): they were on their way still."""
    may_grow = any(producer.plan.acks == 0 for producer in world.producers)
    wrong = {
        str(tp): (end, after[tp])
        for tp, end in before.items()
        if after[tp] < end or (after[tp] > end and not may_grow)
    }
    if wrong:
        raise Violation("a restart changes nothing", f"ends before and after: {wrong}")


def _come_to_rest(world: World, lives_before: Mapping[str, int] | None = None) -> None:
    """Wait until everything is good again and one more consumer has read it all.

    `lives_before`: how many processes there had been at each place, of which there are to be more.
    """
    schedule = world.schedule
    deadline = schedule.now_ms + REST_AFTER_MS
    last_clients = False
    before = {} if lives_before is None else lives_before
    while True:
        if world.admin.finished and not last_clients:
            last_clients = True
            world.late_consumer()
            for committer in world.committers:
                committer.finish()
        schedule.run_until(schedule.now_ms + LOOK_EVERY_MS)
        restarted = all(host.incarnations > before.get(host.place, 0) for host in world.hosts)
        problems = still_wrong(world) if restarted else ["somebody is to be started again"]
        if not problems and last_clients:
            return
        if schedule.now_ms >= deadline:
            raise Violation("a healed world comes to rest", "; ".join(problems[:6]))


def _counts(world: World) -> dict[str, int]:
    history, oracle = world.history, world.oracle
    counts = dict(sorted(world.faults.counts.items()))
    counts.update(
        {
            "connection reset": world.network.resets,
            "message late": world.network.late_messages,
            "lost reply of the coordinator": world.coordinator.lost_replies,
            "session ended while the broker lived": world.coordinator.expirations,
            "stale read": world.coordinator.stale_reads,
            "wrong bit in an answer": world.network.flips,
            "wrong bit seen by a consumer": history.unreadable,
            "consumer began at the start of a log": history.resets,
            "producer began anew": history.restarts,
            "rotted log copied anew": world.doubts.logs_copied_anew,
            "election": oracle.records.elections,
            "election that may lose records, and was counted": oracle.records.losses,
            "ISR change": oracle.records.isr_changes,
            "truncation": oracle.truncations,
            "partition moved": 0 if world.mover is None else world.mover.moves,
            "records acknowledged (acks=all)": history.acknowledged,
            "records acknowledged (acks=1)": history.weakly_acknowledged,
            "batches sent again": history.retries,
            "records consumed": history.consumed,
            "offsets committed": history.commits,
            "offsets read back": history.read_back,
            "answers to consumers by followers": history.read_from_followers,
            "consumers sent to a follower": history.sent_elsewhere,
        }
    )
    for name, count in () if world.lives is None else sorted(world.lives.deeds.items()):
        counts[f"topic: {name}"] = count
    for name, count in sorted(history.refusals.items()):
        counts[f"refused: {name}"] = count
    return counts


def _traceback(error: BaseException) -> list[str]:
    import traceback

    return "".join(traceback.format_exception(error)).rstrip().split("\n")
