"""DescribeConfigs: what is asked for, and who may be asked."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record

from replog.model.config_entries import SHOWN_WHEN_SET
from replog.model.config_table import BROKER, GROUP, TOPIC
from replog.model.errors import ErrorCode
from replog.model.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from replog.node.handlers.describe_configs import ENTRIES_MAX


@pytest.fixture
def broker() -> OneBroker:
    one = OneBroker(num__partitions="3")
    one.topic("a", record(1), retention__ms="12345")
    return one


SHOWN = BROKER.keys() - SHOWN_WHEN_SET
# What is Replog's own is listed only where it is set: see below.
KAFKAS = {name for name in TOPIC if not name.startswith("replog.")}


def describe(
    broker: OneBroker, kind: int, name: str, *keys: str, docs: bool = False, synonyms: bool = False
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    message = DescribeConfigsRequest(
        resources=[resource], include_synonyms=synonyms, include_documentation=docs
    )
    (result,) = broker.ask(message, DescribeConfigsResponse).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.surface(10)
def test_all_configurations_of_a_topic(broker: OneBroker) -> None:
    result = describe(broker, 2, "a")
    assert (result.error_code, result.error_message) == (0, "")
    assert {c.name for c in result.configs} == KAFKAS
    assert all(c.synonyms == [] and c.documentation is None for c in result.configs)


def test_some_configurations_of_a_topic(broker: OneBroker) -> None:
    keys = ("retention.ms", "cleanup.policy", "no.such")
    result = describe(broker, 2, "a", *keys, synonyms=True)
    configs = {c.name: c for c in result.configs}
    assert set(configs) == {"retention.ms", "cleanup.policy"}
    retention = configs["retention.ms"]
    assert (retention.value, retention.config_source, retention.config_type) == ("12345", 1, 5)
    assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
        ("retention.ms", "12345", 1)
    ]
    policy = configs["cleanup.policy"]
    assert (policy.value, policy.config_source, policy.config_type) == ("delete", 5, 7)
    assert not policy.read_only and not policy.is_sensitive


def test_an_empty_list_of_keys_is_all(broker: OneBroker) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name="a", configuration_keys=[])
    answer = broker.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
    assert {c.name for c in answer.results[0].configs} == KAFKAS


def test_documentation_when_asked_for(broker: OneBroker) -> None:
    (config,) = describe(broker, 2, "a", "retention.ms", docs=True).configs
    assert config.documentation and "deleted" in config.documentation


def test_this_broker(broker: OneBroker) -> None:
    result = describe(broker, 4, "1")
    configs = {c.name: c for c in result.configs}
    assert set(configs) == SHOWN
    partitions = configs["num.partitions"]
    assert (partitions.value, partitions.config_source, partitions.read_only) == ("3", 4, True)


def test_dynamic_values_of_the_cluster_count(broker: OneBroker) -> None:
    broker.node.cluster.broker_configs[""] = {"min.insync.replicas": "2"}
    broker.node.cluster.broker_configs["1"] = {"message.max.bytes": "9"}
    (config,) = describe(broker, 4, "").configs
    assert (config.name, config.value, config.config_source) == ("min.insync.replicas", "2", 3)
    inherited = describe(broker, 2, "a", "min.insync.replicas", "max.message.bytes").configs
    assert {(c.name, c.value, c.config_source) for c in inherited} == {
        ("min.insync.replicas", "2", 3),
        ("max.message.bytes", "9", 2),
    }
    broker.node.cluster.broker_configs["1"] = {"message.max.bytes": "broken"}
    assert describe(broker, 4, "1").error_code == 0


def test_groups_client_metrics_and_loggers(broker: OneBroker) -> None:
    assert {c.name for c in describe(broker, 32, "g").configs} == set(GROUP)
    assert [c.name for c in describe(broker, 16, "s").configs] == [
        "interval.ms",
        "match",
        "metrics",
    ]
    assert describe(broker, 8, "1").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (2, "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (2, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (4, "99", ErrorCode.INVALID_REQUEST),
        (4, "x", ErrorCode.INVALID_REQUEST),
        (4, "-1", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
        (8, "99", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (0, "a", ErrorCode.INVALID_REQUEST),
        (99, "a", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described(
    broker: OneBroker, kind: int, name: str, error: ErrorCode
) -> None:
    result = describe(broker, kind, name)
    assert result.error_code == error
    assert result.configs == []


def test_one_bad_resource_does_not_spoil_another(broker: OneBroker) -> None:
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in ("nosuch", "a")
    ]
    answer = broker.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    assert [r.error_code for r in answer.results] == [3, 0]


def test_topics_with_and_without_settings_of_their_own(broker: OneBroker) -> None:
    broker.topic("b", record(1))
    broker.topic("c", record(1))
    resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in "bacb"]
    message = DescribeConfigsRequest(resources=resources)
    results = broker.ask(message, DescribeConfigsResponse).results
    assert [(r.resource_name, len(r.configs)) for r in results] == [
        (name, len(KAFKAS)) for name in "bacb"
    ]
    assert [
        next(c.value for c in result.configs if c.name == "retention.ms") for result in results
    ] == ["604800000", "12345", "604800000", "604800000"]


def test_all_brokers_are_not_this_one(broker: OneBroker) -> None:
    resources = [DescribeConfigsResource(resource_type=4, resource_name=name) for name in ("", "1")]
    for order in (resources, resources[::-1]):
        results = broker.ask(DescribeConfigsRequest(resources=order), DescribeConfigsResponse)
        counts = {r.resource_name: len(r.configs) for r in results.results}
        assert counts == {"": 0, "1": len(SHOWN)}


def test_an_answer_does_not_grow_without_end(broker: OneBroker) -> None:
    itself = DescribeConfigsResource(resource_type=4, resource_name="1")
    fit = ENTRIES_MAX // len(SHOWN)
    message = DescribeConfigsRequest(resources=[itself] * (fit + 1))
    results = broker.ask(message, DescribeConfigsResponse).results
    assert [r.error_code for r in results] == [0] * fit + [ErrorCode.INVALID_REQUEST]
    assert "fewer resources" in str(results[-1].error_message)


@pytest.mark.parametrize("kind", [4, 8])
def test_a_number_of_a_broker_that_has_thousands_of_digits(broker: OneBroker, kind: int) -> None:
    result = describe(broker, kind, "1" * 5000)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert describe(broker, 4, f"000{broker.node.broker_id}").error_code == 0


def test_a_rate_without_end(broker: OneBroker) -> None:
    name = "log.cleaner.io.max.bytes.per.second"
    one = OneBroker(log__cleaner__io__max__bytes__per__second="1e999")
    (config,) = describe(one, 4, str(one.node.broker_id), name).configs
    assert config.value == "Infinity"


def test_what_is_quoted_of_a_request_is_not_all_of_it(broker: OneBroker) -> None:
    """The answer could be told to no client."""
    result = describe(broker, 4, "\0" * 30_000)
    assert result.error_message is not None and len(result.error_message) < 5_000
