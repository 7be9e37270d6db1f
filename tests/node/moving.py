"""What tests of elections and moves do to a town: produce, read, look at coordinator and folders.

ISR, ELR and reassignments are judged by the nodes of the coordinator and the bytes in the folders
of the followers, never by what a controller remembers.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.node.town import Town

from replog.core.controller import stored
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from replog.model.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch

T0 = TopicPartition("t", 0)


def create(town: Town, name: str, *assignment: list[int], **configs: str) -> None:
    """A topic with this assignment; settings with `__` for each dot."""
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(assignment)
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("__", "."), value=value)
            for key, value in configs.items()
        ],
    )
    message = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    result = town.ask(town.controller, message, CreateTopicsResponse).topics[0]
    assert result.error_code == ErrorCode.NONE, result.error_message


def begin_produce(
    town: Town, value: bytes, tp: TopicPartition = T0, *, acks: int = -1, at: int | None = None
) -> int:
    """Send one record to the leader that the coordinator names, or to `at`; returns the
    connection."""
    batch = build_batch([Record(0, town.wall_ms, None, value, ())], base_offset=0)
    data = PartitionProduceData(index=tp.partition, records=memoryview(bytearray(batch)))
    message = ProduceRequest(
        acks=acks,
        timeout_ms=3_000,
        topic_data=[TopicProduceData(name=tp.topic, partition_data=[data])],
    )
    leader = state(town, tp)["leader"] if at is None else at
    return town.ask_later(leader, message, version=9)


def produced(town: Town, connection: int) -> ErrorCode | None:
    """What became of it; None while it is not answered."""
    if not town.answered(connection):
        return None
    answer = town.answer(connection, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def produce(town: Town, value: bytes, tp: TopicPartition = T0, *, acks: int = -1) -> ErrorCode:
    connection = begin_produce(town, value, tp, acks=acks)
    town.run_until(lambda: town.answered(connection))
    error = produced(town, connection)
    assert error is not None
    return error


def state(town: Town, tp: TopicPartition = T0) -> dict[str, Any]:
    """The partition's node in the coordinator."""
    found: dict[str, Any] = json.loads(town.tree.nodes[stored.partition_path(tp)].data)
    return found


def members(town: Town, tp: TopicPartition = T0) -> tuple[int, list[int], list[int]]:
    """Leader, ISR and ELR as the coordinator has them."""
    found = state(town, tp)
    return found["leader"], found["isr"], found["elr"]


def assigned(town: Town, tp: TopicPartition = T0) -> tuple[list[int], list[int], list[int]]:
    """Replicas, adding and removing, as the coordinator has them."""
    topic = json.loads(town.tree.nodes[stored.topic_path(tp.topic)].data)
    index = str(tp.partition)
    return (
        topic["partitions"][index],
        topic["adding_replicas"].get(index, []),
        topic["removing_replicas"].get(index, []),
    )


def held(town: Town, broker_id: int, tp: TopicPartition = T0) -> bytes | None:
    """The bytes of the replica in the folder of a broker; None when it has no such folder."""
    disk = town.disks[broker_id]
    if not disk.exists(str(tp)):
        return None
    names = sorted(name for name in disk.list(str(tp)) if name.endswith(".log"))
    return b"".join(disk.read_file(f"{tp}/{name}") or b"" for name in names)


def elect(
    town: Town, *partitions: int, kind: int = 0, at: int | None = None, topic: str = "t"
) -> list[ErrorCode]:
    """ElectLeaders; the errors in order."""
    message = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=topic, partitions=list(partitions))],
        timeout_ms=5_000,
    )
    asked = town.controller if at is None else at
    answer = town.ask(asked, message, ElectLeadersResponse)
    assert answer.error_code == ErrorCode.NONE
    return [
        ErrorCode(partition.error_code)
        for result in answer.replica_election_results
        for partition in result.partition_result
    ]


def begin_move(
    town: Town,
    replicas: Sequence[int] | None,
    tp: TopicPartition = T0,
    *,
    at: int | None = None,
    may_change_factor: bool = True,
) -> int:
    message = AlterPartitionReassignmentsRequest(
        timeout_ms=5_000,
        allow_replication_factor_change=may_change_factor,
        topics=[
            ReassignableTopic(
                name=tp.topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=tp.partition,
                        replicas=None if replicas is None else list(replicas),
                    )
                ],
            )
        ],
    )
    return town.ask_later(town.controller if at is None else at, message)


def move(
    town: Town,
    replicas: Sequence[int] | None,
    tp: TopicPartition = T0,
    *,
    at: int | None = None,
    may_change_factor: bool = True,
) -> ErrorCode:
    """AlterPartitionReassignments of one partition; None cancels."""
    connection = begin_move(town, replicas, tp, at=at, may_change_factor=may_change_factor)
    town.run_until(lambda: town.answered(connection))
    answer = town.answer(connection, AlterPartitionReassignmentsResponse)
    assert answer.error_code == ErrorCode.NONE
    return ErrorCode(answer.responses[0].partitions[0].error_code)


def moves(town: Town, at: int | None = None) -> dict[TopicPartition, tuple[list[int], ...]]:
    """ListPartitionReassignments of everything: replicas, adding, removing."""
    asked = town.controller if at is None else at
    answer = town.ask(
        asked, ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse
    )
    assert answer.error_code == ErrorCode.NONE
    return {
        TopicPartition(topic.name, p.partition_index): (
            p.replicas,
            p.adding_replicas,
            p.removing_replicas,
        )
        for topic in answer.topics
        for p in topic.partitions
    }
