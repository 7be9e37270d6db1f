"""Logs in which something is not as it was written: found, told to the controller, copied anew.

A recovery cuts off what is torn and was never flushed. Below that a batch that has rotted may be
committed, so nothing is cut, and its other copies are what can mend it:

    found -> out of ISR and ELR, in a new leader epoch -> begun anew -> copied -> in sync again

Found by whoever reads: a follower refuses a batch by its CRC and says so in its next fetch, upon
which the leader looks at its own bytes; so it does when a consumer asks within a fetch session for
what it was just sent. Walks that can't go on, lookups by time, compaction and the replay of
internal topics tell of what they meet in any role.

A leader goes on, as all else that it has is sound, until somebody in sync takes over; for good when
there is nobody. The damaged log is not thrown away before every record of it was copied, and its
CRC checked, from the next leader: until this replica is in sync again, the folder waits beside it.

A follower says nothing more of a damaged log in the leader epoch in which it was found, and the
next log speaks in a later one only: no leader takes what the first one had for what the second has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.ids import NO_EPOCH, TopicPartition
from replog.model.outputs import Level
from replog.model.partition import PartitionRecord
from replog.node.partition import Damage, Partition

if TYPE_CHECKING:
    from replog.node.node import Node


class DamagedLogs:
    """What this broker knows of damaged logs of its own."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def found(self, partition: Partition, reason: str) -> None:
        """The log of `partition` is damaged. Free to be said again."""
        if partition.damage is not None:
            return
        node = self._node
        partition.damage = Damage(reason, partition.leader_epoch)
        if self.is_alone(partition.record):
            node.report(
                Level.ERROR,
                f"{partition.tp}: the log is damaged: {reason}; no other replica is in sync, so it "
                "is kept in use. Let another one catch up, and this one is copied from there; if "
                "none can, delete the records up to the damaged ones (DeleteRecords)",
            )
        else:
            node.report(
                Level.ERROR,
                f"{partition.tp}: the log is damaged: {reason}; it is going to be copied anew from "
                "a replica in sync",
            )
        if not partition.is_leader:
            node.fetchers.remove(partition.tp)
        node.partitions.offline.trouble()

    def is_alone(self, record: PartitionRecord) -> bool:
        """Whether this broker is all that may lead: nobody else has what its log has."""
        return record.isr == (self._node.broker_id,) and not record.elr

    def look(self, partition: Partition, offset: int) -> None:
        """Somebody could not use what it was sent from `offset` on. Raises DiskError."""
        if partition.damage is None:
            fault = partition.log.fault_at(offset)
            if fault is not None:
                self.found(partition, fault)

    def may_begin_anew(self, record: PartitionRecord, damaged_epoch: int) -> bool:
        """Whether nobody relies on this broker's log any more, and somebody else leads who may be
        copied from."""
        me = self._node.broker_id
        return (
            record.leader_epoch > damaged_epoch
            and record.online
            and record.leader != me
            and me not in (*record.isr, *record.elr, *record.failed)
        )

    def leave(self, partition: Partition, record: PartitionRecord) -> str | None:
        """The name under which a damaged log now waits; None when it is still in use."""
        damage, folder = partition.damage, partition.folder
        if damage is None or not folder.online or not self.may_begin_anew(record, damage.epoch):
            return None
        partition.log.abandon()
        folder.count -= 1
        return self._leave_aside(folder_of=partition.tp)

    def leave_unopened(self, tp: TopicPartition, record: PartitionRecord) -> str | None:
        """The same for a log that could not be opened: nothing was acknowledged of it since this
        process began."""
        if not self.may_begin_anew(record, NO_EPOCH):
            return None
        return self._leave_aside(folder_of=tp)

    def _leave_aside(self, *, folder_of: TopicPartition) -> str | None:
        node, name = self._node, str(folder_of)
        for folder in node.partitions.logs.folders:
            if folder.online and folder.disk.exists(name):
                aside = folder.leave_aside(name)
                if aside is not None:
                    node.report(
                        Level.WARNING,
                        f"{name} is copied anew; what was damaged is kept as {folder.path}/{aside} "
                        "until this replica is in sync",
                    )
                return aside
        return None

    def in_sync(self, partition: Partition) -> None:
        """The copy is complete: what it was made for may go."""
        aside, partition.aside = partition.aside, None
        for folder in self._node.partitions.logs.folders:
            if aside is not None and aside in folder.strays:
                folder.remove_aside(aside, partition.topic.file_delete_delay_ms)
