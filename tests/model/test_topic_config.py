"""What holds for a topic: its own values, else its broker's."""

import pytest

from replog.model.config import BrokerConfig, topic_config, topic_value, validate_topic_configs
from replog.model.config_table import BROKER, TOPIC
from replog.model.topic_config import _TopicValues

ONE = {"node.id": "1"}


def test_the_broker_says_what_the_topic_does_not() -> None:
    broker = BrokerConfig(
        ONE
        | {
            "log.segment.bytes": "2000000",
            "log.retention.hours": "1",
            "log.roll.hours": "2",
            "min.insync.replicas": "2",
            "message.max.bytes": "77",
            "log.segment.delete.delay.ms": "5",
        }
    )
    topic = topic_config(broker, {"min.insync.replicas": "3", "cleanup.policy": "compact"})
    assert topic.segment_bytes == 2_000_000
    assert topic.retention_ms == 3_600_000
    assert topic.segment_ms == 7_200_000
    assert topic.max_message_bytes == 77
    assert topic.file_delete_delay_ms == 5
    assert topic.min_insync_replicas == 3
    assert topic.cleanup_policy == ("compact",)
    assert topic.compacted and not topic_config(broker, {}).compacted


def test_a_broken_override_is_passed_over() -> None:
    topic = topic_config(BrokerConfig(ONE), {"segment.bytes": "x", "segment.ms": "0"})
    assert topic.segment_bytes == 1 << 30
    assert topic.segment_ms == 7 * 24 * 3_600_000


def test_defaults_of_topics_are_those_of_the_brokers_they_fall_back_to() -> None:
    broker = BrokerConfig(ONE)
    for key in TOPIC.values():
        value = topic_value(broker, key.name, {})
        assert value == topic_value(broker, key.name, {key.name: key.default or ""}), key.name
        assert not key.fallback or key.fallback in BROKER


def test_attributes_have_the_type_of_the_table() -> None:
    kinds = {
        bool: {"boolean"},
        int: {"short", "int", "long"},
        float: {"double"},
        str: {"string"},
        tuple[str, ...]: {"list"},
    }
    for attribute, kind in _TopicValues.__annotations__.items():
        assert TOPIC[attribute.replace("_", ".")].kind in kinds[kind], attribute


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact,delete"},
        {"compression.type": "zstd"},
        {"local.retention.ms": "5"},
        {"min.insync.replicas": "9"},
        {"preallocate": "TRUE"},
        {"segment.bytes": "1048576"},
        {"leader.replication.throttled.replicas": "*"},
        {"follower.replication.throttled.replicas": "0:1,2:3"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
    ],
)
def test_what_a_topic_can_have(overrides: dict[str, str | None]) -> None:
    assert validate_topic_configs(overrides) is None


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("flush.messages", "0", "at least 1"),
        ("index.interval.bytes", "-1", "at least 0"),
        ("leader.replication.throttled.replicas", "0:x", "PARTITION:BROKER"),
        ("leader.replication.throttled.replicas", "x", "PARTITION:BROKER"),
        ("max.message.bytes", "-1", "at least 0"),
        ("message.format.version", "2.0", "unknown configuration"),
        ("message.timestamp.type", "Never", "CreateTime, LogAppendTime"),
        ("no.such.config", "1", "unknown configuration"),
        ("", "1", "unknown configuration ''"),
        ("num.partitions", "3", "unknown configuration"),
        ("retention.ms", "-5", "at least -1"),
        (" retention.ms", "1", "did you mean retention.ms?"),
        ("retention.ms", None, "is null"),
        ("retention.ms", "abc", "whole number (long)"),
        ("segment.bytes", "10", "at least 1048576"),
        ("unclean.leader.election.enable", "maybe", "true or false"),
        ("remote.storage.enable", "true", "no tiered storage"),
    ],
)
def test_what_a_topic_cannot_have(name: str, value: str | None, expected: str) -> None:
    fault = validate_topic_configs({"segment.ms": "5", name: value})
    assert fault is not None
    assert expected in str(fault)


def test_lags_that_contradict_each_other() -> None:
    fault = validate_topic_configs({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
    assert fault is not None and "min.compaction.lag.ms=6" in str(fault)
