"""What groups answer, as protocol messages."""

from collections.abc import Hashable, Iterable
from typing import Any, Protocol, TypeVar

from replog.core.group.facts import JoinAnswer, SyncAnswer
from replog.model.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from replog.model.messages.sync_group import SyncGroupResponse

# From here on a JoinGroup without a generation has a null protocol name, an empty one before.
JOIN_VERSION_WITH_NULL_PROTOCOL = 7


class AnsweredTopic(Protocol):
    """The part about one topic of an answer about positions."""

    @property
    def partitions(self) -> list[Any]: ...


T = TypeVar("T", bound=AnsweredTopic)


def named_once(topics: Iterable[tuple[Hashable, T]]) -> list[T]:
    """Each of `topics`, which come with their names, with all its partitions in one place.

    Who names a topic twice is answered so, unless something in the request does not exist: what
    the broker refuses is put together with what the coordinator says, as by Kafka.
    """
    known: dict[Hashable, T] = {}
    for name, topic in topics:
        first = known.setdefault(name, topic)
        if first is not topic:
            first.partitions.extend(topic.partitions)
    return list(known.values())


def join_response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    """JoinGroup's answer. The version decides only how an absent protocol is said.

    One without a name is said in the same way.
    """
    protocol = answer.protocol_name or None
    if protocol is None and version < JOIN_VERSION_WITH_NULL_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )


def sync_response(answer: SyncAnswer) -> SyncGroupResponse:
    """SyncGroup's answer."""
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
