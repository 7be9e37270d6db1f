"""ControlledShutdown, own API key 20004, version 0: a broker wants to leave in good order.

Taken from brokers only. Leaderships move to other members of the ISR, and the broker leaves every
ISR that has another member. It is answered when the new leaders know, with the number of partitions
that the broker still leads although a live replica could take over once it has caught up. Asking
again is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.changes import partitions_held_back
from replog.core.controller.state import Draft
from replog.model.cluster import BrokerState
from replog.model.errors import ErrorCode
from replog.model.inputs import Received
from replog.model.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

if TYPE_CHECKING:
    from replog.node.node import Node

# New leaders are told before the old one goes, but not waited for any longer than this.
HAND_OVER_WAIT_MS = 500


def handle(
    node: Node, request: Received, message: ControlledShutdownRequest
) -> ControlledShutdownResponse | None:
    if request.peer is None or request.peer.broker_id != message.broker_id:
        return ControlledShutdownResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    execute(node, message, lambda response: node.reply(request, response))
    return None


def execute(
    node: Node,
    message: ControlledShutdownRequest,
    respond: Callable[[ControlledShutdownResponse], None],
) -> None:
    """Carry it out on the controller; `respond` runs exactly once."""
    leaving = message.broker_id

    def plan(draft: Draft) -> Callable[[], None]:
        broker = draft.brokers.get(leaving)
        if broker is None or broker.broker_epoch != message.broker_epoch:
            return lambda: failed(ErrorCode.STALE_BROKER_EPOCH)
        if broker.state is not BrokerState.CONTROLLED_SHUTDOWN:
            draft.set_broker_state(leaving, BrokerState.CONTROLLED_SHUTDOWN)
        else:
            draft.reconcile()  # somebody may have caught up since, and can take over now
        records = [record for _, record in draft.partitions()]
        remaining = partitions_held_back(records, leaving, draft.liveness.eligible)
        successors = {
            record.leader for record in draft.changed.values() if record.leader != leaving
        }

        def answer() -> None:
            response = ControlledShutdownResponse(partitions_remaining=remaining)
            node.controlling.when_known(
                successors, node.now_ms + HAND_OVER_WAIT_MS, lambda: respond(response)
            )

        return answer

    def failed(error: ErrorCode) -> None:
        respond(ControlledShutdownResponse(error_code=error))

    node.controlling.submit(plan, failed)
