"""One conversation of fetches: a fetch session (KIP-227), or a single fetch without one.

A context knows which partitions the other side wants, from which offsets, and what it was last
told. Only partitions that may have news are looked at (`pending`): those named in the request,
those that changed since, and those that still had more to give. A session with a thousand idle
partitions costs nothing per fetch.
"""

from __future__ import annotations

from operator import attrgetter

from replog.model.ids import TopicPartition
from replog.model.inputs import PeerIdentity
from replog.node.timers import Timer, Timers
from replog.node.waits import Waits

ItemKey = tuple[str | bytes, int]  # topic as the request names it (name or id), partition


class FetchItem:
    """One partition as the other side asks for it, and what it was last told of it."""

    __slots__ = (
        "by_id",
        "current_leader_epoch",
        "fetch_offset",
        "fresh",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "more",
        "name",
        "partition",
        "refused",
        "sent_high_watermark",
        "sent_log_start",
        "served_from",
        "synced_offset",
        "topic_id",
        "tp",
        "turn",
        "watched",
    )

    def __init__(self, name: str, topic_id: bytes, partition: int, *, by_id: bool) -> None:
        self.by_id = by_id  # the topic is named by its id, and `name` is empty
        self.name = name
        self.topic_id = topic_id
        self.partition = partition
        self.tp: TopicPartition | None = None  # None while the topic is not known
        self.turn = 0  # its place among the partitions of its context
        self.watched = False
        self.fresh = True  # named in a request that was not looked at yet
        self.fetch_offset = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1  # of a follower's log
        self.synced_offset = -1  # of a follower with durability `fsync`
        self.high_watermark = -1  # of a follower whose newest records are of an earlier epoch
        self.refused = False  # a follower could not take the batch at `fetch_offset`
        self.served_from = -1  # the offset of the last answer with records, in a session
        self.max_bytes = 0
        self.more = False  # there was no room in the answer for what could be read
        self.sent_high_watermark = -1
        self.sent_log_start = -1

    @property
    def key(self) -> ItemKey:
        return (self.topic_id if self.by_id else self.name, self.partition)


_turn = attrgetter("turn")


class ParkedFetch:
    """What a context does about its parked request; `handlers.fetch` implements it."""

    context: FetchContext
    overtaken: bool = False  # a partition changed its role: answer now, whatever there is

    def try_complete(self) -> None:
        """Answer when there is enough to send, or when it was overtaken."""
        raise TypeError("a parked fetch must say how it is completed")

    def expire(self) -> None:
        """It has waited as long as it wanted to: answer."""
        raise TypeError("a parked fetch must say how it expires")

    def give_up(self) -> None:
        """Nobody waits for the answer any more."""
        raise TypeError("a parked fetch must say how it is given up")


class FetchContext:
    """Partitions of one session, or of one fetch when `session_id` is 0."""

    __slots__ = (
        "_alarm",
        "_turns",
        "_until_ms",
        "_unwatched",
        "epoch",
        "follower",
        "items",
        "last_used_ms",
        "parked",
        "pending",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self, *, session_id: int, follower: PeerIdentity | None, uses_topic_ids: bool
    ) -> None:
        self.session_id = session_id
        self.epoch = 1  # of the next request of the session
        self.follower = follower
        self.uses_topic_ids = uses_topic_ids
        self.items: dict[ItemKey, FetchItem] = {}
        self.pending: dict[ItemKey, FetchItem] = {}
        self.parked: ParkedFetch | None = None
        self.last_used_ms = 0.0
        self._turns = 0  # that were given so far
        self._until_ms = 0.0  # as long as `parked` waits
        # One for all that are parked here, one after the other: it may go off too early.
        self._alarm: Timer | None = None
        self._unwatched: dict[ItemKey, FetchItem] = {}  # no changes of theirs are told yet

    def note(self, key: ItemKey) -> None:
        """The partition may have news for the other side."""
        item = self.items.get(key)
        if item is not None:
            self.pending[key] = item

    def add(self, item: FetchItem) -> None:
        key = item.key
        self.items[key] = item
        self.pending[key] = item
        self._unwatched[key] = item
        self.put_last(item)

    def in_turn(self) -> list[FetchItem]:
        """Those that may have news, in the order in which Kafka looks at them: as they were first
        named, but for those that were `put_last`."""
        pending = list(self.pending.values())
        if len(pending) > 1:
            pending.sort(key=_turn)
        return pending

    def put_last(self, item: FetchItem) -> None:
        """Others come first from now on: they get their turn when an answer is full."""
        self._turns += 1
        item.turn = self._turns

    def park(self, fetch: ParkedFetch, until_ms: float, timers: Timers) -> None:
        """`fetch` waits here, and expires at `until_ms` unless it leaves before."""
        self.parked = fetch
        self._until_ms = until_ms
        alarm = self._alarm
        if alarm is None or alarm.deadline_ms > until_ms:
            if alarm is not None:
                alarm.cancel()
            self._set_alarm(timers)

    def _set_alarm(self, timers: Timers) -> None:
        def due() -> None:
            self._alarm = None
            if self.parked is None:
                return
            if self._until_ms <= alarm.deadline_ms:
                self.parked.expire()
            else:
                self._set_alarm(timers)

        self._alarm = alarm = timers.call_at(self._until_ms, due)

    def settle(self, item: FetchItem, *, served: bool, refused: bool) -> None:
        """After an answer: who has no news is not looked at again.

        A consumer that was served is looked at in any case, and one that was refused is told again
        each time. A follower names each partition anew after it was told something.
        """
        if item.more or ((served or refused) and self.follower is None):
            return
        self.pending.pop(item.key, None)

    def watch(self, waits: Waits) -> None:
        """Be told of changes to every partition that is known here."""
        if not self._unwatched:
            return
        for key, item in list(self._unwatched.items()):
            if item.tp is not None:
                waits.watch(item.tp, self, key)
                item.watched = True
                del self._unwatched[key]

    def forget(self, key: ItemKey, waits: Waits) -> None:
        """The other side wants this partition no more; does nothing when it is not here."""
        item = self.items.pop(key, None)
        self.pending.pop(key, None)
        self._unwatched.pop(key, None)
        if item is not None:
            self._unwatch(item, waits)

    def close(self, waits: Waits) -> None:
        """Nothing of this context is wanted any more."""
        for item in self.items.values():
            self._unwatch(item, waits)
        self.items.clear()
        self.pending.clear()
        self._unwatched.clear()
        if self._alarm is not None and self.parked is None:  # who is parked has to be answered
            self._alarm.cancel()
            self._alarm = None

    def _unwatch(self, item: FetchItem, waits: Waits) -> None:
        if item.watched and item.tp is not None:
            waits.unwatch(item.tp, self)
            item.watched = False
