"""Deadlines: fired in order, cancelled ones never, and not kept for long."""

from replog.node.timers import CANCELLED_MAX, Timers


def test_timers_fire_in_the_order_of_their_deadlines_and_then_of_their_making() -> None:
    timers, fired = Timers(), list[str]()
    for deadline_ms, name in ((20, "c"), (10, "a"), (10, "b"), (30, "late")):
        timers.call_at(deadline_ms, lambda name=name: fired.append(name))  # type: ignore[misc]
    assert timers.next_deadline_ms() == 10
    timers.fire(20)
    assert fired == ["a", "b", "c"]
    assert timers.next_deadline_ms() == 30


def test_a_timer_set_by_a_timer_waits_for_the_next_step() -> None:
    timers, fired = Timers(), list[str]()
    timers.call_at(10, lambda: timers.call_at(10, lambda: fired.append("second")))
    timers.fire(10)
    assert fired == []
    timers.fire(10)
    assert fired == ["second"]


def test_a_timer_may_cancel_one_that_is_due_with_it() -> None:
    timers, fired = Timers(), list[str]()
    timers.call_at(10, lambda: second.cancel())
    second = timers.call_at(10, lambda: fired.append("second"))
    timers.fire(10)
    assert fired == []
    assert timers.next_deadline_ms() == float("inf")


def test_a_cancelled_timer_is_no_deadline() -> None:
    timers = Timers()
    first = timers.call_at(10, lambda: None)
    timers.call_at(20, lambda: None)
    first.cancel()
    first.cancel()
    assert timers.next_deadline_ms() == 20


def test_cancelled_timers_of_the_far_future_do_not_pile_up() -> None:
    timers, fired = Timers(), list[int]()
    for number in range(10):
        timers.call_at(1_000 + number, lambda number=number: fired.append(number))  # type: ignore[misc]
    for _ in range(3 * CANCELLED_MAX):
        timers.call_at(2**31, lambda: fired.append(-1)).cancel()
        assert len(timers) <= 10 + CANCELLED_MAX + 1
    timers.fire(2**31)
    assert fired == list(range(10))
    assert len(timers) == 0


def test_as_long_as_most_are_live_cancelled_ones_stay() -> None:
    """Clearing out costs as much as there is: it has to be worth it."""
    timers = Timers()
    live = [timers.call_at(5_000, lambda: None) for _ in range(3 * CANCELLED_MAX)]
    for _ in range(2 * CANCELLED_MAX):
        timers.call_at(6_000, lambda: None).cancel()
    assert len(timers) == 5 * CANCELLED_MAX
    for timer in live[: 2 * CANCELLED_MAX]:
        timer.cancel()
    assert len(timers) < 3 * CANCELLED_MAX
