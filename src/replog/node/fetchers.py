"""Following: conversations with each broker that leads a partition of which we hold a copy.

There are up to `num.replica.fetchers` with each leader, on a connection each, and every partition
belongs to one of them. A fetcher asks for all its partitions in one fetch session, and asks again
as soon as it has appended the answer: that next request is the acknowledgement. While a request is
parked at the leader and there is something new to tell (a partition that is followed from now on),
a second one is sent, which makes the leader answer the first at once: nobody waits for an idle
fetch to end.

The log is cut only where the leader says that histories part (a diverging epoch), and then nothing
else of that partition's answer is used, its high watermark least of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, NO_OFFSET, TopicPartition
from replog.model.inputs import PeerFailed, PeerReplied
from replog.model.messages.base import blank
from replog.model.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from replog.model.outputs import Channel, Level
from replog.node.fetch_context import ItemKey

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

# A leader that has not heard of its leadership yet is asked again after this.
UNKNOWN_EPOCH_BACKOFF_MS = 10
NEW_SESSION_EPOCH = 0
SESSION_EPOCH_END = 2**31

# What a leader was told last: fetch offset, current leader epoch, last fetched epoch, log start
# offset, the offset below which the log is synced (-1 unless the topic's durability is `fsync`),
# and whether the batch at the fetch offset was refused when it came.
Told = tuple[int, int, int, int, int, bool]
# The session holds the partition, and has to be told of it anew, be it the same.
TELL_AGAIN: Told = (-1, -1, -1, -1, -1, False)

_new_request = blank(FetchRequest)
_new_topic = blank(FetchTopic)
_new_partition = blank(FetchPartition)

SESSION_ERRORS = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)


def _next_epoch(epoch: int) -> int:
    return epoch + 1 if epoch + 1 < SESSION_EPOCH_END else 1


class Followed:
    """One partition as a fetcher sees it."""

    __slots__ = ("not_before_ms", "partition", "refused_at", "told", "told_in")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.told: Told | None = None  # None: the session does not hold it
        self.told_in = 0  # number of the request that said so
        self.not_before_ms = 0.0
        self.refused_at = NO_OFFSET  # where a batch came that could not be taken

    def wanted(self) -> Told:
        partition = self.partition
        log = partition.log
        end, start = log.log_end_offset, log.log_start_offset
        return (
            end,
            partition.record.leader_epoch,
            log.latest_epoch,
            start,
            log.recovery_point if partition.topic.durable else NO_OFFSET,
            self.refused_at == end,
        )


class Fetcher:
    """One conversation with one leader."""

    def __init__(self, node: Node, leader_id: int, lane: int) -> None:
        self._node = node
        self.leader_id = leader_id
        self._lane = lane
        self.followed: dict[ItemKey, Followed] = {}
        self._news: dict[ItemKey, Followed] = {}  # may differ from what the leader was told
        self._forgotten: dict[ItemKey, None] = {}
        self._session_id = 0
        self._session_epoch = NEW_SESSION_EPOCH
        self._in_flight = 0
        self._generation = 0  # of the session: answers to an earlier one are not used
        self._asked = 0  # number of the newest request
        self._not_before_ms = 0.0
        self._leader_broker_epoch = NO_EPOCH
        self._own_broker_epoch = NO_EPOCH
        self._own_state: ReplicaState | None = None  # who we are, as every request says it

    # ---- who is followed -----------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.tp.partition)
        followed = self.followed.get(key)
        if followed is None:
            followed = self.followed[key] = Followed(partition)
            if key in self._forgotten:  # the session still holds it
                del self._forgotten[key]
                followed.told = TELL_AGAIN
        followed.not_before_ms = 0.0
        self._news[key] = followed

    def tell(self, partition: Partition) -> None:
        """Something about `partition` is new: the leader learns it without delay."""
        key = (partition.topic_id, partition.tp.partition)
        followed = self.followed.get(key)
        if followed is not None:
            self._news[key] = followed
            self.ask()

    def remove(self, key: ItemKey) -> None:
        followed = self.followed.pop(key, None)
        if followed is not None:
            if followed.told is not None:
                self._forgotten[key] = None
            self._news.pop(key, None)

    def leader_returned(self, broker_epoch: int) -> None:
        """The leader's registration: a new life of it is asked at once, without back-off."""
        if broker_epoch != self._leader_broker_epoch:
            self._leader_broker_epoch = broker_epoch
            self._not_before_ms = 0.0
            self._begin_session()

    def _begin_session(self) -> None:
        self._session_id = 0
        self._session_epoch = NEW_SESSION_EPOCH
        self._generation += 1
        self._in_flight = 0
        self._forgotten.clear()
        for followed in self.followed.values():
            followed.told = None
        self._news = dict(self.followed)

    # ---- asking ---------------------------------------------------------------------------

    def ask(self) -> None:
        """Send the next fetch unless one is under way and there is nothing new to tell."""
        node = self._node
        leader = node.cluster.brokers.get(self.leader_id)
        if leader is None or node.broker_epoch == NO_EPOCH or node.now_ms < self._not_before_ms:
            return
        if not self.followed and not self._forgotten:
            return
        if node.broker_epoch != self._own_broker_epoch:
            self._own_broker_epoch = node.broker_epoch
            self._own_state = ReplicaState(
                replica_id=node.broker_id, replica_epoch=node.broker_epoch
            )
            self._begin_session()
        new_session = self._session_epoch == NEW_SESSION_EPOCH
        if self._in_flight and (new_session or self._in_flight > 1):
            return
        self._asked += 1
        topics = self._changed()
        # A session of nothing is answered at once: it would be begun anew over and over.
        if not topics and (self._in_flight or new_session):
            return
        self._in_flight += 1
        generation, number = self._generation, self._asked
        config = node.config
        request = _new_request()
        # The first answer of a session comes at once: until then nothing can be added to it.
        request.max_wait_ms = 0 if new_session else config.replica_fetch_wait_max_ms
        request.min_bytes = config.replica_fetch_min_bytes
        request.max_bytes = config.replica_fetch_response_max_bytes
        request.session_id = self._session_id
        request.session_epoch = self._session_epoch
        request.topics = topics
        request.replica_state = self._own_state
        if not new_session:
            if self._forgotten:
                request.forgotten_topics_data = self._take_forgotten()
            self._session_epoch = _next_epoch(self._session_epoch)
        node.send(
            leader,
            request,
            lambda answer: self._answered(answer, generation, number),
            channel=Channel.FETCH,
            lane=self._lane,
            timeout_ms=config.replica_socket_timeout_ms,
        )

    def _changed(self) -> list[FetchTopic]:
        """What the leader must be told: partitions that it does not know, or knows otherwise."""
        topics: dict[bytes, FetchTopic] = {}
        now = self._node.now_ms
        later: dict[ItemKey, Followed] = {}
        for key, followed in self._news.items():
            if followed.not_before_ms > now:
                later[key] = followed
                continue
            wanted = followed.wanted()
            if wanted == followed.told:
                continue
            followed.told = wanted
            followed.told_in = self._asked
            self._forgotten.pop(key, None)
            topic_id = followed.partition.topic_id
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = _new_topic()
                topic.topic_id = topic_id
            told = _new_partition()
            told.partition = followed.partition.tp.partition
            told.fetch_offset = wanted[0]
            told.current_leader_epoch = wanted[1]
            told.last_fetched_epoch = wanted[2]
            told.log_start_offset = wanted[3]
            told.synced_offset = wanted[4]
            told.refused = wanted[5]
            told.partition_max_bytes = self._node.config.replica_fetch_max_bytes
            if wanted[2] != wanted[1]:  # the leader may not be able to tell what these records are
                told.high_watermark = followed.partition.high_watermark
            topic.partitions.append(told)
        self._news = later
        return list(topics.values())

    def _take_forgotten(self) -> list[ForgottenTopic]:
        topics: dict[bytes, ForgottenTopic] = {}
        for topic_id, index in self._forgotten:
            if isinstance(topic_id, bytes):
                topic = topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id))
                topic.partitions.append(index)
        self._forgotten.clear()
        return list(topics.values())

    def _back_off(self) -> None:
        self._not_before_ms = self._node.now_ms + self._node.config.replica_fetch_backoff_ms
        self._node.timers.call_at(self._not_before_ms, self.ask)

    def _later(self, followed: Followed, delay_ms: float) -> None:
        """Leave this partition out for a while, then tell the leader of it anew. The session must
        not hold it meanwhile: a partition in trouble is answered at once, each time."""
        key = (followed.partition.topic_id, followed.partition.tp.partition)
        followed.told = None
        self._forgotten[key] = None
        self._news[key] = followed
        followed.not_before_ms = self._node.now_ms + delay_ms
        self._node.timers.call_at(followed.not_before_ms, self.ask)

    # ---- being answered ---------------------------------------------------------------------

    def _answered(self, answer: PeerReplied | PeerFailed, generation: int, number: int) -> None:
        if generation != self._generation:
            return
        self._in_flight -= 1
        if isinstance(answer, PeerFailed) or not isinstance(answer.message, FetchResponse):
            self._begin_session()
            self._back_off()
            return
        response = answer.message
        if response.error_code:
            self._begin_session()
            if response.error_code not in SESSION_ERRORS:
                self._back_off()
            self.ask()
            return
        if self._session_epoch == NEW_SESSION_EPOCH and response.session_id:
            self._session_id = response.session_id
            self._session_epoch = 1
        elif not response.session_id:
            self._begin_session()  # the leader has no room: each fetch names everything
        for topic in response.responses:
            for data in topic.partitions:
                followed = self.followed.get((topic.topic_id, data.partition_index))
                # What was told since then makes the answer to an earlier request an old one.
                if followed is not None and followed.told_in <= number:
                    self._news[topic.topic_id, data.partition_index] = followed
                    self._take(followed, data)
        self.ask()

    def _take(self, followed: Followed, data: PartitionData) -> None:
        partition = followed.partition
        log = partition.log
        told = followed.told
        # The answer is to what was asked; since then the role or the log may have changed.
        if (
            told is None
            or partition.leader is not None
            or told[1] != partition.record.leader_epoch
            or told[0] != log.log_end_offset
        ):
            return
        if data.error_code:
            self._refused(followed, ErrorCode(data.error_code), data)
            return
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            self._diverged(followed, data, diverging.epoch, diverging.end_offset)
            return
        node = self._node
        if self._in_doubt(partition, data.log_start_offset) or self._unknowing(partition, data):
            self._copy_anew(followed, data)
            return
        records = data.records
        if isinstance(records, (bytes, memoryview)) and records:
            copied = node.partitions.copy(partition, records)
            if not copied:
                followed.refused_at = log.log_end_offset
                self._later(followed, node.config.replica_fetch_backoff_ms)
                return
        if partition.follow_high_watermark(data.high_watermark):
            node.waits.committed(partition)
        if data.log_start_offset > log.log_start_offset:
            node.upkeep.follow_start(partition, data.log_start_offset)
        if records:
            wait_ms = node.throttles.copied(partition, len(records))
            if wait_ms > 0:
                self._later(followed, wait_ms)

    def _copy_anew(self, followed: Followed, data: PartitionData) -> None:
        """Leave our log for the leader's: it begins where ours does not reach, or may not agree.

        With it comes what the leader knows of producers whose batches are gone: else we would take
        any sequence from them, as leader. The records of this answer are not taken, so the leader
        is asked for them again, though that may be from where it was.
        """
        followed.told = TELL_AGAIN
        partition, leader_start = followed.partition, data.log_start_offset
        self._node.report(
            Level.WARNING,
            f"{partition.tp}: log end {partition.log_end_offset}, HW {partition.high_watermark}, "
            f"the leader's log begins at {leader_start}: copied anew from there",
        )
        self._node.partitions.begin_anew(partition, leader_start, data.producers)

    @staticmethod
    def _in_doubt(partition: Partition, leader_start: int) -> bool:
        """Whether the end of our log may be of another history, which the leader can't tell.

        It has forgotten the epochs of what it deleted, so no divergence is found below its log
        start. We would go on behind records that were never committed, and show them if the process
        died before the new log start is on disk.
        """
        log = partition.log
        end = log.log_end_offset
        return (
            log.log_start_offset < end == leader_start
            and partition.high_watermark < end
            and log.latest_epoch != partition.record.leader_epoch
        )

    @staticmethod
    def _unknowing(partition: Partition, data: PartitionData) -> bool:
        """Whether our log is empty and lacks what the leader knows of producers: all that a power
        cut left of it was below the known start."""
        log = partition.log
        return (
            bool(data.producers)
            and log.log_start_offset == log.log_end_offset == data.log_start_offset
            and not partition.producers.producers
        )

    def _diverged(
        self, followed: Followed, data: PartitionData, epoch: int, end_offset: int
    ) -> None:
        """Cut back to where both histories may agree (KIP-101, KIP-279), then ask again.

        The leader named its largest epoch that is not above ours, and where that epoch ends. If we
        hold an older one, we can agree no further than the end of ours: the next answer tells. When
        they part below our start nothing of ours is the leader's, and we lack what it has below.
        """
        followed.told = TELL_AGAIN
        partition, log = followed.partition, followed.partition.log
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_epoch == epoch:
            cut = min(end_offset, own_end)
        elif own_epoch >= 0:
            cut = min(own_end, end_offset)
        else:
            cut = end_offset
        if cut < log.log_start_offset:
            self._copy_anew(followed, data)
            return
        cut = min(cut, log.log_end_offset) if own_epoch >= 0 else log.log_start_offset
        self._node.report(
            Level.WARNING,
            f"{partition.tp}: diverges from leader {self.leader_id} after epoch {epoch}: "
            f"log end {log.log_end_offset} is cut to {cut}, HW {partition.high_watermark}",
        )
        self._node.partitions.truncate(partition, cut)

    def _refused(self, followed: Followed, error: ErrorCode, data: PartitionData) -> None:
        node = self._node
        partition = followed.partition
        start, end = partition.log_start_offset, partition.log_end_offset
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and (
            # Below its log, or with an empty one, of which no epoch is known, beyond its end.
            end < data.log_start_offset or start == end > data.log_start_offset >= 0
        ):
            self._copy_anew(followed, data)
            return
        # The leader is behind us (it has not heard of its leadership), or we are behind it (news
        # of another leader is on its way), or it is in trouble: ask again a little later.
        soon = error in (
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.FENCED_LEADER_EPOCH,
        )
        delay = UNKNOWN_EPOCH_BACKOFF_MS if soon else node.config.replica_fetch_backoff_ms
        self._later(followed, delay)


class Fetchers:
    """All fetchers, by leader and lane. How many lanes there are may change at any time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        # Who copies a partition, and what the fetcher calls it.
        self._following: dict[TopicPartition, tuple[Fetcher, ItemKey]] = {}

    def follow(self, partition: Partition) -> None:
        """Copy `partition` from the leader that its record names; also when that is the same."""
        tp, leader_id = partition.tp, partition.record.leader
        lane = (crc32(tp.topic.encode()) + tp.partition) % self._node.config.num_replica_fetchers
        fetcher = self._fetchers.get((leader_id, lane))
        if fetcher is None:
            fetcher = Fetcher(self._node, leader_id, lane)
            self._fetchers[leader_id, lane] = fetcher
        following = (fetcher, (partition.topic_id, tp.partition))
        if self._following.get(tp, following) != following:
            self.remove(tp)
        self._following[tp] = following
        fetcher.add(partition)

    def remove(self, tp: TopicPartition) -> None:
        """Copy it no more; does nothing when it is not followed."""
        following = self._following.pop(tp, None)
        if following is not None:
            fetcher, key = following
            fetcher.remove(key)

    def synced(self, partition: Partition) -> None:
        """More of the log is on stable storage: its leader waits for that."""
        following = self._following.get(partition.tp)
        if following is not None:
            following[0].tell(partition)

    def brokers_changed(self) -> None:
        """The image changed: leaders may have come back, and there may be more to ask for."""
        for fetcher in self._fetchers.values():
            leader = self._node.cluster.brokers.get(fetcher.leader_id)
            if leader is not None:
                fetcher.leader_returned(leader.broker_epoch)
            fetcher.ask()
