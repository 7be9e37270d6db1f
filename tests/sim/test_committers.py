"""What a committer of the simulator may read back."""

from replog.sim.committers import Account


def account(*, confirmed: int, asked: int) -> Account:
    """After commits up to `confirmed` were acknowledged, and more asked for."""
    made = Account()
    while made.asked < confirmed:
        made.acknowledged(made.ask())
    while made.asked < asked:
        made.ask()
    return made


def test_what_was_acknowledged_is_read_back_or_what_was_asked_for_since() -> None:
    made = account(confirmed=5, asked=7)
    assert [made.read(found) for found in (4, 5, 6, 7, 8)] == [False, True, True, True, False]
    assert not made.read(None)
    made.nothing_promised()
    assert made.read(-1)


def test_a_request_that_comes_late_takes_an_offset_back_once() -> None:
    made = account(confirmed=2, asked=3)
    made.unanswered(3)
    made.acknowledged(made.ask())
    assert not made.read(2), "this one was answered, and can't come again"
    assert made.read(4)
    assert made.read(3)
    assert made.read(3), "it is what is stored now"
    made.acknowledged(made.ask())
    assert not made.read(3), "it came already"
