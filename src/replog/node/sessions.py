"""Fetch sessions (KIP-227): what a fetcher wants is remembered, so that it need not repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.model.errors import ErrorCode, Refused
from replog.model.inputs import PeerIdentity
from replog.model.messages.fetch import FetchPartition, FetchRequest
from replog.node.fetch_context import FetchContext, FetchItem

if TYPE_CHECKING:
    from replog.node.node import Node

NEW_SESSION = 0  # session epoch of a full fetch that asks for a session
NO_SESSION = -1  # session epoch of a full fetch without one; ends a session that is named
SESSION_ID_END = 2**31
EPOCH_END = 2**31

# A session unused for so long may be given up for another when all slots are taken (Kafka's default
# of min.incremental.fetch.session.eviction.ms).
EVICTABLE_AFTER_MS = 120_000


class FetchSessions:
    """All sessions of this node, bounded by `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._sessions: dict[int, FetchContext] = {}

    def open(
        self, message: FetchRequest, follower: PeerIdentity | None, *, by_id: bool
    ) -> FetchContext | Refused:
        """The context of one request: a known session brought up to date, or a new one.

        `by_id`: this version of the request names topics by id.
        """
        if message.session_epoch in (NEW_SESSION, NO_SESSION):
            self._close(self._sessions.get(message.session_id))
            session_id = self._new_id() if message.session_epoch == NEW_SESSION else 0
            context = FetchContext(session_id=session_id, follower=follower, uses_topic_ids=by_id)
            self._take(context, message)
            if session_id:
                self._sessions[session_id] = context
        else:
            known = self._sessions.get(message.session_id)
            refused = self._refuse(known, message, follower, by_id=by_id)
            if known is None or refused is not None:
                return refused or Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            context = known
            context.epoch = context.epoch + 1 if context.epoch + 1 < EPOCH_END else 1
            if context.parked is not None:  # the fetcher has news: it need not wait any longer
                context.parked.overtaken = True
                context.parked.try_complete()
            self._take(context, message)
            for forgotten in message.forgotten_topics_data:
                named = forgotten.topic_id if by_id else forgotten.topic
                for partition in forgotten.partitions:
                    context.forget((named, partition), self._node.waits)
            if not context.items:
                self._close(context)
                context.session_id = 0
        context.last_used_ms = self._node.now_ms
        return context

    @staticmethod
    def _refuse(
        known: FetchContext | None,
        message: FetchRequest,
        follower: PeerIdentity | None,
        *,
        by_id: bool,
    ) -> Refused | None:
        # A session belongs to one registration of a follower, or to consumers.
        if known is None or (known.follower is not follower and known.follower != follower):
            return Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if message.session_epoch != known.epoch:
            return Refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if by_id != known.uses_topic_ids and (message.topics or message.forgotten_topics_data):
            return Refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return None

    def _take(self, context: FetchContext, message: FetchRequest) -> None:
        """Bring `context` up to date with what the request names."""
        for topic in message.topics:
            named = topic.topic_id if context.uses_topic_ids else topic.topic
            for wanted in topic.partitions:
                key = (named, wanted.partition)
                item = context.items.get(key)
                if item is not None:
                    context.pending[key] = item
                else:
                    item = FetchItem(
                        topic.topic,
                        topic.topic_id,
                        wanted.partition,
                        by_id=context.uses_topic_ids,
                    )
                    context.add(item)
                self._update(item, wanted)
                if context.follower is not None:
                    # A follower may have thrown away what it was told before (another epoch, a
                    # truncation, an answer that overtook another): it is told anew.
                    item.sent_high_watermark = -1
                if item.tp is None:
                    self._node.partitions.resolve_item(item)

    @staticmethod
    def _update(item: FetchItem, wanted: FetchPartition) -> None:
        item.fetch_offset = wanted.fetch_offset
        item.current_leader_epoch = wanted.current_leader_epoch
        item.last_fetched_epoch = wanted.last_fetched_epoch
        item.log_start_offset = wanted.log_start_offset
        item.synced_offset = wanted.synced_offset
        item.high_watermark = wanted.high_watermark
        item.refused = wanted.refused
        item.max_bytes = wanted.partition_max_bytes
        item.fresh = True

    def _new_id(self) -> int:
        """A free session id, or 0 when there is no room for a session."""
        slots = self._node.config.int("max.incremental.fetch.session.cache.slots")
        if len(self._sessions) >= slots and not self._evict():
            return 0
        while True:
            session_id = self._node.rng.randrange(1, SESSION_ID_END)
            if session_id not in self._sessions:
                return session_id

    def _evict(self) -> bool:
        oldest = min(self._sessions.values(), key=lambda c: c.last_used_ms, default=None)
        if oldest is None or self._node.now_ms - oldest.last_used_ms < EVICTABLE_AFTER_MS:
            return False
        self._close(oldest)
        return True

    def _close(self, context: FetchContext | None) -> None:
        if context is not None:
            self._sessions.pop(context.session_id, None)
            context.close(self._node.waits)
