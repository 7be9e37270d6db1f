"""Ids for idempotent producers, from blocks that are taken out of the coordinator.

A whole block is held in reserve, from the registration on: a broker may lose the coordinator that
others go on to reach, and a client may ask it for an id then. librdkafka asks the one broker that
it is connected to, again and again, and has a producer wait for as long as it is refused.

`/latest_producer_id_block` names the block that was taken last. Taking the next one is a compare
and set of that node, so two brokers never hold the same ids; what is left of a block when its
broker stops is never used. A write whose outcome is unknown is followed by a new read and a new
block: if it was carried out, its block is lost, which is allowed, and never used twice, which is
not.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.model.coordination import PRODUCER_ID_BLOCK, Create, SetData, StoredNode, WriteDone
from replog.model.errors import ErrorCode
from replog.model.inputs import CoordinatorRead, CoordinatorWritten
from replog.model.outputs import Level
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node

BLOCK_SIZE = 1000
LAST_ID = 2**63 - 1
JSON_VERSION = 1

# Requests that wait for a block. More come only when the coordinator is away, and then they are
# refused with a code that clients repeat.
WAITERS_MAX = 10_000
WAIT_MS_MAX = 5_000

RETRY_MS_MIN = 20.0
RETRY_MS_MAX = 1_000.0

IdDone = Callable[[ErrorCode, int], None]


class _Waiter:
    __slots__ = ("on_done", "timer")

    def __init__(self, on_done: IdDone, timer: Timer) -> None:
        self.on_done = on_done
        self.timer = timer


class ProducerIds:
    """The block that this broker hands out, and the one after it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next = 0
        self._end = 0  # first id behind the block
        self._following: int | None = None  # first id of the block after this one
        self._taking = False
        self._retry_due = False
        self._retry_ms = RETRY_MS_MIN
        self._waiters: deque[_Waiter] = deque()

    @property
    def in_stock(self) -> bool:
        """Whether an id can be given without the coordinator."""
        return self._next < self._end or self._following is not None

    def stock_up(self) -> None:
        """Have a block in reserve, if there is none: the coordinator can be asked now."""
        if self._following is None:
            self._take_block()

    def take(self, on_done: IdDone) -> None:
        """An id that nobody has had: `on_done(NONE, id)` now or later, or an error and -1."""
        if not self._waiters and self._ready():
            on_done(ErrorCode.NONE, self._take_one())
            return
        if len(self._waiters) >= WAITERS_MAX:
            on_done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
            return

        def expired() -> None:
            self._waiters.remove(waiter)
            on_done(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)

        waiter = _Waiter(on_done, self._node.timers.call_at(self._deadline(), expired))
        self._waiters.append(waiter)
        self._take_block()

    def _deadline(self) -> float:
        return self._node.now_ms + WAIT_MS_MAX

    def _ready(self) -> bool:
        if self._next == self._end and self._following is not None:
            self._next = self._following
            self._end = self._following + BLOCK_SIZE
            self._following = None
        return self._next < self._end

    def _take_one(self) -> int:
        taken = self._next
        self._next += 1
        self.stock_up()
        return taken

    # ---- taking a block --------------------------------------------------------------------

    def _take_block(self) -> None:
        if not self._taking:
            self._taking = True
            self._node.read_coordinator((PRODUCER_ID_BLOCK,), self._on_read)

    def _on_read(self, read: CoordinatorRead) -> None:
        if read.nodes is None:
            self._retry()
            return
        stored = read.nodes.get(PRODUCER_ID_BLOCK)
        first = 0 if stored is None else _first_after(stored)
        if first is None or first + BLOCK_SIZE - 1 > LAST_ID:
            self._node.report(
                Level.ERROR,
                f"no producer ids can be given: {PRODUCER_ID_BLOCK} does not tell which were",
            )
            self._taking = False
            self._refuse_all(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        data = _block_json(self._node.broker_id, first)
        if stored is None:
            operation: Create | SetData = Create(PRODUCER_ID_BLOCK, data)
        else:
            operation = SetData(PRODUCER_ID_BLOCK, data, stored.version)
        self._node.write_coordinator((operation,), lambda written: self._on_written(written, first))

    def _on_written(self, written: CoordinatorWritten, first: int) -> None:
        if not isinstance(written.result, WriteDone):
            self._retry()  # somebody was faster, or nobody knows: read again either way
            return
        self._taking = False
        self._retry_ms = RETRY_MS_MIN
        self._following = first
        while self._waiters and self._ready():
            waiter = self._waiters.popleft()
            waiter.timer.cancel()
            waiter.on_done(ErrorCode.NONE, self._take_one())

    def _retry(self) -> None:
        """Read again after a while. One such try is due at a time."""
        self._taking = False
        if self._retry_due:
            return
        self._retry_due = True

        def due() -> None:
            self._retry_due = False
            self.stock_up()

        delay, self._retry_ms = self._retry_ms, min(self._retry_ms * 2, RETRY_MS_MAX)
        self._node.timers.call_at(self._node.now_ms + delay, due)

    def _refuse_all(self, error: ErrorCode) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.timer.cancel()
            waiter.on_done(error, -1)


def _block_json(broker_id: int, first: int) -> bytes:
    """The node as Kafka writes it: the ids are texts, since JSON numbers end at 2^53."""
    block = {
        "version": JSON_VERSION,
        "broker": broker_id,
        "block_start": str(first),
        "block_end": str(first + BLOCK_SIZE - 1),
    }
    return json.dumps(block, separators=(",", ":")).encode()


def _first_after(stored: StoredNode) -> int | None:
    """The first id behind the block that was taken last; None when the node can't be read."""
    try:
        last = int(json.loads(stored.data)["block_end"])
    except (ValueError, KeyError, TypeError):
        return None
    return last + 1 if last >= 0 else None
