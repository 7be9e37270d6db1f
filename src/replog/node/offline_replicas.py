"""Telling the controller which replicas of this broker can't be used, until it knows.

What is still to be told is worked out from the image each time: a controller that has heard of a
replica shows it as failed, or has taken it out of the ISR. So nothing is lost with a controller or
a message, and a partition for which this broker is the only member of the ISR is told of again as
soon as another one has caught up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, TopicPartition
from replog.model.inputs import PeerFailed, PeerReplied
from replog.model.messages.report_offline_replicas import (
    OfflinePartition,
    OfflineTopic,
    ReportOfflineReplicasRequest,
    ReportOfflineReplicasResponse,
)
from replog.node.handlers import report_offline_replicas
from replog.node.log_folder import FolderState

if TYPE_CHECKING:
    from replog.node.node import Node

RETRY_MS = 200
TIMEOUT_MS = 5_000


class OfflineReplicas:
    """What this broker has to say about its disks."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._unopened: dict[TopicPartition, tuple[bytes, str]] = {}  # topic id, reason
        self._troubled = False  # whether there ever was anything to tell
        self._in_flight = False
        self._timer_set = False

    # ---- what there is to tell -----------------------------------------------------------------

    def unopened(self, tp: TopicPartition, topic_id: bytes, reason: str) -> None:
        """A replica that this broker should have, and can't open."""
        self._unopened[tp] = (topic_id, reason)
        self._troubled = True

    def gone(self, tp: TopicPartition) -> None:
        """This broker should not have it any more, or it could be opened after all."""
        self._unopened.pop(tp, None)

    def topic_gone(self, name: str, topic_id: bytes) -> None:
        """A topic is deleted."""
        for tp, (of_topic, _) in list(self._unopened.items()):
            if tp.topic == name and of_topic == topic_id:
                del self._unopened[tp]

    def reason(self, tp: TopicPartition) -> str | None:
        """Why a replica could not be opened; None for any other."""
        found = self._unopened.get(tp)
        return None if found is None else found[1]

    def trouble(self) -> None:
        """A partition went offline, or a folder did."""
        self._troubled = True
        self._tell_at(self._node.now_ms)

    def image_changed(self) -> None:
        """There may be something to tell again."""
        if self._troubled:
            self._tell_at(self._node.now_ms)

    def _untold(self) -> list[tuple[TopicPartition, bytes, bool]]:
        """(partition, topic id, whether it can be read) of what the controller does not know."""
        node = self._node
        me = node.broker_id
        found = []
        for partition in node.partitions.all():
            failed = partition.offline_reason is not None
            if not failed and partition.folder.state is not FolderState.FULL:
                continue
            record = node.cluster.partition(partition.tp)
            if record is None:
                continue
            # As long as nobody else can lead, who has no room for more leads on.
            alone = not failed and record.isr == (me,) and not record.elr
            if me in record.replicas and me not in record.failed and not alone:
                found.append((partition.tp, partition.topic_id, not failed))
        for tp, (topic_id, _) in self._unopened.items():
            record = node.cluster.partition(tp)
            if record is not None and me in record.replicas and me not in record.failed:
                found.append((tp, topic_id, False))
        return found

    # ---- telling ---------------------------------------------------------------------------------

    def _tell_at(self, deadline_ms: float) -> None:
        if not self._timer_set:
            self._timer_set = True
            self._node.timers.call_at(deadline_ms, self._tell)

    def _tell(self) -> None:
        self._timer_set = False
        node = self._node
        untold = self._untold()
        if self._in_flight or not untold:
            return
        controller = node.membership.controller()
        reachable = node.controlling.active or (
            controller is not None and controller.broker_id != node.broker_id
        )
        if not reachable or node.broker_epoch == NO_EPOCH:
            self._tell_at(node.now_ms + RETRY_MS)
            return
        topics: dict[bytes, OfflineTopic] = {}
        for tp, topic_id, readable in untold:
            topic = topics.setdefault(topic_id, OfflineTopic(topic_id=topic_id))
            topic.partitions.append(OfflinePartition(index=tp.partition, readable=readable))
        message = ReportOfflineReplicasRequest(
            broker_id=node.broker_id, broker_epoch=node.broker_epoch, topics=list(topics.values())
        )
        self._in_flight = True
        if node.controlling.active:
            report_offline_replicas.execute(node, message, self._answered)
        elif controller is not None:
            node.send(controller, message, self._replied, timeout_ms=TIMEOUT_MS)

    def _replied(self, answer: PeerReplied | PeerFailed) -> None:
        message = answer.message if isinstance(answer, PeerReplied) else None
        if not isinstance(message, ReportOfflineReplicasResponse):
            message = ReportOfflineReplicasResponse(error_code=ErrorCode.NETWORK_EXCEPTION)
        self._answered(message)

    def _answered(self, answer: ReportOfflineReplicasResponse) -> None:
        """The image that says so is on its way; if not, it is told again."""
        self._in_flight = False
        self._tell_at(self._node.now_ms + RETRY_MS)
