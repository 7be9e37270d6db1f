"""The judge of the failover tests must itself be able to say no."""

import pytest

from replog.cli.ledger import Acknowledged, Writer, judge, name_in, value_of

SAFE = Writer("safe", idempotent=True)
PLAIN = Writer("plain", idempotent=False)


def log(writer: str, numbers: list[int], partition: int = 0) -> list[tuple[int, bytes]]:
    return [(i, value_of(writer, partition, n)) for i, n in enumerate(numbers)]


def acks(writer: str, numbers: list[int]) -> list[Acknowledged]:
    return [Acknowledged(writer, 0, n, i) for i, n in enumerate(numbers)]


def test_a_good_log_passes() -> None:
    verdict = judge({0: log("safe", [0, 1, 2])}, acks("safe", [0, 1, 2]), [SAFE])
    assert verdict.ok and verdict.read == 3 and verdict.acknowledged == 3


def test_values_name_themselves() -> None:
    assert name_in(value_of("safe", 3, 77)) == ("safe", 3, 77)
    assert len(value_of("safe", 3, 77, 1024)) == 1024
    assert value_of("a/b".replace("/", "-"), 0, 1, 5).startswith(b"a-b/0/1/")
    assert name_in(b"hello") is None


def test_records_that_were_never_acknowledged_may_be_there() -> None:
    assert judge({0: log("safe", [0, 1, 2, 3])}, acks("safe", [0, 1]), [SAFE]).ok


@pytest.mark.parametrize(
    ("found", "promised", "word"),
    [
        (log("safe", [0, 1]), acks("safe", [0, 1, 2]), "lost"),
        (log("safe", [0, 2, 1]), acks("safe", [0]), "reordered"),
        (log("safe", [0, 1, 1]), acks("safe", [0, 1]), "repeated"),
        (log("safe", [0, 1, 0]), acks("safe", [0, 1]), "repeated"),
        (log("safe", [0, 2]), acks("safe", [0, 1]), "changed"),
        (log("safe", [0, 1])[1:], acks("safe", [0]), "gap"),
        (log("safe", [0]) * 2, acks("safe", [0]), "gap"),
        ([(0, b"hello")], [], "stranger"),
        (log("nobody", [0]), [], "stranger"),
        ([(0, value_of("safe", 1, 0))], [], "stranger"),
        ([(0, value_of("safe", 0, 0)[:-1] + b"!")], [], "changed"),
    ],
)
def test_a_broken_promise_is_named(
    found: list[tuple[int, bytes]], promised: list[Acknowledged], word: str
) -> None:
    verdict = judge({0: found}, promised, [SAFE])
    assert not verdict.ok
    assert any(problem.startswith(word) for problem in verdict.problems), verdict.problems


def test_a_missing_partition_loses_what_it_had() -> None:
    assert not judge({}, acks("safe", [0]), [SAFE]).ok


def test_plain_writers_may_repeat_but_not_lose() -> None:
    repeated = judge({0: log("plain", [0, 1, 0, 1])}, acks("plain", [0, 1]), [PLAIN])
    assert repeated.ok and repeated.repeated_by_plain_writers == 2
    assert not judge({0: log("plain", [0])}, acks("plain", [0, 1]), [PLAIN]).ok


def test_only_the_first_problems_are_spelled_out() -> None:
    verdict = judge({0: []}, acks("safe", list(range(100))), [SAFE])
    assert verdict.problem_count == 100 and len(verdict.problems) == 20
