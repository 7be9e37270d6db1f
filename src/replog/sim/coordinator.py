"""The coordinator as the brokers of a world meet it: a tree behind delays, with sessions that end
on silence.

A door is as ZooKeeper's are: it never reads anything older than what it has read, written or was
told of, but what it reads may lag behind the others (`lag_ms`). Answers to writes may be lost after
the commit, hints come late, and a broker that is paused or cut off for too long loses its session
without knowing it. `MemTree` holds the facts.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from replog.model.coordination import (
    Operation,
    StoredNode,
    WriteDone,
    WriteError,
    WriteFailed,
    WriteResult,
)
from replog.model.inputs import (
    CoordinatorChanged,
    CoordinatorRead,
    CoordinatorWritten,
    Input,
    SessionEnded,
    SessionStarted,
)
from replog.sim.chance import Chance
from replog.sim.mem_coordination import MemTree, subtrees
from replog.sim.network import EndOfStream, Network, Pipe
from replog.sim.schedule import Schedule, Target

PLACE: Final = "coordinator"
LAG_MS_MAX: Final = 1_500.0  # what a server may lag behind


@dataclass(slots=True)
class CoordinatorSettings:
    """How the coordinator treats brokers. Times in milliseconds."""

    silence_ms: float = 600.0  # a session that is silent for so long ends
    call_timeout_ms: float = 800.0  # a call without answer for so long has an unknown outcome
    quick_death_probability: float = 0.7  # that a killed process is noticed at once
    lost_reply_probability: float = 0.0  # per write
    hint_ms: float = 3.0  # mean delay of a hint
    slow_hint_probability: float = 0.05  # that it takes up to `slow_hint_ms`
    slow_hint_ms: float = 1000.0


class Holder(Protocol):
    """The process behind a door."""

    broker_id: int
    alive: bool

    def arrived(self, event: Input) -> None: ...


@dataclass(frozen=True, slots=True)
class _Call:
    token: int
    session: str | None
    operations: tuple[Operation, ...] | None  # None: a read
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Hint:
    """These nodes may have changed, in the write of this number or before."""

    paths: frozenset[str]
    zxid: int


@dataclass(frozen=True, slots=True)
class _Opening:
    """A session is wanted."""


@dataclass(frozen=True, slots=True)
class _Opened:
    session: str


WriteHook = Callable[[Sequence[Operation], dict[str, StoredNode]], None]


class CoordinatorService:
    """The tree and everybody's door to it."""

    def __init__(
        self, schedule: Schedule, chance: Chance, network: Network, settings: CoordinatorSettings
    ) -> None:
        self.schedule = schedule
        self.chance = chance
        self.network = network
        self.settings = settings
        self.tree = MemTree()
        self.doors: list[Door] = []
        self.lost_replies = 0
        self.expirations = 0
        self.stale_reads = 0
        self.lag_ms = 0.0  # of the servers that are read from
        self._halts = 0  # reasons why there is no quorum
        self._past: deque[tuple[float, int, dict[str, StoredNode]]] = deque()
        self.on_write: WriteHook | None = None  # called after each multi that was carried out

    def door(self, holder: Holder) -> "Door":
        """Access for a new process."""
        door = Door(self, holder)
        self.doors.append(door)
        return door

    @property
    def halted(self) -> bool:
        """There is no quorum: no session ends."""
        return self._halts > 0

    def halt(self) -> None:
        """The quorum is lost, for one more reason."""
        self._halts += 1

    def go_on(self) -> None:
        """One of the reasons is gone."""
        self._halts -= 1

    def read(self, roots: tuple[str, ...], seen: int) -> tuple[int, dict[str, StoredNode]]:
        """What a server that lags behind has, but nothing older than the write `seen`: the number
        of its last write, and the nodes."""
        zxid, nodes = self.tree.zxid, self.tree.nodes
        until_ms = self.schedule.now_ms - self.lag_ms
        for replaced_ms, older_zxid, older in reversed(self._past):
            if replaced_ms <= until_ms or older_zxid < seen:
                break
            zxid, nodes = older_zxid, older
        self.stale_reads += nodes is not self.tree.nodes
        return zxid, subtrees(nodes, roots)

    def _remember(self, zxid: int, nodes: dict[str, StoredNode]) -> None:
        """`nodes` were the present ones until now."""
        past, now = self._past, self.schedule.now_ms
        past.append((now, zxid, nodes))
        while past[0][0] < now - LAG_MS_MAX:
            past.popleft()

    def write(self, session: str | None, operations: tuple[Operation, ...]) -> WriteResult:
        """Carry out one multi now."""
        before, zxid = self.tree.nodes, self.tree.zxid
        result, paths = self.tree.write(session, operations)
        if isinstance(result, WriteDone):
            self._remember(zxid, before)
        if isinstance(result, WriteDone) and self.on_write is not None:
            self.on_write(operations, before)
        self.hint(paths)
        return result

    def hint(self, paths: frozenset[str]) -> None:
        """Tell every living process, each after a delay of its own."""
        if not paths:
            return
        settings = self.settings
        for door in self.doors:
            site = f"hint/b{door.holder.broker_id}"
            delay = self.chance.delay(site, settings.hint_ms)
            if self.chance.happens(site, settings.slow_hint_probability):
                delay += self.chance.at(site).random() * settings.slow_hint_ms
            self.schedule.after(delay, door, _Hint(paths, self.tree.zxid))

    def end_session(self, session: str) -> None:
        """The session and its ephemeral nodes are gone."""
        before, zxid = self.tree.nodes, self.tree.zxid
        paths = self.tree.end_session(session)
        self._remember(zxid, before)
        if paths and self.on_write is not None:
            self.on_write((), before)
        self.hint(paths)


class Door(Target):
    """One process's access. Calls are answered in their order."""

    def __init__(self, service: CoordinatorService, holder: Holder) -> None:
        place = f"b{holder.broker_id}"
        super().__init__(f"door of {place}")
        self.holder = holder
        self.session: str | None = None  # as the process knows it
        self._held: str | None = None  # as the coordinator has it
        self._seen = 0  # number of the newest write that the process knows of
        self._service = service
        self._there = Pipe(service.network, (place, PLACE), self._reached_coordinator)
        self._back = Pipe(service.network, (PLACE, place), self._reached_broker)
        self._open: dict[int, _Call] = {}
        self._silences = 0
        self._silence = 0  # number of the current silence, to tell it from an earlier one
        self._lost = False  # the session ended and the process was not told

    @property
    def deceived(self) -> bool:
        """The process believes in a session that is over."""
        return self.session is not None and self.session != self._held

    # ---- the broker's side ------------------------------------------------------------------

    def start(self) -> None:
        """Ask for a session."""
        self._there.put(_Opening())

    def write(self, token: int, operations: tuple[Operation, ...]) -> None:
        self._call(_Call(token, self.session, operations))

    def read(self, token: int, roots: tuple[str, ...]) -> None:
        self._call(_Call(token, self.session, None, roots))

    def _call(self, call: _Call) -> None:
        self._open[call.token] = call
        self._there.put(call)
        self._service.schedule.after(self._service.settings.call_timeout_ms, self, call)

    def take(self, item: Any) -> None:
        """A hint, a call that may have timed out, or news about the session."""
        if not self.holder.alive:
            return
        if isinstance(item, _Call):
            self._answer(item, WriteFailed(WriteError.UNKNOWN), None)
        elif isinstance(item, _Hint):
            if self._service.network.is_cut(self._back.link):
                self._service.schedule.after(100.0, self, item)
            else:
                self._seen = max(self._seen, item.zxid)
                self.holder.arrived(CoordinatorChanged(item.paths))
        elif isinstance(item, SessionEnded):
            self.session = None
            self.holder.arrived(item)
            self._there.put(_Opening())

    def _reached_broker(self, item: Any) -> None:
        if isinstance(item, _Opened):
            self.session = item.session
            self.holder.arrived(SessionStarted(item.session))
        elif not isinstance(item, EndOfStream):
            call, zxid, result, nodes = item
            self._seen = max(self._seen, zxid)
            self._answer(call, result, nodes)

    def _answer(
        self, call: _Call, result: WriteResult, nodes: dict[str, StoredNode] | None
    ) -> None:
        if self._open.pop(call.token, None) is None:
            return
        if call.operations is None:
            self.holder.arrived(CoordinatorRead(call.token, nodes))
        else:
            self.holder.arrived(CoordinatorWritten(call.token, result))

    # ---- the coordinator's side -------------------------------------------------------------

    def _reached_coordinator(self, item: Any) -> None:
        service = self._service
        if isinstance(item, _Opening):
            if self.holder.alive and self._held is None:
                self._held = service.tree.begin_session(self.holder.broker_id)
                self._back.put(_Opened(self._held))
        elif isinstance(item, _Call):
            if item.operations is None:
                zxid, nodes = service.read(item.roots, self._seen)
                self._back.put((item, zxid, None, nodes))
                return
            result: WriteResult = WriteFailed(WriteError.SESSION_EXPIRED)
            if item.session is not None:
                result = service.write(item.session, item.operations)
            site = f"lost reply/b{self.holder.broker_id}"
            if service.chance.happens(site, service.settings.lost_reply_probability):
                service.lost_replies += 1
                result = WriteFailed(WriteError.UNKNOWN)
            self._back.put((item, service.tree.zxid, result, None))

    # ---- silence ------------------------------------------------------------------------------

    def fall_silent(self) -> None:
        """The process is paused or cut off (once more): the session ends unless it is heard in
        time."""
        self._silences += 1
        if self._silences == 1:
            self._silence += 1
            self._watch(self._service.settings.silence_ms)

    def be_heard(self) -> None:
        """One reason for the silence is over."""
        self._silences -= 1
        if self._silences == 0 and self._lost:
            self._tell_lost("the session ended while the broker was silent")

    def die(self) -> None:
        """The process is gone. That is noticed at once, as a lock given back, or as silence."""
        self._there.finish("process died")
        self._back.drop()
        settings = self._service.settings
        site = f"death/b{self.holder.broker_id}"
        quick = self._service.chance.happens(site, settings.quick_death_probability)
        self._silences += 1
        self._silence += 1
        self._watch(self._service.chance.delay(site, 5.0) if quick else settings.silence_ms)

    def leave(self) -> None:
        """The process ended its session in good order."""
        self._silence += 1
        self._watch(0.0)

    def expire(self) -> None:
        """The coordinator ends the session of a broker that did nothing wrong."""
        if self._service.halted:
            return
        self._end()
        if self._silences == 0 and self._lost:
            self._tell_lost("the coordinator ended the session")

    def _watch(self, after_ms: float) -> None:
        self._service.schedule.after(after_ms, _Suspicion(self), self._silence)

    def silent_still(self, silence: int) -> None:
        """Time is over for the silence of that number."""
        if silence != self._silence:
            return
        if self._service.halted:
            self._watch(self._service.settings.silence_ms)
        elif self._silences > 0 or not self.holder.alive:
            self._end()

    def _end(self) -> None:
        if self._held is not None:
            self._service.expirations += self.holder.alive
            session, self._held = self._held, None
            self._lost = True
            self._service.end_session(session)
        if not self.holder.alive and self in self._service.doors:
            self._service.doors.remove(self)

    def _tell_lost(self, reason: str) -> None:
        self._lost = False
        delay = self._service.chance.delay(f"session/b{self.holder.broker_id}", 20.0)
        self._service.schedule.after(delay, self, SessionEnded(reason))


class _Suspicion(Target):
    """The time after which a silent session ends."""

    def __init__(self, door: Door) -> None:
        super().__init__(f"silence of {door.name}")
        self._door = door

    def take(self, item: int) -> None:
        self._door.silent_still(item)
