"""One partition of `__consumer_offsets` that this broker leads: the groups that live in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from replog.core.group.classic_group import ClassicGroup
from replog.core.group.facts import GroupSettings, Instant, StoredGroup
from replog.core.group.offsets import Offsets
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import TopicPartition
from replog.model.outputs import Level
from replog.node.group_storage import GroupStored, OffsetStored, Stored, from_record, to_batch
from replog.node.led_log import LedLog, WriteDone, Written
from replog.node.log_replay import LogReplay
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# Groups in one partition. Each costs about 2 KB, and anybody may name a new one.
GROUPS_MAX = 200_000
TOMBSTONES_PER_BATCH = 1000  # some 100 KB, far below what a batch may have


class GroupEntry(Written):
    """A group with its offsets and what this broker keeps beside them."""

    __slots__ = ("group", "named", "offsets", "stored", "timer")

    def __init__(self, group: ClassicGroup, offsets: Offsets, *, stored: bool) -> None:
        super().__init__()
        self.group = group
        self.offsets = offsets
        self.stored = stored  # the log has a record of the group itself
        # Somebody has asked to join, or committed: empty, it is shown until the next search for
        # what is over.
        self.named = False
        self.timer: Timer | None = None

    @property
    def disposable(self) -> bool:
        """Nothing would be lost with it."""
        kept = self.named or self.stored or self.writing
        return self.group.idle and not self.offsets and not kept


class GroupPartition:
    """The groups of one offsets partition, from the election of this broker to its end."""

    def __init__(
        self, node: Node, partition: Partition, *, on_restored: Callable[[GroupEntry], None]
    ) -> None:
        """`on_restored` runs for each group that has members, once all is loaded."""
        self._node = node
        self._log: LedLog[GroupEntry, Stored] = LedLog(node, partition, apply=_apply)
        self.groups: dict[str, GroupEntry] = {}
        self.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # NONE: it serves
        self._on_restored = on_restored
        self._loaded_groups: dict[str, StoredGroup] = {}
        self._loaded_offsets: dict[str, Offsets] = {}
        config = node.config
        self._settings = GroupSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
        )

    @property
    def current(self) -> bool:
        """Whether the leadership in which this was loaded still lasts."""
        return self._log.current

    def instant(self) -> Instant:
        return Instant(self._node.now_ms, self._node.wall_ms)

    # ---- loading ---------------------------------------------------------------------------

    def load(self) -> None:
        """Begin to read the log."""
        LogReplay[Stored](
            self._node,
            self._log.partition,
            read=from_record,
            apply=self._load_one,
            on_done=self._on_loaded,
        ).begin()

    def _load_one(self, change: Stored) -> None:
        if not isinstance(change, GroupStored):
            offsets = self._loaded_offsets.setdefault(change.group_id, Offsets())
            offsets.apply(change.tp, change.committed)
        elif change.group is None:
            self._loaded_groups.pop(change.group_id, None)
        else:
            self._loaded_groups[change.group_id] = change.group

    def _on_loaded(self, readable: bool) -> None:
        groups, self._loaded_groups = self._loaded_groups, {}
        all_offsets, self._loaded_offsets = self._loaded_offsets, {}
        if not readable:
            self.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return
        at = self.instant()
        for group_id in {**groups, **all_offsets}:
            stored = groups.get(group_id)
            offsets = all_offsets.get(group_id) or Offsets()
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
        log = self._log
        self._node.report(
            Level.INFO,
            f"{log.partition.tp}: coordinates {len(self.groups)} groups in epoch {log.epoch}",
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

    def places(self, entry: GroupEntry) -> dict[TopicPartition, None]:
        """The partitions in which the group has a position, or may have one in a moment."""
        found = dict.fromkeys(tp for tp, _ in entry.offsets.items())
        for change in self._log.unsettled_of(entry):
            if not isinstance(change, GroupStored):
                found[change.tp] = None
        return found

    def forget(self, entry: GroupEntry, on_done: WriteDone) -> None:
        """Write that the group and all of its positions are gone, those on their way included."""
        group_id = entry.group.group_id
        places = self.places(entry)
        changes: list[Stored] = [OffsetStored(group_id, tp, None) for tp in places]
        changes.append(GroupStored(group_id, None))
        batches = [
            changes[start : start + TOMBSTONES_PER_BATCH]
            for start in range(0, len(changes), TOMBSTONES_PER_BATCH)
        ]
        errors: list[ErrorCode] = []

        def done(error: ErrorCode) -> None:
            errors.append(error)
            if len(errors) == len(batches):
                on_done(next((e for e in errors if e is not ErrorCode.NONE), ErrorCode.NONE))

        for batch in batches:
            self.write(entry, batch, done)

    # ---- the log ---------------------------------------------------------------------------

    def write(self, entry: GroupEntry, changes: Sequence[Stored], on_done: WriteDone) -> None:
        """Append `changes` of one group as a batch; see `LedLog.write`."""
        config = self._node.config
        batch = to_batch(
            changes,
            wall_ms=self._node.wall_ms,
            compression=config.offsets_topic_compression_codec,
        )
        self._log.write(entry, changes, batch, on_done, timeout_ms=config.offsets_commit_timeout_ms)

    def settle(self) -> None:
        """Let everything that is committed take effect. Readers call this first."""
        self._log.settle()


def _apply(entry: GroupEntry, change: Stored) -> None:
    if isinstance(change, GroupStored):
        entry.stored = entry.named = change.group is not None
    else:
        entry.named = True
        entry.offsets.apply(change.tp, change.committed)
