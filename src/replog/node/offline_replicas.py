"""Telling the controller which replicas of this broker can't be used, until it knows.

What is still to be told is worked out from the image each time: a controller that has heard of a
replica shows it as failed, or has taken it out of the ISR. So nothing is lost with a controller or
a message, and a partition for which this broker is the only member of the ISR is told of again as
soon as another one has caught up. A damaged log is told of until this broker may begin it anew
(`damaged_logs`).
"""

from __future__ import annotations

from collections.abc import Iterator
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
    from replog.model.partition import PartitionRecord
    from replog.node.node import Node
    from replog.node.partition import Partition
    from replog.node.replica_logs import Unopened

RETRY_MS = 200
TIMEOUT_MS = 5_000


class OfflineReplicas:
    """What this broker has to say about its disks."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._unopened: dict[TopicPartition, tuple[bytes, Unopened]] = {}  # topic id
        self._troubled = False  # whether there ever was anything to tell
        self._in_flight = False
        self._timer_set = False

    # ---- what there is to tell -----------------------------------------------------------------

    def unopened(self, tp: TopicPartition, topic_id: bytes, why: Unopened) -> None:
        """A replica that this broker should have, and can't open."""
        self._unopened[tp] = (topic_id, why)
        self._troubled = True

    def gone(self, tp: TopicPartition) -> None:
        """This broker should not have it any more, or it could be opened after all."""
        if self._unopened.pop(tp, None) is not None:
            self._tell_at(self._node.now_ms)

    def topic_gone(self, name: str, topic_id: bytes) -> None:
        """A topic is deleted."""
        for tp, (of_topic, _) in list(self._unopened.items()):
            if tp.topic == name and of_topic == topic_id:
                del self._unopened[tp]

    def reason(self, tp: TopicPartition) -> str | None:
        """Why a replica could not be opened; None for any other."""
        found = self._unopened.get(tp)
        return None if found is None else found[1].reason

    def of_themselves(self) -> Iterator[tuple[TopicPartition, str]]:
        """Replicas that could not be opened though their folder is in order, and why."""
        for tp, (_, why) in self._unopened.items():
            if not why.folder_failed:
                yield tp, why.reason

    def trouble(self) -> None:
        """A partition went offline, or a folder did."""
        self._troubled = True
        self._tell_at(self._node.now_ms)

    def image_changed(self) -> None:
        """There may be something to tell again."""
        if self._troubled:
            self._tell_at(self._node.now_ms)

    def _untold(self) -> list[tuple[bytes, OfflinePartition]]:
        """What the controller does not know, each with its topic id."""
        node = self._node
        found = []
        for partition in node.partitions.all():
            record = node.cluster.partition(partition.tp)
            if record is not None and node.broker_id in record.replicas:
                told = self._about(partition, record)
                if told is not None:
                    found.append((partition.topic_id, told))
        for tp, (topic_id, why) in self._unopened.items():
            record = node.cluster.partition(tp)
            if record is None or node.broker_id not in record.replicas:
                continue
            told = self._about_unread(tp, record, NO_EPOCH if why.damaged else None)
            if told is not None:
                found.append((topic_id, told))
        return found

    def _about(self, partition: Partition, record: PartitionRecord) -> OfflinePartition | None:
        """What there is to tell of a replica while the controller has `record`."""
        node, damage = self._node, partition.damage
        index = partition.tp.partition
        if partition.offline_reason is not None:
            epoch = damage.epoch if damage is not None and partition.folder.online else None
            return self._about_unread(partition.tp, record, epoch)
        # As long as nobody else can lead, who has no room for more, or a damaged log, leads on.
        alone = node.partitions.damaged.is_alone(record)
        if partition.folder.state is FolderState.FULL:
            known = node.broker_id in record.failed
            return None if known or alone else OfflinePartition(index=index, readable=True)
        if damage is None:  # opened after all: else it would not be trusted until a restart
            back = node.broker_id in record.failed
            return OfflinePartition(index=index, usable=True) if back else None
        if alone or node.partitions.damaged.may_begin_anew(record, damage.epoch):
            return None
        return OfflinePartition(index=index, readable=True, damaged_epoch=record.leader_epoch)

    def _about_unread(
        self, tp: TopicPartition, record: PartitionRecord, damaged_epoch: int | None
    ) -> OfflinePartition | None:
        """The same of one that can't be read; `damaged_epoch` is None when its log, if there is
        one, can't be begun anew either."""
        node = self._node
        known = node.broker_id in record.failed
        if damaged_epoch is None:
            return None if known else OfflinePartition(index=tp.partition)
        damaged = node.partitions.damaged
        if (known and damaged.is_alone(record)) or damaged.may_begin_anew(record, damaged_epoch):
            return None
        return OfflinePartition(index=tp.partition, damaged_epoch=record.leader_epoch)

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
        for topic_id, told in untold:
            topic = topics.setdefault(topic_id, OfflineTopic(topic_id=topic_id))
            topic.partitions.append(told)
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
