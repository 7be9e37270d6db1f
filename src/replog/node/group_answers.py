"""What groups answer, as protocol messages."""

from replog.core.group.facts import JoinAnswer, SyncAnswer
from replog.model.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from replog.model.messages.sync_group import SyncGroupResponse

# From here on a JoinGroup without a generation has a null protocol name, an empty one before.
JOIN_VERSION_WITH_NULL_PROTOCOL = 7


def join_response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    """JoinGroup's answer. The version decides only how an absent protocol is said."""
    protocol = answer.protocol_name
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
