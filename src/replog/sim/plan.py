"""What a seed stands for: size of the cluster, settings, weather, faults and load.

Swarm testing: each seed takes a part of the fault kinds only, at rates of its own, because rare
combinations are found where the common faults are absent.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from replog.sim.chance import Chance
from replog.sim.consumers import ConsumerPlan
from replog.sim.coordinator import CoordinatorSettings
from replog.sim.fault_kinds import (
    EXTRA,
    LOSING,
    WEIGHTS,
    Fault,
    FaultEvent,
    Promise,
    draw_events,
    draw_rates,
)
from replog.sim.network import Weather
from replog.sim.producers import ProducerPlan

BROKERS: Final = (0, 1, 2)
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
CALM: Final = Weather(mean_ms=0.4)


REST_MS: Final = 3500.0  # mean pause of a producer after a burst
PROMISES: Final = (Promise.KEPT,) * 2 + (Promise.TAILS,) * 3 + (Promise.FSYNC, Promise.NONE)
# In how many of the seeds partitions are moved.
MOVES_SHARE: Final = 0.3
EXTRA_SHARE: Final = 0.4  # of the seeds take a kind of fault of `EXTRA` that they may
EXTRA_MEAN_MS: Final = 700.0  # between two of it
LIVES_SHARE: Final = 0.5  # of the seeds have a topic that is deleted and made again


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
    lives: bool = False  # one more topic is deleted and made again, grows, and is altered
    moves: bool = False  # an operator moves partitions and holds elections
    brokers: int = len(BROKERS)  # numbered from 0; each holds a replica of every partition
    log_folders: int = 1  # of each broker
    promise: Promise = Promise.KEPT
    unclean: bool = False  # topics allow unclean elections; only where nothing is promised
    trims: bool = False  # records go by retention


def make_plan(
    seed: int, *, duration_ms: float | None = None, rates: dict[Fault, float] | None = None
) -> Plan:
    """The plan of a seed. `rates`: mean times between two faults, instead of drawn ones."""
    stream = Chance(seed).at("plan")
    min_isr = stream.choice((1, 2, 2))
    promise = stream.choice(PROMISES)
    if promise is Promise.TAILS and min_isr == 1:
        promise = Promise.KEPT  # one replica is enough, and so its tail is all that there is
    allowed = [f for f in WEIGHTS if promise in LOSING.get(f, (promise,))]
    drawn = draw_rates(stream, allowed) | _extra(seed, promise)
    unclean = promise is Promise.NONE and stream.random() < 0.5
    trims = promise is not Promise.NONE and stream.random() < 0.3
    weather = Weather(
        mean_ms=stream.choice((0.3, 1.0, 4.0, 10.0)),
        spike_probability=stream.choice((0.0, 0.002, 0.02, 0.05)),
        spike_ms=stream.choice((30.0, 150.0, 300.0)),
        reset_probability=stream.choice((0.0, 0.0, 0.001, 0.005)),
    )
    lag = stream.choice((300, 500, 1000))
    framed = stream.random() < 0.3
    duration = stream.choice((2000.0, 3000.0, 5000.0)) if duration_ms is None else duration_ms
    topics = (("t", 2), ("u", stream.choice((1, 2))))
    coordinator = CoordinatorSettings(
        silence_ms=stream.choice((400.0, 800.0)),
        quick_death_probability=stream.choice((0.3, 0.9)),
        lost_reply_probability=stream.choice((0.0, 0.02, 0.1)),
        hint_ms=stream.choice((1.0, 10.0)),
        slow_hint_probability=stream.choice((0.0, 0.1)),
    )
    silence = {"replog.session.silence.ms": f"{coordinator.silence_ms:.0f}"}
    return Plan(
        seed=seed,
        moves=Chance(seed).at("moves").random() < MOVES_SHARE,
        framed=framed,
        duration_ms=duration,
        min_isr=min_isr,
        topics=topics,
        weather=weather,
        coordinator=coordinator,
        events=draw_events(seed, drawn if rates is None else rates, duration),
        producers=_producers(seed),
        consumers=_consumers(seed),
        committers=Chance(seed).at("committers").choice((0, 0, 1, 2)),
        log_folders=stream.choice((1, 1, 2)),
        promise=promise,
        unclean=unclean,
        trims=trims,
        lives=Chance(seed).at("lives").random() < LIVES_SHARE,
        settings=_settings(stream, lag_ms=lag, min_isr=min_isr) | _lanes(seed) | silence,
        topic_settings=_topic_settings(stream, promise, unclean=unclean, trims=trims),
    )


def _extra(seed: int, promise: Promise) -> dict[Fault, float]:
    stream = Chance(seed).at("extra")
    chosen = [fault for fault in EXTRA if stream.random() < EXTRA_SHARE]
    return {fault: EXTRA_MEAN_MS for fault in chosen if promise in EXTRA[fault]}


def _settings(stream: Random, *, lag_ms: int, min_isr: int) -> dict[str, str]:
    """Of brokers."""
    return {
        "replica.lag.time.max.ms": str(lag_ms),
        "replica.fetch.wait.max.ms": str(stream.choice((100, 200))),
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
        "log.retention.check.interval.ms": str(stream.choice((200, 1000))),
        "log.cleaner.backoff.ms": str(stream.choice((300, 15_000))),
        "log.cleaner.min.cleanable.ratio": "0.1",
        "log.roll.ms": str(stream.choice((400, 100_000))),
        "offsets.retention.minutes": "2147483647",  # wall clocks jump
    }


def _lanes(seed: int) -> dict[str, str]:
    """More than one connection to a leader, or cleaner, in some seeds."""
    return {
        "num.replica.fetchers": Chance(seed).at("lanes").choice(("1", "1", "1", "2")),
        "log.cleaner.threads": Chance(seed).at("cleaners").choice(("1", "2")),
    }


def _topic_settings(
    stream: Random, promise: Promise, *, unclean: bool, trims: bool
) -> dict[str, str]:
    return {
        "segment.ms": str(stream.choice((150, 1000, 100_000))),
        "index.interval.bytes": str(stream.choice((100, 4096))),
        "segment.index.bytes": str(stream.choice((40, 4096))),
        "file.delete.delay.ms": str(stream.choice((10, 500))),
        "retention.ms": "-1",  # wall clocks jump
        "message.timestamp.after.max.ms": str(2**62),
        "message.timestamp.before.max.ms": str(2**62),
        "retention.bytes": str(stream.choice((500, 3000))) if trims else "-1",
        "unclean.leader.election.enable": str(unclean).lower(),
        "replog.durability": "fsync" if promise is Promise.FSYNC else "replicated",
        "preallocate": stream.choice(("false", "false", "true")),
    }


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
        rest_ms=REST_MS,
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
                max_wait_ms=stream.choice((100, 250, 500)),
                session=stream.random() < 0.5,
                rack=f"r{stream.choice(BROKERS)}" if kind == "rack" else "",
                roams=kind == "roams",
            )
        )
    return tuple(plans)
