"""One connection to a broker, as a client or another broker opens it.

The acceptor is the process that runs at the place when the greeting arrives. It answers requests
in any order; answers leave in the order of the requests. Broker to broker, both sides say in the
greeting which registration they are, and neither changes while the connection lives.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from replog.model.inputs import ConnectionClosed, PeerIdentity, Received
from replog.model.messages import Message
from replog.model.messages.base import Request
from replog.sim.network import EndOfStream, Freezable, Network, Pipe
from replog.sim.transfer import Courier, Parcel


class Dialer(Protocol):
    """Who opened a connection."""

    def connected(self, connection: "Connection", acceptor_epoch: int) -> None:
        """The acceptor greeted back; requests may be sent."""
        ...

    def answered(self, connection: "Connection", message: Message) -> None:
        """The answer to the oldest request that has none."""
        ...

    def closed(self, connection: "Connection", reason: str) -> None:
        """Nothing more comes; not called after `hang_up`."""
        ...


class Acceptor(Protocol):
    """A running process, as a connection sees it."""

    connections: dict[int, "Connection"]

    def greeted(self, connection: "Connection") -> None:
        """A connection was accepted. When awake, call `connection.welcome`."""
        ...

    def arrived(self, event: Received | ConnectionClosed) -> None:
        """Something for the node."""
        ...


class _Greeting:
    """First item of the forward pipe."""


class _Welcome:
    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch


class _Asked(Freezable):
    """A request under way."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel


class Answer(Freezable):
    """An answer under way."""

    def __init__(self, parcel: Parcel) -> None:
        self.parcel = parcel

    def freeze(self) -> None:
        self.parcel.freeze()


class Slot:
    """A request that the acceptor has taken and whose answer has not left."""

    __slots__ = ("answer", "done", "request", "token")

    def __init__(self, token: int, request: Received) -> None:
        self.token = token
        self.request = request
        self.answer: Parcel | None = None
        self.done = False


class Connection:
    """Both ends and the two pipes between them."""

    def __init__(
        self,
        network: Network,
        number: int,
        dialer: Dialer,
        *,
        link: tuple[str, str],
        find: Callable[[], Acceptor | None],
        courier: Courier,
        client_id: str,
        peer: PeerIdentity | None = None,
    ) -> None:
        self.number = number
        self.link = link
        self.peer = peer  # who the dialer claims to be
        self.slots: deque[Slot] = deque()
        self.acceptor: Acceptor | None = None
        self._dialer: Dialer | None = dialer
        self._find = find
        self._courier = courier
        self._client_id = client_id
        self._network = network
        self._token = 0
        self._forward = Pipe(network, link, self._reached_acceptor)
        self._backward = Pipe(network, (link[1], link[0]), self._reached_dialer)
        self._forward.put(_Greeting())

    # ---- the dialer's side ----------------------------------------------------------------

    def ask(self, message: Request, version: int, *, answered: bool = True) -> None:
        """Send a request. `answered` is False when no answer will come."""
        if self._breaks():
            self.reset("connection reset")
            return
        self._forward.put(_Asked(self._courier.ask(message, version, answered=answered)))

    def hang_up(self, *, keep: int | None = None) -> None:
        """The dialer closes, or its process is gone: it hears nothing more."""
        self._dialer = None
        self._backward.drop()
        self._forward.finish("closed by the other side", keep=keep)

    def _reached_dialer(self, item: Any) -> None:
        dialer = self._dialer
        if dialer is None:
            return
        if isinstance(item, Answer):
            dialer.answered(self, self._courier.answered(item.parcel))
        elif isinstance(item, _Welcome):
            dialer.connected(self, item.broker_epoch)
        elif isinstance(item, EndOfStream):
            self._dialer = None
            dialer.closed(self, item.reason)

    # ---- the acceptor's side --------------------------------------------------------------

    def welcome(self, broker_epoch: int) -> None:
        """Greet back, as the registration that the acceptor has now."""
        self._backward.put(_Welcome(broker_epoch))

    def answer(self, token: int, message: Message | None, *, flip: bool = False) -> bool:
        """The answer to a request, or None when none is expected; it leaves in its turn.

        `flip`: with a wrong bit in its records. True when that was done."""
        flipped = False
        slot = next((s for s in self.slots if s.token == token and not s.done), None)
        if slot is None:
            raise KeyError(f"request {token} of connection {self.number} was answered before")
        slot.done = True
        if message is not None:
            slot.answer = Parcel(message)
            if flip:
                flipped = slot.answer.flip(self._network.chance.at(f"flip/{self.link[1]}"))
                self._network.flips += flipped
        while self.slots and self.slots[0].done:
            first = self.slots.popleft()
            if first.answer is None:
                self._courier.no_answer(first.token)
                continue
            if self._breaks():
                self.reset("connection reset")
                break
            self._courier.answer(first.token, first.answer)
            self._backward.put(Answer(first.answer))
        return flipped

    def request_of(self, token: int) -> Received:
        """The request that `token` names. KeyError when it was answered."""
        for slot in self.slots:
            if slot.token == token and not slot.done:
                return slot.request
        raise KeyError(f"request {token} of connection {self.number} is not open")

    def refuse(self, reason: str, *, keep: int | None = None) -> None:
        """The acceptor closes, or its process is gone."""
        self._forward.drop()
        self._leave_acceptor()
        self._backward.finish(reason, keep=keep)

    def die_in_step(self, reason: str) -> None:
        """The acceptor's process died in the middle of a step that may have cut a log: an answer
        that it had not read from there by then does not arrive, nor what is behind it."""
        for index, (_, item) in enumerate(self._backward.items):
            if isinstance(item, Answer) and item.parcel.changed:
                self.refuse(reason, keep=index)
                return
        self.refuse(reason)

    def invalidate(self, file: object, position: int) -> bool:
        """Close when an answer that has not arrived holds bytes of `file` from `position` on."""
        under_way = [
            item.parcel if isinstance(item, Answer) else None for _, item in self._backward.items
        ]
        to_come = [slot.answer for slot in self.slots]
        if not any(parcel and parcel.touches(file, position) for parcel in (*under_way, *to_come)):
            return False
        # The step may have cut further logs, of which is told next: answers before may be of those.
        kept = (
            index
            for index, parcel in enumerate(under_way)
            if parcel and (parcel.touches(file, position) or parcel.changed)
        )
        self.refuse("the log was truncated", keep=next(kept, None))
        return True

    def _reached_acceptor(self, item: Any) -> None:
        if isinstance(item, _Greeting):
            self.acceptor = self._find()
            if self.acceptor is None:
                self.refuse("connection refused")
                return
            self.acceptor.connections[self.number] = self
            self.acceptor.greeted(self)
        elif self.acceptor is None:
            return
        elif isinstance(item, _Asked):
            self._token += 1
            version, message = self._courier.asked(item.parcel)
            received = Received(
                self.number,
                self._token,
                version,
                message,
                client_id=self._client_id,
                client_host=self.link[0],
                listener="PLAINTEXT",
                peer=self.peer,
            )
            self.slots.append(Slot(self._token, received))
            self.acceptor.arrived(received)
        elif isinstance(item, EndOfStream):
            self._leave_acceptor()

    def _leave_acceptor(self) -> None:
        acceptor, self.acceptor = self.acceptor, None
        self.slots.clear()
        if acceptor is not None and acceptor.connections.pop(self.number, None) is not None:
            acceptor.arrived(ConnectionClosed(self.number))

    # ---- the network ----------------------------------------------------------------------

    def reset(self, reason: str) -> None:
        """The connection breaks: each side still gets a part of what is under way to it."""
        self._forward.finish(reason)
        self._backward.finish(reason)

    def lose_end(self, end: str, notice_mean_ms: float) -> None:
        """The connection is gone for the "dialer" or the "acceptor", and the other end does not
        hear of it for a while. What is under way arrives."""
        delay = self._network.chance.at(f"notice/{self.link[0]}>{self.link[1]}")
        notice_ms = delay.expovariate(1.0) * notice_mean_ms
        if end == "dialer":
            dialer, self._dialer = self._dialer, None
            self._backward.drop()
            self._forward.fall_silent(notice_ms)
            if dialer is not None:
                dialer.closed(self, "connection lost")
        else:
            self._forward.drop()
            self._leave_acceptor()
            self._backward.fall_silent(notice_ms)

    def _breaks(self) -> bool:
        network = self._network
        site = f"reset/{self.link[0]}>{self.link[1]}"
        broken = network.chance.happens(site, network.weather.reset_probability)
        network.resets += broken
        return broken
