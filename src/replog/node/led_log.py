"""A partition of an internal topic that this broker leads, written by the broker itself.

Everything is tied to the leader epoch in which it was opened. A write goes through only while that
epoch lasts, and takes effect when the high watermark has passed it: what is read from memory is
always what a failover would find in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from replog.model.errors import ErrorCode

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

WriteDone = Callable[[ErrorCode], None]

# Writes of one partition that wait for the high watermark. Without this a partition whose followers
# are gone would collect commits for as long as clients repeat them.
WRITES_MAX = 20_000

# What a failed write means to a client of a coordinator: go on asking here, find the new
# coordinator, or give up.
_SEEN_BY_CLIENTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def seen_by_clients(error: ErrorCode) -> ErrorCode:
    """The error of an append as the clients of a coordinator are told it."""
    return _SEEN_BY_CLIENTS.get(error, error)


class Written:
    """Something that is kept in a led log; knows of its writes that are under way."""

    __slots__ = ("unsettled", "writes_open")

    def __init__(self) -> None:
        self.writes_open = 0  # not answered yet
        self.unsettled = 0  # in the log, and the high watermark has not passed them

    @property
    def writing(self) -> bool:
        """The log may get, or has got, something about this that has not taken effect yet."""
        return self.writes_open > 0 or self.unsettled > 0


W = TypeVar("W", bound=Written)
C = TypeVar("C")


class LedLog(Generic[W, C]):
    """The log of one coordinator's partition, in one leader epoch."""

    def __init__(self, node: Node, partition: Partition, *, apply: Callable[[W, C], None]) -> None:
        """`apply(owner, change)` is what a change does once it is committed."""
        self._node = node
        self.partition = partition
        self.epoch = partition.leader_epoch
        self._apply = apply
        # In the order of the log: where a write ends, whose it is, and what it changes.
        self._unsettled: deque[tuple[int, W, Sequence[C]]] = deque()

    @property
    def current(self) -> bool:
        """Whether the leadership in which this was opened still lasts."""
        return self.partition.is_leader and self.partition.leader_epoch == self.epoch

    def write(
        self,
        owner: W,
        changes: Sequence[C],
        batch: bytearray,
        on_done: WriteDone,
        *,
        timeout_ms: int,
    ) -> None:
        """Append `changes` of `owner`, as `batch` has them; `on_done` runs now or later, with the
        error of the append.

        After REQUEST_TIMED_OUT the write may still take effect, and does so here too when it does.
        """
        self.settle()
        refusal = self._refusal(batch)
        if refusal is not ErrorCode.NONE:
            on_done(refusal)
            return
        at_once: list[ErrorCode] = []
        appending = True

        def done(error: ErrorCode, _base_offset: int) -> None:
            if appending:
                at_once.append(error)
            else:
                self._written(owner, error, on_done)

        owner.writes_open += 1
        start = self.partition.log_end_offset
        self._node.partitions.append(self.partition, batch, done, timeout_ms)
        appending = False
        if self.partition.log_end_offset > start:
            owner.unsettled += 1
            self._unsettled.append((start + len(changes), owner, changes))
        for error in at_once:
            self._written(owner, error, on_done)

    def _refusal(self, batch: bytearray) -> ErrorCode:
        if not self.current:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if len(self._unsettled) >= WRITES_MAX:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if len(batch) > self.partition.topic.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        return ErrorCode.NONE

    def _written(self, owner: W, error: ErrorCode, on_done: WriteDone) -> None:
        owner.writes_open -= 1
        if error is ErrorCode.NONE and not self.current:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.settle()
        on_done(error)

    def unsettled_of(self, owner: W) -> Iterator[C]:
        """What is in the log about `owner` and has not taken effect yet, in order."""
        for _, whose, changes in self._unsettled:
            if whose is owner:
                yield from changes

    def settle(self) -> None:
        """Let everything below the high watermark take effect. Readers call this first."""
        if not self.current:
            return
        high_watermark = self.partition.high_watermark
        unsettled = self._unsettled
        while unsettled and unsettled[0][0] <= high_watermark:
            _, owner, changes = unsettled.popleft()
            owner.unsettled -= 1
            for change in changes:
                self._apply(owner, change)
