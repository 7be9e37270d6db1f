"""Transactional ids that this broker coordinates: which producer may write under each.

An id lives in one partition of `__transaction_state`; whoever leads that partition coordinates it.
This is the part of a transaction coordinator that InitProducerId needs: an identity is stored with
acks=all before its producer learns of it, and each new one fences the one before. Transactions
themselves are not served yet, and nothing is advertised that would begin one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.group.hashing import partition_for
from replog.core.transaction.identity import (
    NamedProducer,
    NeedsId,
    ProducerIdentity,
    initialise,
)
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from replog.model.outputs import Level
from replog.node.id_expiry import IdExpiry
from replog.node.led_log import LedLog, Written, seen_by_clients
from replog.node.log_replay import LogReplay
from replog.node.transaction_storage import IdStored, from_record, to_batch

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# Ids in one partition, each of some 500 bytes; anybody may name a new one.
IDS_MAX = 200_000

WRITE_TIMEOUT_MS = 5_000

InitDone = Callable[[ErrorCode, ProducerIdentity | None], None]


class IdEntry(Written):
    """One transactional id."""

    __slots__ = ("at_rest", "busy", "identity", "updated_ms")

    def __init__(self) -> None:
        super().__init__()
        self.identity: ProducerIdentity | None = None  # as it is committed
        self.at_rest = True
        self.updated_ms = 0  # by the wall clock
        self.busy = False  # a request is being answered; others have to come again

    @property
    def idle(self) -> bool:
        """No transaction is open, and nothing about it is under way."""
        return self.at_rest and not self.busy and not self.writing


class IdPartition:
    """The ids of one partition, in one leader epoch."""

    def __init__(self, node: Node, partition: Partition) -> None:
        self._node = node
        self.log: LedLog[IdEntry, IdStored] = LedLog(node, partition, apply=_apply)
        self.entries: dict[str, IdEntry] = {}
        self.refusal = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # NONE: it serves

    def load(self) -> None:
        """Begin to read the log."""
        LogReplay[IdStored](
            self._node,
            self.log.partition,
            read=from_record,
            apply=self._load_one,
            on_done=self._on_loaded,
        ).begin()

    def _load_one(self, change: IdStored) -> None:
        if change.identity is None:
            self.entries.pop(change.transactional_id, None)
        else:
            _apply(self.entries.setdefault(change.transactional_id, IdEntry()), change)

    def dispose(self, transactional_id: str, entry: IdEntry) -> None:
        """Keep nothing of an id of which nothing is known, or becomes known."""
        nothing = entry.identity is None and not entry.busy and not entry.writing
        if nothing and self.entries.get(transactional_id) is entry:
            del self.entries[transactional_id]

    def _on_loaded(self, readable: bool) -> None:
        self.refusal = ErrorCode.NONE if readable else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if readable:
            IdExpiry(self._node, self).start()
            self._node.report(
                Level.INFO,
                f"{self.log.partition.tp}: coordinates {len(self.entries)} transactional ids "
                f"in epoch {self.log.epoch}",
            )


def _apply(entry: IdEntry, change: IdStored) -> None:
    entry.identity = change.identity
    entry.at_rest = change.at_rest
    entry.updated_ms = change.updated_ms


class TransactionalIds:
    """All transactional ids of which this broker is the coordinator."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._homes: dict[int, IdPartition] = {}

    # ---- leadership and finding --------------------------------------------------------------

    def on_leader(self, partition: Partition) -> None:
        """This broker leads the partition now, or leads it anew in a later epoch."""
        home = self._homes[partition.tp.partition] = IdPartition(self._node, partition)
        home.load()

    def on_not_leader(self, tp: TopicPartition) -> None:
        """The leadership has ended. Nothing is parked here: open writes have been refused."""
        self._homes.pop(tp.partition, None)

    def partition_of(self, transactional_id: str) -> TopicPartition:
        """The partition that keeps the id; its number holds once the topic exists."""
        topic = self._node.cluster.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            count = self._node.config.int("transaction.state.log.num.partitions")
        else:
            count = len(topic.partitions)
        return TopicPartition(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, count))

    def _home_of(self, transactional_id: str) -> IdPartition | ErrorCode:
        home = self._homes.get(self.partition_of(transactional_id).partition)
        if home is None or not home.log.current or not self._node.lease.valid:
            return ErrorCode.NOT_COORDINATOR
        return home if home.refusal is ErrorCode.NONE else home.refusal

    # ---- InitProducerId ------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        named: NamedProducer | None,
        *,
        timeout_ms: int,
        on_done: InitDone,
    ) -> None:
        """The next identity under the id: `on_done(NONE, it)` once it is stored, or an error."""
        home = self._home_of(transactional_id)
        if isinstance(home, ErrorCode):
            on_done(home, None)
            return
        home.log.settle()
        entry = home.entries.get(transactional_id)
        if entry is None:
            if len(home.entries) >= IDS_MAX:
                on_done(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
                return
            entry = home.entries[transactional_id] = IdEntry()
        if entry.busy or entry.writing:
            on_done(ErrorCode.CONCURRENT_TRANSACTIONS, None)
            return
        if not entry.at_rest:
            on_done(ErrorCode.INVALID_TXN_STATE, None)
            return
        _Init(self._node, home, transactional_id, entry, on_done).begin(named, timeout_ms)


class _Init:
    """One request on its way: perhaps a new producer id, then the log."""

    def __init__(
        self,
        node: Node,
        home: IdPartition,
        transactional_id: str,
        entry: IdEntry,
        on_done: InitDone,
    ) -> None:
        self._node = node
        self._home = home
        self._id = transactional_id
        self._entry = entry
        self._on_done = on_done

    def begin(self, named: NamedProducer | None, timeout_ms: int) -> None:
        """Decide; ask for a producer id first where one is needed."""
        self._entry.busy = True
        known = self._entry.identity
        decided = initialise(known, named, timeout_ms=timeout_ms, new_id=None)
        if not isinstance(decided, NeedsId):
            self._store(decided)
            return

        def given(error: ErrorCode, producer_id: int) -> None:
            if error is not ErrorCode.NONE:
                self._finish(error, None)
                return
            again = initialise(known, named, timeout_ms=timeout_ms, new_id=producer_id)
            self._store(again)

        self._node.producer_ids.take(given)

    def _store(self, decided: ProducerIdentity | NeedsId | Refused) -> None:
        if isinstance(decided, Refused):
            self._finish(decided.error, None)
            return
        if isinstance(decided, NeedsId):
            self._finish(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            return
        if decided == self._entry.identity:
            self._finish(ErrorCode.NONE, decided)
            return
        change = IdStored(self._id, decided, updated_ms=self._node.wall_ms)
        batch = to_batch(change, wall_ms=self._node.wall_ms)

        def written(error: ErrorCode) -> None:
            seen = seen_by_clients(error)
            self._finish(seen, decided if seen is ErrorCode.NONE else None)

        self._home.log.write(self._entry, [change], batch, written, timeout_ms=WRITE_TIMEOUT_MS)

    def _finish(self, error: ErrorCode, identity: ProducerIdentity | None) -> None:
        self._entry.busy = False
        self._home.dispose(self._id, self._entry)
        self._on_done(error, identity)
