"""LeaveGroup, API key 13, versions 0-5: members go, or an administrator removes static ones.

Versions: 3 several members at once, by id or by instance (KIP-345), 4 flexible, 5 a reason
(KIP-800).

From 3 on each member has its error, and the whole one only when the group can't be asked at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.facts import LeaveCall
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_MEMBERS = 3


def handle(node: Node, request: Received, message: LeaveGroupRequest) -> LeaveGroupResponse:
    """Answered at once; whoever is left joins again."""
    if not message.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    several = request.version >= FIRST_VERSION_WITH_MEMBERS
    if several:
        calls = [LeaveCall(m.member_id, m.group_instance_id, m.reason) for m in message.members]
    else:
        calls = [LeaveCall(message.member_id, None)]
    home = node.groups.home_of(message.group_id)
    if isinstance(home, ErrorCode):
        return LeaveGroupResponse(error_code=home)
    entry = home.groups.get(message.group_id)
    if entry is None:
        errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(calls)
    else:
        errors, outcome = entry.group.leave(calls, home.instant())
        node.groups.carry_out(home, entry, outcome)
    if not several:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=call.member_id, group_instance_id=call.instance_id, error_code=error
            )
            for call, error in zip(calls, errors, strict=True)
        ]
    )
