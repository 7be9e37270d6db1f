"""Places for connections when their number is changed while the broker runs."""

import socket
import threading

import pytest

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


def taken(places: Places, ip: str) -> int:
    """How many more connections of `ip` there may be."""
    count = 0
    while places.take(ip) is False:
        count += 1
    return count


def test_single_hosts_have_limits_of_their_own() -> None:
    limits = Limits(
        connections_reserved=0, connections_per_ip=2, connections_per_ip_overrides={"10.0.0.1": 3}
    )
    places = Places(limits)
    assert (taken(places, "10.0.0.1"), taken(places, "10.0.0.2")) == (3, 2)
    named = {"max.connections.per.ip": "2"}
    named["max.connections.per.ip.overrides"] = "10.0.0.1:0, 10.0.0.3:1,[fd00:0::1]:4"
    places.reconfigure(BrokerConfig({"node.id": "1"}, dynamic=named))
    assert taken(places, "10.0.0.3") == 1
    assert taken(places, "::ffff:10.0.0.3") == 1, "as a listener for both families says it"
    assert taken(places, "fd00::1") == 4
    assert (taken(places, "10.0.0.1"), taken(places, "10.0.0.4")) == (0, 2)


def test_hosts_are_found_by_name(caplog: pytest.LogCaptureFixture) -> None:
    overrides = {"localhost": 3, "nowhere.invalid": 1}
    places = Places(Limits(connections_per_ip=1, connections_per_ip_overrides=overrides))
    for thread in threading.enumerate():
        if thread.name == "hosts":
            thread.join()
    assert taken(places, "127.0.0.1") == 3
    assert [record.getMessage() for record in caplog.records] == [
        f"max.connections.per.ip.overrides: nowhere.invalid: {unknown_host()}"
    ]


def unknown_host() -> str | None:
    try:
        socket.getaddrinfo("nowhere.invalid", None)
    except OSError as error:
        return error.strerror
    return None
