"""What clients asked for, what they were told and what they read; and what is wrong with it.

A record is known by (writer, partition, number), and its value says so (`replog.cli.ledger`). A
writer belongs to one topic; its name is unique. Nothing here does I/O or waits; several threads may
use one object as long as each has its own writer or reader.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b

from replog.cli.ledger import name_in, value_of

PROBLEMS_KEPT_MAX = 50


class Outcome(IntEnum):
    """What became of a record that has no offset. An acknowledged one has its offset instead."""

    UNANSWERED = -1
    FAILED = -2  # for certain it is not in the log
    UNKNOWN = -3  # it may be in the log: timed out, disconnected, or refused after a retry
    SOMEWHERE = -4  # acknowledged, without its offset: librdkafka knows that it was a repeat


# Kafka's error codes by which a record that was tried once is certainly not in the log.
# NOT_ENOUGH_REPLICAS, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_REQUIRED_ACKS, INVALID_RECORD
DEFINITE = frozenset({19, 10, 2, 21, 87})


@dataclass(frozen=True, slots=True)
class Writer:
    """One producer on one topic."""

    name: str  # without '/'
    topic: str
    idempotent: bool


@dataclass(slots=True)
class Gap:
    """A time in which nothing was acknowledged on a partition; monotonic seconds."""

    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Problems:
    """What is wrong, each in one line; the first ones in words, all of them counted."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.count = 0
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Note one."""
        with self._lock:
            self.count += 1
            if len(self.texts) < PROBLEMS_KEPT_MAX:
                self.texts.append(text)


class History:
    """All records of a run."""

    def __init__(self, writers: Iterable[Writer]) -> None:
        self.writers = {writer.name: writer for writer in writers}
        self.results: dict[tuple[str, int], array[int]] = {}  # (writer, partition) -> by number
        self.gaps: dict[tuple[str, int], Gap] = {}  # (topic, partition) -> the longest
        self.refusals: Counter[str] = Counter()  # reasons of what was not acknowledged
        self._last: dict[tuple[str, int], float] = {}  # when the last acknowledgement came
        self._lock = threading.Lock()

    def invoke(self, writer: str, partition: int) -> tuple[int, bytes]:
        """Number and value of the next record that `writer` sends to `partition`."""
        results = self.results.setdefault((writer, partition), array("q"))
        results.append(Outcome.UNANSWERED)
        number = len(results) - 1
        return number, value_of(writer, partition, number)

    def acknowledged(
        self, writer: str, partition: int, number: int, offset: int | None, now: float
    ) -> None:
        """The record is committed, at `offset` if that is told; it is `now` monotonic seconds."""
        told = Outcome.SOMEWHERE if offset is None or offset < 0 else offset
        self.results[writer, partition][number] = told
        place = (self.writers[writer].topic, partition)
        with self._lock:
            gap = Gap(self._last.get(place, now), now)
            self._last[place] = now
            if place not in self.gaps or gap.seconds > self.gaps[place].seconds:
                self.gaps[place] = gap

    def refused(
        self, writer: str, partition: int, number: int, reason: str, *, definite: bool
    ) -> None:
        """The record is not acknowledged, and will not be."""
        outcome = Outcome.FAILED if definite else Outcome.UNKNOWN
        self.results[writer, partition][number] = outcome
        with self._lock:
            self.refusals[f"{writer.partition('@')[0]}: {reason}"] += 1

    def counts(self) -> dict[str, int]:
        """How many records met which end."""
        found: Counter[str] = Counter()
        for results in self.results.values():
            for result in results:
                found["acknowledged" if result >= 0 else Outcome(result).name.lower()] += 1
        return dict(found)


@dataclass(slots=True)
class Reading:
    """What one reader has seen of one partition: it must go forward, one offset at a time."""

    name: str
    topic: str
    partition: int
    next_offset: int = 0
    digests: array[int] = field(default_factory=lambda: array("Q"))  # by offset

    def take(self, offset: int, value: bytes, problems: Problems, *, again: bool = False) -> None:
        """A record came. `again`: the reader may be given records anew (a group member may)."""
        where = f"{self.topic}-{self.partition} offset {offset}"
        digest = int.from_bytes(blake2b(value, digest_size=8).digest(), "big")
        if offset < self.next_offset:
            if not again:
                problems.add(f"{self.name} went back to {where} from {self.next_offset}")
            if self.digests[offset] != digest:
                problems.add(f"{self.name} read {where} twice, with different values")
            return
        if offset > self.next_offset:
            problems.add(f"{self.name} skipped from {self.next_offset} to {where}")
            self.digests.extend([0] * (offset - self.next_offset))
        self.digests.append(digest)
        self.next_offset = offset + 1


def compare_readings(one: Reading, other: Reading, problems: Problems) -> None:
    """Readers of one partition saw the same at every offset, as far as both got."""
    shared = min(one.next_offset, other.next_offset)
    if one.digests[:shared] == other.digests[:shared]:
        return
    first = next(i for i in range(shared) if one.digests[i] != other.digests[i])
    problems.add(
        f"{one.topic}-{one.partition} offset {first} was different for {one.name} and {other.name}"
    )


class LogJudge:
    """Holds the log of one partition, read from offset 0 to its end, against the history."""

    def __init__(self, history: History, topic: str, partition: int, problems: Problems) -> None:
        self._topic = topic
        self._partition = partition
        self._problems = problems
        self._results: Mapping[str, array[int]] = {
            name: results
            for (name, index), results in history.results.items()
            if index == partition and history.writers[name].topic == topic
        }
        self._idempotent = {name for name, w in history.writers.items() if w.idempotent}
        self._seen = {name: bytearray(len(found)) for name, found in self._results.items()}
        self._at_offset = {name: bytearray(len(found)) for name, found in self._results.items()}
        self._newest = dict.fromkeys(self._results, -1)
        self.repeats = 0  # of producers that did not promise otherwise

    def take(self, offset: int, value: bytes) -> None:
        """The next record of the log."""
        where = f"{self._topic}-{self._partition} offset {offset}"
        named = name_in(value)
        if named is None or named[0] not in self._results or named[1] != self._partition:
            self._problems.add(f"stranger: {where} holds {value[:60]!r}")
            return
        name, _, number = named
        results = self._results[name]
        if number >= len(results) or value != value_of(name, self._partition, number, len(value)):
            self._problems.add(f"changed: {where} claims to be {name} {number}")
            return
        if results[number] == Outcome.FAILED:
            self._problems.add(f"undead: {where} is {name} {number}, which was refused for good")
        if results[number] == offset:
            self._at_offset[name][number] = 1
        self._judge_order(name, number, where)

    def _judge_order(self, name: str, number: int, where: str) -> None:
        strict = name in self._idempotent
        if self._seen[name][number]:
            self.repeats += 1
            if strict:
                self._problems.add(f"repeated: {where} is {name} {number} once more")
        elif strict and number < self._newest[name]:
            self._problems.add(f"reordered: {where} is {name} {number} after {self._newest[name]}")
        self._seen[name][number] = 1
        self._newest[name] = max(number, self._newest[name])

    def finish(self) -> None:
        """That was the whole log: what was acknowledged must have been in it, where it was said."""
        for name, results in self._results.items():
            for number, result in enumerate(results):
                if result == Outcome.SOMEWHERE and not self._seen[name][number]:
                    self._problems.add(
                        f"lost: {name} {number} was acknowledged, and is not in the log"
                    )
                if result >= 0 and not self._at_offset[name][number]:
                    what = "elsewhere" if self._seen[name][number] else "not there"
                    self._problems.add(
                        f"lost: {self._topic}-{self._partition} offset {result} was acknowledged "
                        f"as {name} {number}, and is {what}"
                    )
