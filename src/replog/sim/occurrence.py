"""One fault of a plan, while it happens: whom it hits, and for how long.

What the plan leaves open is drawn from a stream of this one fault. What is done is in
`process_faults`, `network_faults` and `disk_faults`: functions of an occurrence which return
whether it happened, as there may be nobody that it can be done to.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol, TypeVar

from replog.model.coordination import CONTROLLER
from replog.sim.broker import Life
from replog.sim.chance import Chance
from replog.sim.checkers import Oracle
from replog.sim.coordinator import CoordinatorService
from replog.sim.doubts import Doubts
from replog.sim.fault_kinds import FaultEvent
from replog.sim.host import Host
from replog.sim.network import Network
from replog.sim.plan import Plan
from replog.sim.schedule import Schedule

LEAST_MS: Final = 5.0
T = TypeVar("T")


class Scene(Protocol):
    """The world that faults are done to."""

    plan: Plan
    schedule: Schedule
    chance: Chance
    network: Network
    coordinator: CoordinatorService
    oracle: Oracle
    doubts: Doubts
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
    """The choices of one fault."""

    def __init__(self, mender: Mender, scene: Scene, event: FaultEvent) -> None:
        self.mender = mender
        self.scene = scene
        self._event = event
        self.stream: Random = scene.chance.at(f"faults/{event.fault.value}/{event.number}")

    def one_of(self, choices: Sequence[T]) -> T:
        """Any of them."""
        return self.stream.choice(choices)

    def way(self, *ways: str) -> str:
        """How it happens: as the plan says, or one of these."""
        return self._event.way or self.one_of(ways)

    def lasts_ms(self, mean_ms: float, *, least_ms: float = 0.0) -> float:
        """For how long: as the plan says, or drawn."""
        drawn = least_ms + LEAST_MS + self.stream.expovariate(1.0) * mean_ms
        return drawn if self._event.lasts_ms is None else self._event.lasts_ms

    def note(self, host: Host, text: str) -> None:
        """For whoever wants to know what happened in the run."""
        host.timeline.note(self.scene.schedule.now_ms, text)

    def mend_after(self, delay_ms: float, mend: Callable[[], None]) -> None:
        """Call `mend` then, or when everything is healed."""
        self.mender.mend_after(delay_ms, mend)

    # ---- who ------------------------------------------------------------------------------------

    def host(self) -> Host:
        """The host that the plan names, or any."""
        if self._event.broker is not None:
            return next(h for h in self.scene.hosts if h.broker_id == self._event.broker)
        return self.one_of(self.scene.hosts)

    def others(self, host: Host) -> list[str]:
        """The places of all other brokers."""
        return [other.place for other in self.scene.hosts if other is not host]

    def some_life(self) -> Life | None:
        """The process that the plan names, or any."""
        if self._event.broker is not None:
            return self._life_of(self._event.broker)
        lives = [host.life for host in self.scene.hosts if host.life is not None]
        return self.one_of(lives) if lives else None

    def leader(self) -> Life | None:
        """The process that leads some partition."""
        records = list(self.scene.oracle.records.records.values())
        return self._life_of(self.one_of(records).leader) if records else None

    def controller(self) -> Life | None:
        """The process of the controller."""
        node = self.scene.coordinator.tree.nodes.get(CONTROLLER)
        sessions = self.scene.coordinator.tree.sessions()
        return None if node is None else self._life_of(sessions.get(node.session or "", -1))

    def _life_of(self, broker_id: int) -> Life | None:
        return next((h.life for h in self.scene.hosts if h.broker_id == broker_id), None)

    def keep_down(self, host: Host) -> None:
        """Where the plan says for how long, the process is down for so long."""
        if self._event.lasts_ms is not None:
            self.mender.keep_down(host, self._event.lasts_ms)
