"""Twice as many things in a request are twice as much work: nobody else is served meanwhile."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.node.town import Town

from replog.model.messages import Message, Request
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.model.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from replog.model.messages.create_topics import CreatableTopic, CreateTopicsRequest
from replog.model.messages.delete_groups import DeleteGroupsRequest
from replog.model.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from replog.model.messages.describe_groups import DescribeGroupsRequest
from replog.model.messages.elect_leaders import ElectLeadersRequest
from replog.model.messages.elect_leaders import TopicPartitions as Elected
from replog.model.messages.find_coordinator import FindCoordinatorRequest
from replog.model.messages.metadata import MetadataRequest, MetadataRequestTopic

FEW, MANY = 300, 600


def lines_run(action: Callable[[], object]) -> int:
    """How many lines of Python that takes: it is the same each time, as time is not."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def names(count: int) -> list[str]:
    return [f"name.{n}" for n in range(count)]


REQUESTS: dict[str, Callable[[int], Request]] = {
    "CreateTopics": lambda n: CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names(n)
        ],
        timeout_ms=5_000,
        validate_only=True,
    ),
    "DeleteTopics": lambda n: DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names(n)], timeout_ms=5_000
    ),
    "CreatePartitions": lambda n: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=5) for name in names(n)], timeout_ms=5_000
    ),
    "ElectLeaders": lambda n: ElectLeadersRequest(
        topic_partitions=[Elected(topic="t", partitions=list(range(n)))], timeout_ms=5_000
    ),
    "AlterPartitionReassignments": lambda n: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name="t",
                partitions=[
                    ReassignablePartition(partition_index=i, replicas=[0, 1]) for i in range(n)
                ],
            )
        ],
        timeout_ms=5_000,
    ),
    "Metadata": lambda n: MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names(n)],
        allow_auto_topic_creation=False,
    ),
    "FindCoordinator": lambda n: FindCoordinatorRequest(key_type=0, coordinator_keys=names(n)),
    "DescribeGroups": lambda n: DescribeGroupsRequest(groups=names(n)),
    "DeleteGroups": lambda n: DeleteGroupsRequest(groups_names=names(n)),
}


@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_work_grows_with_what_is_asked_for(request_of: Callable[[int], Request]) -> None:
    town = Town()
    town.start()
    town.create("t", [1, 0, 2])

    def work(count: int) -> int:
        return lines_run(lambda: town.ask(2, request_of(count), Message))

    work(1)
    few = work(FEW)
    assert work(MANY) < 2.5 * few
