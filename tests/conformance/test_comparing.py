"""How answers are made comparable, and compared."""

from typing import Any

import pytest
from tests.conformance.batches import build
from tests.conformance.recording import common, differences
from tests.conformance.shown import ANY, Names, Shower, show_records
from tests.conformance.steps import LONG_AGO, Batch, Batches

from replog.model.errors import ErrorCode
from replog.model.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def test_defaults_and_what_is_the_machines_own_are_not_shown() -> None:
    names = Names()
    names.texts["a-17"] = "<a>"
    names.ids[b"i" * 16] = "<id:a>"
    partition = MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE, replica_nodes=[3, 1], isr_nodes=[3, 1]
    )
    topic = MetadataResponseTopic(name="a-17", topic_id=b"i" * 16, partitions=[partition])
    answer = MetadataResponse(topics=[topic], cluster_id="x", controller_id=3, throttle_time_ms=7)
    assert Shower(names).show(answer) == {
        "controller_id": "<broker>",
        "topics": [
            {
                "name": "<a>",
                "topic_id": "<id:a>",
                "partitions": [
                    {
                        "error_code": "LEADER_NOT_AVAILABLE",
                        "replica_nodes": [3, 1],
                        "isr_nodes": [1, 3],
                    }
                ],
            }
        ],
    }
    assert Shower(names, hide=("topics",)).show(answer)["topics"] == ANY


def test_records_are_told_one_by_one_and_a_cut_batch_as_such() -> None:
    whole = build(Batch(values=[b"v", None], keys=[b"k", None]))
    (shown,) = show_records(whole, lambda number: number)
    assert shown["records"] == [[0, LONG_AGO, "k", "v"], [1, LONG_AGO + 1, None, None]]
    assert "crc" not in shown
    two = build(Batches([Batch(), Batch(cut=5)]))
    assert show_records(two, lambda number: number)[1:] == ["the beginning of another batch"]
    wrong = build(Batch(after={17: b"\1\2\3\4"}))
    assert show_records(wrong, lambda number: number)[0]["crc"] == "wrong"


@pytest.mark.parametrize(
    ("expected", "found", "count"),
    [
        ([{"a": 1}], [{"a": 1}], 0),
        ([{"a": 1}], [{"a": 2}], 1),
        ([{"a": 1}], [{}], 1),
        ([{}], [{"a": 1}], 1),
        ([{"a": ANY}], [{"a": 9}], 0),
        ([{"a": [1, 2]}], [{"a": [1]}], 1),
        ([1, 2], [2, 1], 2),
        ([ANY], ["closed"], 0),
    ],
)
def test_every_difference_is_told(expected: Any, found: Any, count: int) -> None:
    assert len(differences(expected, found)) == count


def test_what_differs_between_two_recordings_is_left_open() -> None:
    one, other = [{"a": 1, "b": [1, 2]}, "closed"], [{"a": 2, "b": [1, 3], "c": 0}, "closed"]
    both = common(one, other)
    assert both == [{"a": ANY, "b": [1, ANY], "c": ANY}, "closed"]
    assert not differences(both, one)
    assert not differences(both, other)
