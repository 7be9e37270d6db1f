import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.replica.throttle import Bucket, names_replica


@pytest.mark.scenario(35)
def test_a_second_s_worth_comes_at_once_and_then_the_rate_holds() -> None:
    bucket = Bucket(1_000, 0)
    bucket.take(999, 0)
    assert bucket.wait_ms(0) == 0
    bucket.take(2_001, 0)
    assert bucket.wait_ms(0) == pytest.approx(2_001)
    assert bucket.wait_ms(2_000) > 0
    assert bucket.wait_ms(2_002) == 0


def test_an_idle_second_fills_it_and_more_does_not() -> None:
    bucket = Bucket(1_000, 0)
    bucket.wait_ms(60_000)
    bucket.take(1_500, 60_000)
    assert bucket.wait_ms(60_000) == pytest.approx(501)


def test_it_holds_what_all_samples_bring_and_at_first_that_of_one() -> None:
    bucket = Bucket(1_000, 0, sample_s=2, samples=3)
    bucket.take(2_001, 0)
    assert bucket.wait_ms(0) > 0
    bucket.wait_ms(60_000)
    bucket.take(5_999, 60_000)
    assert bucket.wait_ms(60_000) == 0
    bucket.take(2, 60_000)
    assert bucket.wait_ms(60_000) > 0


def test_another_rate_holds_from_then_on() -> None:
    bucket = Bucket(1_000, 0)
    bucket.take(2_000, 0)
    bucket.set_rate(10_000, 0)
    assert bucket.wait_ms(0) == pytest.approx(100.1)


@given(st.integers(0, 5_000), st.lists(st.tuples(st.integers(1, 3_000), st.integers(0, 500))))
def test_who_waits_as_told_keeps_to_the_rate(rate: int, copies: list[tuple[int, int]]) -> None:
    bucket = Bucket(rate, 0)
    now, copied = 0.0, 0
    for size, pause in copies:
        now += bucket.wait_ms(now) + pause
        bucket.take(size, now)
        copied += size
        assert copied - size <= max(rate, 1) * (1 + now / 1000) + 1


@pytest.mark.parametrize(
    ("replicas", "named"),
    [("*", True), (" * ", True), ("0:1", True), ("1:0, 0:1", True), ("1:0", False), ("", False)],
)
def test_lists_of_replicas(replicas: str, named: bool) -> None:
    assert names_replica(replicas, 0, 1) is named
