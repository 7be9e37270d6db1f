"""One replica on this broker: its log, its role, and what it knows of the partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from replog.core.producer.state import ProducerBatch, ProducerTable, TransactionMarker
from replog.core.replica.leader import LeaderState
from replog.log import producer_snapshot
from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.partition_log import PartitionLog
from replog.model.config import TopicConfig
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from replog.model.partition import PartitionRecord
from replog.records.header import BatchHeader

if TYPE_CHECKING:
    from replog.node.log_folder import LogFolder

# Bytes of a log that a step looks through at most: some milliseconds.
READ_IN_STEP_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a log is not as it was written, and may be committed."""

    reason: str
    epoch: int  # the newest leader epoch in which the log may have been acknowledged to a leader


class HeldBack(NamedTuple):
    """What was refused of one producer."""

    since_ms: float  # the last time
    sequence: int  # the lowest: the batch that has to come first


class Partition:
    """A replica. It is leader while `leader` is set, and follower (of somebody or nobody)
    otherwise.

    Legal changes of role, all made by `Partitions`: follower -> leader (greater leader epoch),
    leader -> follower (greater leader epoch), leader -> leader (greater leader epoch), and either
    -> offline (its log, or the folder that it is in, failed). Only a restart leads back from there,
    or, where the log alone is damaged, another object with a log that is begun anew.
    """

    __slots__ = (
        "_follower_high_watermark",
        "_led_epoch",
        "aside",
        "damage",
        "folder",
        "held_back",
        "leader",
        "log",
        "offline_reason",
        "produce_rules",
        "producers",
        "record",
        "topic",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: bytes,
        log: PartitionLog,
        *,
        folder: LogFolder,
        record: PartitionRecord,
        topic: TopicConfig,
        producers: ProducerTable,
        high_watermark: int,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.folder = folder  # which the log is in
        self._led_epoch = NO_EPOCH  # the newest leader epoch that has, or had, a leader
        self.record = record
        self.topic = topic
        self.leader: LeaderState | None = None
        # Idempotent producers of whom batches were refused since too few replicas were in sync.
        self.held_back: dict[int, HeldBack] = {}
        self.offline_reason: str | None = None
        self.damage: Damage | None = None  # of its log
        self.aside: str | None = None  # the folder with a damaged log that this one was begun for
        self.produce_rules = log.config.produce_rules()
        self.producers = producers
        self._follower_high_watermark = max(
            log.log_start_offset, min(high_watermark, log.log_end_offset)
        )

    # ---- what others ask ---------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    @property
    def leader_epoch(self) -> int:
        return self.record.leader_epoch

    @property
    def high_watermark(self) -> int:
        leader = self.leader
        return self._follower_high_watermark if leader is None else leader.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, and below the high watermark it is, too."""
        return self.last_stable_below(self.high_watermark)

    def last_stable_below(self, high_watermark: int) -> int:
        """`last_stable_offset` for who has asked for the high watermark already."""
        transactions = self.producers.transactions
        if not transactions.any:
            return high_watermark
        first = transactions.first_undecided(high_watermark)
        if first is None:
            return high_watermark
        return max(min(first, high_watermark), self.log.log_start_offset)

    @property
    def offset_available(self) -> bool:
        """False on a new leader until all of earlier epochs is known to be committed."""
        return self.leader is None or self.leader.offset_available

    def leader_view(self) -> LeaderState | None:
        """Progress of the followers, on the leader."""
        return self.leader

    def fence(self, current_leader_epoch: int) -> ErrorCode:
        """Compare the leader epoch of a request with ours; -1 in the request asks for no check."""
        if current_leader_epoch in (NO_EPOCH, self.record.leader_epoch):
            return ErrorCode.NONE
        if not self.record.online and current_leader_epoch == self._led_epoch:
            return ErrorCode.NONE  # nobody leads: consumers of a follower go on with the last epoch
        if current_leader_epoch < self.record.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def obey(self, record: PartitionRecord) -> None:
        """A newer record holds from now on; the role is the caller's affair."""
        self.record = record
        if record.online:
            self._led_epoch = record.leader_epoch

    def configure(self, topic: TopicConfig, config: LogConfig) -> None:
        """The topic's configuration, on opening and whenever it changes."""
        self.topic = topic
        self.log.config = config
        self.produce_rules = config.produce_rules()

    # ---- state that follows the log ------------------------------------------------------

    def follow_high_watermark(self, leaders: int) -> bool:
        """On a follower: adopt the leader's high watermark, within the own log. True when moved."""
        moved = min(leaders, self.log.log_end_offset)
        if moved <= self._follower_high_watermark:
            return False
        self._follower_high_watermark = moved
        return True

    def step_down(self) -> None:
        """Leader no more. What was committed stays known."""
        if self.leader is not None:
            self._follower_high_watermark = self.leader.high_watermark
            self.leader = None

    def after_truncation(self) -> bool:
        """The log was cut: nothing may still speak of what was cut off. True when the high
        watermark fell. Raises DiskError, LogCorrupt."""
        before = self._follower_high_watermark
        self.stay_within_log()
        self.producers = replay_producers(self.log, [])
        return self._follower_high_watermark < before

    def stay_within_log(self) -> None:
        """The log may end, or begin, elsewhere: so may the high watermark."""
        self._follower_high_watermark = max(
            self.log.log_start_offset,
            min(self._follower_high_watermark, self.log.log_end_offset),
        )

    def producers_below(self, offset: int) -> bytes:
        """What is known of producers by batches below `offset`, as a snapshot of there; nothing
        when nothing is. Those who have written more than is kept since are looked for on disk."""
        entries = [e for e in self.producers.entries() if e.last_offset < offset]
        outrun = self.producers.outrun(offset)
        if outrun:
            try:
                table = _producers_at(self.log, offset)
            except (DiskError, LogCorrupt):
                table = ProducerTable()  # that is found and told by who reads the records
            entries += [
                entry._replace(current_txn_first_offset=NO_OFFSET)  # what is open goes on above
                for entry in table.entries()
                if outrun.get(entry.producer_id) == entry.producer_epoch
            ]
        return producer_snapshot.encode(entries) if entries else b""

    def note_producers(self, headers: Sequence[BatchHeader]) -> None:
        """Batches are in the log: remember the sequences of idempotent producers, and which
        transactions are open. Raises DiskError, LogCorrupt."""
        producers = self.producers
        for header in headers:
            if header.producer_id >= 0:
                _note_batch(self.log, producers, header)
        if producers.transactions.any:
            producers.transactions.settle(self.high_watermark)


def replay_producers(
    log: PartitionLog, reasons: list[str], *, complete: bool = False
) -> ProducerTable:
    """The producers' state: the newest snapshot, and what lies behind it in the log; without one,
    all that the log has. `reasons` gets why a snapshot is not used.

    `complete`: where segments begin behind that snapshot, others are written as they should be
    there, since power may have taken them. Raises DiskError, LogCorrupt.
    """
    first = log.base_offsets[0]
    found = log.snapshots.newest(first, reasons)
    start, entries = (first, ()) if found is None else found
    table = ProducerTable.of(entries)
    missing = [base for base in log.base_offsets if complete and base > start]
    for header in log.headers_from(start):
        while missing and header.base_offset >= missing[0]:
            log.snapshots.add_unsynced(missing.pop(0), table.entries())
        if header.producer_id >= 0 and header.base_offset >= start:
            _note_batch(log, table, header)
    for base in missing:
        log.snapshots.add_unsynced(base, table.entries())
    return table


def _producers_at(log: PartitionLog, offset: int) -> ProducerTable:
    """The producers' state just below `offset`; none when it takes too long to read. Raises
    DiskError, LogCorrupt."""
    first = log.base_offsets[0]
    start, entries = log.snapshots.newest(first, [], upto=offset) or (first, ())
    table = ProducerTable.of(entries)
    size = 0
    for header in log.headers_from(start) if start < offset else ():
        if header.last_offset >= offset:
            break
        size += header.length
        if size > READ_IN_STEP_MAX:
            return ProducerTable()
        if header.base_sequence >= 0 and header.base_offset >= start and not header.control:
            table.apply(producer_batch(header))
    return table


def _note_batch(log: PartitionLog, table: ProducerTable, header: BatchHeader) -> None:
    """The batch of an idempotent or transactional producer is in the log."""
    if header.control:
        _note_marker(log, table, header)
        return
    if header.base_sequence >= 0:
        table.apply(producer_batch(header))
    # One that compaction has emptied has no records that could be undecided.
    if header.transactional and header.count:
        table.transactions.note_data(header.producer_id, header.base_offset)


def _note_marker(log: PartitionLog, table: ProducerTable, header: BatchHeader) -> None:
    marker = log.aborted.marker(header)
    if marker is None:
        return
    aborted = table.apply_marker(
        TransactionMarker(
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            offset=header.base_offset,
            timestamp=header.max_timestamp,
            committed=marker.committed,
            coordinator_epoch=marker.coordinator_epoch,
        )
    )
    if aborted is not None:
        log.aborted.add(aborted)


def producer_batch(header: BatchHeader) -> ProducerBatch:
    """What the producers' rules need of a batch header."""
    return ProducerBatch(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
    )
