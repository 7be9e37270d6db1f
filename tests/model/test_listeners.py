"""Addresses that brokers listen on and are reached by."""

import pytest

from replog.model.config import BrokerConfig, ConfigError, Listener


def broker(**given: str) -> BrokerConfig:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return BrokerConfig({"node.id": "1"} | named)


def test_several_listeners() -> None:
    two = broker(
        listeners="PLAINTEXT://127.0.0.1:9092, inside://[::1]:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,inside:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )
    assert two.listeners == (
        Listener("PLAINTEXT", "127.0.0.1", 9092),
        Listener("INSIDE", "::1", 9093),
    )
    assert two.inter_broker_listener_name == "INSIDE"


def test_brokers_use_the_listener_of_their_protocol_and_else_the_first() -> None:
    names = "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    second = broker(listeners="A://:1,PLAINTEXT://:2", listener_security_protocol_map=names)
    assert second.inter_broker_listener_name == "PLAINTEXT"
    first = broker(listeners="B://:1,A://:2", listener_security_protocol_map=names)
    assert first.inter_broker_listener_name == "B"


def test_listeners_of_kraft_controllers_are_left_out() -> None:
    both = broker(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093", controller_listener_names="CONTROLLER"
    )
    assert [listener.name for listener in both.listeners] == ["PLAINTEXT"]


def test_advertised_listeners_keep_the_order_of_listeners() -> None:
    names = "A:PLAINTEXT,B:PLAINTEXT"
    both = broker(
        listeners="A://0.0.0.0:1,B://:2",
        advertised_listeners="B://b.example:20,A://a.example:10",
        listener_security_protocol_map=names,
    )
    assert both.advertised_listeners == (
        Listener("A", "a.example", 10),
        Listener("B", "b.example", 20),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"listeners": ""}, "at least one"),
        ({"listeners": "9092"}, "NAME://HOST:PORT expected"),
        ({"listeners": "PLAINTEXT://host"}, "NAME://HOST:PORT expected"),
        ({"listeners": "PLAINTEXT://host:x"}, "NAME://HOST:PORT expected"),
        ({"listeners": "PLAINTEXT://host:65536"}, "port 0 to 65535"),
        ({"listeners": "OTHER://:1"}, "listener.security.protocol.map"),
        ({"listeners": "SSL://:1"}, "SSL is not supported yet"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "a name comes twice"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "set advertised.listeners"),
        ({"advertised_listeners": "SSL://a:1"}, "not among listeners"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "nobody can connect"),
        ({"advertised_listeners": "PLAINTEXT://a:1,PLAINTEXT://b:1"}, "comes twice"),
        ({"inter_broker_listener_name": "INSIDE"}, "not among listeners"),
    ],
)
def test_bad_listeners(given: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker(**given)
    assert expected in str(caught.value)


def test_one_port_for_two_listeners_is_refused_unless_the_system_chooses() -> None:
    names = "A:PLAINTEXT,B:PLAINTEXT"
    with pytest.raises(ConfigError, match="a port comes twice"):
        broker(listeners="A://:1,B://:1", listener_security_protocol_map=names)
    chosen = broker(listeners="A://:0,B://:0", listener_security_protocol_map=names)
    assert len(chosen.listeners) == 2
