"""Questions about the cluster that come before this broker was told of it.

Until the first image comes from the controller, a broker that has just started knows no broker and
no topic. Clients would act on an answer that says so: librdkafka lets go of every broker that is
not named, and has none left to ask when all have started at once; a consumer of a pattern takes its
topics for deleted. So these requests wait, as in Kafka all do until a broker has caught up. When
nothing comes the connection is closed: the client turns to another broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from replog.model.inputs import Received
from replog.model.messages import Message
from replog.model.messages.describe_cluster import DescribeClusterRequest
from replog.model.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from replog.model.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.timers import Timer

# As long as a client waits for a connection, about; an image takes a fraction of a second.
WAIT_MS: Final = 5_000
QUESTIONS: Final[frozenset[type[Message]]] = frozenset(
    {MetadataRequest, DescribeClusterRequest, DescribeTopicPartitionsRequest}
)


class EarlyRequests:
    """Those that wait. There are no more than connections: each has one request under way."""

    def __init__(self, node: Node, route: Callable[[Node, Received], None]) -> None:
        """`route` is run with each request that waited, once there is something to say."""
        self._node = node
        self._route = route
        self._waiting: dict[tuple[int, int], tuple[Received, Timer]] = {}

    def holds(self, request: Received) -> bool:
        """Let `request` wait if it has to; False when it can be answered."""
        node = self._node
        if node.cluster.brokers or type(request.message) not in QUESTIONS:
            return False
        key = (request.connection, request.token)

        def given_up() -> None:
            del self._waiting[key]
            node.close(request, "this broker was told of no cluster yet")

        self._waiting[key] = request, node.timers.call_at(node.now_ms + WAIT_MS, given_up)
        return True

    def told(self) -> None:
        """An image came."""
        waiting, self._waiting = self._waiting, {}
        for request, timer in waiting.values():
            timer.cancel()
            self._route(self._node, request)
