"""DeleteTopics, held against what Kafka answers."""

import pytest
from tests.node.town import Town

from replog.model.errors import ErrorCode
from replog.model.ids import ZERO_TOPIC_ID
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

NOBODYS_ID = b"n" * 16
Shown = tuple[str | None, bytes, ErrorCode]


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.create("a", [1, 0, 2], [0, 1, 2])
    town.create("b", [1, 0, 2])
    return town


def by_name(*names: str) -> list[DeleteTopicState]:
    return [DeleteTopicState(name=name) for name in names]


def by_id(*ids: bytes) -> list[DeleteTopicState]:
    return [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]


def ask(town: Town, *topics: DeleteTopicState, version: int = 6) -> list[Shown]:
    message = DeleteTopicsRequest(timeout_ms=5_000)
    if version < 6:
        message.topic_names = [topic.name or "" for topic in topics]
    else:
        message.topics = list(topics)
    answer = town.ask(2, message, DeleteTopicsResponse, version=version)
    return [(r.name, r.topic_id, ErrorCode(r.error_code)) for r in answer.responses]


def id_of(town: Town, name: str) -> bytes:
    return town.node(1).cluster.topics[name].topic_id


@pytest.mark.parametrize("version", range(1, 7))
def test_known_and_unknown_names(town: Town, version: int) -> None:
    topic_id = id_of(town, "a") if version >= 6 else ZERO_TOPIC_ID
    assert ask(town, *by_name("a", "nosuch", "a/b", ""), version=version) == [
        ("a", topic_id, ErrorCode.NONE),
        ("nosuch", ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert "a" not in town.node(2).cluster.topics  # the broker that was asked knows at once
    town.run(300)
    for broker_id in town.brokers:
        node = town.node(broker_id)
        assert list(node.cluster.topics) == ["b"]
        assert {p.tp.topic for p in node.partitions.all()} == {"b"}
    assert not [path for path in town.tree.nodes if "/topics/a" in path]
    assert ask(town, *by_name("a"), version=version) == [
        ("a", ZERO_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]


def test_by_id(town: Town) -> None:
    a, b = id_of(town, "a"), id_of(town, "b")
    assert ask(town, *by_id(NOBODYS_ID, a)) == [
        (None, NOBODYS_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        ("a", a, ErrorCode.NONE),
    ]
    assert ask(town, *by_id(b)) == [("b", b, ErrorCode.NONE)]


@pytest.mark.parametrize("case", ["name and id", "twice by name", "twice by id", "both", "none"])
def test_what_is_not_clear_is_refused_and_nothing_is_deleted(town: Town, case: str) -> None:
    a = id_of(town, "a")
    asked, shown = {
        "name and id": ([*by_name("a"), *by_id(a)], ("a", a)),
        "twice by name": (by_name("a", "a"), ("a", ZERO_TOPIC_ID)),
        "twice by id": (by_id(a, a), (None, a)),
        "both": ([DeleteTopicState(name="a", topic_id=a)], ("a", a)),
        "none": (by_id(ZERO_TOPIC_ID), (None, ZERO_TOPIC_ID)),
    }[case]
    assert ask(town, *asked) == [(*shown, ErrorCode.INVALID_REQUEST)]
    assert "a" in town.node(1).cluster.topics


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_deletion_may_be_disabled(version: int, error: ErrorCode) -> None:
    town = Town(brokers=(1, 2), settings={"delete.topic.enable": "false"})
    town.start()
    town.create("a", [1, 2])
    assert ask(town, *by_name("a"), version=version) == [("a", ZERO_TOPIC_ID, error)]
    assert "a" in town.node(1).cluster.topics
