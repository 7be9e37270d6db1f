"""What can go wrong in a run, how often, and what a run may take from its brokers."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from replog.sim.chance import Chance


class Promise(Enum):
    """What may be lost on disk in a run; it decides what must not be lost by the cluster."""

    KEPT = "nothing that was written to a disk is lost"
    TAILS = "tails or disks of fewer hosts at once than `min.insync.replicas` are lost"
    FSYNC = "topics are in durability `fsync`, and power goes anywhere"
    NONE = "anything is lost, and what was acknowledged may be, but never in silence"


class Fault(Enum):
    """Kinds of faults. Each happens at random times, on its own."""

    CRASH = "crash"
    CRASH_LEADER = "crash of a leader"
    CRASH_CONTROLLER = "crash of the controller"
    CRASH_ALL = "crash of all brokers"
    CRASH_AT_DISK = "crash at a disk call"
    CRASH_BETWEEN_OUTPUTS = "crash between two outputs"
    STOP = "controlled stop"
    ROLL = "rolling restart"
    PAUSE = "pause"
    LONG_PAUSE = "pause beyond the session"
    SLOW = "slow broker"
    WALL_STEP = "step of a wall clock"
    CUT_PEERS = "cut between brokers"
    CUT_COORDINATOR = "cut from the coordinator"
    CUT_CLIENTS = "cut from clients"
    ISOLATE = "cut from everybody"
    DRIP = "links that drip"
    RESET_ALL = "all connections of a broker break"
    HALF_OPEN = "half-open connections"
    EXPIRE = "session ended without reason"
    NO_QUORUM = "coordinator without quorum"
    STALE_READS = "stale reads of the coordinator"
    DISK_FULL = "full disk"
    DISK_ERROR = "disk error"
    SLOW_DISK = "slow disk"
    BIT_FLIP = "bit flip on read"
    POWER_CUT = "power cut of one host"
    POWER_CUT_ALL = "power cut of all hosts"
    EMPTY_DISK = "disk replaced by an empty one"
    ROT = "batch rots on a disk"


# How often a kind happens, beside the others that a seed takes.
WEIGHTS: Final = {
    Fault.CRASH: 2.0,
    Fault.CRASH_LEADER: 2.0,
    Fault.CRASH_CONTROLLER: 1.0,
    Fault.CRASH_ALL: 0.6,
    Fault.CRASH_AT_DISK: 2.0,
    Fault.CRASH_BETWEEN_OUTPUTS: 1.5,
    Fault.STOP: 1.0,
    Fault.ROLL: 0.5,
    Fault.PAUSE: 2.5,
    Fault.LONG_PAUSE: 1.0,
    Fault.SLOW: 1.0,
    Fault.WALL_STEP: 0.5,
    Fault.CUT_PEERS: 2.0,
    Fault.CUT_COORDINATOR: 1.0,
    Fault.CUT_CLIENTS: 0.7,
    Fault.ISOLATE: 1.0,
    Fault.DRIP: 1.0,
    Fault.RESET_ALL: 1.0,
    Fault.HALF_OPEN: 1.5,
    Fault.EXPIRE: 1.2,
    Fault.NO_QUORUM: 0.4,
    Fault.STALE_READS: 2.0,
    Fault.DISK_FULL: 0.6,
    Fault.DISK_ERROR: 2.0,
    Fault.SLOW_DISK: 1.0,
    Fault.BIT_FLIP: 1.5,
    Fault.POWER_CUT: 4.0,
    Fault.POWER_CUT_ALL: 3.0,
    Fault.EMPTY_DISK: 2.0,
}
# Faults that lose what was written, and with which promise they may happen at all.
LOSING: Final = {
    Fault.POWER_CUT: (Promise.TAILS, Promise.FSYNC, Promise.NONE),
    Fault.POWER_CUT_ALL: (Promise.FSYNC, Promise.NONE),
    Fault.EMPTY_DISK: (Promise.TAILS, Promise.NONE),
    Fault.DISK_ERROR: (Promise.TAILS, Promise.NONE),
}

# Kinds that some seeds take beside what they draw of the others.
EXTRA: Final = {Fault.ROT: (Promise.TAILS, Promise.NONE)}

FIRST_FAULT_MS: Final = 250.0  # the cluster gets time to form
LEAST_GAP_MS: Final = 5.0
# Of every so many milliseconds some have no new faults, so that the cluster gets somewhere.
ROUND_MS: Final = 4000.0
CALM_FROM_MS: Final = 1500.0
CALM_UNTIL_MS: Final = 2400.0


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """One fault that is going to happen.

    What it leaves open is drawn from a stream that is its alone, named by kind and number: a run
    from which other faults were taken away does the same here.
    """

    at_ms: float
    fault: Fault
    number: int  # among those of its kind
    broker: int | None = None  # whom it hits; None: drawn
    # Until it is mended, or the process is started again; None: drawn
    lasts_ms: float | None = None
    way: str = ""  # of what has several ways to happen; empty: drawn


def draw_rates(stream: Random, allowed: Collection[Fault]) -> dict[Fault, float]:
    """The kinds that a seed takes, each with the mean time between two of it in milliseconds."""
    share = stream.choice((0.15, 0.4, 0.8))
    per_second = stream.choice((1.0, 2.0, 4.0))
    weights = {}
    for fault in WEIGHTS:
        chosen = stream.random() < share
        weight = WEIGHTS[fault] * (0.5 + stream.random())
        if chosen and fault in allowed:
            weights[fault] = weight
    total = max(sum(weights.values()), 2.0)
    return {fault: 1000.0 * total / (weight * per_second) for fault, weight in weights.items()}


def draw_events(seed: int, rates: dict[Fault, float], duration_ms: float) -> tuple[FaultEvent, ...]:
    """Faults at random times, each kind for itself, `rates` milliseconds apart on average."""
    chance = Chance(seed)
    events = []
    for fault, mean_ms in rates.items():
        at_ms, number = FIRST_FAULT_MS, 0
        while True:
            at_ms += chance.delay(f"faults/{fault.value} when", mean_ms, least_ms=LEAST_GAP_MS)
            if at_ms >= duration_ms:
                break
            if not CALM_FROM_MS <= at_ms % ROUND_MS < CALM_UNTIL_MS:
                events.append(FaultEvent(round(at_ms, 3), fault, number))
            number += 1
    return tuple(sorted(events, key=lambda event: event.at_ms))
