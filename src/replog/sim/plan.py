"""What a seed stands for: size of the cluster, settings, weather, faults and load.

Swarm testing: each seed takes a part of the fault kinds only, at rates of its own, because rare
combinations are found where the common faults are absent.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from replog.sim.chance import Chance
from replog.sim.consumers import ConsumerPlan
from replog.sim.coordinator import CoordinatorSettings
from replog.sim.network import Weather
from replog.sim.producers import ProducerPlan

BROKERS: Final = (0, 1, 2)
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
CALM: Final = Weather(mean_ms=0.4)


class Fault(Enum):
    """Kinds of faults. Each happens at random times, on its own."""

    CRASH = "crash"
    CRASH_LEADER = "crash of a leader"
    CRASH_CONTROLLER = "crash of the controller"
    CRASH_ALL = "crash of all brokers"
    CRASH_AT_DISK = "crash at a disk call"
    CRASH_BETWEEN_OUTPUTS = "crash between two outputs"
    STOP = "controlled stop"
    PAUSE = "pause"
    LONG_PAUSE = "pause beyond the session"
    CUT_PEERS = "cut between brokers"
    CUT_COORDINATOR = "cut from the coordinator"
    CUT_CLIENTS = "cut from clients"
    ISOLATE = "cut from everybody"
    EXPIRE = "session ended without reason"


# Mean time between two faults of a kind, in milliseconds, at the usual rate.
MEAN_MS: Final = {
    Fault.CRASH: 1500.0,
    Fault.CRASH_LEADER: 1500.0,
    Fault.CRASH_CONTROLLER: 2500.0,
    Fault.CRASH_ALL: 4000.0,
    Fault.CRASH_AT_DISK: 1200.0,
    Fault.CRASH_BETWEEN_OUTPUTS: 1500.0,
    Fault.STOP: 2000.0,
    Fault.PAUSE: 800.0,
    Fault.LONG_PAUSE: 2500.0,
    Fault.CUT_PEERS: 1200.0,
    Fault.CUT_COORDINATOR: 2000.0,
    Fault.CUT_CLIENTS: 2000.0,
    Fault.ISOLATE: 2500.0,
    Fault.EXPIRE: 2500.0,
}


FIRST_FAULT_MS: Final = 250.0  # the cluster gets time to form
LEAST_GAP_MS: Final = 5.0

# In how many of the seeds partitions are moved.
MOVES_SHARE: Final = 0.3


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
    lasts_ms: float | None = (
        None  # until it is mended, or the process is started again; None: drawn
    )
    way: str = ""  # of what has several ways to happen; empty: drawn


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. Times in virtual milliseconds."""

    seed: int
    framed: bool  # messages travel as bytes, through `wire` and `codec`
    duration_ms: float  # of the part with faults
    min_isr: int
    topics: tuple[tuple[str, int], ...]  # name, partitions
    weather: Weather
    coordinator: CoordinatorSettings
    events: tuple[FaultEvent, ...]  # in order of time
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    settings: dict[str, str] = field(default_factory=dict)  # of brokers, by Kafka's names
    topic_settings: dict[str, str] = field(default_factory=dict)
    committers: int = 0  # clients that store offsets
    moves: bool = False  # an operator moves partitions and holds elections
    brokers: int = len(BROKERS)  # numbered from 0; each holds a replica of every partition


def make_plan(
    seed: int, *, duration_ms: float | None = None, rates: dict[Fault, float] | None = None
) -> Plan:
    """The plan of a seed. `rates`: mean times between two faults, instead of drawn ones."""
    stream = Chance(seed).at("plan")
    drawn = {}
    share = stream.choice((0.25, 0.5, 0.8))
    pace = stream.choice((0.7, 1.0, 2.0))
    for fault in Fault:
        chosen = stream.random() < share
        speed = 0.5 + stream.random()
        if chosen:
            drawn[fault] = MEAN_MS[fault] * pace * speed
    weather = Weather(
        mean_ms=stream.choice((0.3, 1.0, 4.0, 10.0)),
        spike_probability=stream.choice((0.0, 0.002, 0.02, 0.05)),
        spike_ms=stream.choice((30.0, 150.0, 300.0)),
        reset_probability=stream.choice((0.0, 0.0, 0.001, 0.005)),
    )
    lag = stream.choice((300, 500, 1000))
    min_isr = stream.choice((1, 2, 2))
    framed = stream.random() < 0.3
    duration = stream.choice((2000.0, 3000.0, 5000.0)) if duration_ms is None else duration_ms
    return Plan(
        seed=seed,
        moves=Chance(seed).at("moves").random() < MOVES_SHARE,
        framed=framed,
        duration_ms=duration,
        min_isr=min_isr,
        topics=(("t", 2), ("u", stream.choice((1, 2)))),
        weather=weather,
        coordinator=CoordinatorSettings(
            silence_ms=stream.choice((400.0, 800.0)),
            quick_death_probability=stream.choice((0.3, 0.9)),
            lost_reply_probability=stream.choice((0.0, 0.02, 0.1)),
            hint_ms=stream.choice((1.0, 10.0)),
            slow_hint_probability=stream.choice((0.0, 0.1)),
        ),
        events=draw_events(seed, drawn if rates is None else rates, duration),
        producers=_producers(seed),
        consumers=_consumers(seed),
        committers=Chance(seed).at("committers").choice((0, 0, 1, 2)),
        settings={
            "replica.lag.time.max.ms": str(lag),
            "replica.fetch.wait.max.ms": str(stream.choice((50, 100))),
            "replica.socket.timeout.ms": str(stream.choice((300, 600))),
            "replica.fetch.backoff.ms": str(stream.choice((20, 100))),
            "replica.fetch.max.bytes": str(stream.choice((300, 4096))),
            "request.timeout.ms": "500",
            "controller.socket.timeout.ms": "500",
            "min.insync.replicas": str(min_isr),
            "offsets.topic.num.partitions": "2",
            "offsets.commit.timeout.ms": "400",
            "replica.selector.class": RACK_AWARE,
            "controlled.shutdown.retry.backoff.ms": "50",
            "replica.high.watermark.checkpoint.interval.ms": str(stream.choice((100, 1000))),
            "log.flush.offset.checkpoint.interval.ms": "1000",
        },
        topic_settings={
            "segment.ms": str(stream.choice((150, 1000, 100_000))),
            "index.interval.bytes": str(stream.choice((100, 4096))),
            "segment.index.bytes": str(stream.choice((40, 4096))),
        },
    )


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
            events.append(FaultEvent(round(at_ms, 3), fault, number))
            number += 1
    return tuple(sorted(events, key=lambda event: event.at_ms))


def _producers(seed: int) -> tuple[ProducerPlan, ...]:
    """Always an idempotent producer; others of all kinds."""
    stream = Chance(seed).at("producers")
    plans = [_producer(stream.random(), stream.random(), acks=-1, idempotent=True)]
    for _ in range(stream.choice((1, 2))):
        acks = stream.choice((-1, -1, 1, 0))
        idempotent = acks == -1 and stream.random() < 0.5
        plans.append(_producer(stream.random(), stream.random(), acks=acks, idempotent=idempotent))
    return tuple(plans)


def _producer(pace: float, order: float, *, acks: int, idempotent: bool) -> ProducerPlan:
    return ProducerPlan(
        acks=acks,
        idempotent=idempotent,
        interval_ms=15.0 + 50.0 * pace,
        batches_max=10_000,
        drains_first=order < 0.5,
    )


def _consumers(seed: int) -> tuple[ConsumerPlan, ...]:
    stream = Chance(seed).at("consumers")
    plans = []
    for _ in range(stream.choice((1, 2))):
        kind = stream.choice(("leader", "leader", "rack", "roams"))
        plans.append(
            ConsumerPlan(
                max_wait_ms=stream.choice((20, 100, 300)),
                session=stream.random() < 0.5,
                rack=f"r{stream.choice(BROKERS)}" if kind == "rack" else "",
                roams=kind == "roams",
            )
        )
    return tuple(plans)
