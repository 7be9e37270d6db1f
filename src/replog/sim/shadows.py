"""What the oracle remembers of logs: batches by their headers, chained, so that one number names a
whole prefix.

Two logs that have the same chain value at an offset are identical up to it. That makes "the same
(epoch, offset) means the same prefix" (log matching) and "is on every member" one comparison each.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from replog.records.header import BatchHeader
from replog.sim.violation import Violation

Key = tuple[bytes, int]  # topic id, partition


class Batch(NamedTuple):
    """One batch, as its header tells. `chain` stands for it and for all that is before it."""

    base: int
    next: int
    epoch: int
    crc: int
    length: int
    producer: tuple[int, int]  # id and epoch; -1 without idempotence
    sequence: int
    chain: int

    def __str__(self) -> str:
        return f"offsets {self.base}..{self.next - 1} of epoch {self.epoch} (crc {self.crc:08x})"


def chained(before: int, header: BatchHeader) -> Batch:
    """The batch of `header` after a prefix."""
    content = (header.base_offset, header.leader_epoch, header.crc, header.length)
    return Batch(
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        header.crc,
        header.length,
        (header.producer_id, header.producer_epoch),
        header.base_sequence,
        hash((before, content)),
    )


class Shadow:
    """One log: its batches in order, from the first that is in its files on. `before` is the chain
    of what was there before that, 0 for nothing."""

    def __init__(self, start: int = 0, before: int = 0) -> None:
        self.start = start
        self._before = before
        self.batches: list[Batch] = []
        self._ends: list[int] = []

    @property
    def end(self) -> int:
        return self._ends[-1] if self._ends else self.start

    @property
    def chain(self) -> int:
        return self.batches[-1].chain if self.batches else self._before

    def chain_at(self, offset: int) -> int | None:
        """The chain of everything below `offset`; None where no batch ends."""
        if offset == self.start:
            return self._before
        index = bisect_left(self._ends, offset)
        if index < len(self._ends) and self._ends[index] == offset:
            return self.batches[index].chain
        return None

    def at(self, offset: int) -> Batch | None:
        """The batch that holds `offset`."""
        index = bisect_left(self._ends, offset + 1)
        if index < len(self.batches) and self.batches[index].base <= offset:
            return self.batches[index]
        return None

    def since(self, offset: int) -> list[Batch]:
        """The batches that end beyond `offset`."""
        return self.batches[bisect_left(self._ends, offset + 1) :]

    def cut(self, offset: int) -> None:
        """Drop what ends beyond `offset`."""
        keep = bisect_left(self._ends, offset + 1)
        del self.batches[keep:]
        del self._ends[keep:]

    def add(self, batch: Batch) -> None:
        """One more batch; it must begin at the end."""
        self.batches.append(batch)
        self._ends.append(batch.next)

    def extend(self, headers: Iterable[BatchHeader], where: object) -> list[Batch]:
        """Add what the log has beyond the end. Raises when offsets or epochs are out of order."""
        added = []
        for header in headers:
            if header.base_offset != self.end or header.next_offset <= header.base_offset:
                raise Violation("batches are contiguous", f"{where}: {header!r} at {self.end}")
            if self.batches and header.leader_epoch < self.batches[-1].epoch:
                raise Violation(
                    "epochs of batches never fall", f"{where}: {header!r} after {self.batches[-1]}"
                )
            batch = chained(self.chain, header)
            self.add(batch)
            added.append(batch)
        return added


class Names:
    """(topic id, partition, epoch, offset) names one batch, with one prefix, for ever."""

    def __init__(self) -> None:
        self._named: dict[Key, dict[tuple[int, int], Batch]] = {}

    def named(self, key: Key, epoch: int, offset: int) -> Batch | None:
        """The batch of that name; None when no log had one."""
        return self._named.get(key, {}).get((epoch, offset))

    def name(self, key: Key, batches: Iterable[Batch], where: object) -> None:
        """These batches are in a log. Raises when one has the name of another."""
        named = self._named.setdefault(key, {})
        for batch in batches:
            for offset in range(batch.base, batch.next):
                known = named.setdefault((batch.epoch, offset), batch)
                if known.chain != batch.chain:
                    raise Violation(
                        "(topic id, partition, epoch, offset) names one prefix for ever",
                        f"{where}: {batch}, elsewhere {known}",
                    )
