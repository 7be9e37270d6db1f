"""DescribeGroups, API key 15, versions 0-6: state and members of groups that are coordinated here.

Versions: 3 authorized operations (KIP-430), 4 static members (KIP-345), 5 flexible, 6 an unknown
group is GROUP_ID_NOT_FOUND (KIP-1043).

What a member offered and was assigned is told of a stable group alone: at other times it is about
to change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.members import Member
from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from replog.node.cluster_view import GROUP_OPERATIONS
from replog.node.group_partition import GroupEntry

if TYPE_CHECKING:
    from replog.node.node import Node

FIRST_VERSION_WITH_NOT_FOUND = 6


def handle(node: Node, request: Received, message: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """One description for each group asked for, in order."""
    described = []
    for group_id in message.groups:
        group = _describe(node, group_id, request.version)
        if message.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        described.append(group)
    return DescribeGroupsResponse(groups=described)


def _describe(node: Node, group_id: str, version: int) -> DescribedGroup:
    home = node.groups.home_of(group_id)
    if isinstance(home, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=home)
    home.settle()
    entry = home.groups.get(group_id)
    if entry is not None:
        return _described(entry)
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= FIRST_VERSION_WITH_NOT_FOUND:
        dead.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        dead.error_message = f"There is no group {group_id}."
    return dead


def _described(entry: GroupEntry) -> DescribedGroup:
    group = entry.group
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_member(member, protocol) for member in group.members],
    )


def _member(member: Member, protocol: str | None) -> DescribedGroupMember:
    described = DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_assignment=member.assignment,  # the last one, until there is another
    )
    if protocol is not None:
        described.member_metadata = member.metadata(protocol)
    return described
