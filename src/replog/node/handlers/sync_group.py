"""SyncGroup, API key 14, versions 0-5: members fetch the assignment that their leader hands in.

Versions: 3 static members (KIP-345), 4 flexible, 5 the protocol has to be named (KIP-559).

The leader's request stores the group first: nobody gets an assignment that a failover could lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.facts import SyncCall
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(node: Node, request: Received, message: SyncGroupRequest) -> SyncGroupResponse | None:
    """Hand the request to the group."""
    named = message.protocol_type is not None and message.protocol_name is not None
    if request.version >= FIRST_VERSION_WITH_PROTOCOL and not named:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not message.group_id:
        return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    home = node.groups.home_of(message.group_id)
    if isinstance(home, ErrorCode):
        return SyncGroupResponse(error_code=home)
    entry = home.groups.get(message.group_id)
    if entry is None:
        return SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    call = SyncCall(
        ticket=node.groups.park(request),
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments={a.member_id: a.assignment for a in message.assignments},
    )
    node.groups.carry_out(home, entry, entry.group.sync(call, home.instant()))
    return None
