"""What is parked until something happens to a partition, and how it is woken.

Two kinds wait: writes with acks=all until the high watermark passes them, and fetches until there
is something to send. Whoever changes a partition says so (`appended`, `committed`, `role_changed`)
and goes on; `drain`, at the end of each step, wakes what the changes concern. So nothing calls back
up while a partition is half changed, and one step's changes are looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition

if TYPE_CHECKING:
    from replog.node.fetch_context import FetchContext, ItemKey, ParkedFetch
    from replog.node.node import Node
    from replog.node.partition import Partition

CommitDone = Callable[[ErrorCode], None]


class CommitWait:
    """One write that waits until the high watermark reaches `offset`."""

    __slots__ = ("offset", "on_done")

    def __init__(self, offset: int, on_done: CommitDone) -> None:
        self.offset = offset
        self.on_done = on_done


class Waits:
    """Everything that is parked on this node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        # Those of one partition in the order of their offsets.
        self._commits: dict[TopicPartition, dict[CommitWait, None]] = {}
        self._watchers: dict[TopicPartition, dict[FetchContext, ItemKey]] = {}
        self._committed: dict[Partition, None] = {}
        self._ready: dict[FetchContext, None] = {}
        self._fetches: dict[int, dict[ParkedFetch, None]] = {}  # by connection

    # ---- parking -------------------------------------------------------------------------

    def park_commit(self, tp: TopicPartition, offset: int, on_done: CommitDone) -> CommitWait:
        """Run `on_done(NONE)` once the high watermark is at `offset` or beyond, or `on_done(error)`
        when the leadership ends first. The wait may be given up with `drop_commit`."""
        wait = CommitWait(offset, on_done)
        waiting = self._commits.setdefault(tp, {})
        behind = bool(waiting) and next(reversed(waiting)).offset > offset
        waiting[wait] = None
        if behind:  # it repeats a write that waits already, or did
            self._commits[tp] = dict.fromkeys(sorted(waiting, key=attrgetter("offset")))
        return wait

    def drop_commit(self, tp: TopicPartition, wait: CommitWait) -> None:
        """Forget the wait; does nothing when it was done already."""
        waiting = self._commits.get(tp)
        if waiting is not None:
            waiting.pop(wait, None)

    def fetch_parked(self, connection: int, fetch: ParkedFetch) -> None:
        """`fetch` waits, as long as the connection that it came by is open."""
        self._fetches.setdefault(connection, {})[fetch] = None

    def fetch_left(self, connection: int, fetch: ParkedFetch) -> None:
        """It waits no more; does nothing when that is known."""
        waiting = self._fetches.get(connection)
        if waiting is not None:
            waiting.pop(fetch, None)
            if not waiting:
                del self._fetches[connection]

    def connection_closed(self, connection: int) -> None:
        """Nobody is there to be answered."""
        for fetch in self._fetches.pop(connection, ()):
            fetch.give_up()

    def watch(self, tp: TopicPartition, context: FetchContext, key: ItemKey) -> None:
        """`context` wants to know what happens to `tp`, which it calls `key`."""
        self._watchers.setdefault(tp, {})[context] = key

    def unwatch(self, tp: TopicPartition, context: FetchContext) -> None:
        watching = self._watchers.get(tp)
        if watching is not None:
            watching.pop(context, None)
            if not watching:
                del self._watchers[tp]

    def parked(self) -> Iterator[ParkedFetch]:
        """All fetches that wait."""
        for fetches in self._fetches.values():
            yield from fetches

    def parked_commits(self) -> Iterator[tuple[TopicPartition, int]]:
        """Where writes wait, and for which offset at least."""
        for tp, waiting in self._commits.items():
            if waiting:
                yield tp, min(wait.offset for wait in waiting)

    # ---- what happened ---------------------------------------------------------------------

    def appended(self, partition: Partition) -> None:
        """The leader's log end moved: followers have something to copy."""
        for context, key in self._watchers.get(partition.tp, {}).items():
            if context.follower is not None:
                context.note(key)
                if context.parked is not None:
                    self._ready[context] = None

    def committed(self, partition: Partition) -> None:
        """The high watermark moved, on a leader or a follower: consumers may read on."""
        self._committed[partition] = None

    def start_moved(self, partition: Partition) -> None:
        """The log's start moved: followers are told at once, since somebody may wait for them."""
        for context, key in self._watchers.get(partition.tp, {}).items():
            context.note(key)
            if context.follower is not None and context.parked is not None:
                context.parked.overtaken = True
                self._ready[context] = None

    def role_changed(self, partition: Partition) -> None:
        """This replica became something else: what waited for the old role is refused."""
        waiting = self._commits.pop(partition.tp, None)
        if waiting:
            for wait in waiting:
                wait.on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for context, key in self._watchers.get(partition.tp, {}).items():
            context.note(key)
            if context.parked is not None:
                context.parked.overtaken = True
                self._ready[context] = None

    # ---- waking ------------------------------------------------------------------------------

    def drain(self) -> None:
        """Wake everything that this step's changes concern."""
        while self._committed or self._ready:
            if self._committed:
                partitions, self._committed = self._committed, {}
                for partition in partitions:
                    self._wake_committed(partition)
            if self._ready:
                contexts, self._ready = self._ready, {}
                for context in contexts:
                    if context.parked is not None:
                        context.parked.try_complete()

    def _wake_committed(self, partition: Partition) -> None:
        high_watermark = partition.high_watermark
        waiting = self._commits.get(partition.tp)
        if waiting:
            done = []
            for wait in waiting:
                if wait.offset > high_watermark:
                    break
                done.append(wait)
            for wait in done:
                del waiting[wait]
            for wait in done:
                wait.on_done(ErrorCode.NONE)
        watching = self._watchers.get(partition.tp)
        if watching is None:
            return
        for context, key in watching.items():
            context.note(key)
            if context.follower is None and context.parked is not None:
                self._ready[context] = None
