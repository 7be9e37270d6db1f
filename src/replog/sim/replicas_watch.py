"""The oracle's view of replicas: every log, every high watermark, and what was ever committed.

Only the node that stepped is looked at, and of its replicas only those whose numbers changed. What
a dead broker has on disk is what it had after its last step that ended.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise

from replog.model.ids import NO_EPOCH
from replog.node.partition import Partition
from replog.records.header import BatchHeader
from replog.sim.broker import Life
from replog.sim.committed import Committed
from replog.sim.records_watch import Change, Stored
from replog.sim.shadows import Key, Names, Shadow, chained
from replog.sim.violation import Violation

# log end, high watermark, log start, leader epoch, leads
Numbers = tuple[int, int, int, int, bool]


@dataclass(slots=True)
class Replica:
    """A replica as it was after the last step that changed it."""

    partition: Partition
    life: str
    shadow: Shadow = field(default_factory=Shadow)
    numbers: Numbers = (-1, -1, -1, -1, False)

    def __str__(self) -> str:
        return f"{self.life} {self.partition.tp}"


class ReplicasWatch:
    """All replicas. Raises Violation. `records` are the partition records that are stored."""

    def __init__(self, records: dict[Key, Stored], min_isr: int) -> None:
        self._records = records
        self._min_isr = min_isr
        self._names = Names()
        self._replicas: dict[tuple[int, Key], Replica] = {}
        self._committed: dict[Key, Committed] = {}
        # By broker: its process, and the replicas of that. This is looked up in every step.
        self._seen: dict[int, tuple[Life, dict[Partition, Replica]]] = {}
        # Whether a host lost something that nobody knows of yet.
        self.doubted: Callable[[int], bool] = lambda broker: False

    def committed(self, key: Key) -> Committed:
        """What is known of a partition, begun when there is nothing."""
        found = self._committed.get(key)
        if found is None:
            found = self._committed[key] = Committed()
        return found

    def replica(self, broker_id: int, key: Key) -> Replica | None:
        """A replica as it was seen last."""
        return self._replicas.get((broker_id, key))

    def look(self, life: Life, *, anew: bool) -> None:
        """`life` has taken a step. `anew`: logs may have been cut and written again in it."""
        seen = self._seen.get(life.broker_id)
        if seen is None or seen[0] is not life:
            seen = self._seen[life.broker_id] = life, {}
        replicas = seen[1]
        for disk in life.host.disks:
            if disk.compacted:
                self._note_compacted(life, disk.compacted)
        for partition in life.node.partitions.all():
            log = partition.log
            numbers: Numbers = (
                log.log_end_offset,
                partition.high_watermark,
                log.log_start_offset,
                partition.record.leader_epoch,
                partition.leader is not None,
            )
            replica = replicas.get(partition)
            if replica is not None and numbers == replica.numbers:
                continue
            key = (partition.topic_id, partition.tp.partition)
            if replica is None:
                replica = replicas[partition] = Replica(partition, life.name)
                self._replicas[life.broker_id, key] = replica
            with life.host.troubles.put_off():  # a look at a log may make its indexes anew
                self._judge(life.broker_id, key, replica, numbers, anew=anew)

    def _note_compacted(self, life: Life, directories: Collection[str]) -> None:
        for partition in life.node.partitions.all():
            if partition.log.directory in directories:  # others may copy it in the next step
                key = (partition.topic_id, partition.tp.partition)
                self.committed(key).compacted = True

    def judge_change(self, change: Change) -> None:
        """A partition record was stored: whoever is in the ISR has what it must have."""
        key, after = change.key, change.after
        if change.loses:
            committed = self.committed(key)
            committed.losing = committed.lossy_epoch = after.leader_epoch
        if self.committed(key).losing is not None or self.committed(key).compacted:
            return
        for member in after.electable:
            self._judge_member(key, member, after)
        start = self.committed(key).starts.get(after.leader_epoch)
        if change.before is None or start is None:
            return
        for member in sorted(set(after.isr) - set(change.before.isr)):
            replica = self.replica(member, key)
            if self.doubted(member) or (replica and replica.shadow.start > start[0]):
                continue
            if replica is None or replica.shadow.chain_at(start[0]) != start[1]:
                raise Violation(
                    "whoever joins an ISR holds the start of the epoch",
                    f"{replica} joins {after}; the epoch begins at {start[0]}",
                )

    # ---- one replica ----------------------------------------------------------------------

    def _judge(
        self, broker_id: int, key: Key, replica: Replica, numbers: Numbers, *, anew: bool
    ) -> None:
        end, high_watermark, start, epoch, leads = numbers
        _, watermark_before, _, epoch_before, led_before = replica.numbers
        if not 0 <= start <= replica.partition.last_stable_offset <= high_watermark <= end:
            raise Violation("0 <= log start <= LSO <= HW <= LEO", f"{replica}: {numbers}")
        if epoch < epoch_before:
            raise Violation("a leader epoch never falls", f"{replica}: {epoch_before} to {epoch}")
        committed = self.committed(key)
        if committed.compacted:
            replica.numbers = numbers
            self._judge_ends(key, replica, led_before=led_before and epoch == epoch_before)
            return
        self._follow_log(key, replica, numbers, anew=anew)
        if replica.partition.offline_reason is None:  # or else it may be cut in part
            self._judge_epochs(replica, end)
        replica.numbers = numbers
        began = leads and (not led_before or epoch != epoch_before)
        if began:
            losing = self.committed(key).losing
            if losing is not None and epoch >= losing:
                self.committed(key).cut(replica.shadow)
            self.committed(key).starts.setdefault(epoch, (replica.shadow.end, replica.shadow.chain))
        elif leads and high_watermark < watermark_before:
            raise Violation(
                "a high watermark never falls within a leadership",
                f"{replica}: {watermark_before} to {high_watermark}",
            )
        # With what was lost, the mark that a leader kept on disk may be that of another history:
        # what it holds below is committed with its election.
        excused = began and self.committed(key).lossy_epoch >= 0
        # Who led may commit and step down in one step: that was the last deed of its epoch.
        led_in = epoch if leads else epoch_before if led_before else NO_EPOCH
        if excused or (led_in >= 0 and high_watermark > max(watermark_before, 0)):
            self._judge_commit(key, replica, watermark_before, epoch=led_in, excused=excused)
        self._judge_watermark(key, replica, high_watermark)
        stored = self._records.get(key)
        if stored is not None and broker_id in stored.electable:
            self._judge_member(key, broker_id, replica)

    def _judge_ends(self, key: Key, replica: Replica, *, led_before: bool) -> None:
        """A replica of a compacted partition."""
        committed = self.committed(key)
        _, high_watermark, _, epoch, leads = replica.numbers
        if leads and committed.losing is not None and epoch >= committed.losing:
            committed.losing, committed.compacted_end = None, 0
        if leads and led_before:
            committed.commit_end(epoch, high_watermark)
        stored = self._records.get(key)
        for member in () if stored is None else stored.electable:
            self._judge_member(key, member, replica)

    def _follow_log(self, key: Key, replica: Replica, numbers: Numbers, *, anew: bool) -> None:
        end, start = numbers[0], numbers[2]
        shadow = replica.shadow
        # What is below the start is not in the log any more, whatever it was. And an empty log may
        # have begun there: below all that it had, in a batch, or where another history ended.
        begun = start > shadow.end or start == shadow.end < end or start == end
        if anew or begun or not shadow.batches:
            replica.shadow = shadow = self._begin(key, replica, start, end)
        elif end < shadow.end:
            shadow.cut(end)
        if end > shadow.end:
            headers = replica.partition.log.headers_from(shadow.end)
            added = shadow.extend(headers, replica)
            self._names.name(key, added, replica)
        if shadow.end != end:
            raise Violation("a log ends with its last batch", f"{replica}: {shadow.end}, {end}")

    def _begin(self, key: Key, replica: Replica, start: int, end: int) -> Shadow:
        """The shadow of a log that is read anew. What was before its first batch was committed, or
        it would not have been let go: so it is known."""
        first = next(iter(replica.partition.log.headers_from(start)), None) if start < end else None
        origin = start if first is None else first.base_offset
        if origin == 0:
            return Shadow()
        committed = self.committed(key)
        log = committed.log
        before = log.chain_at(origin)
        if committed.lost:  # it may not have heard yet of an election that lost what it holds
            before = self._prefix(key, origin, first)
        if before is None and first is None and (origin <= log.end or committed.lossy_epoch >= 0):
            before = 0  # an empty log may begin inside a batch, or where what is lost had its start
        if before is None:
            raise Violation(
                "a log begins with what is committed", f"{replica}: {start}; {log.end} is committed"
            )
        return Shadow(origin, before)

    def _prefix(self, key: Key, origin: int, first: BatchHeader | None) -> int | None:
        """The chain below `origin`, where what once was committed and is lost counts, too: the one
        with which the first batch there has its name."""
        committed = self.committed(key)
        found = (b.chain for b in committed.lost if b.next == origin)
        chains = [c for c in (committed.log.chain_at(origin), *found) if c is not None]
        named = None if first is None else self._names.named(key, first.leader_epoch, origin)
        if first is not None and named is not None:
            chains = [c for c in chains if chained(c, first).chain == named.chain]
        return chains[0] if chains else None

    @staticmethod
    def _judge_epochs(replica: Replica, end: int) -> None:
        entries = replica.partition.log.epoch_entries()
        for (epoch, offset), (next_epoch, next_offset) in pairwise(entries):
            if epoch >= next_epoch or offset >= next_offset:
                raise Violation("the epoch file rises in both columns", f"{replica}: {entries}")
        if entries and entries[-1][1] > end:
            raise Violation("an epoch begins within the log", f"{replica}: {entries}, LEO {end}")

    # ---- what is committed -----------------------------------------------------------------

    def _judge_commit(
        self, key: Key, replica: Replica, before: int, *, epoch: int, excused: bool
    ) -> None:
        """The leader of `epoch` moved its high watermark from `before`, or begins with one that is
        not known."""
        committed, high_watermark = self.committed(key), replica.numbers[1]
        if epoch < committed.lossy_epoch:  # it has not heard yet that it leads no more
            committed.commit_in_vain(replica.shadow, before, high_watermark)
            return
        if high_watermark <= committed.log.end:
            return
        committer = committed.committers.setdefault(epoch, replica.life)
        if committer != replica.life:
            raise Violation(
                "one process commits in each leader epoch",
                f"{replica}: epoch {epoch} is that of {committer}",
            )
        view = replica.partition.leader_view()
        stored = self._records.get(key)
        stored_isr = () if stored is None else stored.isr
        isr = stored_isr if view is None else view.isr_state.isr
        if not excused and len(isr) < min(self._min_isr, len(replica.partition.record.replicas)):
            raise Violation(
                "nothing is committed while the ISR is too small",
                f"{replica}: HW {high_watermark} with ISR {isr}",
            )
        for batch in replica.shadow.since(committed.log.end):
            if batch.next > high_watermark:
                break
            if batch.base != committed.log.end:
                raise Violation("a leader holds everything committed", f"{replica}: {batch}")
            committed.add(batch, replica)
        for member in () if stored is None else stored.electable:
            self._judge_member(key, member, replica)

    def _judge_watermark(self, key: Key, replica: Replica, high_watermark: int) -> None:
        """Whatever is below a high watermark is what was committed."""
        committed = self.committed(key)
        log, shadow = committed.log, replica.shadow
        if committed.lossy_epoch >= 0 and (
            not replica.partition.is_leader
            or replica.partition.leader_epoch < committed.lossy_epoch
        ):
            return  # it may know of what is lost, or has not heard that it leads no more
        if high_watermark <= max(shadow.start, replica.partition.log_start_offset):
            return
        chain = shadow.chain_at(high_watermark)
        if chain is None or chain != log.chain_at(high_watermark):
            raise Violation(
                "a high watermark covers committed records only",
                f"{replica}: HW {high_watermark}; committed up to {log.end}",
            )

    def _judge_member(self, key: Key, member: int, where: object) -> None:
        """Every member of the stored ISR and ELR holds everything committed, and the same bytes."""
        committed = self.committed(key)
        log, replica = committed.log, self.replica(member, key)
        if committed.compacted:
            holds = replica is None or replica.numbers[0] >= committed.compacted_end
        else:
            holds = replica is not None and replica.shadow.chain_at(log.end) == log.chain
            holds = holds or log.end == 0
        if not holds and committed.losing is None and not self.doubted(member):
            end = None if replica is None else replica.numbers[0]
            raise Violation(
                "every member of ISR and ELR holds everything committed",
                f"{where}: broker {member} (LEO {end}) does not, "
                f"{max(log.end, committed.compacted_end)} offsets are committed",
            )
