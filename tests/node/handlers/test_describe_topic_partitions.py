"""DescribeTopicPartitions: order, pages and what a page goes on with."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record

from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from replog.model.partition import PartitionRecord


def ask(
    broker: OneBroker,
    *names: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> DescribeTopicPartitionsResponse:
    begin = None
    if cursor is not None:
        begin = DescribeTopicPartitionsRequestCursor(
            topic_name=cursor[0], partition_index=cursor[1]
        )
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=begin,
    )
    return broker.ask(request, DescribeTopicPartitionsResponse)


def page(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]


def cursor_of(answer: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    after = answer.next_cursor
    return None if after is None else (after.topic_name, after.partition_index)


@pytest.fixture
def broker() -> OneBroker:
    one = OneBroker()
    one.topic("b", record(2, 1), record(1, 2))
    one.topic("a", record(1), record(1), record(1))
    return one


def test_topics_come_by_name_and_once(broker: OneBroker) -> None:
    assert page(ask(broker, "b", "a", "b")) == [("a", [0, 1, 2]), ("b", [0, 1])]
    assert page(ask(broker)) == [("a", [0, 1, 2]), ("b", [0, 1])]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 2000])
def test_pages_together_are_the_whole(broker: OneBroker, limit: int) -> None:
    found: list[tuple[str | None, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        answer = ask(broker, limit=limit, cursor=cursor)
        rows = [(name, index) for name, indexes in page(answer) for index in indexes]
        assert 0 < len(rows) <= limit
        found += rows
        cursor = cursor_of(answer)
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_has_one_partition_at_least(broker: OneBroker, limit: int) -> None:
    answer = ask(broker, limit=limit)
    assert (page(answer), cursor_of(answer)) == ([("a", [0])], ("a", 1))


def test_the_broker_bounds_a_page() -> None:
    one = OneBroker(max__request__partition__size__limit="2")
    one.topic("a", record(1), record(1), record(1))
    assert cursor_of(ask(one)) == ("a", 2)


def test_a_cursor_at_a_topic_that_is_gone_goes_on_with_the_next(broker: OneBroker) -> None:
    assert page(ask(broker, cursor=("aa", 7))) == [("b", [0, 1])]
    assert page(ask(broker, cursor=("c", 0))) == []


def test_a_cursor_behind_the_last_partition(broker: OneBroker) -> None:
    assert page(ask(broker, cursor=("a", 9))) == [("a", []), ("b", [0, 1])]


def test_a_cursor_that_is_none_is_refused(broker: OneBroker) -> None:
    answer = ask(broker, "a", cursor=("a", -1))
    assert [t.error_code for t in answer.topics] == [ErrorCode.INVALID_REQUEST]
    answer = ask(broker, "b", "a", "b", cursor=("c", 0))
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("b", ErrorCode.INVALID_REQUEST),
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
    assert ask(broker, cursor=("a", -1)).topics == []


def test_where_a_cursor_begins_counts_for_its_topic_alone(broker: OneBroker) -> None:
    assert page(ask(broker, "aa", "b", cursor=("aa", 7))) == [("aa", []), ("b", [0, 1])]


def test_topics_that_are_not_there(broker: OneBroker) -> None:
    answer = ask(broker, "nosuch", "b", "a/b")
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("b", 0),
        ("nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_who_may_lead_and_who_is_offline() -> None:
    one = OneBroker()
    one.broker(3, state=BrokerState.FENCED)
    one.topic(
        "t",
        PartitionRecord(
            replicas=(1, 2, 3),
            isr=(1,),
            leader=1,
            leader_epoch=4,
            partition_epoch=9,
            elr=(2,),
            last_known_elr=(3,),
            failed=(2,),
        ),
        PartitionRecord(replicas=(3,), isr=(3,), leader=-1, leader_epoch=1, partition_epoch=2),
    )
    first, second = ask(one, "t").topics[0].partitions
    assert (first.leader_id, first.leader_epoch, first.error_code) == (1, 4, 0)
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([2], [3])
    assert first.offline_replicas == [2, 3]
    assert (second.leader_id, second.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
