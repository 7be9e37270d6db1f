"""What members of a group tell of themselves, and what must be true of it all. No I/O in here.

A line is `NANOSECONDS MEMBER EVENT DETAILS`, by the monotonic clock that all processes of a machine
share. EVENT is assigned, revoked or lost (DETAILS are partitions: `3,7`), read (`3:120`), committed
(`3:121,7:8`), left, killed or failed. An owner has its partitions from the call that assigns them
to the end of the call that takes them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class Event(NamedTuple):
    """One line."""

    at_ns: int
    member: str
    what: str
    details: str

    @property
    def partitions(self) -> list[int]:
        return [] if self.details == "-" else [int(word) for word in self.details.split(",")]

    @property
    def offsets(self) -> dict[int, int]:
        if self.details == "-":
            return {}
        pairs = (word.split(":") for word in self.details.split(","))
        return {int(partition): int(offset) for partition, offset in pairs}


def parse(line: str) -> Event:
    """Of a line as members print it."""
    at_ns, member, what, details = line.split()
    return Event(int(at_ns), member, what, details)


@dataclass
class Judgement:
    """Goes through what happened, in its order."""

    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    owner: dict[int, str] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    read: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def take(self, event: Event) -> None:
        """One event further."""
        self.events.append(event)
        self.counts[event.what] += 1
        if event.what == "assigned":
            self._assigned(event)
        elif event.what in ("revoked", "lost"):
            self._free(event.member, event.partitions)
        elif event.what in ("left", "killed"):
            self._free(event.member, list(self.owner))
        elif event.what == "read":
            self._read(event)
        elif event.what == "committed":
            self._committed(event)
        else:
            self._problem(event, event.details)

    def _assigned(self, event: Event) -> None:
        for partition in event.partitions:
            if (other := self.owner.get(partition, event.member)) != event.member:
                self._problem(event, f"is given partition {partition}, which {other} still has")
            self.owner[partition] = event.member

    def _free(self, member: str, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if self.owner.get(partition) == member:
                del self.owner[partition]

    def _read(self, event: Event) -> None:
        for partition, offset in event.offsets.items():
            if self.owner.get(partition) != event.member:
                self._problem(event, f"reads from partition {partition}, which it does not have")
            self.read[partition].add(offset)

    def _committed(self, event: Event) -> None:
        for partition, offset in event.offsets.items():
            if offset < (before := self.committed.get(partition, 0)):
                self._problem(event, f"partition {partition} goes from {before} back to {offset}")
            self.committed[partition] = offset

    def _problem(self, event: Event, text: str) -> None:
        self.problems.append(f"{event.at_ns / 1e9:.3f} {event.member}: {event.what}: {text}")


def judge(
    events: Iterable[Event], ends: Mapping[int, int], snapshots: Sequence[Mapping[int, int]]
) -> Judgement:
    """What is wrong with `events`, with the records below `ends` that nobody read, and with
    committed offsets, as the coordinator told of them again and again in `snapshots`."""
    judgement = Judgement()
    for event in sorted(events):
        judgement.take(event)
    for partition, end in ends.items():
        missing = set(range(end)) - judgement.read[partition]
        if missing:
            judgement.problems.append(
                f"partition {partition}: {len(missing)} of {end} records were read by nobody, "
                f"the first one at {min(missing)}"
            )
    for before, after in pairwise(snapshots):
        for partition, offset in before.items():
            if after.get(partition, -1) < offset:
                judgement.problems.append(
                    f"the coordinator told {offset} for partition {partition}, then "
                    f"{after.get(partition)}"
                )
    return judgement
