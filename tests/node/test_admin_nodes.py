"""Requests that tools leave as nodes below /admin."""

import json
from typing import Any

import pytest
from tests.node.town import Town

from replog.model.coordination import (
    DELETE_TOPICS,
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    Create,
)


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.run(100)
    town.create("t", [0, 1], [1, 0])
    town.run(200)
    return town


def leave(town: Town, path: str, value: Any) -> None:
    """As a tool does."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    _, paths = town.tree.write(None, [Create(path, data)])
    assert paths
    town._hint(paths)


def leaders_and_sizes(town: Town) -> list[tuple[int, int]]:
    """Leader and size of the ISR of each partition, as the controller sees them."""
    return [(leader, len(isr)) for leader, isr in town.seen("t")[town.controller]]


def partitions(*asked: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "partitions": list(asked)}


def test_partitions_are_moved(town: Town) -> None:
    leave(
        town,
        REASSIGN_PARTITIONS,
        partitions({"topic": "t", "partition": 0, "replicas": [2, 1]}),
    )
    town.run_until(lambda: town.everybody_sees("t", (2, [1, 2]), (1, [1, 0])))
    town.run(100)
    assert REASSIGN_PARTITIONS not in town.tree.nodes


def test_preferred_leaders_lead_again(town: Town) -> None:
    town.kill(1)
    town.run(500)
    town.start(1)
    town.run_until(lambda: leaders_and_sizes(town) == [(0, 2), (0, 2)])
    leave(town, PREFERRED_ELECTION, partitions({"topic": "t", "partition": 1}))
    town.run_until(lambda: leaders_and_sizes(town) == [(0, 2), (1, 2)])
    town.run(100)
    assert PREFERRED_ELECTION not in town.tree.nodes


def test_topics_are_deleted_also_those_that_nobody_looked_at_for_a_while(town: Town) -> None:
    town.tree.write(None, [Create(f"{DELETE_TOPICS}/t", b"")])  # the hint is lost
    town.kill(0)
    town.run_until(lambda: f"{DELETE_TOPICS}/t" not in town.tree.nodes)
    assert "/brokers/topics/t" not in town.tree.nodes
    assert any(text.endswith(f"{DELETE_TOPICS}/t: done") for text in town.reports)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{", "can't be understood"),
        ({"version": 1}, "can't be understood"),
        (partitions({"topic": "t", "partition": "x", "replicas": [1]}), "can't be understood"),
        (partitions({"topic": "t", "partition": 0, "replicas": [77]}), "INVALID_REPLICA"),
        (partitions({"topic": "u", "partition": 0, "replicas": [1]}), "UNKNOWN_TOPIC"),
    ],
)
def test_what_can_not_be_done_is_said_and_removed(town: Town, value: Any, said: str) -> None:
    leave(town, REASSIGN_PARTITIONS, value)
    town.run(200)
    assert REASSIGN_PARTITIONS not in town.tree.nodes
    assert any(said in text for text in town.reports), town.reports[-5:]
    assert town.everybody_sees("t", (0, [0, 1]), (1, [1, 0]))
