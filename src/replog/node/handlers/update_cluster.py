"""UpdateCluster, own API key 20001, version 0: the controller's image of the cluster, or what
changed in it.

Taken from brokers only. Refused with STALE_BROKER_EPOCH when it is meant for another registration,
with STALE_CONTROLLER_EPOCH when a newer controller is known, with INVALID_UPDATE_VERSION when it is
a delta to an image that is not ours: the controller then sends a full one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.inputs import Received
from replog.model.messages.update_cluster import UpdateClusterRequest, UpdateClusterResponse

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: UpdateClusterRequest
) -> UpdateClusterResponse | None:
    return node.membership.update_cluster(request, message)
