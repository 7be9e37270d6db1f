"""ListGroups, API key 16, versions 0-5: the groups that this broker coordinates.

Versions: 3 flexible, 4 states and a filter by them (KIP-518), 5 types and a filter by them
(KIP-848). Filters take any case. A tool asks every broker and puts the answers together.

While a partition of groups is being loaded the whole is refused: a list without its groups would
look as if they were gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from replog.node.node import Node

CLASSIC = "classic"  # the only type of group here
# What may stand around the name of a state, and not around that of a type.
BLANKS = "".join(map(chr, range(0x21)))


def handle(node: Node, request: Received, message: ListGroupsRequest) -> ListGroupsResponse:
    """All groups that pass both filters; an empty filter lets all pass."""
    states = {state.strip(BLANKS).lower() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    listed: list[ListedGroup] = []
    for home in node.groups.homes():
        if home.refusal is not ErrorCode.NONE:
            return ListGroupsResponse(error_code=home.refusal)
        if types and CLASSIC not in types:
            continue
        home.settle()
        listed += [
            ListedGroup(
                group_id=group_id,
                protocol_type=entry.group.protocol_type or "",
                group_state=entry.group.state.value,
                group_type=CLASSIC,
            )
            for group_id, entry in home.groups.items()
            if not states or entry.group.state.value.lower() in states
        ]
    return ListGroupsResponse(groups=listed)
