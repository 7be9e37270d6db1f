"""Transactions as the log of one partition shows them: which are open, and up to where all are
decided (KIP-98).

A transaction is open from the first batch of its producer to the marker that ends it, and that
marker counts for readers once the high watermark has passed it: what a consumer was told must not
be taken back by a change of leader. The state follows the log, so leader, follower and a restarted
broker hold the same.
"""

from collections import deque
from typing import NamedTuple

from replog.model.producers import AbortedTransaction


class Decided(NamedTuple):
    """A transaction whose marker, at `marker_offset`, is in the log."""

    first_offset: int
    marker_offset: int


class LogTransactions:
    """`open` has the first offset of each producer's open transaction, in rising order."""

    __slots__ = ("_decided", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        # Until the high watermark has passed the marker, in the order of the markers.
        self._decided: deque[Decided] = deque()

    def note_data(self, producer_id: int, base_offset: int) -> None:
        """A transactional batch with records is in the log."""
        self.open.setdefault(producer_id, base_offset)

    def note_marker(
        self, producer_id: int, offset: int, *, committed: bool
    ) -> AbortedTransaction | None:
        """A marker is in the log; the transaction that it aborts, if it aborts any.

        A marker for a producer without an open transaction ends nothing: its records are on other
        partitions.
        """
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._decided.append(Decided(first_offset, offset))
        if committed:
            return None
        return AbortedTransaction(producer_id, first_offset, offset, self._first_open(offset + 1))

    def _first_open(self, default: int) -> int:
        return next(iter(self.open.values()), default)

    def first_undecided(self, high_watermark: int) -> int | None:
        """The first record whose transaction is open, or decided by a marker that is not below
        `high_watermark`; None without one. The high watermark must not go back."""
        self.settle(high_watermark)
        candidates = [transaction.first_offset for transaction in self._decided]
        candidates += [*self.open.values()][:1]
        return min(candidates, default=None)

    def settle(self, high_watermark: int) -> None:
        """Markers below `high_watermark` are final: their transactions need no watching."""
        decided = self._decided
        while decided and decided[0].marker_offset < high_watermark:
            decided.popleft()

    @property
    def any(self) -> bool:
        """False while `first_undecided` is certain to be None. Cheap: asked with each fetch."""
        return bool(self.open or self._decided)

    def copy(self) -> "LogTransactions":
        """The state as it is now."""
        other = LogTransactions()
        other.open = dict(self.open)
        other._decided = deque(self._decided)
        return other
