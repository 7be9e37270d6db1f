"""The replicas on this broker: what they become when the cluster changes, and how they are written.

A partition record arrives in an image from the controller and decides alone: a replica leads when
the record names this broker and its leader epoch is new, follows when it names another, and is
deleted when its topic is. Records with an older leader epoch change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from replog.core.replica.leader import LeaderSettings, LeaderState
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt, OffsetsNotContiguous
from replog.log.results import AppendResult
from replog.model.cluster import TopicRecord
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.inputs import PeerIdentity
from replog.model.outputs import Level, RangeInvalidated, Stopped
from replog.model.partition import PartitionRecord
from replog.node.damaged_logs import DamagedLogs
from replog.node.isr_changes import IsrChanges
from replog.node.log_folder import FolderState
from replog.node.offline_replicas import OfflineReplicas
from replog.node.partition import Partition
from replog.node.replica_logs import ReplicaLogs, Unopened
from replog.records.errors import CorruptBatch
from replog.records.header import BatchHeader, crc_ok, iterate

if TYPE_CHECKING:
    from replog.node.fetch_context import FetchItem
    from replog.node.log_folder import FolderSetup, LogFolder
    from replog.node.node import Node

# Logs opened in one step. Making one takes a dozen calls of the file system, and a topic may have
# thousands of partitions: meanwhile the loop has to turn, or this broker is taken for stuck.
OPENED_PER_STEP: Final = 50
# From the step after one that opened logs until the next that does: one turn of the loop may have
# a step for each of many requests, and must not open logs in each.
OPENING_PAUSE_MS: Final = 10

AppendDone = Callable[[ErrorCode, int], None]


class Partitions:
    """All replicas of this broker, by name."""

    def __init__(self, node: Node, folders: Sequence[FolderSetup]) -> None:
        self._node = node
        self._partitions: dict[TopicPartition, Partition] = {}
        self._unopened: dict[TopicPartition, None] = {}  # named by an image, and opened soon
        self.logs = ReplicaLogs(node, folders)
        self.offline = OfflineReplicas(node)
        self.damaged = DamagedLogs(node)
        self.isr_changes = IsrChanges(node)
        # Brokers that may be in an ISR and their epochs; shared with every LeaderState.
        self.eligible: dict[int, int] = {}

    # ---- looking up -------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def all(self) -> Collection[Partition]:
        return self._partitions.values()

    def find(self, tp: TopicPartition) -> Partition | ErrorCode:
        """The replica, or why there is none: not here, not anywhere, or its disk failed."""
        partition = self._partitions.get(tp)
        if partition is None:
            if not self._node.cluster.brokers:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER  # nobody has told us of anything yet
            if self._node.cluster.partition(tp) is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if self.offline.reason(tp) is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.offline_reason is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return partition

    def leads(self, partition: Partition) -> bool:
        """Whether clients may be answered in the name of the leader."""
        return partition.leader is not None and self._node.lease.valid

    def resolve_item(self, item: FetchItem) -> Partition | ErrorCode:
        """`find` for a partition of a fetch, by name or by id; remembers the name in the item."""
        if item.by_id:
            name = self._node.cluster.topic_names.get(item.topic_id)
            if item.tp is None:
                if name is None:
                    return ErrorCode.UNKNOWN_TOPIC_ID
                item.tp = TopicPartition(name, item.partition)
            elif name is None and item.tp.topic in self._node.cluster.topics:
                return ErrorCode.INCONSISTENT_TOPIC_ID  # deleted and made again meanwhile
        elif item.tp is None:
            item.tp = TopicPartition(item.name, item.partition)
        return self.find(item.tp)

    # ---- the cluster changed ---------------------------------------------------------------

    def load(self) -> None:
        """Open what is on disk, before the broker registers."""
        self.logs.load()
        self.isr_changes.start()
        self._node.upkeep.start()

    def apply(
        self, changed: Iterable[TopicPartition], deleted: Iterable[tuple[str, bytes]]
    ) -> None:
        """`node.cluster` was updated: become what it says."""
        node = self._node
        self.eligible.clear()
        self.eligible.update(
            (b.broker_id, b.broker_epoch) for b in node.cluster.brokers.values() if b.eligible
        )
        for name, topic_id in deleted:
            self._delete_topic(name, topic_id)
        left = OPENED_PER_STEP
        for tp in changed:
            record = node.cluster.partition(tp)
            if record is None:
                continue
            if tp not in self._partitions and node.broker_id in record.replicas:
                if not left:
                    self._open_later(tp)
                    continue
                left -= 1
            self._apply_record(tp, record)
        for partition in self._partitions.values():
            leader = partition.leader
            if leader is not None and leader.advance(node.now_ms):
                node.waits.committed(partition)
        node.upkeep.deletions.check_all()
        node.fetchers.brokers_changed()
        self.offline.image_changed()

    def _open_later(self, tp: TopicPartition) -> None:
        if not self._unopened:
            self._node.timers.call_at(self._node.now_ms + 1, self._pause)
        self._unopened[tp] = None

    def _pause(self) -> None:
        """The next step: only now is it known how long the one before took."""
        self._node.timers.call_at(self._node.now_ms + OPENING_PAUSE_MS, self._open_more)

    def _open_more(self) -> None:
        waiting, self._unopened = self._unopened, {}
        self.apply([tp for tp in waiting if tp not in self._partitions], ())

    def _apply_record(self, tp: TopicPartition, record: PartitionRecord) -> None:
        node = self._node
        topic = node.cluster.topics[tp.topic]
        partition = self._partitions.get(tp)
        if partition is not None and partition.topic_id != topic.topic_id:
            self._delete(partition)  # the topic was deleted and made again
            partition = None
        if node.broker_id not in record.replicas:
            self.offline.gone(tp)
            if partition is not None:
                self._delete(partition)
            self.logs.delete_unassigned(tp, topic.topic_id)
            return
        aside = None
        if partition is not None and (aside := self.damaged.leave(partition, record)) is not None:
            self._forget(partition)
            partition = None
        if partition is None:
            partition = self._open(tp, topic, record)
            if partition is None:
                return
            partition.aside = aside or partition.aside
        elif record.leader_epoch < partition.record.leader_epoch:
            return
        else:
            self.logs.configure(partition, topic)
        if partition.offline_reason is not None:
            partition.obey(record)
            return
        if record.leader == node.broker_id:
            self._lead(partition, record)
        else:
            self._follow(partition, record)
        if partition.folder.online:
            node.syncs.appended(partition)
        if partition.aside is not None and node.broker_id in record.isr:
            self.damaged.in_sync(partition)

    def _open(
        self, tp: TopicPartition, topic: TopicRecord, record: PartitionRecord
    ) -> Partition | None:
        opened = self.logs.open(tp, topic, record)
        aside = None
        if isinstance(opened, Unopened) and opened.damaged:
            aside = self.damaged.leave_unopened(tp, record)
            if aside is not None:
                opened = self.logs.open(tp, topic, record)
        if isinstance(opened, Unopened):
            self.offline.unopened(tp, topic.topic_id, opened)
            return None
        self.offline.gone(tp)
        self._partitions[tp] = opened
        opened.aside = aside
        return opened

    def _lead(self, partition: Partition, record: PartitionRecord) -> None:
        node = self._node
        settings = LeaderSettings(
            min_isr=min(partition.topic.min_insync_replicas, len(record.replicas)),
            lag_ms_max=node.config.replica_lag_time_max_ms,
            durable=partition.topic.durable,
        )
        leader = partition.leader
        if leader is not None and leader.epoch == record.leader_epoch:
            leader.settings = settings
            partition.obey(record)
            if leader.on_record(record, node.now_ms):
                node.waits.committed(partition)
            return
        partition.step_down()
        partition.obey(record)
        node.fetchers.remove(partition.tp)
        try:
            if partition.folder.online:  # or else nothing will be written in this epoch
                partition.log.assign_epoch(record.leader_epoch, partition.log_end_offset)
        except DiskError as error:
            self.disk_failed(partition, error)
            return
        partition.leader = LeaderState(
            record,
            log_end=partition.log_end_offset,
            synced_end=partition.log.recovery_point,
            high_watermark=partition.high_watermark,
            settings=settings,
            eligible=self.eligible,
            now_ms=node.now_ms,
        )
        node.report(
            Level.INFO,
            f"{partition.tp}: leader in epoch {record.leader_epoch} from offset "
            f"{partition.log_end_offset}, HW {partition.high_watermark}, ISR {list(record.isr)}",
        )
        node.waits.role_changed(partition)
        if partition.leader.advance(node.now_ms):
            node.waits.committed(partition)
        coordinator = node.coordinators.get(partition.tp.topic)
        if coordinator is not None:
            coordinator.on_leader(partition)

    def _follow(self, partition: Partition, record: PartitionRecord) -> None:
        node = self._node
        was_leader = partition.is_leader
        led_anew = record.leader_epoch > partition.record.leader_epoch or was_leader
        partition.step_down()
        partition.obey(record)
        if led_anew:
            node.waits.role_changed(partition)
            if was_leader:
                self._leads_no_more(partition.tp)
        if record.leader == NO_LEADER or not partition.folder.online or partition.damage:
            node.fetchers.remove(partition.tp)
        else:
            node.fetchers.follow(partition)

    def _delete_topic(self, name: str, topic_id: bytes) -> None:
        for partition in list(self._partitions.values()):
            if partition.tp.topic == name and partition.topic_id == topic_id:
                self._delete(partition)
        self.logs.delete_unclaimed(name, topic_id)
        self.offline.topic_gone(name, topic_id)

    def _delete(self, partition: Partition) -> None:
        self._forget(partition)
        self.logs.delete(partition)
        self.damaged.in_sync(partition)

    def _forget(self, partition: Partition) -> None:
        """It is no replica of this broker any more; its log is the caller's affair."""
        node = self._node
        was_leader = partition.is_leader
        partition.step_down()
        del self._partitions[partition.tp]
        node.fetchers.remove(partition.tp)
        node.waits.role_changed(partition)
        if was_leader:
            self._leads_no_more(partition.tp)

    def _leads_no_more(self, tp: TopicPartition) -> None:
        coordinator = self._node.coordinators.get(tp.topic)
        if coordinator is not None:
            coordinator.on_not_leader(tp)

    # ---- writing ---------------------------------------------------------------------------

    def write(
        self, partition: Partition, buffer: memoryview, headers: Sequence[BatchHeader]
    ) -> AppendResult | Refused:
        """Append checked batches as leader."""
        node = self._node
        leader = partition.leader
        if leader is None:
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not partition.folder.online:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, partition.folder.reason)
        try:
            result = partition.log.append_as_leader(buffer, headers, leader.epoch, node.wall_ms)
        except DiskError as error:
            self.disk_failed(partition, error)
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._appended(partition, result)
        node.waits.appended(partition)
        if leader.on_append(partition.log_end_offset, node.now_ms):
            node.waits.committed(partition)
        return result

    def copy(self, partition: Partition, records: memoryview | bytes) -> bool:
        """Append what a leader sent; False when it can't be taken as it is."""
        if not partition.folder.online:
            return False
        try:
            result = partition.log.append_as_follower(records)
        except DiskError as error:
            self.disk_failed(partition, error)
            return False
        except (OffsetsNotContiguous, CorruptBatch) as error:
            if isinstance(error, OffsetsNotContiguous) and self._begin_inside(partition, records):
                return self.copy(partition, records)
            self._node.report(Level.WARNING, f"{partition.tp}: fetched batches refused: {error}")
            return False
        if result.skipped and not partition.topic.compacted:
            self._node.report(
                Level.WARNING,
                f"{partition.tp}: {result.skipped} offsets between {result.first_offset} and "
                f"{result.last_offset} are not in the leader's log: it was compacted before, or "
                "something is wrong with it",
            )
        self._appended(partition, result)
        return True

    def _begin_inside(self, partition: Partition, records: memoryview | bytes) -> bool:
        """Let an empty log that begins inside the first of these batches begin with that batch.

        Records were deleted up to the middle of it, so that is where the leader's log starts, too,
        and where ours does as soon as it has the batch.
        """
        log = partition.log
        batches = iterate(records, up_to_fault=True)
        if log.log_start_offset < log.log_end_offset or not batches:
            return False
        first = batches[0]
        if not first.base_offset < log.log_end_offset <= first.last_offset:
            return False
        if not crc_ok(records, first):
            return False
        self.begin_anew(partition, first.base_offset, partition.producers_below(first.base_offset))
        return partition.offline_reason is None

    def _appended(self, partition: Partition, result: AppendResult) -> None:
        headers = result.headers
        try:
            if result.rolled:
                base_offset = partition.log.base_offsets[-1]
                partition.note_producers([h for h in headers if h.base_offset < base_offset])
                partition.folder.segment_rolled(partition)
                headers = [h for h in headers if h.base_offset >= base_offset]
            partition.note_producers(headers)
        except (DiskError, LogCorrupt) as error:
            self.disk_failed(partition, error)
            return
        self._node.syncs.appended(partition)

    def append(
        self, partition: Partition, batch: bytearray, on_done: AppendDone, timeout_ms: int
    ) -> None:
        """Append a batch of ours with acks=all; `on_done(error, base offset)` runs now or later."""
        node = self._node
        leader = partition.leader
        if leader is None:
            on_done(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        if not leader.enough_in_sync:
            on_done(ErrorCode.NOT_ENOUGH_REPLICAS, -1)
            return
        buffer = memoryview(batch)
        written = self.write(partition, buffer, iterate(buffer))
        if isinstance(written, Refused):
            on_done(written.error, -1)
            return
        tp, first, end = partition.tp, written.first_offset, partition.log_end_offset

        def committed(error: ErrorCode) -> None:
            timer.cancel()
            on_done(error, first)

        def expired() -> None:
            node.waits.drop_commit(tp, wait)
            on_done(ErrorCode.REQUEST_TIMED_OUT, first)

        timer = node.timers.call_at(node.now_ms + timeout_ms, expired)
        wait = node.waits.park_commit(tp, end, committed)
        node.waits.committed(partition)  # it may be committed already

    def follower_fetched(self, partition: Partition, peer: PeerIdentity, offset: int) -> None:
        """An authenticated follower holds everything below `offset`."""
        leader = partition.leader
        if leader is None:
            return
        node = self._node
        if leader.on_follower_fetch(
            peer.broker_id, offset=offset, broker_epoch=peer.broker_epoch, now_ms=node.now_ms
        ):
            node.waits.committed(partition)
        if peer.broker_id not in leader.isr_state.isr:
            self.isr_changes.try_expand(partition, peer.broker_id)

    def truncate(self, partition: Partition, offset: int) -> None:
        """Cut the log so that it ends at `offset`."""
        try:
            cut = partition.log.truncate_to(offset)
            fell = partition.after_truncation()  # before the files: there may be no room for them
            self._node.waits.committed(partition)  # consumers may wait for what is gone
            if cut is not None:
                self._node.outputs.append(RangeInvalidated(cut.file, cut.position))
                if cut.recovery_point_lowered:
                    partition.folder.write_recovery_points()
            if fell:
                partition.folder.lower_high_watermarks()
        except (DiskError, LogCorrupt) as error:
            self._cut_failed(partition, error)

    def begin_anew(self, partition: Partition, offset: int, producers: bytes = b"") -> None:
        """Throw the log away and begin at `offset`. `producers`: a snapshot of who wrote before."""
        try:
            partition.log.reset_to(offset, producers)
            fell = partition.after_truncation()
            self._node.waits.committed(partition)
            partition.folder.begun_anew(partition.tp)
            if fell:
                partition.folder.lower_high_watermarks()
        except (DiskError, LogCorrupt) as error:
            self._cut_failed(partition, error)

    def _cut_failed(self, partition: Partition, error: DiskError | LogCorrupt) -> None:
        """A full disk is read from, but no log of which a part is cut: it fits together no more."""
        partition.stay_within_log()
        self.disk_failed(partition, error)
        self._take_offline(partition, str(error))
        self.offline.trouble()

    # ---- trouble and the end ----------------------------------------------------------------

    def disk_failed(self, partition: Partition, error: DiskError | LogCorrupt) -> None:
        """A log can't be used: a broken one concerns its partition alone, a disk that refuses
        concerns all that is in the folder."""
        if isinstance(error, DiskError):
            partition.folder.failed(error)
            return
        self._node.report(Level.ERROR, f"{partition.tp} is offline here: {error}")
        self._take_offline(partition, str(error))
        self.damaged.found(partition, str(error))

    def read_failed(self, partition: Partition, error: DiskError | LogCorrupt) -> None:
        """Something in a log can't be read: as `disk_failed`, but for what is broken in one place
        only, all else goes on."""
        if isinstance(error, DiskError):
            partition.folder.failed(error)
        else:
            self.damaged.found(partition, str(error))

    def folder_changed(self, folder: LogFolder) -> None:
        """A folder is full, or failed: what is in it is not written any more, or not used at all.
        When none is left this broker can keep no promise, and stops."""
        node = self._node
        for partition in [p for p in self._partitions.values() if p.folder is folder]:
            if folder.state is FolderState.FAILED:
                self._take_offline(partition, folder.reason)
            else:
                node.fetchers.remove(partition.tp)
        if all(f.state is FolderState.FAILED and not f.doubt.settling for f in self.logs.folders):
            node.outputs.append(Stopped(f"no log folder is left: {folder.reason}", failed=True))
        self.offline.trouble()

    def _take_offline(self, partition: Partition, reason: str) -> None:
        if partition.offline_reason is not None:
            return
        node = self._node
        was_leader = partition.is_leader
        partition.offline_reason = reason
        partition.step_down()
        partition.log.abandon()
        node.waits.role_changed(partition)
        node.fetchers.remove(partition.tp)
        if was_leader:
            self._leads_no_more(partition.tp)

    def close(self) -> None:
        """Flush everything and leave the marker of a clean shutdown."""
        self.logs.close()
