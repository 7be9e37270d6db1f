"""What was ever committed in one partition, as the oracle remembers it."""

from dataclasses import dataclass, field

from replog.sim.shadows import Batch, Shadow
from replog.sim.violation import Violation


@dataclass(slots=True)
class Committed:
    """What some leader once had below its high watermark."""

    log: Shadow = field(default_factory=Shadow)
    committers: dict[int, str] = field(default_factory=dict)  # leader epoch -> process
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)  # epoch -> offset, chain
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)  # producer -> next
    # Where nothing is promised: the epoch since which records may be lost, until its leader shows
    # how many; the newest such epoch; and what was committed, or taken for it, and is lost.
    losing: int | None = None
    lossy_epoch: int = -1
    lost: list[Batch] = field(default_factory=list)
    # Once a compacted segment has its name on some disk, logs differ in what is left of them: only
    # ends are compared.
    compacted: bool = False
    compacted_end: int = 0

    def add(self, batch: Batch, where: object) -> None:
        """The next batch is committed: with the next sequence of its producer, without a gap and
        without repetition, or Violation is raised."""
        self.log.add(batch)
        if batch.producer[0] < 0 or batch.sequence < 0:
            return
        # Whom the cluster has forgotten with its records may go on with any sequence, as Kafka has
        # it.
        unknown = batch.sequence if self.lossy_epoch >= 0 else 0
        expected = self.sequences.get(batch.producer, unknown)
        if batch.sequence != expected:
            raise Violation(
                "committed sequences of a producer are contiguous",
                f"{where}: {batch} has sequence {batch.sequence} of producer {batch.producer}, "
                f"{expected} is next",
            )
        self.sequences[batch.producer] = expected + batch.next - batch.base

    def cut(self, shadow: Shadow) -> None:
        """Only what is in `shadow`, too, is committed from now on."""
        log = self.log
        end = log.end
        while end > log.start and log.chain_at(end) != shadow.chain_at(end):
            end = log.batches[-1].base
            self.lost.append(log.batches[-1])
            log.cut(end)
        if shadow.start > log.end:
            self.log = log = Shadow(shadow.start, shadow.chain_at(shadow.start) or 0)
        self.sequences.clear()
        for batch in log.batches:
            self.sequences[batch.producer] = batch.sequence + batch.next - batch.base
        self.losing = None

    def commit_in_vain(self, shadow: Shadow, start: int, end: int) -> None:
        """A leader took what it holds from `start` to `end` for committed, after an election that
        may lose records: what is not the same in the log of that election's leader is lost."""
        for batch in shadow.since(max(start, 0)):
            if batch.next <= end and self.log.chain_at(batch.next) != batch.chain:
                self.lost.append(batch)

    def commit_end(self, epoch: int, end: int) -> None:
        """A leader of a compacted partition has committed up to `end`: in vain, when it leads no
        more since an election that may lose records, and has not heard of it."""
        if epoch >= self.lossy_epoch:
            self.compacted_end = max(self.compacted_end, end)

    def was_lost(self, offset: int) -> bool:
        """Something that was committed at this offset is lost."""
        return any(batch.base <= offset < batch.next for batch in self.lost)
