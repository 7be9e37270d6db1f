"""Faults at random times: what breaks, for how long, and that it is mended in the end."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from replog.model.coordination import CONTROLLER
from replog.sim.broker import Host, Life
from replog.sim.chance import Chance
from replog.sim.checkers import Oracle
from replog.sim.coordinator import PLACE, CoordinatorService
from replog.sim.network import Link, Network
from replog.sim.plan import Fault, Plan
from replog.sim.schedule import Schedule, Target

FIRST_FAULT_MS: Final = 250.0  # the cluster gets time to form
DISK_CALLS_MAX: Final = 30  # an armed crash hits at one of this many next calls
TORN_BYTES_MAX: Final = 200  # of an append that a crash hits, this much may be in the file
OUTPUTS_MAX: Final = 60


class Scene(Protocol):
    """The world that faults are done to."""

    schedule: Schedule
    chance: Chance
    network: Network
    coordinator: CoordinatorService
    oracle: Oracle
    hosts: list[Host]
    client_names: list[str]

    def start_process(self, host: Host) -> None: ...


class Faults(Target):
    """Does faults, counts them, and undoes them."""

    def __init__(self, scene: Scene, plan: Plan) -> None:
        super().__init__("faults")
        self.counts: dict[str, int] = {}
        self._scene = scene
        self._plan = plan
        self._over = False
        self._mends: dict[int, Callable[[], None]] = {}
        self._mend_number = 0
        self._actions: dict[Fault, Callable[[], bool]] = {
            Fault.CRASH: lambda: self._crash(self._some_life("crash")),
            Fault.CRASH_LEADER: lambda: self._crash(self._leader()),
            Fault.CRASH_CONTROLLER: lambda: self._crash(self._controller()),
            Fault.CRASH_ALL: self._crash_all,
            Fault.CRASH_AT_DISK: self._crash_at_disk,
            Fault.CRASH_BETWEEN_OUTPUTS: self._crash_between_outputs,
            Fault.STOP: self._stop,
            Fault.PAUSE: lambda: self._pause(20.0, 150.0),
            Fault.LONG_PAUSE: lambda: self._pause(self._plan.coordinator.silence_ms, 800.0),
            Fault.CUT_PEERS: self._cut_peers,
            Fault.CUT_COORDINATOR: self._cut_coordinator,
            Fault.CUT_CLIENTS: self._cut_clients,
            Fault.ISOLATE: self._isolate,
            Fault.EXPIRE: self._expire,
        }

    def start(self) -> None:
        """Let each kind of the plan happen from time to time."""
        for fault in self._plan.faults:
            self._scene.schedule.at(FIRST_FAULT_MS + self._gap(fault), self, fault)

    def take(self, item: Any) -> None:
        if isinstance(item, Fault):
            if self._over:
                return
            if self._actions[item]():
                self._count(item.value)
            self._scene.schedule.after(self._gap(item), self, item)
        elif isinstance(item, Host):
            if item.life is None:
                self._scene.start_process(item)
        else:
            mend = self._mends.pop(item, None)
            if mend is not None:
                mend()

    def heal(self) -> None:
        """No more faults: everything is mended and everybody is started."""
        self._over = True
        for number in list(self._mends):
            self._mends.pop(number)()
        for host in self._scene.hosts:
            host.disarm()
            if host.life is None:
                self._scene.schedule.after(20.0, self, host)
            else:
                host.life.outputs_until_crash = None

    def died(self, host: Host, *, failed: bool) -> None:
        """A process is gone, for whatever reason: it is started again after a while."""
        self._count("process ended by itself" if failed else "process died")
        mean = 30.0 if self._over else self._chance("restart").choice((20.0, 200.0, 800.0))
        self._scene.schedule.after(self._draw("restart time", mean), self, host)

    # ---- help ---------------------------------------------------------------------------------

    def _chance(self, what: str) -> Any:
        return self._scene.chance.at(f"faults/{what}")

    def _draw(self, what: str, mean_ms: float) -> float:
        return self._scene.chance.delay(f"faults/{what}", mean_ms, least_ms=5.0)

    def _gap(self, fault: Fault) -> float:
        return self._draw(f"{fault.value} when", self._plan.faults[fault])

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _mend_after(self, delay_ms: float, mend: Callable[[], None]) -> None:
        self._mend_number += 1
        self._mends[self._mend_number] = mend
        self._scene.schedule.after(delay_ms, self, self._mend_number)

    def _some_life(self, what: str) -> Life | None:
        lives = [host.life for host in self._scene.hosts if host.life is not None]
        return self._chance(f"{what} who").choice(lives) if lives else None

    def _life_of(self, broker_id: int) -> Life | None:
        return next((h.life for h in self._scene.hosts if h.broker_id == broker_id), None)

    # ---- processes ----------------------------------------------------------------------------

    def _crash(self, life: Life | None) -> bool:
        if life is None:
            return False
        life.die("killed")
        return True

    def _leader(self) -> Life | None:
        records = list(self._scene.oracle.records.records.values())
        if not records:
            return None
        return self._life_of(self._chance("leader").choice(records).leader)

    def _controller(self) -> Life | None:
        node = self._scene.coordinator.tree.nodes.get(CONTROLLER)
        sessions = self._scene.coordinator.tree.sessions()
        return None if node is None else self._life_of(sessions.get(node.session or "", -1))

    def _crash_all(self) -> bool:
        lives = [host.life for host in self._scene.hosts if host.life is not None]
        for life in lives:
            life.die("killed with all others")
        return bool(lives)

    def _crash_at_disk(self) -> bool:
        life = self._some_life("disk")
        if life is None:
            return False
        stream = self._chance("disk calls")
        life.host.arm_crash(stream.randint(1, DISK_CALLS_MAX), stream.randint(0, TORN_BYTES_MAX))
        return True

    def _crash_between_outputs(self) -> bool:
        life = self._some_life("outputs")
        if life is None:
            return False
        life.outputs_until_crash = self._chance("outputs").randint(0, OUTPUTS_MAX)
        return True

    def _stop(self) -> bool:
        life = self._some_life("stop")
        if life is None:
            return False
        life.stop()
        return True

    def _pause(self, least_ms: float, mean_ms: float) -> bool:
        life = self._some_life("pause")
        if life is None or life.paused:
            return False
        life.pause()
        self._mend_after(least_ms + self._draw("pause time", mean_ms), life.resume)
        return True

    def _expire(self) -> bool:
        life = self._some_life("expire")
        if life is None:
            return False
        life.door.expire()
        return True

    # ---- links --------------------------------------------------------------------------------

    def _cut(self, links: list[Link]) -> bool:
        network = self._scene.network
        network.cut(links)
        mean = self._chance("cut").choice((100.0, 400.0, 1200.0))
        self._mend_after(self._draw("cut time", mean), lambda: network.mend(links))
        return True

    def _victim(self) -> str:
        host: Host = self._chance("cut who").choice(self._scene.hosts)
        return host.place

    def _cut_peers(self) -> bool:
        victim = self._victim()
        others = [host.place for host in self._scene.hosts if host.place != victim]
        kind = self._chance("cut kind").choice(("one", "all", "to", "from"))
        if kind == "one":
            others = [self._chance("cut other").choice(others)]
        links = [(victim, other) for other in others] if kind != "from" else []
        if kind != "to":
            links += [(other, victim) for other in others]
        return self._cut(links)

    def _cut_coordinator(self) -> bool:
        self._cut_off(self._victim())
        return True

    def _cut_off(self, victim: str) -> None:
        """Cut `victim` from the coordinator, which so no longer hears it."""
        life = next(h.life for h in self._scene.hosts if h.place == victim)
        links = [(victim, PLACE), (PLACE, victim)]
        self._scene.network.cut(links)
        if life is not None:
            life.door.fall_silent()

        def mend() -> None:
            self._scene.network.mend(links)
            if life is not None and life.alive:
                life.door.be_heard()

        self._mend_after(self._draw("cut time", 500.0), mend)

    def _cut_clients(self) -> bool:
        victim = self._victim()
        return self._cut(_both_ways(victim, self._scene.client_names))

    def _isolate(self) -> bool:
        victim = self._victim()
        others = [host.place for host in self._scene.hosts if host.place != victim]
        self._cut_off(victim)
        return self._cut(_both_ways(victim, [*others, *self._scene.client_names]))


def _both_ways(place: str, others: list[str]) -> list[Link]:
    return [link for other in others for link in ((place, other), (other, place))]
