"""ReportOfflineReplicas, own API key 20005, version 0: a broker can't use some of its logs.

Taken from brokers only. A replica that can't be read counts as one whose broker died: it leaves the
ISR, leads no more, and is not elected until its broker registers anew, or says that it could open
it after all, which counts as that. So does one that can only be read (its disk is full), except
that it leads on while nobody else can. One whose log is damaged says in which leader epoch, and
that it will begin the log anew once another broker leads in a later one: it leaves ISR and ELR for
that, and may come back in without a restart. Answered when it is durable; saying it again is free.
Replicas of topics that are gone are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller.state import Draft
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, TopicPartition
from replog.model.inputs import Received
from replog.model.messages.report_offline_replicas import (
    ReportOfflineReplicasRequest,
    ReportOfflineReplicasResponse,
)

if TYPE_CHECKING:
    from replog.node.node import Node


def handle(
    node: Node, request: Received, message: ReportOfflineReplicasRequest
) -> ReportOfflineReplicasResponse | None:
    if request.peer is None or request.peer.broker_id != message.broker_id:
        return ReportOfflineReplicasResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    execute(node, message, lambda response: node.reply(request, response))
    return None


def execute(
    node: Node,
    message: ReportOfflineReplicasRequest,
    respond: Callable[[ReportOfflineReplicasResponse], None],
) -> None:
    """Carry it out on the controller; `respond` runs exactly once."""

    def plan(draft: Draft) -> Callable[[], None]:
        broker = draft.brokers.get(message.broker_id)
        if broker is None or broker.broker_epoch != message.broker_epoch:
            return lambda: answer(ErrorCode.STALE_BROKER_EPOCH)
        for sent in message.topics:
            topic = draft.topic_by_id(sent.topic_id)
            if topic is None:
                continue
            for partition in sent.partitions:
                tp = TopicPartition(topic.name, partition.index)
                if partition.damaged_epoch != NO_EPOCH:
                    draft.replica_damaged(
                        tp,
                        message.broker_id,
                        leader_epoch=partition.damaged_epoch,
                        readable=partition.readable,
                    )
                elif partition.usable:
                    draft.replica_usable(tp, message.broker_id)
                else:
                    draft.replica_offline(tp, message.broker_id, readable=partition.readable)
        return lambda: answer(ErrorCode.NONE)

    def answer(error: ErrorCode) -> None:
        respond(ReportOfflineReplicasResponse(error_code=error))

    node.controlling.submit(plan, answer)
