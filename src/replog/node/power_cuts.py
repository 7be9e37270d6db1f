"""Partitions of which everybody who held all committed records was hit by a restart of the host.

Nobody knows whose tail is missing (mission rule 13), so the controller asks each of these replicas
how far its log goes, and lets the one with the greatest (last epoch, log end offset) lead. Who has
died again meanwhile is waited for a bounded time. There is no leader, so no log changes while they
are compared. What is lost is bounded by the tails that were not yet on stable storage, and is
reported and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replog.core.controller.eligible import best_of, only_suspects
from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import PeerFailed, PeerReplied
from replog.model.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    DescribeReplicasTopic,
)
from replog.node.handlers import describe_replicas

if TYPE_CHECKING:
    from replog.node.node import Node

# A broker that has just registered needs the image before it opens its replicas.
ASK_AGAIN_MS = 100
# How long replicas whose broker is away hold the others up.
PATIENCE_MS = 10_000

# (last epoch, log end offset), by broker
Ends = dict[int, tuple[int, int]]


@dataclass(slots=True)
class _Case:
    """One partition, from when only suspects are left until it has a leader."""

    until_ms: float
    ends: Ends = field(default_factory=dict)
    deciding: bool = False


class PowerCuts:
    """All such partitions, on the controller."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._cases: dict[TopicPartition, _Case] = {}
        self._asked: set[int] = set()
        self._timer_set = False

    def consider(self, partitions: Iterable[TopicPartition]) -> None:
        """The records of these partitions were committed."""
        image = self._node.controlling.image
        if image is None:
            return
        for tp in partitions:
            record = image.cluster.partition(tp)
            if record is None or not only_suspects(record):
                self._cases.pop(tp, None)
            elif tp not in self._cases:
                self._cases[tp] = _Case(self._node.now_ms + PATIENCE_MS)
        self._look_at(self._node.now_ms)

    def stop(self) -> None:
        """This broker is no controller any more."""
        self._cases.clear()
        self._asked.clear()

    def _look_at(self, deadline_ms: float) -> None:
        if self._cases and not self._timer_set:
            self._timer_set = True
            self._node.timers.call_at(deadline_ms, self._look)

    def _look(self) -> None:
        """Ask whoever was not asked, and decide what can be decided."""
        self._timer_set = False
        node = self._node
        image = node.controlling.image
        if image is None:
            self.stop()
            return
        wanted: dict[int, list[TopicPartition]] = {}
        for tp, case in list(self._cases.items()):
            record = image.cluster.partition(tp)
            if record is None or not only_suspects(record):
                del self._cases[tp]
                continue
            missing = [b for b in record.last_known_elr if b not in case.ends]
            if case.ends and (not missing or node.now_ms >= case.until_ms):
                self._decide(tp, case)
            for broker in missing:
                if broker in image.cluster.brokers:
                    wanted.setdefault(broker, []).append(tp)
        for broker, partitions in wanted.items():
            if broker not in self._asked:
                self._ask(broker, partitions)
        self._look_at(node.now_ms + ASK_AGAIN_MS)

    def _ask(self, broker: int, partitions: list[TopicPartition]) -> None:
        node = self._node
        topics: dict[str, DescribeReplicasTopic] = {}
        for tp in partitions:
            topic = topics.setdefault(tp.topic, DescribeReplicasTopic(name=tp.topic))
            topic.partitions.append(tp.partition)
        message = DescribeReplicasRequest(topics=list(topics.values()))
        if broker == node.broker_id:
            self._learn(broker, describe_replicas.describe(node, message))
            return
        self._asked.add(broker)

        def answered(answer: PeerReplied | PeerFailed) -> None:
            self._asked.discard(broker)
            if isinstance(answer, PeerReplied) and isinstance(
                answer.message, DescribeReplicasResponse
            ):
                self._learn(broker, answer.message)

        record = node.cluster.brokers.get(broker)
        if record is None:
            self._asked.discard(broker)
        else:
            # An image before it, on the same connection, may keep the broker busy: no haste. When
            # the broker is silent, the next image finds out (`pushes`).
            node.send(record, message, answered)

    def _learn(self, broker: int, answer: DescribeReplicasResponse) -> None:
        for topic in answer.topics:
            for replica in topic.partitions:
                case = self._cases.get(TopicPartition(topic.name, replica.index))
                if case is not None and replica.error_code == ErrorCode.NONE:
                    case.ends[broker] = (replica.latest_epoch, replica.log_end_offset)

    def _decide(self, tp: TopicPartition, case: _Case) -> None:
        if case.deciding:
            return
        case.deciding = True

        def plan(draft: Draft) -> Callable[[], None]:
            case.deciding = False
            record = draft.partition(tp)
            if record is not None:
                eligible = draft.liveness.eligible.difference(record.failed)
                ends = {b: end for b, end in case.ends.items() if b in eligible}
                if ends:
                    compared = ", ".join(
                        f"broker {b} (epoch {epoch}, LEO {leo})"
                        for b, (epoch, leo) in sorted(case.ends.items())
                    )
                    draft.lead_after_power_cut(tp, best_of(ends, record), compared)
            return _nothing

        def failed(error: ErrorCode) -> None:
            case.deciding = False

        self._node.controlling.submit(plan, failed)


def _nothing() -> None:
    """Nobody waits."""
