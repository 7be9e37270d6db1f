"""Where tools are told that a value comes from."""

from collections.abc import Iterable

from replog.model.config import BrokerConfig
from replog.model.config_entries import (
    ConfigEntry,
    ConfigSource,
    broker_entries,
    client_metrics_entries,
    dynamic_default_entries,
    group_entries,
    topic_entries,
)

TOPIC = ConfigSource.TOPIC
OWN = ConfigSource.DYNAMIC_BROKER
ALL = ConfigSource.DYNAMIC_DEFAULT_BROKER
FILE = ConfigSource.STATIC_BROKER
DEFAULT = ConfigSource.DEFAULT

Synonyms = list[tuple[str, str | None, ConfigSource]]


def entry(entries: Iterable[ConfigEntry], name: str) -> ConfigEntry:
    return next(found for found in entries if found.key.name == name)


def synonyms(found: ConfigEntry) -> Synonyms:
    return [tuple(synonym) for synonym in found.synonyms]


def test_every_layer_of_a_topics_value_in_the_order_in_which_it_counts() -> None:
    broker = BrokerConfig(
        {"node.id": "1", "message.max.bytes": "4"},
        dynamic={"message.max.bytes": "2"},
        dynamic_default={"message.max.bytes": " 3 "},
    )
    found = entry(topic_entries(broker, {"max.message.bytes": "1"}), "max.message.bytes")
    assert (found.value, found.source) == ("1", TOPIC)
    assert synonyms(found) == [
        ("max.message.bytes", "1", TOPIC),
        ("message.max.bytes", "2", OWN),
        ("message.max.bytes", " 3 ", ALL),
        ("message.max.bytes", "4", FILE),
        ("message.max.bytes", "1048588", DEFAULT),
    ]
    inherited = entry(topic_entries(broker, {}), "max.message.bytes")
    assert (inherited.value, inherited.source) == ("2", OWN)


def test_hours_are_a_synonym_only_of_milliseconds_that_are_set() -> None:
    hours = BrokerConfig({"node.id": "1", "log.retention.hours": "1"})
    found = entry(topic_entries(hours, {}), "retention.ms")
    assert (found.value, found.source, synonyms(found)) == ("3600000", DEFAULT, [])
    both = BrokerConfig({"node.id": "1"}, dynamic_default={"log.retention.ms": "9"})
    found = entry(topic_entries(both, {}), "retention.ms")
    assert (found.value, found.source) == ("9", ALL)
    assert synonyms(found) == [
        ("log.retention.ms", "9", ALL),
        ("log.retention.hours", "168", DEFAULT),
    ]


def test_values_of_a_broker() -> None:
    broker = BrokerConfig({"node.id": "1", "num.partitions": "01", "delete.topic.enable": "TRUE"})
    entries = {found.key.name: found for found in broker_entries(broker)}
    assert (entries["num.partitions"].value, entries["num.partitions"].source) == ("1", FILE)
    assert synonyms(entries["num.partitions"]) == [
        ("num.partitions", "01", FILE),
        ("num.partitions", "1", DEFAULT),
    ]
    assert entries["delete.topic.enable"].value == "true"
    assert entries["log.retention.ms"].value is None
    assert synonyms(entries["log.retention.ms"]) == []
    assert entries["num.partitions"].key.read_only
    assert not entries["message.max.bytes"].key.read_only
    assert entries["num.partitions"].type_number == 3


def test_a_secret_is_never_shown() -> None:
    broker = BrokerConfig({"node.id": "1", "ssl.key.password": "hunter2"})
    found = entry(broker_entries(broker), "ssl.key.password")
    assert found.sensitive and found.value is None and found.source is FILE
    assert "hunter2" not in repr(list(broker_entries(broker)))


def test_either_id_of_a_broker_stands_for_the_other() -> None:
    for given in ({"node.id": "3"}, {"broker.id": "3"}):
        entries = list(broker_entries(BrokerConfig(given)))
        assert synonyms(entry(entries, "node.id")) == [("node.id", "3", FILE)]
        assert synonyms(entry(entries, "broker.id")) == [
            ("broker.id", "3", FILE),
            ("broker.id", "-1", DEFAULT),
        ]


def test_settings_of_one_listener_come_with_those_that_they_go_before() -> None:
    name = "listener.name.internal.max.connections"
    broker = BrokerConfig(
        {"node.id": "1", "max.connections": "4", name: "3"},
        dynamic={name: " 1"},
        dynamic_default={name: "2"},
    )
    found = entry(broker_entries(broker), name)
    assert (found.value, found.type_number, found.key.read_only) == (" 1", 3, True)
    assert synonyms(found) == [
        (name, " 1", OWN),
        (name, "2", ALL),
        (name, "3", FILE),
        ("max.connections", "4", FILE),
        ("max.connections", "8192", DEFAULT),
    ]
    assert [e.value for e in dynamic_default_entries(broker)] == ["2"]


def test_what_may_be_a_secret_is_not_shown_either() -> None:
    secrets = {
        "listener.name.internal.scram-sha-256.sasl.jaas.config": "hunter2",
        "listener.name.internal.ssl.keystore.password": "hunter2",
        "listener.name.internal.no.such": "hunter2",
        "rsm.config.password": "hunter2",
    }
    broker = BrokerConfig({"node.id": "1"}, dynamic=secrets)
    found = {e.key.name: e for e in broker_entries(broker) if e.key.name in secrets}
    assert {name: each.type_number for name, each in found.items()} == dict(
        zip(secrets, (9, 9, 0, 0), strict=True)
    )
    assert all(each.sensitive for each in found.values())
    assert "hunter2" not in repr(list(broker_entries(broker)))


def test_rates_of_throttles_are_shown_while_they_are_set() -> None:
    name = "leader.replication.throttled.rate"
    unset, during = BrokerConfig({"node.id": "1"}), BrokerConfig({"node.id": "1", name: "9"})
    assert name not in [e.key.name for e in broker_entries(unset)]
    assert synonyms(entry(broker_entries(during), name)) == [(name, "9", FILE)]


def test_what_is_set_for_all_brokers_is_shown_as_it_was_given() -> None:
    broker = BrokerConfig({"node.id": "1"}, dynamic_default={"min.insync.replicas": " 2"})
    assert [(e.key.name, e.value, e.source) for e in dynamic_default_entries(broker)] == [
        ("min.insync.replicas", " 2", ALL)
    ]
    assert list(dynamic_default_entries(BrokerConfig({"node.id": "1"}))) == []


def test_groups_and_subscriptions() -> None:
    broker = BrokerConfig({"node.id": "1", "group.consumer.session.timeout.ms": "50000"})
    timeout = entry(group_entries(broker, {}), "consumer.session.timeout.ms")
    assert (timeout.value, timeout.source) == ("50000", FILE)
    reset = entry(group_entries(broker, {}), "share.auto.offset.reset")
    assert synonyms(reset) == [("share.auto.offset.reset", "latest", DEFAULT)]
    shown = {e.key.name: (e.value, e.source) for e in client_metrics_entries({"metrics": "a,b"})}
    assert list(shown) == ["interval.ms", "match", "metrics"]
    assert shown["interval.ms"] == ("300000", DEFAULT)
    assert shown["metrics"] == ("a,b", ConfigSource.CLIENT_METRICS)
    match = entry(client_metrics_entries({"match": "client_id=y"}), "match")
    assert synonyms(match) == [("match", "client_id=y", ConfigSource.CLIENT_METRICS)]


def test_what_a_group_sets_itself_comes_first() -> None:
    broker = BrokerConfig({"node.id": "1", "group.consumer.session.timeout.ms": "50000"})
    own = {"consumer.session.timeout.ms": "55000"}
    timeout = entry(group_entries(broker, own), "consumer.session.timeout.ms")
    assert (timeout.value, timeout.source) == ("55000", ConfigSource.GROUP)
    assert synonyms(timeout) == [
        ("consumer.session.timeout.ms", "55000", ConfigSource.GROUP),
        ("group.consumer.session.timeout.ms", "50000", FILE),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]


def test_what_a_list_names_twice_is_shown_once() -> None:
    overrides = {
        "cleanup.policy": "delete, compact,delete",
        "leader.replication.throttled.replicas": "0:1,0:1",
    }
    entries = {
        e.key.name: e.value for e in topic_entries(BrokerConfig({"node.id": "1"}), overrides)
    }
    assert entries["cleanup.policy"] == "delete,compact"
    assert entries["leader.replication.throttled.replicas"] == "0:1,0:1"


def test_a_broken_override_is_shown_as_it_stands() -> None:
    found = entry(topic_entries(BrokerConfig({"node.id": "1"}), {"segment.ms": "x"}), "segment.ms")
    assert (found.value, found.source) == ("x", TOPIC)
