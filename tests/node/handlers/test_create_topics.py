"""CreateTopics, held against what Kafka answers."""

import pytest
from tests.node.town import Town

from replog.core.controller import stored
from replog.model.errors import ErrorCode
from replog.model.ids import ZERO_TOPIC_ID
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.node.handlers.create_topics import PARTITIONS_MAX


@pytest.fixture(scope="module")
def town() -> Town:
    town = Town()
    town.start()
    return town


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignment: dict[int, list[int]] | list[tuple[int, list[int]]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    pairs = assignment.items() if isinstance(assignment, dict) else assignment or ()
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in pairs
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("__", "."), value=value)
            for key, value in configs.items()
        ],
    )


def ask(
    town: Town, *topics: CreatableTopic, timeout_ms: int = 5_000, validate_only: bool = False
) -> dict[str, CreatableTopicResult]:
    message = CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    # By way of a broker that is not the controller.
    answer = town.ask(1, message, CreateTopicsResponse)
    assert len(answer.topics) == len({t.name for t in topics})
    return {result.name: result for result in answer.topics}


def manual(name: str, *pairs: tuple[int, list[int]]) -> CreatableTopic:
    return topic(name, -1, -1, assignment=list(pairs))


@pytest.mark.surface(6, 7)
@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("a:b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 249), ErrorCode.NONE),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("p0", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("p-2", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("r0", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("r-2", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("r4", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("r3", 1, 3), ErrorCode.NONE),
        (topic("both0", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (manual("gap", (0, [1]), (2, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("negative", (-1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("start1", (1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("nobroker", (0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("unknown", (0, [99])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("twice", (0, [1]), (0, [2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("same", (0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("uneven", (0, [1]), (1, [1, 2])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual("sound", (1, [1, 2]), (0, [2, 0])), ErrorCode.NONE),
        (topic("withp", 1, -1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("withr", -1, 1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("c1", no__such__config="1"), ErrorCode.INVALID_CONFIG),
        (topic("c2", retention__ms="abc"), ErrorCode.INVALID_CONFIG),
        (topic("c3", retention__ms=None), ErrorCode.INVALID_CONFIG),
        (topic("c4", retention__ms="-5"), ErrorCode.INVALID_CONFIG),
        (topic("c5", segment__bytes="10"), ErrorCode.INVALID_CONFIG),
        (topic("c6", cleanup__policy="compact,delete"), ErrorCode.NONE),
        (topic("c7", min__insync__replicas="9"), ErrorCode.NONE),
    ],
    ids=lambda value: value.name[:12] if isinstance(value, CreatableTopic) else "",
)
def test_what_can_be_made(town: Town, wanted: CreatableTopic, error: ErrorCode) -> None:
    for validate_only in (True, False):
        result = ask(town, wanted, validate_only=validate_only)[wanted.name]
        assert ErrorCode(result.error_code) is error
        made = stored.topic_path(wanted.name) in town.tree.nodes
        assert made == (error is ErrorCode.NONE and not validate_only)
        assert (wanted.name in town.node(1).cluster.topics) == made
        if error is not ErrorCode.NONE:
            assert result.error_message
            assert result.topic_id == ZERO_TOPIC_ID
            assert (result.num_partitions, result.replication_factor) == (-1, -1)
            assert result.configs == []
        else:
            assert result.error_message is None
            assert result.topic_id != ZERO_TOPIC_ID


@pytest.mark.surface(9)
def test_a_topic_as_it_was_ordered(town: Town) -> None:
    wanted = manual("ordered", (0, [1, 0, 2]), (1, [2, 1, 0]))
    wanted.configs = [CreatableTopicConfig(name="retention.ms", value="12345")]
    result = ask(town, wanted)["ordered"]
    assert (result.num_partitions, result.replication_factor) == (2, 3)
    assert result.configs is not None
    shown = {c.name: (c.value, c.config_source) for c in result.configs}
    assert shown["retention.ms"] == ("12345", 1)
    assert shown["segment.bytes"] == ("1073741824", 5)
    assert [c.name for c in result.configs] == sorted(shown)
    record = town.node(1).cluster.topics["ordered"]
    assert record.topic_id == result.topic_id
    assert [p.replicas for p in record.partitions] == [(1, 0, 2), (2, 1, 0)]
    assert record.configs == {"retention.ms": "12345"}
    assert (result.topic_id[6] >> 4, result.topic_id[8] >> 6) == (4, 2)  # a random UUID


@pytest.mark.surface(9)
def test_defaults_are_the_brokers(town: Town) -> None:
    result = ask(town, topic("defaults", -1, -1))["defaults"]
    assert (result.num_partitions, result.replication_factor) == (1, 3)


def test_what_is_there_already_or_nearly(town: Town) -> None:
    ask(town, topic("is.there"))
    results = ask(town, topic("is.there"), topic("is_there"), topic("isthere"))
    assert {name: ErrorCode(r.error_code) for name, r in results.items()} == {
        "is.there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "is_there": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "isthere": ErrorCode.NONE,
    }


def test_a_name_that_comes_twice_is_refused_once_and_the_others_are_made(town: Town) -> None:
    results = ask(town, topic("double"), topic("single"), topic("double"))
    assert ErrorCode(results["double"].error_code) is ErrorCode.INVALID_REQUEST
    assert ErrorCode(results["single"].error_code) is ErrorCode.NONE
    assert "double" not in town.node(1).cluster.topics


def test_no_time_means_that_nothing_is_made(town: Town) -> None:
    result = ask(town, topic("timeless"), timeout_ms=0)["timeless"]
    assert ErrorCode(result.error_code) is ErrorCode.REQUEST_TIMED_OUT
    town.run(100)
    assert "timeless" not in town.node(1).cluster.topics


@pytest.mark.parametrize("over", [0, 1])
def test_the_number_of_partitions_in_one_request_is_bounded(town: Town, over: int) -> None:
    half = PARTITIONS_MAX // 2
    names = (f"big{over}", f"huge{over}")
    results = ask(town, topic(names[0], half), topic(names[1], half + over), validate_only=True)
    expected = ErrorCode.POLICY_VIOLATION if over else ErrorCode.NONE
    assert {ErrorCode(result.error_code) for result in results.values()} == {expected}


def test_brokers_that_are_dead_or_leaving_get_no_replica() -> None:
    town = Town(brokers=(0, 1, 2, 3))
    town.start()
    town.kill(3)
    town.run(100)
    result = ask(town, topic("four", 1, 4))["four"]
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICATION_FACTOR
    ask(town, topic("t", 8, 3))
    held = {b for p in town.node(1).cluster.topics["t"].partitions for b in p.replicas}
    assert held == {0, 1, 2}
    result = ask(town, manual("gone", (0, [3, 1])))["gone"]
    assert ErrorCode(result.error_code) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_topics_that_somebody_needs_are_made_once() -> None:
    town = Town()
    town.start()
    node = town.node(1)
    for _ in range(3):
        node.controlling.auto_create(["needed", "__consumer_offsets"])
    town._carry_out(town.lives[1], node._take_outputs())
    town.run(300)
    topics = town.node(2).cluster.topics
    assert len(topics["needed"].partitions) == 1
    offsets = topics["__consumer_offsets"]
    assert len(offsets.partitions) == 2
    assert offsets.configs["cleanup.policy"] == "compact"
    assert offsets.partitions[0].leader in town.brokers
    node.controlling.auto_create(["needed"])
    town._carry_out(town.lives[1], node._take_outputs())
    town.run(300)
    assert not any("was not created" in line for line in town.reports)


def test_a_topic_that_can_not_be_made_by_itself_is_reported() -> None:
    town = Town(brokers=(0, 1))
    town.start()
    town.node(1).controlling.auto_create(["__consumer_offsets"])
    town._carry_out(town.lives[1], town.node(1)._take_outputs())
    town.run(300)
    assert any("__consumer_offsets was not created" in line for line in town.reports)
