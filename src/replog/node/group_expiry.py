"""Offsets and groups that nobody has used for `offsets.retention.minutes` are forgotten.

Every `offsets.retention.check.interval.ms` a partition's groups are looked through, some in each
step, and tombstones are written for what is over. The log's compaction then drops the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.group.offsets import Offsets, expired
from replog.model.errors import ErrorCode
from replog.model.ids import ZERO_TOPIC_ID, TopicPartition
from replog.node.group_partition import TOMBSTONES_PER_BATCH
from replog.node.group_storage import GroupStored, OffsetStored, Stored

if TYPE_CHECKING:
    from replog.node.group_partition import GroupEntry, GroupPartition
    from replog.node.node import Node

GROUPS_PER_STEP = 500  # some 5 ms of work
_MINUTE_MS = 60_000


class GroupExpiry:
    """The regular search for what is over."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def start(self, home: GroupPartition) -> None:
        """Search in `home` from time to time, for as long as this broker leads it."""
        interval = self._node.config.offsets_retention_check_interval_ms
        self._node.timers.call_at(self._node.now_ms + interval, lambda: self._search(home))

    def _search(self, home: GroupPartition) -> None:
        if home.current:
            self._search_some(home, list(home.groups))
            self.start(home)

    def _search_some(self, home: GroupPartition, group_ids: list[str]) -> None:
        if not home.current:
            return
        home.settle()
        for group_id in group_ids[:GROUPS_PER_STEP]:
            entry = home.groups.get(group_id)
            if entry is not None:
                self._look_at(home, entry)
        rest = group_ids[GROUPS_PER_STEP:]
        if rest:
            self._node.timers.call_at(self._node.now_ms, lambda: self._search_some(home, rest))

    def _look_at(self, home: GroupPartition, entry: GroupEntry) -> None:
        if entry.writing:
            return  # a tombstone behind a commit on its way would take that back
        group_id = entry.group.group_id
        over = self._over(entry)
        changes: list[Stored] = [OffsetStored(group_id, tp, None) for tp in over]
        if entry.stored and entry.group.idle and len(over) == len(entry.offsets):
            changes.append(GroupStored(group_id, None))
        for start in range(0, len(changes), TOMBSTONES_PER_BATCH):
            self._write(home, entry, changes[start : start + TOMBSTONES_PER_BATCH])
        self._let_go(home, entry)

    def _write(self, home: GroupPartition, entry: GroupEntry, changes: list[Stored]) -> None:
        def done(_error: ErrorCode) -> None:
            self._let_go(home, entry)  # what failed is found again the next time

        home.write(entry, changes, done)

    @staticmethod
    def _let_go(home: GroupPartition, entry: GroupEntry) -> None:
        entry.named = False
        home.dispose(entry)

    def _over(self, entry: GroupEntry) -> list[TopicPartition]:
        node = self._node
        over = expired(
            entry.group,
            entry.offsets,
            wall_ms=node.wall_ms,
            retention_ms=node.config.offsets_retention_minutes * _MINUTE_MS,
        )
        known = set(over)
        over += [tp for tp in self._of_former_topics(entry.offsets) if tp not in known]
        return over

    def _of_former_topics(self, offsets: Offsets) -> list[TopicPartition]:
        """Positions in topics that were deleted and made again under the same name.

        A topic that is merely absent may be one that the controller could not read just now.
        """
        topics = self._node.cluster.topics
        found = []
        for tp, committed in offsets.items():
            topic = topics.get(tp.topic)
            if topic is not None and committed.topic_id not in (ZERO_TOPIC_ID, topic.topic_id):
                found.append(tp)
        return found
