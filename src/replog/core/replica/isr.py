"""States of the ISR as its leader sees it.

    Committed ---propose add---> PendingExpand ---answer---> Committed
    Committed --propose remove-> PendingShrink ---answer---> Committed

One change is in flight at a time. What counts for the high watermark is the *maximal* ISR: an
addition tightens it as soon as it is proposed, because the controller may already count the new
member; a removal relaxes it only when committed, because the controller may still elect the old one
(KIP-497). An outcome that is not known leaves the state pending, and the proposal is sent again.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Committed:
    """The ISR that the controller stored at `partition_epoch`."""

    isr: tuple[int, ...]
    partition_epoch: int

    @property
    def maximal(self) -> tuple[int, ...]:
        return self.isr


@dataclass(frozen=True, slots=True)
class PendingExpand:
    """`added` was proposed on top of `committed`."""

    committed: Committed
    added: tuple[int, ...]

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def partition_epoch(self) -> int:
        return self.committed.partition_epoch

    @property
    def maximal(self) -> tuple[int, ...]:
        return self.committed.isr + self.added

    @property
    def proposed(self) -> tuple[int, ...]:
        return self.maximal


@dataclass(frozen=True, slots=True)
class PendingShrink:
    """The removal of `removed` from `committed` was proposed."""

    committed: Committed
    removed: tuple[int, ...]

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def partition_epoch(self) -> int:
        return self.committed.partition_epoch

    @property
    def maximal(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def proposed(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.committed.isr if broker not in self.removed)


IsrState = Committed | PendingExpand | PendingShrink
Pending = PendingExpand | PendingShrink
