"""What a run of torture came to, for people and for programs."""

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from tests.faults.torture.faults import Event, as_json
from tests.faults.torture.history import Gap, History, Problems

from replog.cli.output import columns

KAFKA = "12 to 17 s"  # the longest pause of Apache Kafka 4.4, three nodes, under the same


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found out."""

    seed: int
    minutes: float
    brokers: int
    began: float  # monotonic seconds, of the first fault's clock
    events: list[Event]
    history: History
    records: int  # in the logs in the end
    repeats: int  # by producers that may repeat
    in_sync_after_s: float | None
    problems: Problems


def during(gap: Gap, events: list[Event]) -> list[str]:
    """What was done to the cluster in a time without acknowledgements."""
    return [
        event.text
        for event in events
        if not event.skipped
        and event.began < gap.ended
        and (event.ended is None or event.ended > gap.began)
    ]


def replaced(events: list[Event]) -> dict[str, list[float]]:
    """Milliseconds until others led what a broker had led, by kind of fault."""
    found: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.replaced_ms is not None:
            found[event.fault.kind].append(event.replaced_ms)
    return dict(found)


def as_dict(report: Report) -> dict[str, Any]:
    """For programs."""
    return {
        "seed": report.seed,
        "minutes": report.minutes,
        "brokers": report.brokers,
        "ok": report.problems.count == 0,
        "records": report.records,
        "outcomes": report.history.counts(),
        "refusals": dict(report.history.refusals),
        "repeats_by_plain_producers": report.repeats,
        "in_sync_after_s": report.in_sync_after_s,
        "longest_without_acknowledgement_s": {
            f"{topic}-{partition}": round(gap.seconds, 3)
            for (topic, partition), gap in sorted(report.history.gaps.items())
        },
        "replaced_ms": replaced(report.events),
        "problem_count": report.problems.count,
        "problems": report.problems.texts,
        "faults": [as_json(event, report.began) for event in report.events],
    }


def as_text(report: Report) -> str:
    """For people."""
    done = [event for event in report.events if not event.skipped]
    kinds = Counter(event.fault.kind for event in done)
    outcomes = report.history.counts()
    parts = [
        f"seed {report.seed}: {len(done)} faults in {report.minutes:g} minutes "
        f"({len(report.events) - len(done)} more were not possible when they were due)",
        ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
        "",
        columns(
            ("OUTCOME", "RECORDS"),
            sorted((name, f"{count:,}") for name, count in outcomes.items()),
        ),
        f"{report.records:,} records in the logs, {report.repeats:,} of them repeats by producers "
        "that may repeat",
    ]
    if report.history.refusals:
        parts += ["", columns(("REFUSED", "RECORDS"), report.history.refusals.most_common())]
    parts += ["", _pauses(report, done), "", _replacements(done), "", _verdict(report)]
    return "\n".join(parts)


def _pauses(report: Report, done: list[Event]) -> str:
    rows = []
    for (topic, partition), gap in sorted(report.history.gaps.items()):
        at_s = gap.began - report.began
        what = "; ".join(during(gap, done)) or "-"
        rows.append((f"{topic}-{partition}", f"{gap.seconds:.2f} s", f"{at_s:.0f} s", what))
    title = f"longest time without an acknowledgement (Apache Kafka under the same: {KAFKA})"
    return title + "\n" + columns(("PARTITION", "PAUSE", "AT", "MEANWHILE"), rows)


def _replacements(done: list[Event]) -> str:
    rows = [
        (
            kind,
            str(len(times)),
            f"{statistics.median(times):,.0f} ms",
            f"{max(times):,.0f} ms",
        )
        for kind, times in sorted(replaced(done).items())
    ]
    title = "until others lead what the broker led, by what a survivor says"
    return title + "\n" + columns(("FAULT", "TIMES", "MEDIAN", "WORST"), rows)


def _verdict(report: Report) -> str:
    if report.in_sync_after_s is not None:
        synced = f"all replicas in sync {report.in_sync_after_s:.1f} s after the end of the faults"
    else:
        synced = "not all replicas came back in sync"
    if not report.problems.count:
        return f"{synced}; nothing lost, changed, repeated or reordered; replicas are equal"
    shown = "\n".join(f"  {text}" for text in report.problems.texts)
    return f"{synced}\n{report.problems.count} PROBLEMS\n{shown}"
