"""One fault of a plan, while it happens: whom it hits, and what is done to them.

What the plan leaves open is drawn from a stream of this one fault.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from replog.model.coordination import CONTROLLER
from replog.sim.broker import Host, Life
from replog.sim.chance import Chance
from replog.sim.checkers import Oracle
from replog.sim.coordinator import PLACE, CoordinatorService
from replog.sim.network import Link, Network
from replog.sim.plan import FaultEvent
from replog.sim.schedule import Schedule

DISK_CALLS_MAX: Final = 30  # an armed crash hits at one of this many next calls
TORN_BYTES_MAX: Final = 200  # of an append that a crash hits, this much may be in the file
OUTPUTS_MAX: Final = 60
CUT_MEAN_MS: Final = (100.0, 400.0, 1200.0)  # one of these, for each cut
LEAST_MS: Final = 5.0
T = TypeVar("T")


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


class Mender(Protocol):
    """Who sees to it that a fault ends."""

    def mend_after(self, delay_ms: float, mend: Callable[[], None]) -> None:
        """Call `mend` then, or when everything is healed."""
        ...

    def keep_down(self, host: Host, down_ms: float) -> None:
        """When the process of `host` ends, it is started again after this time."""
        ...


class Occurrence:
    """The deeds return whether they happened: there may be nobody that they can be done to."""

    def __init__(self, mender: Mender, scene: Scene, event: FaultEvent) -> None:
        self._mender = mender
        self._scene = scene
        self._event = event
        self._stream = scene.chance.at(f"faults/{event.fault.value}/{event.number}")

    # ---- what is open ---------------------------------------------------------------------------

    def _one_of(self, choices: Sequence[T]) -> T:
        return self._stream.choice(choices)

    def _way(self, *ways: str) -> str:
        return self._event.way or self._one_of(ways)

    def _note(self, host: Host, text: str) -> None:
        """For whoever wants to know what happened in the run."""
        host.timeline.note(self._scene.schedule.now_ms, text)

    def _lasts_ms(self, mean_ms: float, *, least_ms: float = 0.0) -> float:
        drawn = least_ms + LEAST_MS + self._stream.expovariate(1.0) * mean_ms
        return drawn if self._event.lasts_ms is None else self._event.lasts_ms

    def some_life(self) -> Life | None:
        """The process that the plan names, or any."""
        if self._event.broker is not None:
            return self._life_of(self._event.broker)
        lives = [host.life for host in self._scene.hosts if host.life is not None]
        return self._one_of(lives) if lives else None

    def leader(self) -> Life | None:
        """The process that leads some partition."""
        records = list(self._scene.oracle.records.records.values())
        return self._life_of(self._one_of(records).leader) if records else None

    def controller(self) -> Life | None:
        """The process of the controller."""
        node = self._scene.coordinator.tree.nodes.get(CONTROLLER)
        sessions = self._scene.coordinator.tree.sessions()
        return None if node is None else self._life_of(sessions.get(node.session or "", -1))

    def _life_of(self, broker_id: int) -> Life | None:
        return next((h.life for h in self._scene.hosts if h.broker_id == broker_id), None)

    # ---- processes ------------------------------------------------------------------------------

    def crash(self, life: Life | None, why: str = "killed") -> bool:
        """SIGKILL."""
        if life is None:
            return False
        self._keep_down(life.host)
        life.die(why)
        return True

    def _keep_down(self, host: Host) -> None:
        if self._event.lasts_ms is not None:
            self._mender.keep_down(host, self._event.lasts_ms)

    def crash_all(self) -> bool:
        """SIGKILL of every process, at one instant."""
        lives = [host.life for host in self._scene.hosts if host.life is not None]
        for life in lives:
            self.crash(life, "killed with all others")
        return bool(lives)

    def crash_at_disk(self) -> bool:
        """The process dies inside one of its next calls that change something on disk."""
        life = self.some_life()
        if life is None:
            return False
        calls, written = (
            self._stream.randint(1, DISK_CALLS_MAX),
            self._stream.randint(0, TORN_BYTES_MAX),
        )
        life.host.arm_crash(calls, written)
        self._note(life.host, f"will crash at its disk call number {calls} from now")
        return True

    def crash_between_outputs(self) -> bool:
        """The process dies when it has carried out a part of what a step wanted done."""
        life = self.some_life()
        if life is None:
            return False
        life.outputs_until_crash = self._stream.randint(0, OUTPUTS_MAX)
        self._note(life.host, f"will crash after {life.outputs_until_crash} outputs")
        return True

    def stop(self) -> bool:
        """SIGTERM: it leaves in good order."""
        life = self.some_life()
        if life is None:
            return False
        self._keep_down(life.host)
        self._note(life.host, "told to stop")
        life.stop()
        return True

    def pause(self, least_ms: float, mean_ms: float) -> bool:
        """SIGSTOP, and SIGCONT later."""
        life = self.some_life()
        if life is None or life.paused:
            return False
        lasts_ms = self._lasts_ms(mean_ms, least_ms=least_ms)
        self._note(life.host, f"paused for {lasts_ms:.0f} ms")
        life.pause()
        self._mender.mend_after(lasts_ms, life.resume)
        return True

    def expire(self) -> bool:
        """The coordinator gives up a session that is in order."""
        life = self.some_life()
        if life is None:
            return False
        self._note(life.host, "its session is ended")
        life.door.expire()
        return True

    # ---- links ----------------------------------------------------------------------------------

    def _cut(self, victim: Host, links: list[Link], what: str) -> bool:
        network, lasts_ms = self._scene.network, self._lasts_ms(self._one_of(CUT_MEAN_MS))
        self._note(victim, f"cut {what} for {lasts_ms:.0f} ms")
        network.cut(links)
        self._mender.mend_after(lasts_ms, lambda: network.mend(links))
        return True

    def _victim(self) -> Host:
        if self._event.broker is not None:
            return next(h for h in self._scene.hosts if h.broker_id == self._event.broker)
        return self._one_of(self._scene.hosts)

    def _others(self, victim: Host) -> list[str]:
        return [host.place for host in self._scene.hosts if host is not victim]

    def cut_peers(self) -> bool:
        """A broker is cut from others: both ways from one or all, or one way ("to", "from")."""
        victim = self._victim()
        others = self._others(victim)
        way = self._way("one", "all", "to", "from")
        if way == "one":
            others = [self._one_of(others)]
        links = [(victim.place, other) for other in others] if way != "from" else []
        if way != "to":
            links += [(other, victim.place) for other in others]
        both = way in ("one", "all")
        return self._cut(victim, links, f"{'from' if both else way} {', '.join(others)}")

    def cut_coordinator(self) -> bool:
        """A broker is cut from the coordinator, and from nobody else."""
        self._cut_off(self._victim(), self._lasts_ms(500.0))
        return True

    def _cut_off(self, victim: Host, lasts_ms: float) -> None:
        """Cut `victim` from the coordinator, which so no longer hears it."""
        life = victim.life
        links = _both_ways(victim.place, [PLACE])
        self._note(victim, f"cut from the coordinator for {lasts_ms:.0f} ms")
        self._scene.network.cut(links)
        if life is not None:
            life.door.fall_silent()

        def mend() -> None:
            self._scene.network.mend(links)
            if life is not None and life.alive:
                life.door.be_heard()

        self._mender.mend_after(lasts_ms, mend)

    def cut_clients(self) -> bool:
        """A broker is cut from all clients."""
        victim = self._victim()
        links = _both_ways(victim.place, self._scene.client_names)
        return self._cut(victim, links, "from clients")

    def isolate(self) -> bool:
        """A broker is cut from everybody. The coordinator may be reached again at another time."""
        victim = self._victim()
        self._cut_off(victim, self._lasts_ms(500.0))
        links = _both_ways(victim.place, [*self._others(victim), *self._scene.client_names])
        return self._cut(victim, links, "from brokers and clients")


def _both_ways(place: str, others: list[str]) -> list[Link]:
    return [link for other in others for link in ((place, other), (other, place))]
