"""A broker of the simulated world: one process on a host, from its start to its end."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from replog.log.disk import DiskError
from replog.model.inputs import Input, JobDone, PeerIdentity, StopRequested, Tick
from replog.model.outputs import (
    CloseConnection,
    CoordinatorWrite,
    Output,
    RangeInvalidated,
    ReadCoordinator,
    Reconfigured,
    Reply,
    Report,
    RunJob,
    Send,
    Stopped,
)
from replog.node.log_folder import FolderSetup
from replog.node.node import Node
from replog.sim.chance import Chance
from replog.sim.connection import Connection, Dialer
from replog.sim.coordinator import CoordinatorService
from replog.sim.host import Host
from replog.sim.mem_disk import CrashNow
from replog.sim.network import Network
from replog.sim.peers import Peers
from replog.sim.schedule import Schedule, Target
from replog.sim.violation import Violation

WALL_START_MS: Final = 1_700_000_000_000
NOTICE_MEAN_MS: Final = 800.0  # until somebody notices that a connection leads nowhere
STEPS_AT_ONE_INSTANT_MAX: Final = 20_000  # more than this, and the node runs in a circle


class Observer(Protocol):
    """Sees everything that a node does before the world does it."""

    def started(self, life: "Life") -> None: ...
    def stepped(self, life: "Life", event: Input, outputs: Sequence[Output]) -> None: ...


class Surroundings(Protocol):
    """What a process finds in its world."""

    schedule: Schedule
    chance: Chance
    network: Network
    coordinator: CoordinatorService
    observer: Observer

    def make_node(
        self, host: Host, folders: Sequence[FolderSetup], *, now_ms: float, wall_ms: int
    ) -> Node: ...

    def dial(
        self, dialer: Dialer, source: str, broker_id: int, peer: PeerIdentity | None
    ) -> Connection: ...

    def died(self, host: Host, why: str, *, failed: bool) -> None:
        """The process of `host` is gone."""
        ...


class _Work:
    """A slow process takes the next thing that has queued."""


_WORK: Final = _Work()


class Life(Target):
    """One process, from its start to its end. `step` is the node's only door, as in the real
    world."""

    def __init__(self, world: Surroundings, host: Host, folders: Sequence[FolderSetup]) -> None:
        host.incarnations += 1
        super().__init__(f"{host.place}.{host.incarnations}")
        self.host = host
        self.broker_id = host.broker_id
        self.incarnation = host.incarnations
        self.alive = True
        self.paused = False
        self.connections: dict[int, Connection] = {}
        self.outputs_until_crash: int | None = None  # a crash between two outputs is armed
        self.flips = 0  # answers with records that leave with a wrong bit
        self.door = world.coordinator.door(self)
        self._paused_ms = 0.0  # since when
        self._slept_through = ""  # a session that ended while the process was asleep for longer
        self._world = world
        self._schedule = world.schedule
        self._inbox: deque[Any] = deque()
        self._busy = False
        self._cost_ms = 0.0  # of each step
        self._working = False  # a _WORK is on its way
        self._ticking_at = float("inf")
        self._alarm = 0  # number of the tick that counts; those set before it are void
        self._instant = (0.0, 0)
        dial = self._dial
        self.peers = Peers(self, world.schedule, dial)
        now, wall = self._clocks()
        self.node = world.make_node(host, folders, now_ms=now, wall_ms=wall)

    @property
    def broker_epoch(self) -> int:
        return self.node.broker_epoch

    @property
    def now_ms(self) -> float:
        """The world's time."""
        return self._schedule.now_ms

    @property
    def overslept(self) -> bool:
        """Its session ended while it was asleep, for so long that it must have noticed by itself,
        and nobody has told it yet."""
        return self.door.deceived and self.door.session == self._slept_through

    def start(self) -> None:
        """Load the logs and ask for a session. The process may die of an armed crash in this."""
        try:
            outputs = self.node.start()
        except CrashNow as crash:
            self.die(f"crashed while starting: {crash}")
            return
        self._world.observer.started(self)
        self.host.timeline.step(self._schedule.now_ms, "start", outputs)
        self._carry_out_all(outputs)
        if self.alive:
            self.door.start()
            self._arm_tick()

    # ---- inputs ---------------------------------------------------------------------------------

    def take(self, item: Any) -> None:
        """A node's input, an action, or the number of a tick. A stopped or slow process lets it
        queue."""
        if not self.alive:
            return
        if item is _WORK:
            self._working = False
            if not self.paused and self._inbox:
                self._do(self._inbox.popleft())
                self._work_later()
        elif self.paused or self._cost_ms or self._inbox:
            self._inbox.append(item)
            self._work_later()
        else:
            self._do(item)

    def _do(self, item: Any) -> None:
        if isinstance(item, int):
            self._tick(item)
        elif callable(item):
            item()
        else:
            self._step(item)

    def _work_later(self) -> None:
        if self._inbox and not self._working and not self.paused:
            self._working = True
            self._schedule.after(self._cost_ms, self, _WORK)

    def slow_down(self, cost_ms: float) -> None:
        """Each step takes so long from now on."""
        self._cost_ms = cost_ms

    def arrived(self, event: Input) -> None:
        """Hand `event` to the node: at once, or after the step that is being carried out."""
        if self._busy:
            self._schedule.at(self._schedule.now_ms, self, event)
        else:
            self.take(event)

    def when_awake(self, action: Callable[[], None]) -> None:
        if self._busy:
            self._schedule.at(self._schedule.now_ms, self, action)
        else:
            self.take(action)

    def greeted(self, connection: Connection) -> None:
        self.when_awake(lambda: connection.welcome(self.node.broker_epoch))

    def stop(self) -> None:
        """SIGTERM."""
        self.arrived(StopRequested())

    def pause(self) -> None:
        """SIGSTOP: time passes, inputs queue."""
        if self.alive and not self.paused:
            self.paused = True
            self._paused_ms = self._schedule.now_ms
            self.door.fall_silent()

    def resume(self) -> None:
        """SIGCONT: everything that queued arrives in a burst."""
        if not self.alive or not self.paused:
            return
        self.paused = False
        slept_ms = self._schedule.now_ms - self._paused_ms
        if self.door.deceived and slept_ms >= self._world.coordinator.settings.silence_ms:
            self._slept_through = self.door.session or ""
        self.door.be_heard()
        self._work_later()
        self._ticking_at = float("inf")
        self._arm_tick()

    def die(
        self,
        why: str,
        *,
        failed: bool = False,
        in_order: bool = False,
        silently: bool = False,
        in_step: bool = False,
    ) -> None:
        """The process is gone, and all its memory. The disk stays.

        `silently`: so is the host, which tells nobody that its connections are gone. `in_step`: not
        all was done that a step asks for."""
        if not self.alive:
            return
        self.alive = False
        self.host.life = None
        self.host.crash()
        self.host.timeline.note(self._schedule.now_ms, why)
        self.host.replace_unmarked(self)
        self._inbox.clear()
        connections, self.connections = list(self.connections.values()), {}
        if silently:
            self.peers.vanish(NOTICE_MEAN_MS)
            for connection in connections:
                connection.lose_end("acceptor", NOTICE_MEAN_MS)
        else:
            self.peers.hang_up()
            for connection in connections:
                if in_step:
                    connection.die_in_step(why)
                else:
                    connection.refuse(why)
        if in_order:
            self.door.leave()
        else:
            self.door.die()
        self._world.died(self.host, why, failed=failed)

    # ---- steps --------------------------------------------------------------------------------

    def _clocks(self) -> tuple[float, int]:
        now = self._schedule.now_ms
        wall = WALL_START_MS + int(now) + self.host.wall_skew_ms
        return now + self.host.clock_ms, wall

    def _step(self, event: Input) -> None:
        now, wall = self._clocks()
        self._busy = True
        try:
            outputs = self.node.step(event, now, wall)
        except CrashNow as crash:
            self.die(f"crashed inside a step: {crash}", in_step=True)
            return
        finally:
            self._busy = False
        self._check_progress()
        self.host.timeline.step(self._schedule.now_ms, event, outputs)
        self._schedule.mix(self.broker_id, len(outputs))
        self._world.observer.stepped(self, event, outputs)
        self._carry_out_all(outputs)
        if self.alive:
            self._arm_tick()

    def _check_progress(self) -> None:
        instant, steps = self._instant
        now = self._schedule.now_ms
        self._instant = (now, steps + 1) if instant == now else (now, 1)
        if self._instant[1] > STEPS_AT_ONE_INSTANT_MAX:
            raise Violation("a node runs in a circle", f"{self.name} at {now:.3f} ms")

    def _tick(self, alarm: int) -> None:
        if alarm != self._alarm:
            return
        now = self._clocks()[0]
        self._ticking_at = float("inf")
        if self.node.next_deadline_ms() <= now:
            self._step(Tick())
        else:
            self._arm_tick()

    def _arm_tick(self) -> None:
        deadline = self.node.next_deadline_ms()
        if deadline < self._ticking_at:
            self._ticking_at = deadline
            self._alarm += 1
            self._schedule.at(deadline - self.host.clock_ms, self, self._alarm)

    # ---- outputs ------------------------------------------------------------------------------

    def _carry_out_all(self, outputs: Sequence[Output]) -> None:
        self._busy = True
        try:
            for output in outputs:
                if self.outputs_until_crash is not None:
                    if self.outputs_until_crash <= 0:
                        self.die("crashed between two outputs of a step", in_step=True)
                        return
                    self.outputs_until_crash -= 1
                self._carry_out(output)
                if not self.alive:
                    return
        finally:
            self._busy = False

    def _carry_out(self, output: Output) -> None:
        match output:
            case Reply() | CloseConnection() | RangeInvalidated():
                self._to_connections(output)
            case Send():
                self.peers.send(output)
            case CoordinatorWrite():
                self.door.write(output.token, output.operations)
            case ReadCoordinator():
                self.door.read(output.token, output.roots)
            case RunJob():
                delay = self._world.chance.delay(f"job/{self.host.place}", self.host.job_mean_ms)
                self._schedule.after(delay, self, lambda: self._run(output))
            case Report() | Reconfigured():
                pass  # the timeline has the one, and the other is about sockets
            case Stopped():
                self.die(output.reason, failed=output.failed, in_order=not output.failed)

    def _to_connections(self, output: Reply | CloseConnection | RangeInvalidated) -> None:
        if isinstance(output, RangeInvalidated):
            for connection in list(self.connections.values()):
                connection.invalidate(output.file, output.position)
            return
        found = self.connections.get(output.connection)
        if found is None:
            return
        if isinstance(output, Reply):
            self.flips -= found.answer(output.token, output.message, flip=self.flips > 0)
        else:
            found.refuse(output.reason)

    def _run(self, job: RunJob) -> None:
        """Work of another thread: late, and in any order."""
        error = None
        try:
            job.work()
        except CrashNow as crash:
            self.die(f"crashed in a job: {crash}")
            return
        except DiskError as failure:
            error = str(failure)
        delay = self._world.chance.delay(f"job/{self.host.place}", self.host.job_mean_ms)
        self._schedule.after(delay, self, JobDone(job.token, error))

    def _dial(self, dialer: Dialer, broker_id: int, identity: PeerIdentity) -> Connection:
        return self._world.dial(dialer, self.host.place, broker_id, identity)
