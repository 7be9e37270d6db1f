"""Forward, own API key 20003, version 0: a client's admin request, passed on by the broker that it
reached.

Taken from brokers only. The body is the request in the client's version; so is the answer's.
NOT_CONTROLLER tells the sender to look for the controller again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.inputs import Received
from replog.model.messages.forward import ForwardRequest, ForwardResponse

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(node: Node, request: Received, message: ForwardRequest) -> ForwardResponse | None:
    return node.forwarding.receive(request, message)
