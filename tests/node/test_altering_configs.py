"""Settings that change while brokers run: who stores them, who obeys them, what outlives whom."""

import json

import pytest
from tests.node.town import Town

from replog.core.controller import stored
from replog.model.config_resources import ResourceType
from replog.model.coordination import Create, SetData
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import alter_configs as replaced
from replog.model.messages import incremental_alter_configs as altered
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.model.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
T0 = TopicPartition("t", 0)
ALL = stored.config_path(BROKER, "")


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.create("t", [1, 0, 2])
    return town


def alter(
    town: Town,
    kind: int,
    name: str,
    at: int = 2,
    *,
    validate_only: bool = False,
    **values: str | None,
) -> tuple[ErrorCode, str | None]:
    """Set values, or delete those that are None."""
    configs = [
        altered.AlterableConfig(
            name=key.replace("__", "."), config_operation=0 if value is not None else 1, value=value
        )
        for key, value in values.items()
    ]
    resource = altered.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = altered.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=validate_only
    )
    (answer,) = town.ask(at, request, altered.IncrementalAlterConfigsResponse).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return ErrorCode(answer.error_code), answer.error_message


def described(town: Town, kind: int, name: str, key: str, at: int = 2) -> tuple[str | None, int]:
    """Value and source."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[key]
    )
    request = DescribeConfigsRequest(resources=[resource])
    (result,) = town.ask(at, request, DescribeConfigsResponse).results
    (config,) = result.configs
    return config.value, config.config_source


def node_of(town: Town, path: str) -> dict[str, str]:
    found = town.tree.nodes.get(path)
    return {} if found is None else json.loads(found.data)["config"]


@pytest.mark.parametrize("at", [0, 2])
def test_a_topic_obeys_at_once_wherever_it_is_told(town: Town, at: int) -> None:
    error, _ = alter(town, TOPIC, "t", at, min__insync__replicas="2", segment__bytes="1048576")
    assert error is ErrorCode.NONE
    assert node_of(town, "/config/topics/t")["min.insync.replicas"] == "2"
    for broker in town.brokers:
        partition = town.node(broker).partitions.get(T0)
        assert partition is not None
        assert partition.log.config.segment_bytes == 1048576
        assert described(town, TOPIC, "t", "segment.bytes", broker) == ("1048576", 1)
    leader = town.node(1).partitions.get(T0)
    assert leader is not None and leader.leader is not None
    assert leader.leader.settings.min_isr == 2
    assert leader.leader_epoch == 0  # nobody was elected for it


def test_a_topic_that_does_not_exist(town: Town) -> None:
    error, text = alter(town, TOPIC, "nosuch", retention__ms="5")
    assert error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "nosuch" in (text or "")


def test_what_is_only_tried_changes_nothing(town: Town) -> None:
    before = town.node(2).cluster.version
    error, _ = alter(town, TOPIC, "t", validate_only=True, retention__ms="5")
    assert error is ErrorCode.NONE
    assert alter(town, TOPIC, "t", validate_only=True, retention__ms="x")[0] is (
        ErrorCode.INVALID_CONFIG
    )
    assert town.node(2).cluster.version == before
    assert node_of(town, "/config/topics/t") == {}


def test_settings_outlive_the_controller_and_every_broker(town: Town) -> None:
    alter(town, TOPIC, "t", retention__ms="5")
    alter(town, BROKER, "", log__retention__ms="7")
    alter(town, BROKER, "2", message__max__bytes="9")
    alter(town, ResourceType.GROUP, "a/b", consumer__session__timeout__ms="50000")
    for broker in town.brokers:
        town.kill(broker)
    town.run(5_000)
    town.start()
    town.run(5_000)
    for broker in town.brokers:
        assert described(town, TOPIC, "t", "retention.ms", broker) == ("5", 1)
        assert described(town, BROKER, "", "log.retention.ms", broker) == ("7", 3)
    assert described(town, BROKER, "2", "message.max.bytes") == ("9", 2)
    assert described(town, ResourceType.GROUP, "a/b", "consumer.session.timeout.ms") == (
        "50000",
        8,
    )


@pytest.mark.surface(11)
def test_a_default_of_all_brokers_reaches_topics_without_a_value_of_their_own(town: Town) -> None:
    town.create("own", [2, 0])
    alter(town, TOPIC, "own", retention__ms="5")
    alter(town, BROKER, "", log__retention__ms="7")
    for broker in (0, 2):
        node = town.node(broker)
        theirs = node.partitions.get(TopicPartition("own", 0))
        falls_back = node.partitions.get(T0)
        assert theirs is not None and falls_back is not None
        assert (theirs.topic.retention_ms, falls_back.topic.retention_ms) == (5, 7)
    alter(town, BROKER, "", log__retention__ms=None)
    again = town.node(0).partitions.get(T0)
    assert again is not None and again.topic.retention_ms == 604_800_000
    assert described(town, TOPIC, "t", "retention.ms")[1] == 5


def test_a_broker_obeys_its_own_settings_alone(town: Town) -> None:
    assert alter(town, BROKER, "2", message__max__bytes="9")[0] is ErrorCode.NONE
    assert [town.node(b).config.message_max_bytes for b in town.brokers] == [1048588, 1048588, 9]
    assert described(town, BROKER, "2", "message.max.bytes") == ("9", 2)
    assert alter(town, BROKER, "2", message__max__bytes=None)[0] is ErrorCode.NONE
    assert town.node(2).config.message_max_bytes == 1048588
    assert stored.config_path(BROKER, "2") not in town.tree.nodes


@pytest.mark.parametrize("at", [0, 2])  # the controller, and another one
def test_a_setting_of_one_listener_is_taken_and_a_secret_not_told(town: Town, at: int) -> None:
    values = {"listener.name.x.ssl.keystore.type": "PEM", "rsm.config.password": "hunter2"}
    assert alter(town, BROKER, str(at), at, **values) == (ErrorCode.NONE, None)
    assert described(town, BROKER, str(at), "listener.name.x.ssl.keystore.type", at) == ("PEM", 2)
    assert described(town, BROKER, str(at), "rsm.config.password", at) == (None, 2)
    assert any("listener.name.x.ssl.keystore.type None -> PEM" in line for line in town.reports)
    assert not any("hunter2" in line for line in town.reports)


def test_settings_of_a_broker_are_altered_at_that_broker(town: Town) -> None:
    error, text = alter(town, BROKER, "1", at=2, message__max__bytes="9")
    assert error is ErrorCode.INVALID_REQUEST
    assert "ask that one" in (text or "")


def test_a_broker_refuses_what_does_not_go_with_its_own_file() -> None:
    town = Town(settings={"replica.fetch.wait.max.ms": "500"})
    town.start()
    error, text = alter(town, BROKER, "2", num__partitions="3")
    assert error is ErrorCode.INVALID_REQUEST
    assert "restart" in (text or "")


def test_the_first_controller_fixes_the_min_isr_of_all(town: Town) -> None:
    assert node_of(town, ALL) == {"min.insync.replicas": "1"}
    assert described(town, BROKER, "", "min.insync.replicas") == ("1", 3)
    assert alter(town, BROKER, "", min__insync__replicas="2")[0] is ErrorCode.NONE
    leader = town.node(1).partitions.get(T0)
    assert leader is not None and leader.leader is not None
    assert leader.leader.settings.min_isr == 2
    # What a broker's file says counts for nothing from then on.
    town.settings["min.insync.replicas"] = "3"
    town.kill(0)
    town.run(3_000)
    town.start(0)
    town.run(3_000)
    assert node_of(town, ALL) == {"min.insync.replicas": "2"}
    assert described(town, TOPIC, "t", "min.insync.replicas", at=0) == ("2", 3)


def test_allowing_unclean_elections_elects_at_once(town: Town) -> None:
    town.create("u", [1, 2])
    town.kill(1)
    town.run(3_000)
    town.run_until(lambda: town.record(2, "u").leader == 2)
    town.kill(2)
    town.run(3_000)
    town.start(1)
    town.run(3_000)
    assert town.record(0, "u").leader == -1
    alter(town, TOPIC, "u", at=0, unclean__leader__election__enable="true")
    town.run_until(lambda: town.record(0, "u").leader == 1)
    assert any("UNCLEAN" in line for line in town.reports)


def test_a_deleted_topic_takes_its_settings_along(town: Town) -> None:
    alter(town, TOPIC, "t", retention__ms="5")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000)
    town.ask(0, request, DeleteTopicsResponse)
    assert "/config/topics/t" not in town.tree.nodes
    town.create("t", [1, 0, 2])
    assert described(town, TOPIC, "t", "retention.ms")[1] == 5


def test_each_resource_of_a_request_stands_for_itself(town: Town) -> None:
    def resource(kind: int, name: str, key: str, value: str) -> replaced.AlterConfigsResource:
        configs = [replaced.AlterableConfig(name=key, value=value)]
        return replaced.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )

    town.create("u", [1, 2])
    request = replaced.AlterConfigsRequest(
        resources=[
            resource(TOPIC, "t", "retention.ms", "5"),
            resource(BROKER, "1", "message.max.bytes", "9"),
            resource(TOPIC, "nosuch", "retention.ms", "5"),
            resource(TOPIC, "u", "retention.ms", "x"),
            resource(ResourceType.BROKER_LOGGER, "2", "root", "INFO"),
        ]
    )
    responses = town.ask(2, request, replaced.AlterConfigsResponse).responses
    assert [(r.resource_type, r.resource_name, r.error_code) for r in responses] == [
        (TOPIC, "t", ErrorCode.NONE),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (TOPIC, "nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "u", ErrorCode.INVALID_CONFIG),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_CONFIG),
    ]
    assert described(town, TOPIC, "t", "retention.ms") == ("5", 1)


@pytest.mark.surface(11)
def test_replacing_all_settings_drops_the_others(town: Town) -> None:
    alter(town, TOPIC, "t", retention__ms="5", segment__ms="9")
    configs = [replaced.AlterableConfig(name="segment.ms", value="8")]
    resource = replaced.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=configs
    )
    request = replaced.AlterConfigsRequest(resources=[resource])
    (answer,) = town.ask(1, request, replaced.AlterConfigsResponse).responses
    assert answer.error_code == 0
    assert node_of(town, "/config/topics/t") == {"segment.ms": "8"}


def test_a_change_waits_for_the_next_controller(town: Town) -> None:
    town.kill(0)
    error, _ = alter(town, TOPIC, "t", retention__ms="5")
    assert error is ErrorCode.NONE
    assert node_of(town, "/config/topics/t") == {"retention.ms": "5"}


def test_what_a_hand_broke_in_the_coordinator_is_reported_and_passed_over(town: Town) -> None:
    path = stored.config_path(BROKER, "")
    settings = {"max.connections": "many", "no.such": "1", "message.max.bytes": "9"}
    town.tree.write(None, [SetData(path, stored.encode_configs(settings))])
    town.kill(0)
    town.run(3_000)
    town.run_until(lambda: any("max.connections=many" in line for line in town.reports))
    assert town.node(2).config.max_connections == 8192
    assert town.node(2).config.message_max_bytes == 9


@pytest.mark.parametrize("layer", ["", "2"])
def test_what_is_not_taken_any_more_keeps_no_other_setting_from_changing(
    town: Town, layer: str
) -> None:
    """An earlier release stored it."""
    settings = {
        "log.retention.ms": "0",
        "ssl.client.auth": "perhaps",
        "listeners": "nowhere",
        "broker.rack": "moved",
        "log.local.retention.bytes": "9",
        "log.retention.bytes": "5",
    }
    path = stored.config_path(BROKER, layer)
    kept = {"min.insync.replicas": "1"} if not layer else {}
    operation = SetData if path in town.tree.nodes else Create
    town.tree.write(None, [operation(path, stored.encode_configs({**kept, **settings}))])
    town.kill(0)
    town.run(3_000)
    town.run_until(lambda: any("log.retention.ms=0" in line for line in town.reports))
    for name in ("", "2"):
        assert alter(town, BROKER, name, message__max__bytes="9999")[0] is ErrorCode.NONE
    error, text = alter(town, BROKER, layer, log__local__retention__bytes="10")
    assert error is ErrorCode.INVALID_REQUEST and "log.local.retention.bytes=10" in str(text)
    for gone in ("log__retention__ms", "log__local__retention__bytes", "ssl__client__auth"):
        assert alter(town, BROKER, layer, **{gone: None})[0] is ErrorCode.NONE
    assert town.node(2).config.rack != "moved"
    assert alter(town, BROKER, layer, listeners=None, broker__rack=None)[0] is ErrorCode.NONE
    left = {"log.retention.bytes": "5", "message.max.bytes": "9999"}
    assert node_of(town, path) == {**kept, **left}
