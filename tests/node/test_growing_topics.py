"""Topics that get more partitions on real nodes: placement, refusals, and who knows of it when."""

import json

import pytest
from tests.node.town import Town

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from replog.model.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.create("t", [1, 0])
    return town


def wanted(name: str, count: int, *assigned: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)


def grow(
    town: Town,
    *topics: CreatePartitionsTopic,
    at: int = 2,
    timeout_ms: int = 5_000,
    validate_only: bool = False,
) -> list[int]:
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    return [r.error_code for r in town.ask(at, request, CreatePartitionsResponse).results]


def stored_count(town: Town, name: str) -> int:
    return len(json.loads(town.tree.nodes[f"/brokers/topics/{name}"].data)["partitions"])


@pytest.mark.surface(13)
@pytest.mark.parametrize("at", [0, 2])
def test_everybody_knows_of_new_partitions_and_they_have_replicas(town: Town, at: int) -> None:
    before = town.record(0, "t", 0)
    assert grow(town, wanted("t", 4), at=at) == [0]
    assert stored_count(town, "t") == 4
    for broker in town.brokers:
        cluster = town.node(broker).cluster
        assert len(cluster.topics["t"].partitions) == 4
        assert cluster.topics["t"].partitions[0] == before
        for index, record in enumerate(cluster.topics["t"].partitions):
            held = town.node(broker).partitions.get(TopicPartition("t", index))
            assert (held is not None) == (broker in record.replicas)
            assert len(record.replicas) == 2
            assert held is None or held.is_leader == (record.leader == broker)


def test_leaders_go_round(town: Town) -> None:
    grow(town, wanted("t", 7))
    leaders = [record.leader for record in town.node(0).cluster.topics["t"].partitions]
    assert leaders == [1, 2, 0, 1, 2, 0, 1]


def test_the_client_may_assign(town: Town) -> None:
    assert grow(town, wanted("t", 3, [2, 1], [0, 2])) == [0]
    assert [r.replicas for r in town.node(0).cluster.topics["t"].partitions] == [
        (1, 0),
        (2, 1),
        (0, 2),
    ]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted("nosuch", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wanted("t", 1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 0), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", -1), ErrorCode.INVALID_PARTITIONS),
        (wanted("t", 2, [0, 1], [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 2, [0]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 2, [0, 0]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 2, [0, 99]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wanted("t", 10_002), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_refusals(town: Town, topic: CreatePartitionsTopic, error: ErrorCode) -> None:
    assert grow(town, topic) == [error]
    assert stored_count(town, "t") == 1


def test_one_topic_twice_and_another_that_is_fine(town: Town) -> None:
    town.create("u", [0])
    answer = grow(town, wanted("t", 2), wanted("u", 2), wanted("t", 3))
    assert answer == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert (stored_count(town, "t"), stored_count(town, "u")) == (1, 2)


def test_what_is_only_tried_changes_nothing(town: Town) -> None:
    assert grow(town, wanted("t", 3), validate_only=True) == [0]
    assert stored_count(town, "t") == 1


def test_no_time_is_over_at_once(town: Town) -> None:
    assert grow(town, wanted("t", 3), timeout_ms=0) == [ErrorCode.REQUEST_TIMED_OUT]
    assert stored_count(town, "t") == 1


def test_where_groups_are_kept_can_not_change(town: Town) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    town.ask(0, request, FindCoordinatorResponse)
    town.run(1_000)
    assert grow(town, wanted("__consumer_offsets", 4)) == [ErrorCode.INVALID_REQUEST]


def test_growth_outlives_the_controller_and_goes_on(town: Town) -> None:
    grow(town, wanted("t", 3))
    town.kill(0)
    town.run(3_000)
    assert grow(town, wanted("t", 5), at=1) == [0]
    town.start(0)
    town.run(3_000)
    assert [len(town.node(b).cluster.topics["t"].partitions) for b in town.brokers] == [5, 5, 5]
    assert all(r.leader >= 0 for r in town.node(2).cluster.topics["t"].partitions)


def test_a_broker_that_missed_it_learns_of_it(town: Town) -> None:
    town.kill(2)
    grow(town, wanted("t", 3), at=1)
    town.start(2)
    town.run(3_000)
    assert len(town.node(2).cluster.topics["t"].partitions) == 3
