"""What a broker takes for its configuration, and how it says no."""

import os

import pytest

from replog.model.broker_config import _BrokerValues
from replog.model.config import BrokerConfig, ConfigError, CoordinatorAddress, Listener
from replog.model.config_table import BROKER, CLIENT_METRICS, GROUP, TOPIC
from replog.model.config_values import parse_value

ONE = {"node.id": "1"}


def config(**given: str) -> BrokerConfig:
    """A broker's configuration; `__` in a name stands for a dot."""
    return BrokerConfig(ONE | {name.replace("__", "."): value for name, value in given.items()})


def refusal(**given: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**given)
    return str(caught.value)


def test_defaults_are_kafkas() -> None:
    broker = config()
    assert broker.node_id == 1
    assert broker.rack is None
    assert broker.request_timeout_ms == 30_000
    assert broker.replica_lag_time_max_ms == 30_000
    assert broker.message_max_bytes == 1_048_588
    assert broker.auto_create_topics_enable is True
    assert broker.unclean_leader_election_enable is False
    assert broker.log_retention_ms == 7 * 24 * 3_600_000
    assert broker.log_roll_ms == 7 * 24 * 3_600_000
    assert broker.log_flush_interval_ms == (1 << 63) - 1
    assert broker.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert broker.advertised_listeners == broker.listeners
    assert broker.inter_broker_listener_name == "PLAINTEXT"
    assert broker.coordinator is None


def test_limits_are_finite_by_default() -> None:
    broker = config()
    assert 0 < broker.max_connections < 100_000
    assert 0 < broker.max_connections_per_ip <= broker.max_connections
    assert 0 < broker.queued_max_request_bytes <= 1 << 30
    assert 0 < broker.socket_request_max_bytes <= 100 << 20


def test_every_default_is_valid() -> None:
    for table in (BROKER, TOPIC, GROUP, CLIENT_METRICS):
        for key in table.values():
            parse_value(key, key.default)


def test_attributes_have_the_type_of_the_table() -> None:
    kinds = {bool: {"boolean"}, int: {"short", "int", "long"}}
    for attribute, kind in _BrokerValues.__annotations__.items():
        assert BROKER[attribute.replace("_", ".")].kind in kinds[kind], attribute


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("num.partitions", " 12 ", 12),
        ("auto.create.topics.enable", "FALSE", False),
        ("log.retention.ms", "-1", -1),
        ("log.cleanup.policy", "compact , delete", ("compact", "delete")),
        ("log.cleanup.policy", "", ()),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("log.flush.interval.messages", "9223372036854775807", (1 << 63) - 1),
        ("offsets.topic.replication.factor", "32767", 32_767),
        ("broker.rack", "a b", "a b"),
        ("num.partitions", "\u0663", 3),  # as Java reads numbers
        ("log.cleaner.min.cleanable.ratio", ".5f", 0.5),
        ("log.cleaner.min.cleanable.ratio", "0x1p-2", 0.25),
        ("log.message.timestamp.type", " LogAppendTime ", "LogAppendTime"),
    ],
)
def test_values_are_read_as_their_type(name: str, value: str, parsed: object) -> None:
    assert BrokerConfig(ONE | {name: value}).value(name) == parsed


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num.partitions", "many", "whole number"),
        ("num.partitions", "", "whole number"),
        ("num.partitions", "1.5", "whole number"),
        ("num.partitions", "+-1", "whole number"),
        ("num.partitions", "1_0", "whole number"),
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "2147483648", "2147483647"),
        ("offsets.topic.replication.factor", "32768", "32767"),
        ("log.flush.interval.messages", "9223372036854775808", "9223372036854775807"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number"),
        ("log.cleaner.min.cleanable.ratio", "0_1", "a number"),
        ("log.cleaner.min.cleanable.ratio", "0x1", "a number"),
        ("log.segment.bytes", "1048575", "at least 1048576"),
        ("log.cleanup.policy", "delete,shred", "compact, delete"),
        ("log.message.timestamp.type", "Never", "CreateTime, LogAppendTime"),
        ("log.cleaner.min.cleanable.ratio", "1.01", "0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "a number"),
        ("log.cleaner.min.cleanable.ratio", "half", "a number"),
        ("replog.session.silence.ms", "249", "250 to 60000"),
        ("compression.gzip.level", "10", "-1 or 1 to 9"),
        ("compression.gzip.level", "0", "-1 or 1 to 9"),
    ],
)
def test_a_bad_value_is_named_with_what_is_expected(name: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(ONE | {name: value})
    assert str(caught.value).startswith(f"{name}={value}: ")
    assert expected in str(caught.value)


def test_an_unknown_name_is_named_with_the_nearest() -> None:
    assert "did you mean num.partitions?" in refusal(num__partition="3")
    text = refusal(xyzzy="3")
    assert "'xyzzy'" in text and "did you mean" not in text


def test_a_secret_is_not_repeated() -> None:
    key = BROKER["ssl.key.password"]._replace(check="a|b")
    with pytest.raises(ConfigError) as caught:
        parse_value(key, "hunter2")
    assert "hunter2" not in str(caught.value)


def test_names_of_others_are_let_through() -> None:
    assert config(listener__name__plaintext__sasl__enabled__mechanisms="PLAIN").node_id == 1


def test_broker_id_is_another_spelling_of_node_id() -> None:
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    assert BrokerConfig({"broker.id": "7", "node.id": "7"}).node_id == 7
    assert "node.id=1 and broker.id=7 disagree" in refusal(broker__id="7")
    with pytest.raises(ConfigError, match=r"node\.id is not set"):
        BrokerConfig({})
    with pytest.raises(ConfigError, match=r"node\.id is not set"):
        BrokerConfig({"broker.id": "-1"})


def test_the_session_timeout_is_another_spelling_of_the_silence() -> None:
    assert config().replog_session_silence_ms == 1500
    assert config(broker__session__timeout__ms="9000").replog_session_silence_ms == 9000
    given = {"replog__session__silence__ms": "2000", "broker__session__timeout__ms": "9000"}
    assert "2000 and broker.session.timeout.ms=9000 disagree" in refusal(**given)


def test_retention_falls_back_by_unit() -> None:
    assert config(log__retention__hours="2").log_retention_ms == 7_200_000
    minutes = {"log__retention__hours": "2", "log__retention__minutes": "3"}
    assert config(**minutes).log_retention_ms == 180_000
    assert config(**minutes, log__retention__ms="5").log_retention_ms == 5
    assert config(log__retention__hours="-1").log_retention_ms == -1
    assert config(log__roll__hours="1").log_roll_ms == 3_600_000
    assert config(log__roll__ms="9", log__roll__hours="1").log_roll_ms == 9
    assert config(log__roll__jitter__hours="1").log_roll_jitter_ms == 3_600_000
    assert config(log__flush__scheduler__interval__ms="8").log_flush_interval_ms == 8


def test_dynamic_values_go_before_given_ones() -> None:
    broker = config(num__partitions="2").with_dynamic(
        dynamic={"message.max.bytes": "5"},
        dynamic_default={"message.max.bytes": "6", "min.insync.replicas": "2"},
    )
    assert broker.message_max_bytes == 5
    assert broker.min_insync_replicas == 2
    assert broker.num_partitions == 2
    with pytest.raises(ConfigError):
        broker.with_dynamic(dynamic={"message.max.bytes": "x"}, dynamic_default={})


def test_access_by_name() -> None:
    broker = config(log__dirs="/data/a")
    assert broker.int("num.io.threads") == 8
    assert broker.long("log.retention.bytes") == -1
    assert broker.bool("delete.topic.enable") is True
    assert broker.str("broker.rack") is None
    assert broker.list("log.dirs") == ("/data/a",) == broker.log_dirs
    with pytest.raises(ConfigError, match=r"log\.retention\.ms must be set"):
        broker.int("log.retention.ms")
    with pytest.raises(ConfigError, match="unknown configuration"):
        broker.value("no.such")


def test_where_brokers_meet() -> None:
    assert config(replog__coordinator="sqlite:/d/c.db").coordinator == CoordinatorAddress(
        "sqlite", "/d/c.db"
    )
    assert "sqlite:PATH or" in refusal(replog__coordinator="sqlite:")
    assert "sqlite:PATH or" in refusal(replog__coordinator="etcd:x")
    ensemble = CoordinatorAddress("zk", "h:2181,i:2182/a/b")
    assert config(zookeeper__connect="h, i:2182/a/b/").coordinator == ensemble
    assert config(replog__coordinator="zk://h:2181,i:2182/a/b").coordinator == ensemble
    both = config(zookeeper__connect="h,i:2182/a/b", replog__coordinator="zk://h:2181,i:2182/a/b")
    assert both.coordinator == ensemble
    assert config(zookeeper__connect="h:2181").coordinator == CoordinatorAddress("zk", "h:2181")
    for wrong in ("h:x", ":2181", "h:0", "h:65536", "h,,i", "h/a//b"):
        assert "zookeeper.connect" in refusal(zookeeper__connect=wrong)
    assert "disagree" in refusal(zookeeper__connect="h/a", replog__coordinator="zk://h/b")
    assert "disagree" in refusal(zookeeper__connect="h:2181", replog__coordinator="sqlite:/x")


def test_nodes_in_zookeeper_can_be_protected_only_as_somebodys() -> None:
    assert "replog.zookeeper.digest" in refusal(zookeeper__set__acl="true")
    assert config(zookeeper__set__acl="true", replog__zookeeper__digest="u:p").given


def test_what_would_be_dangerous_to_ignore_is_refused() -> None:
    assert "authorizer" in refusal(authorizer__class__name="x.Y")
    assert "tiered" in refusal(remote__log__storage__system__enable="true")
    assert "a folder is named twice" in refusal(log__dirs="/a,/b,/a")
    assert "SASL_PLAINTEXT is not supported yet" in refusal(listeners="SASL_PLAINTEXT://:1")


def test_values_that_contradict_each_other_are_refused() -> None:
    assert "group.min.session.timeout.ms" in refusal(group__min__session__timeout__ms="9999999")
    assert "replica.fetch.wait.max.ms" in refusal(replica__fetch__wait__max__ms="30001")
    assert config(replica__fetch__wait__max__ms="30000").replica_fetch_wait_max_ms == 30_000


def test_how_often_a_broker_tells_that_it_lives() -> None:
    assert BrokerConfig(ONE).ping_interval_ms == 250
    quick = ONE | {"replog.session.silence.ms": "400"}
    assert BrokerConfig(quick).ping_interval_ms == 100
    kafkas = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
    assert BrokerConfig(ONE | kafkas).ping_interval_ms == 2000
    with pytest.raises(ConfigError, match=r"must be below replog\.session\.silence\.ms=1500"):
        BrokerConfig(ONE | {"broker.heartbeat.interval.ms": "1500"})


def test_threads_for_requests_are_few_unless_somebody_says_how_many() -> None:
    assert BrokerConfig(ONE).int("num.io.threads") == 8
    assert BrokerConfig(ONE).request_threads == 2
    assert BrokerConfig(ONE | {"num.io.threads": "8"}).request_threads == 8
    assert BrokerConfig(ONE, dynamic={"num.io.threads": "4"}).request_threads == 4


def test_cordoned_folders_are_those_of_log_dirs() -> None:
    assert config().cordoned_log_dirs == frozenset()
    broker = config(log__dirs="/data/a,b", cordoned__log__dirs="b")
    assert broker.cordoned_log_dirs == {os.path.abspath("b")}
    every = {"/data/a", "/data/b"}
    assert config(log__dirs="/data/a,/data/b", cordoned__log__dirs="*").cordoned_log_dirs == every
    told = refusal(log__dirs="/data/a,/data/b", cordoned__log__dirs="/data/c")
    assert told == "cordoned.log.dirs=/data/c: /data/c is not in log.dirs=/data/a,/data/b"


def test_a_folder_that_is_gone_from_the_file_may_still_be_cordoned_in_the_cluster() -> None:
    """Or nothing that is set there would hold after a restart."""
    stored = BrokerConfig(ONE, dynamic={"cordoned.log.dirs": "/data/gone"})
    with pytest.raises(ConfigError, match=r"/data/gone is not in log\.dirs"):
        stored.check_cordoned()
