"""One partition of `__consumer_offsets` that this broker leads: the groups that live in it.

Everything is tied to the leader epoch in which it was loaded. A write goes through only while that
epoch lasts, and takes effect on what is read here when the high watermark has passed it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from replog.core.group.classic_group import ClassicGroup
from replog.core.group.facts import GroupSettings, Instant
from replog.core.group.offsets import Offsets
from replog.model.errors import ErrorCode, Refused
from replog.model.outputs import Level
from replog.node.group_loading import Loading
from replog.node.group_storage import GroupStored, Stored, to_batch
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

WriteDone = Callable[[ErrorCode], None]

# Groups in one partition. Each costs about 2 KB, and anybody may name a new one.
GROUPS_MAX = 200_000

# Writes of one partition that wait for the high watermark. Without this a partition whose followers
# are gone would collect commits for as long as clients repeat them.
WRITES_MAX = 20_000


class GroupEntry:
    """A group with its offsets and what this broker keeps beside them."""

    __slots__ = ("group", "offsets", "stored", "timer", "unsettled", "writes_open")

    def __init__(self, group: ClassicGroup, offsets: Offsets, *, stored: bool) -> None:
        self.group = group
        self.offsets = offsets
        self.stored = stored  # the log has a record of the group itself
        self.writes_open = 0  # not answered yet
        self.unsettled = 0  # in the log, and the high watermark has not passed them
        self.timer: Timer | None = None

    @property
    def writing(self) -> bool:
        """The log may get, or has got, something about this group that is not read here yet."""
        return self.writes_open > 0 or self.unsettled > 0

    @property
    def disposable(self) -> bool:
        """Nothing would be lost with it."""
        return self.group.idle and not self.offsets and not self.stored and not self.writing


class GroupPartition:
    """The groups of one offsets partition, from the election of this broker to its end."""

    def __init__(
        self, node: Node, partition: Partition, *, on_restored: Callable[[GroupEntry], None]
    ) -> None:
        """`on_restored` runs for each group that has members, once all is loaded."""
        self._node = node
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.groups: dict[str, GroupEntry] = {}
        self.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # NONE: it serves
        self._on_restored = on_restored
        self._loading: Loading | None = None
        # In the order of the log: where a write ends, and what it changes.
        self._unsettled: deque[tuple[int, GroupEntry, Sequence[Stored]]] = deque()
        config = node.config
        self._settings = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
        )

    @property
    def current(self) -> bool:
        """Whether the leadership in which this was loaded still lasts."""
        return self.partition.is_leader and self.partition.leader_epoch == self.epoch

    def instant(self) -> Instant:
        return Instant(self._node.now_ms, self._node.wall_ms)

    # ---- loading ---------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to read the log."""
        self._loading = Loading(self._node, self.partition, self._on_loaded)
        self._loading.begin()

    def _on_loaded(self, readable: bool) -> None:
        loading, self._loading = self._loading, None
        if loading is None or not readable:
            self.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return
        at = self.instant()
        for group_id in {**loading.groups, **loading.offsets}:
            stored = loading.groups.get(group_id)
            offsets = loading.offsets.get(group_id) or Offsets()
            if stored is not None:
                group = ClassicGroup.restored(group_id, self._settings, stored, at)
            elif offsets:
                group = ClassicGroup(group_id, self._settings, at)
            else:
                continue
            self.groups[group_id] = GroupEntry(group, offsets, stored=stored is not None)
        self.refusal = ErrorCode.NONE
        for entry in self.groups.values():
            if len(entry.group.members):
                self._on_restored(entry)
        self._node.report(
            Level.INFO,
            f"{self.partition.tp}: coordinates {len(self.groups)} groups in epoch {self.epoch}",
        )

    # ---- groups ----------------------------------------------------------------------------

    def open_group(self, group_id: str) -> GroupEntry | Refused:
        """The group, made when it is not there."""
        entry = self.groups.get(group_id)
        if entry is not None:
            return entry
        if len(self.groups) >= GROUPS_MAX:
            return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group = ClassicGroup(group_id, self._settings, self.instant())
        entry = self.groups[group_id] = GroupEntry(group, Offsets(), stored=False)
        return entry

    def dispose(self, entry: GroupEntry) -> None:
        """Let go of a group that is nothing any more; others stay."""
        group_id = entry.group.group_id
        if entry.disposable and self.groups.get(group_id) is entry:
            del self.groups[group_id]
            if entry.timer is not None:
                entry.timer.cancel()

    # ---- writing ---------------------------------------------------------------------------

    def write(self, entry: GroupEntry, changes: Sequence[Stored], on_done: WriteDone) -> None:
        """Append `changes` of one group as a batch; `on_done` runs now or later, with the error of
        the append.

        After REQUEST_TIMED_OUT the write may still take effect, and does so here too when it does.
        """
        self.settle()
        if not self.current:
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if len(self._unsettled) >= WRITES_MAX:
            on_done(ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        node, partition = self._node, self.partition
        batch = to_batch(
            changes,
            wall_ms=node.wall_ms,
            compression=node.config.offsets_topic_compression_codec,
        )
        if len(batch) > partition.topic.max_message_bytes:
            on_done(ErrorCode.MESSAGE_TOO_LARGE)
            return
        at_once: list[ErrorCode] = []
        appending = True

        def done(error: ErrorCode, _base_offset: int) -> None:
            if appending:
                at_once.append(error)
            else:
                self._written(entry, error, on_done)

        entry.writes_open += 1
        start = partition.log_end_offset
        node.partitions.append(partition, batch, done, node.config.offsets_commit_timeout_ms)
        appending = False
        if partition.log_end_offset > start:
            entry.unsettled += 1
            self._unsettled.append((start + len(changes), entry, changes))
        for error in at_once:
            self._written(entry, error, on_done)

    def _written(self, entry: GroupEntry, error: ErrorCode, on_done: WriteDone) -> None:
        entry.writes_open -= 1
        if error is ErrorCode.NONE and not self.current:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.settle()
        on_done(error)

    def settle(self) -> None:
        """Let everything below the high watermark take effect. Readers call this first."""
        if not self.current:
            return
        high_watermark = self.partition.high_watermark
        unsettled = self._unsettled
        while unsettled and unsettled[0][0] <= high_watermark:
            _, entry, changes = unsettled.popleft()
            entry.unsettled -= 1
            for change in changes:
                if isinstance(change, GroupStored):
                    entry.stored = change.group is not None
                else:
                    entry.offsets.apply(change.tp, change.committed)
