"""Proposals to change an ISR, from the leaders on this broker to the controller (KIP-497).

A proposal whose outcome is not known (no answer, no controller) is sent again as it was: it names
the partition epoch that it builds on, so it is carried out at most once. Until the outcome is known
the state stays pending, and the high watermark waits for everyone who may be a member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.replica.isr import Pending, PendingExpand
from replog.model.errors import ErrorCode
from replog.model.outputs import Level
from replog.model.partition import PartitionRecord

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# Between two tries of one proposal whose outcome is not known.
RETRY_AFTER_MS = 50

# Refusals that say for certain that the proposal was not, and will not be, carried out.
# INVALID_UPDATE_VERSION is not one: an earlier try of the same proposal may have caused it.
DEFINITE = frozenset(
    {
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
# Refusals after which a newer record, or the end of this leadership, is on its way.
OVERTAKEN = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class IsrChanges:
    """Watches the followers of every partition that this broker leads."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def start(self) -> None:
        """Look for lagging followers from now on, twice per `replica.lag.time.max.ms`."""
        node = self._node
        interval = node.config.replica_lag_time_max_ms / 2
        node.timers.call_at(node.now_ms + interval, self._check)

    def _check(self) -> None:
        for partition in list(self._node.partitions.all()):
            if partition.leader is not None:
                proposal = partition.leader.propose_shrink(self._node.now_ms)
                if proposal is not None:
                    self._propose(partition, proposal)
                self._try_expand_all(partition)
        self.start()

    def _try_expand_all(self, partition: Partition) -> None:
        """Take in who was passed over because another change was in flight, or because its new
        registration was not known yet. A follower of an idle partition does not name it again in
        its fetches, so waiting for the next one could be for ever."""
        leader = partition.leader
        if leader is None:
            return
        now, lag_ms_max = self._node.now_ms, leader.settings.lag_ms_max
        for broker, progress in list(leader.progress.items()):
            if not progress.lags(leader_end=leader.log_end, now_ms=now, lag_ms_max=lag_ms_max):
                self.try_expand(partition, broker)

    def try_expand(self, partition: Partition, broker: int) -> None:
        """`broker` fetched: take it in if the rules of admission allow it now."""
        if partition.leader is not None:
            proposal = partition.leader.propose_expand(broker)
            if proposal is not None:
                self._propose(partition, proposal)

    def _propose(self, partition: Partition, proposal: Pending) -> None:
        node = self._node
        leader = partition.leader
        if leader is None:
            return
        epoch = leader.epoch

        def still_current() -> bool:
            now = partition.leader
            return now is not None and now.epoch == epoch and now.isr_state is proposal

        def answered(error: ErrorCode, record: PartitionRecord | None) -> None:
            if partition.leader is None or partition.leader.epoch != epoch:
                return
            if error is ErrorCode.NONE:
                self._committed(partition, record)
            elif error in DEFINITE:
                if partition.leader.on_proposal_refused(proposal, node.now_ms):
                    node.waits.committed(partition)
            elif error not in OVERTAKEN and still_current():
                node.timers.call_at(node.now_ms + RETRY_AFTER_MS, again)

        def again() -> None:
            if still_current():
                send()

        # As they are known now: a member may begin a new life, maybe with an empty disk, before the
        # proposal is sent again, and the controller must see that it is another (KIP-903).
        epochs = leader.broker_epochs(proposal.proposed, node.broker_epoch)
        named = list(zip(proposal.proposed, epochs, strict=True))

        def send() -> None:
            node.membership.alter_partition(
                partition.tp, named, epoch, proposal.partition_epoch, answered
            )

        self._report(partition, proposal)
        send()

    def _report(self, partition: Partition, proposal: Pending) -> None:
        verb = "adds" if isinstance(proposal, PendingExpand) else "removes"
        changed = proposal.added if isinstance(proposal, PendingExpand) else proposal.removed
        self._node.report(
            Level.INFO,
            f"{partition.tp}: ISR proposal {verb} {list(changed)}: "
            f"{list(proposal.isr)} -> {list(proposal.proposed)}",
        )

    def _committed(self, partition: Partition, record: PartitionRecord | None) -> None:
        leader = partition.leader
        if leader is None or record is None or record.leader_epoch != leader.epoch:
            return
        if leader.on_record(record, self._node.now_ms):
            self._node.waits.committed(partition)
        self._try_expand_all(partition)
