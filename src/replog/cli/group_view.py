"""Consumer groups as their coordinators tell of them, gathered into plain values."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from replog.cli.cluster_view import explain, metadata
from replog.cli.errors import Failure
from replog.cli.partition_names import by_topic
from replog.cli.target import CALL_TIMEOUT_S
from replog.codec import MalformedMessage, decode_value
from replog.model.errors import ErrorCode
from replog.model.ids import NO_OFFSET, TopicPartition
from replog.model.messages.consumer_protocol import ConsumerProtocolAssignment
from replog.model.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from replog.model.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from replog.model.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from replog.runtime.client import Address, AdminClient

EARLIEST, LATEST = -2, -1  # timestamps that ListOffsets takes for the two ends
# By names: with later versions a position has a topic id and no name.
OFFSET_VERSION = 9
RETRY_S = 0.2
_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
T = TypeVar("T")


@dataclass(slots=True)
class GroupLine:
    """One group in a list."""

    group: str
    state: str
    kind: str
    protocol_type: str
    coordinator: int


@dataclass(slots=True)
class Member:
    """One member, with what it was assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition] = field(default_factory=list)


@dataclass(slots=True)
class Position:
    """Where a group stands in one partition. None: not known, or never committed."""

    tp: TopicPartition
    committed: int | None = None
    end: int | None = None
    metadata: str = ""
    member: Member | None = None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(slots=True)
class GroupView:
    """One group with its members and positions."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: list[Member]
    positions: list[Position]


def patiently(attempt: Callable[[], T | ErrorCode], what: str) -> T:
    """What `attempt` finds, tried again while a coordinator loads or moves. Raises Failure."""
    limit = time.monotonic() + CALL_TIMEOUT_S
    while True:
        found = attempt()
        if not isinstance(found, ErrorCode):
            return found
        if found not in _LATER or time.monotonic() > limit:
            raise Failure(f"{what}: {explain(found)}")
        time.sleep(RETRY_S)


def coordinator(client: AdminClient, group: str) -> tuple[int, Address]:
    """The broker that coordinates `group`, and where it is. Raises Failure."""

    def find() -> tuple[int, Address] | ErrorCode:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        answer = client.call(request, 4)
        if not isinstance(answer, FindCoordinatorResponse) or not answer.coordinators:
            raise Failure(f"the broker answered {type(answer).__name__}")
        (found,) = answer.coordinators
        if found.error_code:
            return ErrorCode(found.error_code)
        return found.node_id, (found.host, found.port)

    return patiently(find, f"group {group!r} has no coordinator")


def list_groups(client: AdminClient, states: Sequence[str]) -> list[GroupLine]:
    """The groups of all brokers, by name. Raises Failure when one of them can't say."""
    found = []
    for broker in sorted(client.brokers()):

        def ask(broker: int = broker) -> ListGroupsResponse | ErrorCode:
            answer = client.call(ListGroupsRequest(states_filter=list(states)), broker=broker)
            if not isinstance(answer, ListGroupsResponse):
                raise Failure(f"broker {broker} answered {type(answer).__name__}")
            return ErrorCode(answer.error_code) if answer.error_code else answer

        answer = patiently(ask, f"broker {broker} does not tell its groups")
        found += [
            GroupLine(g.group_id, g.group_state, g.group_type, g.protocol_type, broker)
            for g in answer.groups
        ]
    return sorted(found, key=lambda line: line.group)


def describe(client: AdminClient, group: str) -> GroupView:
    """The group with positions and ends of partitions. Raises Failure when there is none."""
    broker, address = coordinator(client, group)

    def ask() -> DescribedGroup | ErrorCode:
        answer = client.call_at(address, DescribeGroupsRequest(groups=[group]))
        if not isinstance(answer, DescribeGroupsResponse):
            raise Failure(f"broker {broker} answered {type(answer).__name__}")
        (described,) = answer.groups
        if described.error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND):  # then its state is Dead
            return described
        return ErrorCode(described.error_code)

    described = patiently(ask, f"group {group!r} can't be described")
    committed = committed_offsets(client, group)
    if described.group_state == "Dead" and not committed:
        raise Failure(
            f"there is no group {group!r}: 'replog group list' shows those that there are"
        )
    members = [
        Member(
            member_id=m.member_id,
            instance_id=m.group_instance_id,
            client_id=m.client_id,
            host=m.client_host.removeprefix("/"),
            partitions=_assigned(m.member_assignment),
        )
        for m in described.members
    ]
    view = GroupView(
        group,
        described.group_state,
        described.protocol_type,
        described.protocol_data,
        broker,
        members,
        [],
    )
    view.positions = _positions(client, members, committed)
    return view


def _assigned(assignment: bytes) -> list[TopicPartition]:
    """Of consumers; what other members are given is theirs to understand."""
    try:
        told = decode_value(ConsumerProtocolAssignment, assignment, newer=True)
    except MalformedMessage:
        return []
    return [
        TopicPartition(topic.topic, index)
        for topic in told.assigned_partitions
        for index in topic.partitions
    ]


def _positions(
    client: AdminClient, members: Sequence[Member], committed: Mapping[TopicPartition, Position]
) -> list[Position]:
    positions = dict(committed)
    for member in members:
        for tp in member.partitions:
            positions.setdefault(tp, Position(tp)).member = member
    ends = offsets_at(client, positions, LATEST)
    for tp, position in positions.items():
        position.end = ends.get(tp)
    return [positions[tp] for tp in sorted(positions)]


def committed_offsets(client: AdminClient, group: str) -> dict[TopicPartition, Position]:
    """All positions of a group. Raises Failure."""
    _, address = coordinator(client, group)

    def ask() -> OffsetFetchResponse | ErrorCode:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        answer = client.call_at(address, request, OFFSET_VERSION)
        if not isinstance(answer, OffsetFetchResponse):
            raise Failure(f"the coordinator answered {type(answer).__name__}")
        error = answer.groups[0].error_code
        return ErrorCode(error) if error else answer

    answer = patiently(ask, f"the positions of group {group!r} can't be read")
    return {
        (tp := TopicPartition(topic.name, p.partition_index)): Position(
            tp, committed=p.committed_offset, metadata=p.metadata or ""
        )
        for topic in answer.groups[0].topics
        for p in topic.partitions
        if p.committed_offset != NO_OFFSET
    }


def offsets_at(
    client: AdminClient, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """The first offset at or after `timestamp` (ms, or one of the two ends) of each partition; one
    that has none, or no leader, is not in the answer."""
    wanted = sorted(partitions)
    if not wanted:
        return {}
    leaders: dict[int, list[TopicPartition]] = {}
    where = {
        TopicPartition(topic.name or "", p.partition_index): p.leader_id
        for topic in metadata(client, sorted({tp.topic for tp in wanted})).topics
        for p in topic.partitions
    }
    for tp in wanted:
        if where.get(tp, -1) >= 0:
            leaders.setdefault(where[tp], []).append(tp)
    found = {}
    for leader, theirs in leaders.items():
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(theirs).items()
            ],
        )
        answer = client.call(request, broker=leader)
        if isinstance(answer, ListOffsetsResponse):
            found.update(
                {
                    TopicPartition(topic.name, p.partition_index): p.offset
                    for topic in answer.topics
                    for p in topic.partitions
                    if not p.error_code and p.offset != NO_OFFSET
                }
            )
    return found
