"""Transactional ids that nobody has used for `transactional.id.expiration.ms` are forgotten.

Every `transaction.remove.expired.transaction.cleanup.interval.ms` a partition's ids are looked
through, some in each step, and tombstones are written for what is over. The log's compaction then
drops the records. A producer that comes back later begins with another producer id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.node.transaction_storage import IdStored, to_batch

if TYPE_CHECKING:
    from replog.model.errors import ErrorCode
    from replog.node.node import Node
    from replog.node.transactional_ids import IdEntry, IdPartition

IDS_PER_STEP = 500  # some 10 ms of work when all of them are over
WRITE_TIMEOUT_MS = 5_000


class IdExpiry:
    """The regular search in one partition, for as long as this broker leads it."""

    def __init__(self, node: Node, home: IdPartition) -> None:
        self._node = node
        self._home = home

    def start(self) -> None:
        """Search from now on."""
        node = self._node
        interval = node.config.int("transaction.remove.expired.transaction.cleanup.interval.ms")
        node.timers.call_at(node.now_ms + interval, self._search)

    def _search(self) -> None:
        if self._home.log.current:
            self._search_some(list(self._home.entries))
            self.start()

    def _search_some(self, ids: list[str]) -> None:
        node, home = self._node, self._home
        if not home.log.current:
            return
        home.log.settle()
        before_ms = node.wall_ms - node.config.int("transactional.id.expiration.ms")
        for transactional_id in ids[:IDS_PER_STEP]:
            entry = home.entries.get(transactional_id)
            if entry is not None and entry.idle and entry.updated_ms <= before_ms:
                self._forget(transactional_id, entry)
        rest = ids[IDS_PER_STEP:]
        if rest:
            node.timers.call_at(node.now_ms, lambda: self._search_some(rest))

    def _forget(self, transactional_id: str, entry: IdEntry) -> None:
        """While the tombstone is on its way, no producer is given the id."""
        home = self._home

        def done(_error: ErrorCode) -> None:
            home.dispose(transactional_id, entry)  # what failed is found again the next time

        change = IdStored(transactional_id, None)
        batch = to_batch(change, wall_ms=self._node.wall_ms)
        home.log.write(entry, [change], batch, done, timeout_ms=WRITE_TIMEOUT_MS)
