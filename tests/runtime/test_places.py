"""Places for connections when their number is changed while the broker runs."""

from replog.model.config import BrokerConfig
from replog.runtime.limits import Limits
from replog.runtime.listener import Places


def config(**given: str) -> BrokerConfig:
    named = {name.replace("__", "."): value for name, value in given.items()}
    return BrokerConfig({"node.id": "1"}, dynamic=named)


def test_lowered_limits_hold_for_who_comes_next_and_nobody_is_sent_away() -> None:
    places = Places(Limits(connections_reserved=0))
    assert [places.take("a") for _ in range(3)] == [False] * 3
    places.reconfigure(config(max__connections="3"))
    assert places.take("a") is None
    places.give_back("a", reserved=False)
    assert places.take("b") is False


def test_limits_by_address() -> None:
    places = Places(Limits(connections_reserved=0))
    places.reconfigure(config(max__connections__per__ip="1"))
    assert (places.take("a"), places.take("a"), places.take("b")) == (False, None, False)
    places.reconfigure(config())
    assert places.take("a") is False


def test_no_limit_can_be_raised_above_what_the_machine_has() -> None:
    places = Places(Limits(connections_reserved=0, connections=1, connections_max=2))
    places.reconfigure(config(max__connections="1000"))
    assert [places.take("a") for _ in range(3)] == [False, False, None]
