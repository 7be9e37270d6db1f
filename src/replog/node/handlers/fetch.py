"""Fetch, API key 1, versions 4-18: consumers read, and followers copy.

Versions: 7 fetch sessions (KIP-227), 9 fencing by leader epoch (KIP-320), 11 rack and fetching from
followers (KIP-392), 12 diverging epochs (KIP-595), 13 topic ids (KIP-516), 15 replica state with
the broker epoch (KIP-903), 16 the current leader in refusals (KIP-951), 18 the follower's high
watermark.

A fetch with a replica id is a follower's acknowledgement only when it comes over a connection that
proved to be that broker, at its registered broker epoch (`Received.peer`). From anyone else it is
answered all the same, as Kafka without an authorizer does, and counts for nothing.

A follower's next fetch is looked at before it is answered: it moves the high watermark, and the
answer carries the new one. With read_committed, records come up to the last stable offset, and
beside them the transactions among them that were aborted, which the client leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt
from replog.log.results import LogRead
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_BROKER
from replog.model.inputs import PeerIdentity, Received
from replog.model.messages.base import blank
from replog.model.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from replog.node.cluster_view import endpoints, preferred_reader
from replog.node.fetch_context import FetchContext, FetchItem, ParkedFetch
from replog.node.partition import Partition

if TYPE_CHECKING:
    from replog.node.node import Node

CONSUMER = -1
DEBUG_CONSUMER = -2  # reads up to the log end, as a follower does
FIRST_VERSION_FROM_FOLLOWERS = 11  # KIP-392
FIRST_VERSION_WITH_IDS = 13  # KIP-516
FIRST_VERSION_WITH_LEADER_HINTS = 16  # KIP-951
READ_COMMITTED = 1
UNKNOWN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def handle(node: Node, request: Received, message: FetchRequest) -> FetchResponse | None:
    """Answer at once when there is enough to send, otherwise park the request."""
    replica = replica_id(message)
    follower = None if request.peer is None else _authenticated(node, request, message, replica)
    if message.isolation_level not in (0, READ_COMMITTED):
        return _refuse_all(request, message)
    by_id = request.version >= FIRST_VERSION_WITH_IDS
    context = node.fetch_sessions.open(message, follower, by_id=by_id)
    if isinstance(context, Refused):
        return FetchResponse(error_code=context.error)
    fetch = _Fetch(node, request, message, context, replica)
    answer = fetch.read()
    if fetch.enough or message.max_wait_ms <= 0 or not context.items:
        return fetch.finish(answer)
    fetch.park()
    return None


def _refuse_all(request: Received, message: FetchRequest) -> FetchResponse:
    """What can't be meant. Up to version 12 it is answered partition by partition, as by Kafka."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    if request.version >= FIRST_VERSION_WITH_IDS:
        return FetchResponse(error_code=error)
    response = FetchResponse(error_code=error)
    for topic in message.topics:
        refused = [_refused(asked.partition, error) for asked in topic.partitions]
        for partition in refused:
            partition.aborted_transactions = []
        response.responses.append(FetchableTopicResponse(topic=topic.topic, partitions=refused))
    return response


def _refused(partition: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=[] if error in UNKNOWN else None,
        records=b"",
    )


def replica_id(message: FetchRequest) -> int:
    """Who fetches: a broker id, or a negative number for consumers."""
    if message.replica_state is not None and message.replica_state.replica_id >= 0:
        return message.replica_state.replica_id
    return message.replica_id


def _authenticated(
    node: Node, request: Received, message: FetchRequest, replica: int
) -> PeerIdentity | None:
    """The follower, when the connection proves it and it fetches as its current registration."""
    peer = request.peer
    if peer is None or replica != peer.broker_id:
        return None
    state = message.replica_state
    if state is None or state.replica_epoch != peer.broker_epoch:
        return None
    registered = node.cluster.brokers.get(replica)
    if registered is None or registered.broker_epoch != peer.broker_epoch:
        return None
    return peer


_new_response = blank(FetchResponse)
_new_topic = blank(FetchableTopicResponse)
_new_data = blank(PartitionData)

# What a look at one partition has found for the other side, with the bytes of records in it; None
# when that is no more than where the log begins and its high watermark. Without a partition it is
# always an error.
_Found = tuple["Partition | None", PartitionData | None, int]
_Look = tuple[FetchItem, "Partition | None", PartitionData | None, int]


class _Fetch(ParkedFetch):
    """One request on its way: read, perhaps parked and read again, answered once."""

    __slots__ = (
        "context",
        "enough",
        "incremental",
        "message",
        "node",
        "replica",
        "request",
    )

    def __init__(
        self,
        node: Node,
        request: Received,
        message: FetchRequest,
        context: FetchContext,
        replica: int,
    ) -> None:
        self.node = node
        self.request = request
        self.message = message
        self.context = context
        self.incremental = message.session_epoch > 0 and message.session_id != 0
        self.replica = replica
        self.enough = False  # set by `read`: the answer need not wait
        self.overtaken = False

    # ---- waiting -------------------------------------------------------------------------

    def park(self) -> None:
        """Wait for news of any partition, `max_wait_ms` at most."""
        node = self.node
        context = self.context
        context.park(self, node.now_ms + self.message.max_wait_ms, node.timers)
        context.watch(node.waits)
        node.waits.fetch_parked(self.request.connection, self)

    def try_complete(self) -> None:
        answer = self.read()
        if self.enough or self.overtaken:
            self._answer(answer)

    def give_up(self) -> None:
        """The connection is closed: a client may have been willing to wait for weeks."""
        self._leave()
        if not self.context.session_id:
            self.context.close(self.node.waits)

    def expire(self) -> None:
        self._answer(self.read())

    def _leave(self) -> None:
        self.context.parked = None
        self.node.waits.fetch_left(self.request.connection, self)

    def _answer(self, looks: list[_Look]) -> None:
        self._leave()
        self.node.reply(self.request, self.finish(looks))

    # ---- reading -------------------------------------------------------------------------

    def read(self) -> list[_Look]:
        """Look at every partition that may have news. Nothing is marked as sent yet."""
        message, context = self.message, self.context
        budget = min(message.max_bytes, self.node.config.fetch_max_bytes)
        found = 0
        urgent = False
        looks: list[_Look] = []
        nowhere: list[_Look] = []  # answered behind the others, as by Kafka
        # A copy: looking at a partition may move the high watermark, and that notes partitions.
        for item in context.in_turn() if self.incremental else list(context.items.values()):
            partition, data, size = self._look(item, budget, first=found == 0)
            if size:
                found += size
                budget = max(budget - size, 0)
            elif data is not None:
                urgent = True  # an error, or where else to look
            no_such = partition is None and data is not None and data.error_code in UNKNOWN
            (nowhere if no_such else looks).append((item, partition, data, size))
        self.enough = urgent or found >= max(message.min_bytes, 0)
        return looks + nowhere

    def _look(self, item: FetchItem, budget: int, *, first: bool) -> _Found:
        node = self.node
        partition = node.partitions.resolve_item(item)
        if not isinstance(partition, Partition):
            return None, self._refusal(item, partition), 0
        error = self._fence(partition, item)
        if error:
            return partition, self._refusal(item, error, partition), 0
        diverging = _divergence(partition, item)
        if diverging is not None:
            if isinstance(diverging, ErrorCode):
                return partition, self._refusal(item, diverging, partition), 0
            return partition, self._data(item, partition, diverging=diverging), 0
        log = partition.log
        if not log.log_start_offset <= item.fetch_offset <= log.log_end_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
            return partition, self._refusal(item, error, partition), 0
        if item.fresh:
            self._note_progress(partition, item)
        try:
            self._look_for_damage(partition, item)
            return self._read_log(partition, item, budget, first=first)
        except (DiskError, LogCorrupt) as failure:
            node.partitions.read_failed(partition, failure)
            return partition, self._refusal(item, self._unreadable(partition), partition), 0

    def _read_log(
        self, partition: Partition, item: FetchItem, budget: int, *, first: bool
    ) -> _Found:
        offset = item.fetch_offset
        if self.message.rack_id and self.replica == CONSUMER:
            closer = preferred_reader(self.node, partition, self.message.rack_id, offset)
            if closer is not None:
                data = self._data(item, partition)
                data.preferred_read_replica = closer
                data.aborted_transactions = None
                return partition, data, 0
        upto = self._readable_end(partition)
        if offset >= upto:
            item.more = False
            return partition, None, 0
        if item.max_bytes < 0 or self.message.max_bytes < 0:
            return partition, self._refusal(item, ErrorCode.UNKNOWN_SERVER_ERROR), 0
        if (budget <= 0 and not first) or self._held_back(partition):
            item.more = True
            return partition, None, 0
        limit = min(item.max_bytes, budget)
        whole = self.context.follower is not None  # clients are sent what fits, as by Kafka
        read = partition.log.read(offset, limit, upto=upto, min_one=first, whole=whole)
        if not isinstance(read, LogRead) or read.range is None:
            item.more = not first
            return partition, None, 0
        item.more = False
        data = self._data(item, partition)
        data.records = read.range
        if self.message.isolation_level == READ_COMMITTED and partition.log.aborted:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=t.producer_id, first_offset=t.first_offset)
                for t in partition.log.aborted.within_range(offset, read.range, upto)
            ]
        return partition, data, read.range.length

    def _look_for_damage(self, partition: Partition, item: FetchItem) -> None:
        """Who asks again for what it was just sent, or says that it refused it, may have been sent
        bytes that have rotted here. Raises DiskError."""
        follower = self.context.follower is not None
        if item.refused if follower else item.served_from == item.fetch_offset:
            item.refused = False
            self.node.partitions.damaged.look(partition, item.fetch_offset)

    def _unreadable(self, partition: Partition) -> ErrorCode:
        """Why records can't be read: somebody else is about to lead, or nobody has them."""
        alone = self.node.partitions.damaged.is_alone(partition.record)
        if partition.damage is not None and alone:
            return ErrorCode.CORRUPT_MESSAGE
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _held_back(self, partition: Partition) -> bool:
        follower = self.context.follower
        return follower is not None and self.node.throttles.holds_back(
            partition, follower.broker_id
        )

    def _fence(self, partition: Partition, item: FetchItem) -> ErrorCode:
        """Whether this replica may answer this fetcher at all."""
        record = partition.record
        if item.current_leader_epoch != record.leader_epoch and item.current_leader_epoch >= 0:
            error = partition.fence(item.current_leader_epoch)
            if error:
                return error
        if partition.leader is None and (
            self.replica != CONSUMER or self.request.version < FIRST_VERSION_FROM_FOLLOWERS
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.replica == CONSUMER and partition.is_leader and not self.node.lease.valid:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.replica >= 0 and (
            self.replica not in record.replicas or self.replica == self.node.broker_id
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _note_progress(self, partition: Partition, item: FetchItem) -> None:
        """The first look at what a follower asks for: it holds everything below."""
        follower = self.context.follower
        if (
            follower is not None
            and partition.leader is not None
            and item.current_leader_epoch == partition.leader_epoch
            and not _in_doubt(partition, item)
        ):
            held = item.fetch_offset
            if partition.topic.durable:
                held = min(held, item.synced_offset)
            self.node.partitions.follower_fetched(partition, follower, held)
            self.node.upkeep.deletions.follower_starts_at(
                partition, follower.broker_id, item.log_start_offset
            )
        item.fresh = False

    def _readable_end(self, partition: Partition) -> int:
        if self.replica != CONSUMER:
            return partition.log.log_end_offset
        if self.message.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark

    def _data(
        self, item: FetchItem, partition: Partition, *, diverging: EpochEndOffset | None = None
    ) -> PartitionData:
        high_watermark = partition.high_watermark
        start = partition.log_start_offset
        # A follower that ends where we begin may find that it has to begin anew: see `Fetcher`.
        begins = (
            self.context.follower is not None
            and 0 < item.fetch_offset == start
            and item.last_fetched_epoch != partition.leader_epoch
        )
        data = _new_data()
        data.partition_index = item.partition
        data.high_watermark = high_watermark
        data.last_stable_offset = partition.last_stable_below(high_watermark)
        data.log_start_offset = start
        if begins:
            data.producers = partition.producers_below(start)
        data.diverging_epoch = diverging
        if self.message.isolation_level != READ_COMMITTED or diverging is not None:
            data.aborted_transactions = None
        data.records = b""
        return data

    def _refusal(
        self, item: FetchItem, error: ErrorCode, partition: Partition | None = None
    ) -> PartitionData:
        data = _refused(item.partition, error)
        if partition is not None and self.context.follower is not None:
            # Tells a follower whose log ends below ours where it must begin anew, and with what.
            data.log_start_offset = start = partition.log_start_offset
            if error is ErrorCode.OFFSET_OUT_OF_RANGE and item.fetch_offset < start:
                data.producers = partition.producers_below(start)
        if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            self._hint_leader(item, data)
        return data

    def _hint_leader(self, item: FetchItem, data: PartitionData) -> None:
        record = None if item.tp is None else self.node.cluster.partition(item.tp)
        if record is not None and self.request.version >= FIRST_VERSION_WITH_LEADER_HINTS:
            data.current_leader = LeaderIdAndEpoch(
                leader_id=record.leader, leader_epoch=record.leader_epoch
            )

    # ---- answering -----------------------------------------------------------------------

    def finish(self, looks: list[_Look]) -> FetchResponse:
        """The response, with what it says noted as said."""
        context = self.context
        response = _new_response()
        response.session_id = context.session_id
        topic: FetchableTopicResponse | None = None
        hinted: set[int] = set()
        for item, partition, found, size in looks:
            if found is None and self.incremental and not _has_moved(item, partition):
                context.settle(item, served=False, refused=False)
                continue
            data = self._data(item, partition) if found is None and partition else found
            if data is None:
                continue
            if context.session_id:
                self._note_sent(item, data, served=size > 0)
            if size and context.follower is not None and partition is not None:
                self.node.throttles.sent(partition, context.follower.broker_id, size)
            if topic is None or topic.topic_id != item.topic_id or topic.topic != item.name:
                topic = _new_topic()
                topic.topic, topic.topic_id = item.name, item.topic_id
                response.responses.append(topic)
            topic.partitions.append(data)
            if data.current_leader is not None:
                hinted.add(data.current_leader.leader_id)
        if hinted and self.replica == CONSUMER:  # brokers know where brokers are
            response.node_endpoints = [
                NodeEndpoint(
                    node_id=broker.broker_id, host=end.host, port=end.port, rack=broker.rack
                )
                for broker, end in endpoints(self.node.cluster, sorted(hinted), self.request)
            ]
        if context.session_id:  # its topics may have become known by this look
            context.watch(self.node.waits)
        else:
            context.close(self.node.waits)
        return response

    def _note_sent(self, item: FetchItem, data: PartitionData, *, served: bool) -> None:
        item.sent_high_watermark = data.high_watermark
        item.sent_log_start = data.log_start_offset
        if served:
            item.served_from = item.fetch_offset
            if self.incremental:  # as by Kafka: the order of a full fetch is the one it names
                self.context.put_last(item)
        # Who is sent to a follower may come back, and then does not name the partition; who was
        # told that histories part may not have looked for a better offset yet.
        elsewhere = data.preferred_read_replica != NO_BROKER or data.diverging_epoch is not None
        refused = data.error_code != 0 or elsewhere
        self.context.settle(item, served=served, refused=refused)


def _has_moved(item: FetchItem, partition: Partition | None) -> bool:
    """Whether the other side has yet to hear of a high watermark or a log start."""
    return partition is not None and (
        partition.high_watermark != item.sent_high_watermark
        or partition.log.log_start_offset != item.sent_log_start
    )


def _in_doubt(partition: Partition, item: FetchItem) -> bool:
    """Whether what a follower holds may be of another history, which nobody here can tell: it ends
    where our log begins, so the epochs of all that are forgotten. It will copy our log anew."""
    return (
        item.fetch_offset == partition.log.log_start_offset
        and item.high_watermark < item.fetch_offset
        and 0 <= item.last_fetched_epoch < partition.leader_epoch
    )


def _divergence(partition: Partition, item: FetchItem) -> EpochEndOffset | ErrorCode | None:
    """Where the history of the other side leaves ours (KIP-595), or None while it agrees."""
    last_epoch = item.last_fetched_epoch
    if last_epoch < 0 or (
        last_epoch == partition.log.latest_epoch
        and item.fetch_offset <= partition.log.log_end_offset
    ):
        return None
    epoch, end = partition.log.end_offset_for_epoch(last_epoch)
    if epoch < 0 or end < 0:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if epoch < item.last_fetched_epoch or end < item.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end)
    return None
