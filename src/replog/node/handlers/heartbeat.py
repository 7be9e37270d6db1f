"""Heartbeat, API key 12, versions 0-4: a member lives, and learns whether it has to join again.

Versions: 3 static members (KIP-345), 4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.facts import MemberCall
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(node: Node, _request: Received, message: HeartbeatRequest) -> HeartbeatResponse:
    """Answered at once."""
    return HeartbeatResponse(error_code=_beat(node, message))


def _beat(node: Node, message: HeartbeatRequest) -> ErrorCode:
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    home = node.groups.home_of(message.group_id)
    if isinstance(home, ErrorCode):
        return home
    entry = home.groups.get(message.group_id)
    if entry is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    call = MemberCall(message.member_id, message.group_instance_id, message.generation_id)
    return entry.group.heartbeat(call, home.instant())
