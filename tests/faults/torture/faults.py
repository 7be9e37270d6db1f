"""What is done to the cluster: a list of faults drawn from a seed, and who carries it out.

The list says what and when; whom a fault hits (the leader of a partition, the controller) is looked
up when it is due. Each fault ends by itself, so several may be on at once. At most DOWN_MAX brokers
are killed, stopped or frozen together, unless it is all of them: with more the cluster may rightly
refuse, and there would be little to see.
"""

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.faults.torture.brokers import SILENCE_MS, Brokers

from replog.runtime.client import ClientError

DOWN_MAX = 2
PAUSE_S = (5.0, 10.0)  # between two faults
OUTAGE_S = (0.5, 8.0)  # how long a broker is down, or a link cut
FREEZES = (0.5, 1.0, 3.0)  # of the time after which silence counts as death
REPLACED_TIMEOUT_S = 60.0
KINDS = {
    "kill": 6,
    "terminate": 3,
    "freeze": 4,
    "kill-all": 1,
    "isolate": 2,
    "one-way": 2,
    "cut-pair": 2,
    "cut-controller": 2,
    "reset": 1,
    "reassign": 3,
    "recreate": 2,
}
VICTIMS = ("leader", "leader", "controller", "any")


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of the list."""

    at_s: float  # since the beginning of the run
    kind: str
    victim: str  # leader, controller or any
    lasts_s: float
    seed: int  # for what is chosen when it is due


@dataclass(slots=True)
class Event:
    """What became of it; monotonic seconds."""

    fault: Fault
    began: float
    text: str
    ended: float | None = None
    replaced_ms: float | None = None  # until nothing was led by the victim any more
    skipped: bool = False
    failure: str | None = None


def schedule(seed: int, minutes: float) -> list[Fault]:
    """The list of a run; a longer run goes on where a shorter one ends."""
    chance = random.Random(seed)
    faults: list[Fault] = []
    at_s = 2.0
    while True:
        at_s += chance.uniform(*PAUSE_S)
        kind = chance.choices(list(KINDS), weights=list(KINDS.values()))[0]
        lasts_s = chance.uniform(*OUTAGE_S)
        if kind == "freeze":
            lasts_s = chance.choice(FREEZES) * SILENCE_MS / 1000
        fault = Fault(
            round(at_s, 2), kind, chance.choice(VICTIMS), round(lasts_s, 2), chance.getrandbits(32)
        )
        if at_s + lasts_s >= minutes * 60:
            return faults
        faults.append(fault)


@dataclass(slots=True)
class Extras:
    """Faults that are more than a signal or a cut: given chance, they say what they did."""

    reassign: Callable[[random.Random], str]
    recreate: Callable[[random.Random], str]


class Nemesis(threading.Thread):
    """Carries out a schedule."""

    def __init__(
        self, brokers: Brokers, topics: Sequence[str], faults: Sequence[Fault], extras: Extras
    ) -> None:
        super().__init__(name="nemesis", daemon=True)
        self.events: list[Event] = []
        self.failure: BaseException | None = None
        self._brokers = brokers
        self._topics = list(topics)
        self._faults = faults
        self._extras = extras
        self._down: set[int] = set()
        self._lock = threading.Lock()
        self._hands: list[threading.Thread] = []
        self._stopping = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        for fault in self._faults:
            if self._stopping.wait(max(0.0, began + fault.at_s - time.monotonic())):
                break
            hand = threading.Thread(target=self._attempt, args=(fault,), daemon=True)
            self._hands.append(hand)
            hand.start()
        for hand in self._hands:
            hand.join()

    def stop(self) -> None:
        """Begin no further fault; those under way are ended first."""
        self._stopping.set()

    @property
    def active(self) -> list[Event]:
        """Faults that are on now."""
        return [event for event in self.events if event.ended is None]

    def _attempt(self, fault: Fault) -> None:
        event = Event(fault, time.monotonic(), fault.kind)
        self.events.append(event)
        try:
            self._carry_out(fault, event)
        except ClientError as error:  # nobody can be asked whom to hit: another fault's doing
            event.skipped = True
            event.text += f" (not done: {error})"
        except Exception as error:  # noqa: BLE001  # told in the report, which then is no success
            event.failure = f"{type(error).__name__}: {error}"
            self.failure = self.failure or error
        finally:
            event.ended = time.monotonic()

    def _carry_out(self, fault: Fault, event: Event) -> None:
        chance = random.Random(fault.seed)
        match fault.kind:
            case "kill" | "terminate" | "freeze":
                self._take_down(fault, event, chance)
            case "kill-all":
                self._kill_all(event)
            case "isolate" | "one-way" | "cut-pair" | "cut-controller":
                self._cut(fault, event, chance)
            case "reset":
                broker = self._victim(fault, chance)
                event.text = f"reset connections of broker {broker}"
                self._brokers.reset(broker)
            case "reassign":
                event.text = self._extras.reassign(chance)
            case "recreate":
                event.text = self._extras.recreate(chance)
            case _:
                raise ValueError(fault.kind)

    # ---- brokers ------------------------------------------------------------------------------

    def _victim(self, fault: Fault, chance: random.Random) -> int:
        seen = self._brokers.metadata(self._topics, but=self._down)
        if fault.victim == "controller" and seen.controller_id >= 0:
            return seen.controller_id
        if fault.victim == "leader":
            leaders = [p.leader_id for t in seen.topics for p in t.partitions if p.leader_id >= 0]
            if leaders:
                return chance.choice(leaders)
        return chance.choice(self._brokers.ids)

    def _take_down(self, fault: Fault, event: Event, chance: random.Random) -> None:
        broker = self._victim(fault, chance)
        event.text = f"{fault.kind} broker {broker} ({fault.victim}) for {fault.lasts_s:g} s"
        with self._lock:
            if broker in self._down or len(self._down) >= DOWN_MAX:
                event.skipped = True
                return
            self._down.add(broker)
        try:
            number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}.get(
                fault.kind, signal.SIGSTOP
            )
            began = time.monotonic()
            self._brokers.signal(broker, number)
            self._watch(event, broker, began, began + fault.lasts_s)
            time.sleep(max(0.0, began + fault.lasts_s - time.monotonic()))
            if number is signal.SIGSTOP:
                self._brokers.signal(broker, signal.SIGCONT)
            else:
                self._brokers.wait_ended(broker)
                self._brokers.start(broker)
        finally:
            with self._lock:
                self._down.discard(broker)

    def _watch(self, event: Event, broker: int, began: float, until: float) -> None:
        """How long it takes until others lead what the broker led, by what the others say."""
        while time.monotonic() < until:
            try:
                seen = self._brokers.metadata(self._topics, but=[broker])
            except ClientError:
                continue
            leaders = [p.leader_id for topic in seen.topics for p in topic.partitions]
            if leaders and all(leader not in (broker, -1) for leader in leaders):
                event.replaced_ms = (time.monotonic() - began) * 1000
                return
            time.sleep(0.01)

    def _kill_all(self, event: Event) -> None:
        event.text = "kill all brokers"
        with self._lock:
            if self._down:
                event.skipped = True
                return
            self._down.update(self._brokers.ids)
        try:
            for broker in self._brokers.ids:
                self._brokers.signal(broker, signal.SIGKILL)
            for broker in self._brokers.ids:
                self._brokers.wait_ended(broker)
            began = time.monotonic()
            for broker in self._brokers.ids:
                self._brokers.start(broker)
            self._watch(event, -1, began, began + REPLACED_TIMEOUT_S)
        finally:
            with self._lock:
                self._down.clear()

    # ---- the network ----------------------------------------------------------------------------

    def _cut(self, fault: Fault, event: Event, chance: random.Random) -> None:
        broker = self._victim(fault, chance)
        others = [other for other in self._brokers.ids if other != broker]
        directions = [(broker, other) for other in others]
        match fault.kind:
            case "isolate":
                event.text = f"cut broker {broker} off from all"
                directions += [(other, broker) for other in others]
            case "one-way":
                incoming = chance.random() < 0.5
                event.text = f"nothing passes {'to' if incoming else 'from'} broker {broker}"
                if incoming:
                    directions = [(other, broker) for other in others]
            case "cut-pair":
                other = chance.choice(others)
                event.text = f"cut brokers {broker} and {other} apart"
                directions = [(broker, other), (other, broker)]
            case _:
                controller = self._brokers.metadata(but=self._down).controller_id
                if controller in (broker, -1):
                    broker, controller = chance.choice(others), broker
                event.text = f"cut broker {broker} off from controller {controller}"
                directions = [(broker, controller), (controller, broker)]
        event.text += f" for {fault.lasts_s:g} s"
        self._brokers.cut(directions)
        time.sleep(fault.lasts_s)
        self._brokers.heal(directions)


def as_json(event: Event, run_began: float) -> dict[str, Any]:
    """An event for the report; seconds since the beginning of the run."""
    return {
        **asdict(event.fault),
        "text": event.text,
        "began_s": round(event.began - run_began, 3),
        "ended_s": None if event.ended is None else round(event.ended - run_began, 3),
        "replaced_ms": event.replaced_ms,
        "skipped": event.skipped,
        "failure": event.failure,
    }
