"""Making a failing run small: which faults, clients, partitions and settings does it take?

Delta debugging (ddmin; Zeller and Hildebrandt, 2002) over the list of faults, then one reduction
after the other of everything else, again and again until nothing more can go. A candidate counts
when it breaks the same rule. Nothing is run here: candidates are yielded, and whoever drives this
sends back which of them still fails.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from replog.sim.coordinator import CoordinatorSettings
from replog.sim.fault_kinds import FaultEvent
from replog.sim.plan import CALM, Plan
from replog.sim.producers import ProducerPlan

Candidates = tuple[Plan, ...]
# Yields candidates, best first; is sent the index of the first that fails, or None.
Shrinking = Generator[Candidates, int | None, Plan]

ROUNDS_MAX: Final = (
    4  # over everything; each is only worth it if the one before took something away
)
AFTER_MS: Final = 1.0  # a run is cut so much after its failure
MILD: Final = CoordinatorSettings(
    quick_death_probability=1.0, lost_reply_probability=0.0, slow_hint_probability=0.0
)


def shrink(plan: Plan, failed_at_ms: float) -> Shrinking:
    """`plan` fails at `failed_at_ms`; a smaller plan that fails likewise is returned."""
    plan = yield from _shorter(plan, failed_at_ms)
    for _ in range(ROUNDS_MAX):
        before = plan
        plan = yield from _fewer_events(plan)
        plan = yield from _simpler(plan)
        if plan == before:
            break
    return plan


def size(plan: Plan) -> dict[str, float]:
    """What there is of everything that may become less; the order is that of interest."""
    operators = plan.moves + plan.lives
    return {
        "faults": len(plan.events),
        "clients": len(plan.producers) + len(plan.consumers) + plan.committers + operators,
        "partitions": sum(count for _, count in plan.topics),
        "brokers": plan.brokers,
        "seconds": round(plan.duration_ms / 1000, 2),
    }


def _try(plan: Plan, candidates: Sequence[Plan]) -> Shrinking:
    """The first candidate that fails, or `plan` as it was."""
    fresh = tuple(candidate for candidate in candidates if candidate != plan)
    found = (yield fresh) if fresh else None
    return plan if found is None else fresh[found]


# ---- time -----------------------------------------------------------------------------------


def _until(plan: Plan, time_ms: float) -> Plan:
    """`plan` without what happens later."""
    time_ms = min(plan.duration_ms, time_ms)
    events = tuple(event for event in plan.events if event.at_ms < time_ms)
    return replace(plan, duration_ms=time_ms, events=events)


def _shorter(plan: Plan, failed_at_ms: float) -> Shrinking:
    """What comes after the failure can't matter; and often less time is enough."""
    plan = yield from _try(plan, [_until(plan, ceil(failed_at_ms) + AFTER_MS)])
    while True:
        shorter = [_until(plan, round(plan.duration_ms * part)) for part in (0.5, 0.75, 0.9)]
        found = yield from _try(plan, shorter)
        if found is plan:
            return plan
        plan = found


# ---- faults ---------------------------------------------------------------------------------


def _fewer_events(plan: Plan) -> Shrinking:
    """ddmin: leave out halves, then quarters, and so on down to single faults."""
    plan = yield from _try(plan, [replace(plan, events=())])
    parts = 2
    while len(plan.events) >= 1:
        step = ceil(len(plan.events) / parts)
        candidates = [
            replace(plan, events=_without(plan.events, start, step))
            for start in range(0, len(plan.events), step)
        ]
        found = yield from _try(plan, candidates)
        if found is not plan:
            plan, parts = found, max(parts - 1, 2)
        elif step == 1:
            break
        else:
            parts = min(parts * 2, len(plan.events))
    return plan


def _without(events: tuple[FaultEvent, ...], start: int, count: int) -> tuple[FaultEvent, ...]:
    return events[:start] + events[start + count :]


# ---- everything else ------------------------------------------------------------------------


def _simpler(plan: Plan) -> Shrinking:
    """Each way of making something less, as often as it goes."""
    for ways in (_fewer_clients, _fewer_batches, _fewer_places, _milder, _fewer_settings):
        while True:
            found = yield from _try(plan, list(ways(plan)))
            if found is plan:
                break
            plan = found
    return (yield from _shorter(plan, plan.duration_ms))


def _fewer_clients(plan: Plan) -> Iterator[Plan]:
    yield replace(plan, moves=False)
    yield replace(plan, lives=False)
    yield replace(plan, committers=0)
    for i in range(len(plan.consumers)):
        yield replace(plan, consumers=plan.consumers[:i] + plan.consumers[i + 1 :])
    for i in range(len(plan.producers)):
        yield replace(plan, producers=plan.producers[:i] + plan.producers[i + 1 :])


def _fewer_batches(plan: Plan) -> Iterator[Plan]:
    for i, producer in enumerate(plan.producers):
        for fewer in (1, 3, 10, 30, producer.batches_max // 2):
            if fewer < producer.batches_max:
                smaller: ProducerPlan = replace(producer, batches_max=fewer)
                others = plan.producers
                yield replace(plan, producers=(*others[:i], smaller, *others[i + 1 :]))


def _fewer_places(plan: Plan) -> Iterator[Plan]:
    for i, (name, count) in enumerate(plan.topics):
        others = plan.topics[:i] + plan.topics[i + 1 :]
        if others:
            yield replace(plan, topics=others)
        if count > 1:
            yield replace(plan, topics=(*plan.topics[:i], (name, 1), *plan.topics[i + 1 :]))
    if plan.brokers > 2:
        yield replace(plan, brokers=plan.brokers - 1)
    yield replace(plan, log_folders=1)


def _milder(plan: Plan) -> Iterator[Plan]:
    yield replace(plan, weather=CALM)
    yield replace(plan, weather=replace(plan.weather, reset_probability=0.0))
    yield replace(plan, weather=replace(plan.weather, spike_probability=0.0))
    yield replace(plan, coordinator=MILD)
    yield replace(plan, framed=False)
    for i, consumer in enumerate(plan.consumers):
        simple = replace(consumer, session=False, rack="", roams=False)
        yield replace(plan, consumers=(*plan.consumers[:i], simple, *plan.consumers[i + 1 :]))


def _fewer_settings(plan: Plan) -> Iterator[Plan]:
    if plan.topic_settings:
        yield replace(plan, topic_settings={})
    for name in plan.topic_settings:
        rest = {other: value for other, value in plan.topic_settings.items() if other != name}
        yield replace(plan, topic_settings=rest)
