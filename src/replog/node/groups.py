"""Consumer groups on this broker: which it coordinates, and what becomes of what they decide.

A group lives in one partition of `__consumer_offsets`; whoever leads that partition coordinates it.
The rules are in `core.group`; here their outcomes are carried out: answers sent, groups stored,
deadlines kept. A JoinGroup or SyncGroup that waits is known to the rules by a ticket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.facts import JoinAnswer, Outcome, SyncAnswer, Write
from replog.core.group.hashing import partition_for
from replog.model.errors import ErrorCode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from replog.model.inputs import Received
from replog.model.outputs import Level
from replog.node.group_answers import join_response, sync_response
from replog.node.group_expiry import GroupExpiry
from replog.node.group_partition import GroupEntry, GroupPartition
from replog.node.group_storage import GroupStored
from replog.node.led_log import seen_by_clients

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# Characters of one line about a group. Clients choose most of the words in it.
NOTE_LENGTH_MAX = 500


class Groups:
    """All groups of which this broker is the coordinator."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._homes: dict[int, GroupPartition] = {}
        self._tickets: dict[int, Received] = {}
        self._last_ticket = 0
        self._expiry = GroupExpiry(node)

    # ---- leadership ------------------------------------------------------------------------

    def on_leader(self, partition: Partition) -> None:
        """This broker leads the offsets partition now, or leads it anew in a later epoch."""
        self._unload(partition.tp.partition)
        home = GroupPartition(
            self._node, partition, on_restored=lambda entry: self._arm(home, entry)
        )
        self._homes[partition.tp.partition] = home
        home.load()
        self._expiry.start(home)

    def on_not_leader(self, tp: TopicPartition) -> None:
        """The leadership has ended: whoever waits has to find the new coordinator."""
        self._unload(tp.partition)

    def _unload(self, index: int) -> None:
        home = self._homes.pop(index, None)
        if home is None:
            return
        at = home.instant()
        for entry in home.groups.values():
            if entry.timer is not None:
                entry.timer.cancel()
            for answer in entry.group.die(ErrorCode.NOT_COORDINATOR, at).answers:
                self._answer(answer)

    # ---- finding ---------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> TopicPartition:
        """The partition that keeps the group; its number holds once the topic exists."""
        topic = self._node.cluster.topics.get(GROUP_OFFSETS_TOPIC)
        count = self._node.config.offsets_topic_num_partitions
        if topic is not None:
            count = len(topic.partitions)
        return TopicPartition(GROUP_OFFSETS_TOPIC, partition_for(group_id, count))

    def home_of(self, group_id: str) -> GroupPartition | ErrorCode:
        """Where the group lives, when this broker coordinates it and has loaded it."""
        home = self._homes.get(self.partition_of(group_id).partition)
        if home is None or not home.current or not self._node.lease.valid:
            return ErrorCode.NOT_COORDINATOR
        return home if home.refusal is ErrorCode.NONE else home.refusal

    def homes(self) -> list[GroupPartition]:
        """Every partition of groups that this broker coordinates now, loaded or not."""
        return [home for home in self._homes.values() if home.current]

    # ---- requests that wait ----------------------------------------------------------------

    def park(self, request: Received) -> int:
        """A ticket for a request that some `Outcome` will answer."""
        self._last_ticket += 1
        self._tickets[self._last_ticket] = request
        return self._last_ticket

    def _answer(self, answer: JoinAnswer | SyncAnswer) -> None:
        request = self._tickets.pop(answer.ticket, None)
        if request is None:
            return
        if isinstance(answer, JoinAnswer):
            self._node.reply(request, join_response(answer, request.version))
        else:
            self._node.reply(request, sync_response(answer))

    # ---- carrying out ----------------------------------------------------------------------

    def carry_out(self, home: GroupPartition, entry: GroupEntry, outcome: Outcome) -> None:
        """Do what a group decided."""
        for answer in outcome.answers:
            self._answer(answer)
        if outcome.notes:
            self._report(entry, outcome.notes)
        for write in outcome.writes:
            self._store(home, entry, write)
        self._arm(home, entry)
        home.dispose(entry)

    def _store(self, home: GroupPartition, entry: GroupEntry, write: Write) -> None:
        def done(error: ErrorCode) -> None:
            if not home.current:
                return  # the group was unloaded, and everybody told
            if error is not ErrorCode.NONE:
                self._report(entry, [f"could not be stored: {error.name}"], Level.WARNING)
            outcome = entry.group.stored(write.number, seen_by_clients(error), home.instant())
            self.carry_out(home, entry, outcome)

        home.write(entry, [GroupStored(entry.group.group_id, write.group)], done)

    def _arm(self, home: GroupPartition, entry: GroupEntry) -> None:
        """See to it that the group is looked at when its next deadline is due.

        Heartbeats only move deadlines away, so they need not come here: the timer then fires early,
        finds nothing to do and is set anew.
        """
        deadline = entry.group.next_deadline_ms()
        timer = entry.timer
        if timer is not None:
            if timer.action is not None and timer.deadline_ms <= deadline:
                return
            timer.cancel()
            entry.timer = None
        if deadline == float("inf"):
            return

        def due() -> None:
            entry.timer = None
            if home.current:
                self.carry_out(home, entry, entry.group.on_time(home.instant()))

        entry.timer = self._node.timers.call_at(deadline, due)

    def _report(self, entry: GroupEntry, notes: list[str], level: Level = Level.INFO) -> None:
        text = f"group {entry.group.group_id}: {'; '.join(notes)}"
        if len(text) > NOTE_LENGTH_MAX:
            text = text[:NOTE_LENGTH_MAX] + "..."
        self._node.report(level, "".join(c if c.isprintable() else "?" for c in text))
