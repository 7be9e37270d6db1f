"""DescribeLogDirs, DescribeProducers, ListConfigResources and UpdateFeatures on one broker."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record

from replog.log.disk import DiskError
from replog.model.config_resources import ResourceType
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from replog.model.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from replog.model.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from replog.model.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse
from replog.model.messages.produce import TopicProduceData as ProducedTopic
from replog.model.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from replog.node.features import FEATURES
from replog.records.batch import Producer, Record, build_batch


@pytest.fixture
def broker() -> OneBroker:
    one = OneBroker()
    one.topic("t", record(1), record(1, 2), record(2, 1), record(2))
    return one


# ---- log folders ------------------------------------------------------------------------------


def sizes(broker: OneBroker, *topics: tuple[str, list[int]]) -> dict[TopicPartition, int]:
    asked = [DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics]
    request = DescribeLogDirsRequest(topics=asked if topics else None)
    (folder,) = broker.ask(request, DescribeLogDirsResponse).results
    assert (folder.error_code, folder.is_cordoned) == (0, False)
    return {
        TopicPartition(topic.name, p.partition_index): p.partition_size
        for topic in folder.topics
        for p in topic.partitions
    }


def test_replicas_are_shown_with_their_size(broker: OneBroker) -> None:
    broker.produce("t", 1, 2)
    found = sizes(broker)
    assert [tp.partition for tp in found] == [0, 1, 2]  # partition 3 is elsewhere
    log = broker.node.partitions.get(TopicPartition("t", 0))
    assert log is not None
    assert found[TopicPartition("t", 0)] == log.log.size > 61
    assert found[TopicPartition("t", 1)] == 0


def test_only_what_is_asked_for_is_shown(broker: OneBroker) -> None:
    assert list(sizes(broker, ("t", [1, 3, 9]), ("u", [0]))) == [TopicPartition("t", 1)]
    assert sizes(broker, ("t", [])) == {}


def test_a_folder_that_failed_says_so(broker: OneBroker) -> None:
    folder = broker.node.partitions.logs.folders[0]
    folder.failed(DiskError("gone"))
    (result,) = broker.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert (result.log_dir, result.topics) == (folder.path, [])


# ---- producers ----------------------------------------------------------------------------------


def test_producers_as_a_replica_knows_them(broker: OneBroker) -> None:
    batch = build_batch(
        [Record(0, 5, None, b"v", ()), Record(1, 6, None, b"v", ())],
        producer=Producer(7, 1, 0),
    )
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[ProducedTopic(name="t", partition_data=[data])]
    )
    answer = broker.ask(request, ProduceResponse, version=12)
    assert answer.responses[0].partition_responses[0].error_code == 0
    asked = TopicRequest(name="t", partition_indexes=[0, 1, 2, 3, 9])
    (topic,) = broker.ask(
        DescribeProducersRequest(topics=[asked]), DescribeProducersResponse
    ).topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [
        (0, 0),
        (1, 0),
        (2, 0),  # a follower knows them as well
        (3, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (producer,) = topic.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 1, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (6, -1)
    assert topic.partitions[1].active_producers == []


# ---- resources ----------------------------------------------------------------------------------


def resources(broker: OneBroker, *types: int, version: int = 1) -> list[tuple[int, str]] | int:
    request = ListConfigResourcesRequest(resource_types=list(types))
    answer = broker.ask(request, ListConfigResourcesResponse, version=version)
    if answer.error_code:
        return answer.error_code
    return [(r.resource_type, r.resource_name) for r in answer.config_resources]


def test_what_has_configurations(broker: OneBroker) -> None:
    broker.node.cluster.put_configs(ResourceType.GROUP, "g", {"x": "1"})
    broker.node.cluster.put_configs(ResourceType.CLIENT_METRICS, "s", {"x": "1"})
    assert resources(broker, 2) == [(2, "t")]
    assert resources(broker, 32, 16) == [(32, "g"), (16, "s")]
    assert resources(broker, 4, 4) == [(4, "1"), (4, "2"), (4, "3")]
    everything = resources(broker)
    assert isinstance(everything, list)
    assert len(everything) == 1 + 3 + 3 + 1 + 1
    assert resources(broker, 2, 99) == ErrorCode.UNSUPPORTED_VERSION
    assert resources(broker, 2, version=0) == [(16, "s")]


# ---- features -----------------------------------------------------------------------------------


def update(
    name: str, level: int, *, kind: int = 1, version: int = 2, twice: bool = False
) -> UpdateFeaturesResponse:
    one = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[one, one] if twice else [one])
    return OneBroker().ask(request, UpdateFeaturesResponse, version=version)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_level_can_be_confirmed_and_not_changed(feature: tuple[str, int, int, int]) -> None:
    name, low, high, level = feature
    for asked in {low, high + 1, -1, level} - {0}:
        answer = update(name, asked)
        fine = asked == level
        assert answer.error_code == (0 if fine else ErrorCode.INVALID_UPDATE_VERSION)
        assert bool(answer.error_message) is not fine


def test_features_that_there_are_not_and_bad_updates() -> None:
    name, *_, level = FEATURES[0]
    refused = ErrorCode.INVALID_UPDATE_VERSION
    assert update("nonsense", 1).error_code == refused
    assert len(update(name, level, twice=True, version=1).results) == 2
    assert update("nonsense", 1, twice=True).error_code == refused
    assert update(name, level, kind=0).error_code == refused
    assert update(name, level, kind=9).error_code == refused
    assert update(name, level, kind=9, version=0).error_code == 0
    assert update(name, level, kind=3).error_code == 0
