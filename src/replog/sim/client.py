"""What all simulated clients have in common: connections, time-outs and a view of who leads what.

Clients know only what real ones know: the addresses to begin with, and what brokers answer. They
live outside of the cluster and are never faulty themselves.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.base import Request
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.sim.chance import Chance
from replog.sim.connection import Connection, Dialer
from replog.sim.network import Network
from replog.sim.schedule import Schedule, Target
from replog.sim.transfer import newest_version

OnAnswer = Callable[[Message | None], None]

REFRESH_BACKOFF_MS: Final = 20.0  # between two questions for metadata; doubles while in vain
REFRESH_BACKOFF_MS_MAX: Final = 160.0
METADATA_TIMEOUT_MS: Final = 400.0


class Ground(Protocol):
    """What a client needs of its world."""

    schedule: Schedule
    chance: Chance
    network: Network
    brokers: tuple[int, ...]

    def dial(
        self, dialer: Dialer, source: str, broker_id: int, peer: None = None
    ) -> Connection: ...


class _Open:
    """A request that has no answer."""

    __slots__ = ("connection", "on_answer")

    def __init__(self, connection: Connection, on_answer: OnAnswer) -> None:
        self.connection = connection
        self.on_answer: OnAnswer | None = on_answer


class SimClient(Target):
    """A client. Subclasses say what it does; `versions` what it speaks, by message class."""

    def __init__(self, ground: Ground, name: str, topics: Iterable[str]) -> None:
        super().__init__(name)
        self.ground = ground
        self.schedule = ground.schedule
        self.topics = tuple(topics)
        self.versions: dict[type[Message], int] = {}
        self.stopped = False
        # partition -> (leader, leader epoch); an older epoch than the known one is never taken
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._connections: dict[int, Connection] = {}
        self._open: dict[Connection, deque[_Open]] = {}
        self._refreshing = False
        self._refreshed_in_vain = 0  # in a row

    def take(self, item: Any) -> None:
        """An action is due."""
        item()

    def later(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Run `action` after a delay."""
        self.schedule.after(delay_ms, self, action)

    def draw(self, what: str) -> float:
        """A random number of this client in [0, 1)."""
        return self.ground.chance.at(f"{self.name}/{what}").random()

    # ---- requests ---------------------------------------------------------------------------

    def ask(self, broker_id: int, message: Request, on_answer: OnAnswer, timeout_ms: float) -> None:
        """Send; `on_answer` gets the answer, or None when the connection broke or time was over."""
        connection = self._connections.get(broker_id)
        if connection is None:
            connection = self.ground.dial(self, self.name, broker_id)
            self._connections[broker_id] = connection
            self._open[connection] = deque()
        question = _Open(connection, on_answer)
        self._open[connection].append(question)
        connection.ask(message, self.versions.get(type(message), newest_version(message)))
        self.later(timeout_ms, lambda: self._timed_out(question))

    def tell(self, broker_id: int, message: Request) -> None:
        """Send what has no answer (acks=0)."""
        connection = self._connections.get(broker_id)
        if connection is None:
            connection = self.ground.dial(self, self.name, broker_id)
            self._connections[broker_id] = connection
            self._open[connection] = deque()
        version = self.versions.get(type(message), newest_version(message))
        connection.ask(message, version, answered=False)

    def connected(self, connection: Connection, acceptor_epoch: int) -> None:
        """Clients may send before they are greeted, as over a TCP connection."""

    def answered(self, connection: Connection, message: Message) -> None:
        question = self._open[connection].popleft()
        on_answer, question.on_answer = question.on_answer, None
        if on_answer is not None:
            on_answer(message)

    def closed(self, connection: Connection, reason: str) -> None:
        self._forget(connection)

    def _timed_out(self, question: _Open) -> None:
        if question.on_answer is not None:
            question.connection.hang_up()
            self._forget(question.connection)

    def _forget(self, connection: Connection) -> None:
        for broker_id, known in list(self._connections.items()):
            if known is connection:
                del self._connections[broker_id]
        for question in self._open.pop(connection, ()):
            on_answer, question.on_answer = question.on_answer, None
            if on_answer is not None:
                on_answer(None)

    # ---- metadata ---------------------------------------------------------------------------

    def refresh(self) -> None:
        """Ask a broker who leads what, unless that is under way; `refreshed` runs afterwards."""
        if not self._refreshing and not self.stopped:
            self._refreshing = True
            longest = min(REFRESH_BACKOFF_MS * 2**self._refreshed_in_vain, REFRESH_BACKOFF_MS_MAX)
            self.later(longest * (0.5 + self.draw("backoff")), self._ask_metadata)

    def _ask_metadata(self) -> None:
        brokers = self.ground.brokers
        broker_id = brokers[int(self.draw("bootstrap") * len(brokers))]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in self.topics],
            allow_auto_topic_creation=False,
        )
        self.ask(broker_id, request, self._on_metadata, METADATA_TIMEOUT_MS)

    def _on_metadata(self, message: Message | None) -> None:
        self._refreshing = False
        if self.stopped:
            return
        complete = isinstance(message, MetadataResponse)
        if isinstance(message, MetadataResponse):
            for topic in message.topics:
                if topic.error_code or topic.name is None:
                    complete = False
                    continue
                self._know(topic.name, topic.topic_id)
                for part in topic.partitions:
                    tp = TopicPartition(topic.name, part.partition_index)
                    known = self.leaders.get(tp, (-1, -1))
                    if part.leader_epoch >= known[1]:
                        self.leaders[tp] = (part.leader_id, part.leader_epoch)
                    leads = self.leaders.get(tp, known)[0] >= 0
                    complete = complete and leads and part.error_code == ErrorCode.NONE
        self._refreshed_in_vain = 0 if complete else min(self._refreshed_in_vain + 1, 5)
        self.refreshed()
        if not complete:
            self.refresh()

    def _know(self, name: str, topic_id: bytes) -> None:
        """The topic of this name has this id: what is known of another one is void."""
        if self.topic_ids.get(name) != topic_id:
            self.topic_ids[name] = topic_id
            self.leaders = {tp: led for tp, led in self.leaders.items() if tp.topic != name}

    def refreshed(self) -> None:
        """New metadata was looked at."""
