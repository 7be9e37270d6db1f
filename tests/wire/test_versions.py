"""What is advertised is what Kafka 4.4 advertises, for exactly what is served."""

import pytest

from replog.model.messages import APIS
from replog.wire import SERVED, Audience, api_ranges, best_version

# Lowest and highest version that an Apache Kafka 4.4 broker advertises.
KAFKA = {
    "Produce": (0, 13),
    "Fetch": (4, 18),
    "ListOffsets": (1, 11),
    "Metadata": (0, 13),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "DescribeGroups": (0, 6),
    "ListGroups": (0, 5),
    "ApiVersions": (0, 5),
    "CreateTopics": (2, 7),
    "DeleteTopics": (1, 6),
    "DeleteRecords": (0, 2),
    "InitProducerId": (0, 5),
    "OffsetForLeaderEpoch": (2, 4),
    "DescribeConfigs": (1, 4),
    "AlterConfigs": (0, 2),
    "DescribeLogDirs": (1, 5),
    "CreatePartitions": (0, 3),
    "DeleteGroups": (0, 3),
    "ElectLeaders": (0, 2),
    "IncrementalAlterConfigs": (0, 1),
    "AlterPartitionReassignments": (0, 1),
    "ListPartitionReassignments": (0, 0),
    "OffsetDelete": (0, 0),
    "UpdateFeatures": (0, 2),
    "DescribeCluster": (0, 2),
    "DescribeProducers": (0, 0),
    "ListConfigResources": (0, 1),
    "DescribeTopicPartitions": (0, 0),
}


def test_whole_ranges_are_advertised_and_nothing_between_brokers() -> None:
    assert {APIS[key].name: (low, high) for key, low, high in api_ranges()} == KAFKA
    assert list(api_ranges()) == sorted(api_ranges())


def test_what_is_advertised_can_be_understood() -> None:
    for api in SERVED.values():
        known = APIS[api.key]
        assert known.max_version >= api.max_version
        low = 3 if api.name == "Produce" else api.min_version
        assert (api.min_understood, known.min_version) == (low, min(low, known.min_version))


def test_own_keys_are_far_from_kafkas() -> None:
    for key, api in SERVED.items():
        assert (key >= 20000) == (api.name not in KAFKA and api.name != "AlterPartition")
        if key >= 20000:
            assert api.audience is not Audience.CLIENTS


@pytest.mark.scenario(82)
def test_no_version_between_brokers_is_understood_that_lacks_an_epoch() -> None:
    """There is no older release to be lenient with."""
    assert SERVED[56].min_understood == SERVED[56].max_version == 3
    own = [api for api in SERVED.values() if api.key > 20000 and api.audience is Audience.PEERS]
    assert own and all(api.min_understood == 0 for api in own), "new fields are tagged, or raise it"


@pytest.mark.parametrize(
    ("key", "low", "high", "best"),
    [
        (1, 0, 100, 18),
        (1, 4, 11, 11),
        (1, 0, 3, None),
        (1, 19, 25, None),
        (0, 0, 2, None),
        (0, 0, 3, 3),
        (18, 0, 0, 0),
    ],
)
def test_the_best_common_version(key: int, low: int, high: int, best: int | None) -> None:
    assert best_version(key, low, high) == best
