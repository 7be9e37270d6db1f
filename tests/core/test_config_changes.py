"""Settings before and after an alteration, and the reason of each refusal."""

import pytest

from replog.core.config_changes import (
    Alteration,
    AlterOp,
    ConfigChange,
    altered,
    check_form,
    contradictions,
)
from replog.model.config import BrokerConfig
from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode, Refused

BROKER = BrokerConfig({"node.id": "1"})
SET, DELETE, APPEND, SUBTRACT = AlterOp
TOPIC, OF_BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
METRICS = ResourceType.CLIENT_METRICS
OF_LISTENER = "listener.name.internal"
PER_HOST = "max.connections.per.ip.overrides"
INVALID, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


def change(
    kind: int, name: str, *alterations: tuple[str, str | None, int], anew: bool = False
) -> ConfigChange:
    return ConfigChange(kind, name, tuple(Alteration(*a) for a in alterations), anew)


@pytest.mark.parametrize(
    ("current", "alteration", "after"),
    [
        ({}, ("retention.ms", "5", SET), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", None, DELETE), {}),
        ({"retention.ms": "5"}, ("segment.ms", None, DELETE), {"retention.ms": "5"}),
        ({}, ("cleanup.policy", "compact", APPEND), {"cleanup.policy": "delete,compact"}),
        ({}, ("cleanup.policy", "compact, delete", APPEND), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            ("cleanup.policy", "compact", APPEND),
            {"cleanup.policy": "compact"},
        ),
        ({}, ("cleanup.policy", "delete", SUBTRACT), {"cleanup.policy": ""}),
        (
            {"cleanup.policy": "compact,delete"},
            ("cleanup.policy", "delete,x", SUBTRACT),
            {"cleanup.policy": "compact"},
        ),
        # What is there but unknown, put there by hand or by a newer version, can be taken away.
        ({"no.such": "1"}, ("no.such", None, DELETE), {}),
    ],
)
def test_one_setting_of_a_topic(
    current: dict[str, str], alteration: tuple[str, str | None, int], after: dict[str, str]
) -> None:
    assert altered(change(TOPIC, "t", alteration), current, BROKER) == after


def test_a_list_that_is_not_set_begins_with_what_the_broker_says() -> None:
    broker = BrokerConfig({"node.id": "1", "log.cleanup.policy": "compact"})
    appended = altered(change(TOPIC, "t", ("cleanup.policy", "delete", APPEND)), {}, broker)
    assert appended == {"cleanup.policy": "compact,delete"}


def test_settings_that_are_not_named_stay_unless_all_are_replaced() -> None:
    current = {"retention.ms": "5", "segment.ms": "9"}
    one = change(TOPIC, "t", ("retention.ms", "7", SET))
    anew = change(TOPIC, "t", ("retention.ms", "7", SET), anew=True)
    assert altered(one, current, BROKER) == {"retention.ms": "7", "segment.ms": "9"}
    assert altered(anew, current, BROKER) == {"retention.ms": "7"}
    assert current == {"retention.ms": "5", "segment.ms": "9"}


@pytest.mark.parametrize(
    ("kind", "name", "alteration", "error", "hint"),
    [
        (TOPIC, "t", ("retention.m", "1", SET), CONFIG, "did you mean retention.ms?"),
        (TOPIC, "t", ("retention.ms", "x", SET), CONFIG, "a whole number"),
        (TOPIC, "t", ("", "x", SET), CONFIG, "unknown"),
        (TOPIC, "t", ("retention.ms", "1", APPEND), CONFIG, "not a list"),
        (TOPIC, "t", ("cleanup.policy", "nonsense", APPEND), CONFIG, "compact, delete"),
        (OF_BROKER, "1", ("log.dirs", "/x", SET), INVALID, "restart the broker"),
        (OF_BROKER, "1", ("listeners", "x://:1", SET), INVALID, "restart the broker"),
        (OF_BROKER, "1", ("log.retention.mss", "1", SET), INVALID, "mean log.retention.ms?"),
        (OF_BROKER, "1", ("max.connections", "x", SET), INVALID, "a whole number"),
        (OF_BROKER, "", ("listeners", "x", SET), INVALID, "for each of them"),
        (OF_BROKER, "", ("ssl.keystore.location", "x", SET), INVALID, "for each of them"),
        (OF_BROKER, "1", ("min.insync.replicas", "2", SET), CONFIG, "the same on all brokers"),
        (OF_BROKER, "", ("min.insync.replicas", None, DELETE), CONFIG, "not be taken away"),
        (GROUP, "g", ("no.such", "1", SET), CONFIG, "unknown"),
        (GROUP, "g", ("consumer.session.timeout.ms", "1", SET), CONFIG, "is below"),
        (GROUP, "g", ("consumer.session.timeout.ms", "60001", SET), CONFIG, "is above"),
        (METRICS, "s", ("interval.ms", "1", SET), INVALID, "100 to 3600000"),
        (METRICS, "s", ("no.such", "1", SET), INVALID, "unknown"),
        (METRICS, "s", ("interval.ms", "x", SET), CONFIG, "a whole number"),
        (METRICS, "s", ("match", "client_id=[", SET), CONFIG, "has no pattern"),
        (METRICS, "s", ("match", "host=a", SET), CONFIG, "NAME=PATTERN"),
        (TOPIC, "t", ("cleanup.policy", "", APPEND), CONFIG, "compact, delete"),
        (OF_BROKER, "1", ("ssl.key.password", "x", SET), INVALID, "listener.name.NAME"),
        (OF_BROKER, "1", ("num.io.threads", "3", SET), INVALID, "it is 8 now"),
        (OF_BROKER, "", ("background.threads", "21", SET), INVALID, "it is 10 now"),
        (OF_BROKER, "1", ("metric.reporters", "x.Y", SET), INVALID, "no plug-ins"),
        (OF_BROKER, "1", (PER_HOST, "h", SET), INVALID, "HOST:NUMBER"),
        (OF_BROKER, "", ("cordoned.log.dirs", "*", SET), INVALID, "from broker to broker"),
        (OF_BROKER, "1", ("no.such", "x", APPEND), CONFIG, "unknown"),
        (OF_BROKER, "1", ("listener.name.a.ssl.cipher.suites", "x", APPEND), CONFIG, "unknown"),
        (OF_BROKER, "1", ("num.partitions", "1", SUBTRACT), CONFIG, "not a list"),
        (OF_BROKER, "1", (f"{OF_LISTENER}.max.connections", "-1", SET), INVALID, "at least 0"),
        (OF_BROKER, "1", (f"{OF_LISTENER}.num.partitions", "x", SET), INVALID, "a whole number"),
        (OF_BROKER, "1", (f"{OF_LISTENER}.num.network.threads", "7", SET), INVALID, "it is 3 now"),
        (OF_BROKER, "1", (f"{OF_LISTENER}.ssl.client.auth", "x", SET), INVALID, "one of none"),
        (OF_BROKER, "1", (f"{OF_LISTENER}.sasl.login.class", "x", SET), INVALID, "no plug-ins"),
        (OF_BROKER, "", (f"{OF_LISTENER}.ssl.keystore.type", "x", SET), INVALID, "each of them"),
        (OF_BROKER, "1", ("ssl.cipher.suites", "a,", SET), INVALID, "items"),
        (OF_BROKER, "1", ("sasl.enabled.mechanisms", "", APPEND), INVALID, "items"),
        (OF_BROKER, "1", ("log.cleanup.policy", "compact,compact", SET), INVALID, "items"),
        (METRICS, "s", ("metrics", "a,", SET), CONFIG, "items"),
        (METRICS, "s", ("match", "client_id=a=b", SET), CONFIG, "NAME=PATTERN"),
        (GROUP, "g", ("streams.rack.aware.assignment.tags", "a,a", SET), CONFIG, "items"),
        (OF_BROKER, "1", ("max.connections", "0", SET), INVALID, "at least 1"),
        (OF_BROKER, "1", (f"{OF_LISTENER}.max.connections", "0", SET), INVALID, "at least 1"),
        (OF_BROKER, "1", ("max.connections.per.ip", "0", SET), INVALID, "at least 1"),
        (OF_BROKER, "1", ("log.retention.ms", "0", SET), INVALID, "-1 or 1"),
        (OF_BROKER, "1", ("log.cleaner.threads", "0", SET), INVALID, "it is 1 now"),
        (METRICS, "s", ("match", "client_id=a", APPEND), CONFIG, "not a list"),
        (GROUP, "g", ("streams.rack.aware.assignment.tags", "a", APPEND), CONFIG, "not a list"),
        (GROUP, "g", ("share.auto.offset.reset", "x", SET), CONFIG, "by_duration"),
        (GROUP, "g", ("share.isolation.level", "x", SET), CONFIG, "read_committed"),
        (METRICS, "s", ("match", "client_id=a{99999999999}", SET), CONFIG, "has no pattern"),
        (METRICS, "s", ("match", f"client_id={'(' * 9999}", SET), CONFIG, "has no pattern"),
        (OF_BROKER, "1", (PER_HOST, f"h:{'1' * 5000}", SET), INVALID, "HOST:NUMBER"),
        (OF_BROKER, "1", ("ssl.cipher.suites", "a" * 32_768, APPEND), INVALID, "too long"),
    ],
)
def test_what_is_refused_says_why(
    kind: int, name: str, alteration: tuple[str, str | None, int], error: ErrorCode, hint: str
) -> None:
    current = {"min.insync.replicas": "1"} if kind == OF_BROKER and not name else {}
    refused = altered(change(kind, name, alteration), current, BROKER)
    assert isinstance(refused, Refused)
    assert refused.error is error
    assert hint in (refused.message or "")


@pytest.mark.parametrize(
    ("name", "alteration"),
    [
        ("1", ("ssl.client.auth", "required", SET)),
        ("1", ("config.providers", "a,a", SET)),
        ("1", ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter", SET)),
        ("1", ("replica.alter.log.dirs.io.max.bytes.per.second", "9", SET)),
        ("1", (f"{OF_LISTENER}.ssl.keystore.password", "x", SET)),
        ("1", (f"{OF_LISTENER}.no.such", "x", SET)),
        ("", (f"{OF_LISTENER}.max.connections", "9", SET)),
        ("", (f"{OF_LISTENER}.num.network.threads", "6", SET)),
        ("", ("rlmm.config.x", "y", SET)),
    ],
)
def test_what_a_broker_takes(name: str, alteration: tuple[str, str | None, int]) -> None:
    key, value, _ = alteration
    assert altered(change(OF_BROKER, name, alteration), {}, BROKER) == {key: value}


def test_nobody_connects_but_those_who_are_named() -> None:
    named = BrokerConfig({"node.id": "1", "max.connections.per.ip.overrides": "::1:5"})
    none_else = change(OF_BROKER, "1", ("max.connections.per.ip", "0", SET))
    assert altered(none_else, {}, named) == {"max.connections.per.ip": "0"}


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"group.share.assignment.interval.ms": "15001"}, "group.share.max.assignment.interval.ms"),
        ({"log.local.retention.ms": "604800001"}, "at most 604800000"),
        ({"log.local.retention.ms": "-1"}, "at most 604800000"),
        ({"log.local.retention.ms": "-1", "log.retention.ms": "-1"}, ""),
        ({"log.local.retention.bytes": "5"}, ""),
        ({"log.local.retention.bytes": "5", "log.remote.copy.lag.bytes": "6"}, "at most 5"),
        ({"log.retention.ms": "9", "log.remote.copy.lag.ms": "10"}, "at most 9"),
        ({"log.retention.ms": "-1", "log.remote.copy.lag.ms": "10"}, ""),
    ],
)
def test_settings_that_have_to_do_with_each_other(settings: dict[str, str], fault: str) -> None:
    found = list(contradictions(BrokerConfig({"node.id": "1"}, dynamic=settings)))
    assert bool(found) is bool(fault)
    assert not fault or fault in found[0]


@pytest.mark.parametrize(
    "stored",
    [
        {"retention.ms": "many", "no.such": "1"},
        {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"},
        {"remote.storage.enable": "true", "min.insync.replicas": "0"},
    ],
)
def test_what_an_earlier_release_stored_keeps_no_other_setting_from_changing(
    stored: dict[str, str],
) -> None:
    other = change(TOPIC, "t", ("segment.ms", "5", SET))
    assert altered(other, stored, BROKER) == {**stored, "segment.ms": "5"}
    wrong = change(TOPIC, "t", ("segment.ms", "x", SET))
    assert isinstance(altered(wrong, stored, BROKER), Refused)
    first, second = stored
    assert altered(change(TOPIC, "t", (first, None, DELETE)), stored, BROKER) == {
        second: stored[second]
    }


def test_replacing_all_settings_of_all_brokers_keeps_their_min_isr() -> None:
    current = {"min.insync.replicas": "2"}
    without = change(OF_BROKER, "", ("log.retention.ms", "9", SET), anew=True)
    both = change(
        OF_BROKER,
        "",
        ("log.retention.ms", "9", SET),
        ("min.insync.replicas", "1", SET),
        anew=True,
    )
    assert isinstance(altered(without, current, BROKER), Refused)
    assert altered(both, current, BROKER) == {"log.retention.ms": "9", "min.insync.replicas": "1"}


@pytest.mark.parametrize(
    ("kind", "name", "alterations", "error"),
    [
        (TOPIC, "t", [("a", "1", SET), ("a", "2", SET)], INVALID),
        (TOPIC, "t", [("a", None, SET)], INVALID),
        (TOPIC, "t", [("a", None, APPEND)], INVALID),
        (TOPIC, "t", [("a", "1", 4)], INVALID),
        (TOPIC, "t", [("a", "1", -1)], INVALID),
        (TOPIC, "", [], INVALID),
        (TOPIC, "a/b", [], ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a/b", [("retention.ms", "1", APPEND)], CONFIG),
        (TOPIC, "", [("no.such", "1", SUBTRACT)], CONFIG),
        (OF_BROKER, "x", [("no.such", "1", APPEND)], INVALID),
        (GROUP, "", [("no.such", "1", APPEND)], CONFIG),
        (0, "t", [("no.such", "1", APPEND)], INVALID),
        (OF_BROKER, "x", [], INVALID),
        (GROUP, "", [], INVALID),
        (METRICS, "", [], INVALID),
        (0, "t", [], INVALID),
        (99, "t", [], INVALID),
    ],
)
def test_the_form_is_checked_first(
    kind: int, name: str, alterations: list[tuple[str, str | None, int]], error: ErrorCode
) -> None:
    refused = check_form(change(kind, name, *alterations))
    assert isinstance(refused, Refused) and refused.error is error


@pytest.mark.parametrize(
    ("kind", "name"), [(TOPIC, "t"), (OF_BROKER, ""), (OF_BROKER, "7"), (GROUP, "a/b")]
)
def test_nothing_is_wrong_with_these(kind: int, name: str) -> None:
    assert check_form(change(kind, name, ("a", None, DELETE), ("b", "", SET))) is None
