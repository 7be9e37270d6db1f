"""DeleteGroups, API key 42, versions 0-3: groups without members go, with all their positions.

Versions: 2 flexible, 3 error texts (KIP-1043). Answered when the end of every group asked for is
committed, so that a later coordinator does not find it either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.group.state import GroupState
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from replog.node.group_partition import GroupEntry, GroupPartition
from replog.node.led_log import seen_by_clients

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: DeleteGroupsRequest
) -> DeleteGroupsResponse | None:
    """One result for each group; one that is named twice is deleted once."""
    response = DeleteGroupsResponse()
    wanted: list[tuple[DeletableGroupResult, GroupPartition, GroupEntry]] = []
    for group_id in dict.fromkeys(message.groups_names):
        result = DeletableGroupResult(group_id=group_id)
        response.results.append(result)
        found = _find(node, group_id)
        if isinstance(found, ErrorCode):
            _refuse(result, found)
        else:
            wanted.append((result, *found))
    left = len(wanted)

    def done(result: DeletableGroupResult, error: ErrorCode) -> None:
        nonlocal left
        if error is not ErrorCode.NONE:
            _refuse(result, seen_by_clients(error))
        left -= 1
        if not left:
            node.reply(request, response)

    for result, home, entry in wanted:
        _delete(home, entry, result, done)
    return None if wanted else response


def _delete(
    home: GroupPartition,
    entry: GroupEntry,
    result: DeletableGroupResult,
    on_done: Callable[[DeletableGroupResult, ErrorCode], None],
) -> None:
    def done(error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            entry.group.forget_pending()
        home.dispose(entry)
        on_done(result, error)

    home.forget(entry, done)


def _find(node: Node, group_id: str) -> tuple[GroupPartition, GroupEntry] | ErrorCode:
    home = node.groups.home_of(group_id)
    if isinstance(home, ErrorCode):
        return home
    home.settle()
    entry = home.groups.get(group_id)
    if entry is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if entry.group.state is not GroupState.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    return home, entry


def _refuse(result: DeletableGroupResult, error: ErrorCode) -> None:
    result.error_code = error
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        result.error_message = f"There is no group {result.group_id}."
    elif error is ErrorCode.NON_EMPTY_GROUP:
        result.error_message = f"Group {result.group_id} still has members."
