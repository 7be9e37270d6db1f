import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.controller import stored
from replog.model.cluster import BrokerRecord, BrokerState, Endpoint, TopicRecord
from replog.model.ids import TopicPartition
from replog.model.partition import PartitionRecord

TOPIC_ID = bytes(range(16))
REGISTRATION = stored.Registration(
    broker_id=1,
    endpoints=(Endpoint("PLAINTEXT", "host", 9092), Endpoint("SAFE", "::1", 9093, "SSL")),
    rack="r1",
    boot_id="boot",
    clean_start=False,
    incarnation="00ff",
    timestamp_ms=1_700_000_000_000,
    inter_broker_version=1,
)


def test_a_registration_looks_like_kafkas() -> None:
    fields = json.loads(stored.encode_registration(REGISTRATION))
    assert fields["version"] == 5
    assert fields["endpoints"] == ["PLAINTEXT://host:9092", "SAFE://[::1]:9093"]
    assert fields["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT", "SAFE": "SSL"}
    assert (fields["host"], fields["port"], fields["jmx_port"]) == ("host", 9092, -1)
    assert fields["timestamp"] == "1700000000000"
    assert fields["rack"] == "r1"
    assert fields["features"] == {}


def test_a_registration_comes_back_as_it_was() -> None:
    data = stored.encode_registration(REGISTRATION)
    assert stored.decode_registration(1, data) == REGISTRATION


def test_a_registration_that_kafka_wrote_is_understood() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://10.0.0.1:9092"],"jmx_port":-1,"port":9092,'
        b'"host":"10.0.0.1","version":5,"timestamp":"1"}'
    )
    registration = stored.decode_registration(3, data)
    assert registration.endpoints == (Endpoint("PLAINTEXT", "10.0.0.1", 9092),)
    assert registration.rack is None
    assert registration.record(77).broker_epoch == 77


def test_controller_and_its_epoch() -> None:
    data = stored.encode_controller(2, 5)
    kafkas = {"version": 2, "brokerid": 2, "timestamp": "5", "kraftControllerEpoch": -1}
    assert json.loads(data) == kafkas
    assert stored.decode_controller(data) == 2
    assert stored.decode_controller_epoch(b"17") == 17


RECORD = PartitionRecord(
    replicas=(1, 0),
    isr=(0, 1),
    leader=1,
    leader_epoch=3,
    partition_epoch=9,
    controller_epoch=2,
    elr=(),
    last_known_elr=(),
)


def test_a_topic_looks_like_kafkas() -> None:
    other = PartitionRecord((0, 1), (0, 1), 0, 0, 0, adding=(1,), removing=(0,))
    fields = json.loads(stored.encode_topic(TopicRecord("t", TOPIC_ID, [RECORD, other])))
    assert fields == {
        "version": 3,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": {"0": [1, 0], "1": [0, 1]},
        "adding_replicas": {"1": [1]},
        "removing_replicas": {"1": [0]},
    }


def test_a_partition_looks_like_kafkas_with_keys_of_ours() -> None:
    assert json.loads(stored.encode_partition(RECORD, TOPIC_ID)) == {
        "controller_epoch": 2,
        "leader": 1,
        "version": 1,
        "leader_epoch": 3,
        "isr": [0, 1],
        "partition_epoch": 9,
        "elr": [],
        "last_known_elr": [],
        "failed_replicas": [],
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
    }


epochs = st.integers(0, 2**31 - 1)


@st.composite
def records(draw: st.DrawFn) -> PartitionRecord:
    replicas = tuple(draw(st.permutations(range(4)))[: draw(st.integers(1, 4))])
    isr = tuple(draw(st.permutations(replicas))[: draw(st.integers(1, len(replicas)))])
    return PartitionRecord(
        replicas=replicas,
        isr=isr,
        leader=draw(st.sampled_from([-1, *isr])),
        leader_epoch=draw(epochs),
        partition_epoch=draw(epochs),
        controller_epoch=draw(epochs),
        elr=tuple(draw(st.lists(st.integers(0, 3), unique=True))),
        last_known_elr=tuple(draw(st.lists(st.integers(0, 3), unique=True))),
        failed=tuple(draw(st.lists(st.integers(0, 3), unique=True))),
        adding=tuple(draw(st.lists(st.integers(0, 3), unique=True))),
        removing=tuple(draw(st.lists(st.integers(0, 3), unique=True))),
    )


@given(st.lists(records(), min_size=1, max_size=4), st.binary(min_size=16, max_size=16))
def test_partitions_come_back_as_they_were(
    partitions: list[PartitionRecord], topic_id: bytes
) -> None:
    topic = stored.decode_topic(stored.encode_topic(TopicRecord("t", topic_id, partitions)))
    assert topic.topic_id == topic_id
    for index, record in enumerate(partitions):
        data = stored.encode_partition(record, topic_id)
        assert stored.decode_partition(index, topic, data) == record


@given(st.dictionaries(st.text(), st.text()))
def test_configurations_come_back_as_they_were(configs: dict[str, str]) -> None:
    assert stored.decode_configs(stored.encode_configs(configs)) == configs


def test_the_broker_table_comes_back_as_it_was() -> None:
    brokers = {
        2: BrokerRecord(2, 20, (), state=BrokerState.CONTROLLED_SHUTDOWN),
        1: BrokerRecord(1, 10, ()),
    }
    assert stored.decode_broker_states(stored.encode_broker_states(brokers)) == {
        1: (10, BrokerState.ACTIVE),
        2: (20, BrokerState.CONTROLLED_SHUTDOWN),
    }


def test_paths_are_kafkas() -> None:
    tp = TopicPartition("t", 3)
    assert stored.partition_path(tp) == "/brokers/topics/t/partitions/3/state"
    assert stored.topic_config_path("t") == "/config/topics/t"
    assert stored.broker_config_path("") == "/config/brokers/<default>"
    assert stored.broker_path(4) == "/brokers/ids/4"


# ---- what a hand may have made of a node ------------------------------------------------

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["partitions", "0", "isr", "topic_id", "leader", "endpoints", "config", "brokers"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KNOWN_TOPIC = stored.StoredTopic(TOPIC_ID, ((1, 0),), {}, {})


@given(st.binary(max_size=40) | junk.map(lambda value: json.dumps(value).encode()))
def test_decoders_raise_nothing_but_bad_node(data: bytes) -> None:
    for decode in (
        lambda: stored.decode_registration(1, data),
        lambda: stored.decode_controller(data),
        lambda: stored.decode_controller_epoch(data),
        lambda: stored.decode_topic(data),
        lambda: stored.decode_partition(0, KNOWN_TOPIC, data),
        lambda: stored.decode_configs(data),
        lambda: stored.decode_broker_states(data),
    ):
        try:
            decode()
        except stored.BadNode as error:
            assert str(error)


def edited(changes: dict[str, object]) -> bytes:
    fields = json.loads(stored.encode_partition(RECORD, TOPIC_ID))
    return json.dumps(fields | changes).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"isr": []},
        {"isr": [0, 0]},
        {"isr": "0"},
        {"isr": [True]},
        {"leader": 2},  # not in the ISR
        {"leader": None},
        {"leader_epoch": -1},
        {"partition_epoch": -1},
        {"partition_epoch": "9"},
        {"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},  # of an earlier topic of that name
    ],
)
def test_partition_states_that_are_refused(changes: dict[str, object]) -> None:
    stored.decode_partition(0, KNOWN_TOPIC, edited({}))
    with pytest.raises(stored.BadNode):
        stored.decode_partition(0, KNOWN_TOPIC, edited(changes))


@pytest.mark.parametrize(
    "partitions", [{}, {"1": [0]}, {"0": [0], "2": [0]}, {"x": [0]}, {"0": []}, {"0": [1, 1]}]
)
def test_topics_that_are_refused(partitions: dict[str, list[int]]) -> None:
    fields = {"version": 3, "topic_id": "AAECAwQFBgcICQoLDA0ODw", "partitions": {"0": [0]}}
    stored.decode_topic(json.dumps(fields).encode())
    with pytest.raises(stored.BadNode):
        stored.decode_topic(json.dumps(fields | {"partitions": partitions}).encode())


def test_the_id_of_a_cluster_is_kafkas_json_or_in_old_databases_a_text() -> None:
    data = stored.encode_cluster_id("abc")
    assert json.loads(data) == {"version": "1", "id": "abc"}
    assert stored.decode_cluster_id(data) == stored.decode_cluster_id(b"abc") == "abc"
    for bad in (b"{", b"{}", b'{"id":1}'):
        with pytest.raises(stored.BadNode):
            stored.decode_cluster_id(bad)
