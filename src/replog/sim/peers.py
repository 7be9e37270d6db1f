"""A broker's connections to its peers: one for each (peer, channel, lane), dialled when there is
something to send.

Stands for `runtime.peers`. A send that wants another registration than the one that answered
fails, and a connection made under an earlier registration of either side is given up first.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from replog.model.inputs import PeerFailed, PeerIdentity, PeerReplied
from replog.model.messages import Message
from replog.model.messages.base import Request
from replog.model.outputs import Channel, Send
from replog.sim.connection import Connection, Dialer
from replog.sim.schedule import Schedule, Target
from replog.sim.transfer import newest_version


class Owner(Protocol):
    """The process that the connections belong to."""

    broker_id: int

    @property
    def broker_epoch(self) -> int: ...

    def arrived(self, event: PeerReplied | PeerFailed) -> None:
        """An input for the node."""
        ...

    def when_awake(self, action: Callable[[], None]) -> None:
        """Run `action` now, or when the process is resumed."""
        ...


# Whom a connection leads to, what for, and which of several.
_Key = tuple[int, Channel, int]
Dial = Callable[[Dialer, int, PeerIdentity], Connection]


class _Timeout(Target):
    """Tells a line that the time of one of its sends is over."""

    def __init__(self, line: "_Line") -> None:
        super().__init__(f"timeout of {line.name}")
        self._line = line

    def take(self, item: Send) -> None:
        line = self._line
        line.owner.when_awake(lambda: line.timed_out(item))


class _Line:
    """One connection to one peer, or the wish for one."""

    def __init__(self, owner: Owner, schedule: Schedule, dial: Dial, key: _Key):
        peer_id, channel, lane = key
        self.owner = owner
        self.name = f"b{owner.broker_id}>b{peer_id} {channel.value}{lane or ''}"
        self._schedule = schedule
        self._dial = dial
        self._peer_id = peer_id
        self._connection: Connection | None = None
        self._own_epoch = -1
        self._peer_epoch: int | None = None  # None until the peer has greeted
        self._backlog: deque[Send] = deque()  # not yet asked
        self._waiting: deque[Send] = deque()  # asked, in order
        self._timeouts = _Timeout(self)

    def send(self, send: Send) -> None:
        """Carry out one `Send`."""
        stale = self._own_epoch != self.owner.broker_epoch or (
            self._peer_epoch is not None and self._peer_epoch != send.broker_epoch
        )
        if self._connection is not None and stale:
            self._give_up("another registration")
        if self._connection is None:
            self._own_epoch = self.owner.broker_epoch
            self._peer_epoch = None
            identity = PeerIdentity(self.owner.broker_id, self._own_epoch)
            self._connection = self._dial(self, self._peer_id, identity)
        self._schedule.after(send.timeout_ms, self._timeouts, send)
        if self._peer_epoch is None:
            self._backlog.append(send)
        else:
            self._ask(send)

    def timed_out(self, send: Send) -> None:
        """The connection is given up when `send` still has no answer."""
        if any(open_send is send for open_send in (*self._waiting, *self._backlog)):
            self._give_up("timed out")

    def hang_up(self) -> None:
        """The process is gone."""
        if self._connection is not None:
            self._connection.hang_up()
            self._connection = None

    def vanish(self, notice_mean_ms: float) -> None:
        """The host is gone: nobody is told."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.lose_end("dialer", notice_mean_ms)

    # ---- what the connection tells ----------------------------------------------------------

    def connected(self, connection: Connection, acceptor_epoch: int) -> None:
        self.owner.when_awake(lambda: self._connected(connection, acceptor_epoch))

    def answered(self, connection: Connection, message: Message) -> None:
        self.owner.when_awake(lambda: self._answered(connection, message))

    def closed(self, connection: Connection, reason: str) -> None:
        self.owner.when_awake(lambda: self._closed(connection, reason))

    def _connected(self, connection: Connection, acceptor_epoch: int) -> None:
        if connection is not self._connection:
            return
        self._peer_epoch = acceptor_epoch
        backlog, self._backlog = self._backlog, deque()
        for send in backlog:
            if send.broker_epoch == acceptor_epoch:
                self._ask(send)
            else:
                self._fail(send, f"registration {acceptor_epoch} answered")

    def _answered(self, connection: Connection, message: Message) -> None:
        if connection is self._connection:
            send = self._waiting.popleft()
            self.owner.arrived(PeerReplied(send.token, self._peer_id, message))

    def _closed(self, connection: Connection, reason: str) -> None:
        if connection is self._connection:
            self._connection = None
            self._fail_all(reason)

    # ---- inside -------------------------------------------------------------------------------

    def _ask(self, send: Send) -> None:
        assert self._connection is not None
        assert isinstance(send.message, Request)
        self._waiting.append(send)
        self._connection.ask(send.message, newest_version(send.message))

    def _give_up(self, reason: str) -> None:
        assert self._connection is not None
        self._connection.hang_up()
        self._connection = None
        self._fail_all(reason)

    def _fail_all(self, reason: str) -> None:
        failed = [*self._waiting, *self._backlog]
        self._waiting.clear()
        self._backlog.clear()
        for send in failed:
            self._fail(send, reason)

    def _fail(self, send: Send, reason: str) -> None:
        self.owner.arrived(PeerFailed(send.token, self._peer_id, reason))


class Peers:
    """All lines of one process."""

    def __init__(self, owner: Owner, schedule: Schedule, dial: Dial) -> None:
        self._owner = owner
        self._schedule = schedule
        self._dial = dial
        self._lines: dict[_Key, _Line] = {}

    def send(self, send: Send) -> None:
        """Carry out one `Send`."""
        key = (send.broker_id, send.channel, send.lane)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self._owner, self._schedule, self._dial, key)
        line.send(send)

    def hang_up(self) -> None:
        """The process is gone: all connections break."""
        for line in self._lines.values():
            line.hang_up()

    def vanish(self, notice_mean_ms: float) -> None:
        """The host is gone, and the other ends notice late."""
        for line in self._lines.values():
            line.vanish(notice_mean_ms)
