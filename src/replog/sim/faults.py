"""The faults of a plan: they happen in their time, are counted, and are mended in the end."""

from collections.abc import Callable
from typing import Any, Final

from replog.sim import disk_faults, network_faults, process_faults
from replog.sim.fault_kinds import Fault, FaultEvent
from replog.sim.host import Host
from replog.sim.occurrence import Occurrence, Scene
from replog.sim.plan import Plan
from replog.sim.schedule import Target

DEEDS: Final[dict[Fault, Callable[[Occurrence], bool]]] = {
    **process_faults.DEEDS,
    **network_faults.DEEDS,
    **disk_faults.DEEDS,
}

RESTART_MEAN_MS: Final = (20.0, 200.0, 800.0)  # one of these, for each process that ended
RESTART_CALM_MS: Final = 30.0  # the mean once no faults happen any more
LEAST_MS: Final = 5.0


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
        self._down_ms: dict[int, float] = {}  # broker -> for how long, where a plan says it

    def start(self) -> None:
        """Let everything on the plan's list happen in its time."""
        for event in self._plan.events:
            self._scene.schedule.at(event.at_ms, self, event)

    def take(self, item: Any) -> None:
        if isinstance(item, FaultEvent):
            if not self._over and DEEDS[item.fault](Occurrence(self, self._scene, item)):
                self._count(item.fault.value)
        elif isinstance(item, Host):
            if item.life is None:
                self._scene.start_process(item)
        else:
            mend = self._mends.pop(item, None)
            if mend is not None:
                mend()

    def mend_after(self, delay_ms: float, mend: Callable[[], None]) -> None:
        """Call `mend` then, or when everything is healed."""
        self._mend_number += 1
        self._mends[self._mend_number] = mend
        self._scene.schedule.after(delay_ms, self, self._mend_number)

    def keep_down(self, host: Host, down_ms: float) -> None:
        """When the process of `host` ends, it is started again after this time."""
        self._down_ms[host.broker_id] = down_ms

    def heal(self) -> None:
        """No more faults: everything is mended and everybody is started."""
        self._over = True
        for number in list(self._mends):
            self._mends.pop(number)()
        for host in self._scene.hosts:
            host.troubles.disarm()
            host.restart_if_useless()
            if host.life is None:
                self._scene.schedule.after(20.0, self, host)
            else:
                host.life.outputs_until_crash = None

    def died(self, host: Host, *, failed: bool) -> None:
        """A process is gone, for whatever reason: it is started again after a while."""
        self._count("process ended by itself" if failed else "process died")
        down_ms = self._down_ms.pop(host.broker_id, None)
        if down_ms is None:
            stream = self._scene.chance.at(f"restart/{host.place}/{host.incarnations}")
            mean_ms = RESTART_CALM_MS if self._over else stream.choice(RESTART_MEAN_MS)
            down_ms = LEAST_MS + stream.expovariate(1.0) * mean_ms
        self._scene.schedule.after(down_ms, self, host)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
