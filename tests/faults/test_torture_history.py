"""The reckoning of torture finds what it is there to find: each kind of wrong, planted."""

from itertools import pairwise

import pytest
from tests.faults.torture.faults import KINDS, schedule
from tests.faults.torture.history import (
    History,
    LogJudge,
    Problems,
    Reading,
    Writer,
    compare_readings,
)

SAFE, PLAIN = Writer("safe@t", "t", idempotent=True), Writer("plain@t", "t", idempotent=False)


class Log:
    """Partition 0 of topic t as it should be: five records of each writer, taking turns."""

    def __init__(self) -> None:
        self.history = History([SAFE, PLAIN])
        self.values: list[bytes] = []
        for turn in range(10):
            writer = (SAFE, PLAIN)[turn % 2].name
            number, value = self.history.invoke(writer, 0)
            self.history.acknowledged(writer, 0, number, turn, now=float(turn))
            self.values.append(value)

    def judge(self) -> list[str]:
        problems = Problems()
        judge = LogJudge(self.history, "t", 0, problems)
        for offset, value in enumerate(self.values):
            judge.take(offset, value)
        judge.finish()
        return sorted({text.partition(":")[0] for text in problems.texts})


def test_a_log_that_is_as_it_was_promised() -> None:
    log = Log()
    assert log.judge() == []
    number, _ = log.history.invoke(SAFE.name, 0)
    log.history.refused(SAFE.name, 0, number, "timed out", definite=False)
    assert log.judge() == []  # it may be there or not
    assert log.history.counts() == {"acknowledged": 10, "unknown": 1}


def test_an_unanswered_record_may_be_there() -> None:
    log = Log()
    log.values.append(log.history.invoke(SAFE.name, 0)[1])
    assert log.judge() == []


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (lambda v: v.pop(), ["lost"]),
        (lambda v: v.insert(10, v[8]), ["repeated"]),
        (lambda v: v.insert(10, v[9]), []),  # a plain producer's retry
        (lambda v: v.__setitem__(8, v[8][:-1] + b"?"), ["changed", "lost"]),
        (lambda v: v.append(b"nobody/0/0/"), ["stranger"]),
        (lambda v: v.append(v[8].replace(b"/0/", b"/7/", 1)), ["stranger"]),
        (lambda v: v.__setitem__(slice(6, 9), [v[8], v[7], v[6]]), ["lost", "reordered"]),
        (lambda v: v.insert(0, v.pop()), ["lost"]),  # there, but not where it was said to be
    ],
)
def test_what_is_wrong_with_a_log(harm, found: list[str]) -> None:  # type: ignore[no-untyped-def]
    log = Log()
    harm(log.values)
    assert log.judge() == found


def test_a_record_that_was_acknowledged_without_its_offset_is_somewhere() -> None:
    log = Log()
    number, value = log.history.invoke(SAFE.name, 0)
    log.history.acknowledged(SAFE.name, 0, number, None, now=10.0)
    assert log.judge() == ["lost"]
    log.values.append(value)
    assert log.judge() == []


def test_a_record_that_was_refused_for_good_is_not_there() -> None:
    log = Log()
    number, value = log.history.invoke(PLAIN.name, 0)
    log.history.refused(PLAIN.name, 0, number, "NOT_ENOUGH_REPLICAS", definite=True)
    log.values.append(value)
    assert log.judge() == ["undead"]


def test_readers_go_forward_and_see_the_same() -> None:
    problems = Problems()
    one, other = Reading("one", "t", 0), Reading("other", "t", 0)
    for offset in range(3):
        one.take(offset, b"%d" % offset, problems)
    other.take(0, b"0", problems)
    compare_readings(one, other, problems)
    assert problems.count == 0
    other.take(1, b"another", problems)
    compare_readings(one, other, problems)
    one.take(4, b"4", problems)  # skipped 3
    one.take(2, b"2", problems)  # went back
    assert problems.count == 3, problems.texts
    member = Reading("member", "t", 0)
    for offset in (0, 1, 0, 1):
        member.take(offset, b"%d" % offset, problems, again=True)
    assert problems.count == 3, problems.texts
    member.take(1, b"another", problems, again=True)
    assert problems.count == 4


def test_the_longest_pause_of_a_partition() -> None:
    history = History([SAFE, PLAIN])
    for writer, now in ((SAFE, 1.0), (PLAIN, 2.0), (SAFE, 7.0), (SAFE, 8.0)):
        number, _ = history.invoke(writer.name, 0)
        history.acknowledged(writer.name, 0, number, number, now)
    gap = history.gaps["t", 0]
    assert (gap.began, gap.ended, gap.seconds) == (2.0, 7.0, 5.0)


def test_a_seed_is_a_schedule() -> None:
    short, long = schedule(7, 3), schedule(7, 30)
    assert long[: len(short)] == short or long[: len(short) - 1] == short[:-1]
    assert schedule(8, 3) != short
    assert {fault.kind for fault in long} == set(KINDS)
    assert all(5 <= b.at_s - a.at_s <= 10 for a, b in pairwise(long))
