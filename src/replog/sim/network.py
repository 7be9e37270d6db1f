"""The simulated network: places, links that delay or are cut, and the directed pipes that make a
connection.

A pipe keeps order, as TCP does. What gets lost is always a tail: when a connection breaks, a
prefix of what was under way still arrives, and then the end of the stream. A cut link holds back
whatever is due on it, until it is mended; so the other side learns late, and old requests may
still arrive after their sender gave up.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from replog.sim.chance import Chance
from replog.sim.schedule import Schedule, Target

Link = tuple[str, str]  # from one place to another, in this direction only


@dataclass(slots=True)
class Weather:
    """How the links are at the moment."""

    mean_ms: float = 0.5  # of the exponential delay of every message
    spike_probability: float = 0.0  # that a message is delayed much longer
    spike_ms: float = 100.0  # mean of that longer delay
    reset_probability: float = 0.0  # that the connection breaks instead of carrying a message


class Network:
    """Delays and cuts by link. Places are named, e.g. "b1", "c3", "coordinator"."""

    def __init__(self, schedule: Schedule, chance: Chance, weather: Weather) -> None:
        self.schedule = schedule
        self.chance = chance
        self.weather = weather
        self.late_messages = 0
        self.resets = 0
        self.flips = 0  # answers with a wrong bit in their records
        self._cuts: dict[Link, int] = {}
        self._drips: dict[Link, float] = {}
        self._held: dict[Link, dict[Pipe, None]] = {}

    def is_cut(self, link: Link) -> bool:
        return link in self._cuts

    def cut(self, links: Iterable[Link]) -> None:
        """Nothing passes these links until each was mended as often as it was cut."""
        for link in links:
            self._cuts[link] = self._cuts.get(link, 0) + 1

    def mend(self, links: Iterable[Link]) -> None:
        """Undo one cut of each link; what was held back goes on its way."""
        for link in links:
            left = self._cuts.get(link, 0) - 1
            if left > 0:
                self._cuts[link] = left
                continue
            self._cuts.pop(link, None)
            for pipe in self._held.pop(link, {}):
                pipe.resume()

    def hold(self, pipe: "Pipe") -> None:
        """`pipe` has something due and its link is cut: it goes on when the link is mended."""
        self._held.setdefault(pipe.link, {})[pipe] = None

    def drip(self, links: Iterable[Link], pause_ms: float) -> None:
        """Each connection on these links has a pause between two messages; 0: no more."""
        for link in links:
            self._drips[link] = pause_ms

    def pause_ms(self, link: Link) -> float:
        """The least time between two messages of one connection."""
        return self._drips.get(link, 0.0)

    def delay_ms(self, link: Link) -> float:
        """How long the next message on `link` is under way."""
        weather = self.weather
        stream = self.chance.at(f"network/{link[0]}>{link[1]}")
        delay = 0.02 + stream.expovariate(1.0) * weather.mean_ms
        if weather.spike_probability and stream.random() < weather.spike_probability:
            self.late_messages += 1
            delay += stream.expovariate(1.0) * weather.spike_ms
        return delay


class Freezable:
    """An item whose content is read when it is delivered, unless it was frozen before."""

    def freeze(self) -> None:
        """Read the content now: the bytes have left the process."""


class EndOfStream:
    """The last item of a pipe."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Pipe(Target):
    """One direction of a connection; `sink` gets each item when it arrives."""

    def __init__(self, network: Network, link: Link, sink: Callable[[Any], None]) -> None:
        super().__init__(f"{link[0]}>{link[1]}")
        self.link = link
        self.items: deque[tuple[float, Any]] = deque()
        self._network = network
        self._sink = sink
        self._last_due = 0.0
        self._armed = False
        self._ended = False

    def put(self, item: Any) -> None:
        """Send `item`; does nothing once the stream has ended."""
        if self._ended:
            return
        network = self._network
        soonest = network.schedule.now_ms + network.delay_ms(self.link)
        self._last_due = max(self._last_due + network.pause_ms(self.link), soonest)
        self.items.append((self._last_due, item))
        self._arm()

    def drop(self) -> None:
        """Nobody reads any more: what is under way is lost."""
        self._ended = True
        self.items.clear()

    def finish(self, reason: str, *, keep: int | None = None) -> None:
        """End the stream. The first `keep` items still arrive; by default a random number."""
        if self._ended:
            return
        if keep is None:
            stream = self._network.chance.at(f"finish/{self.link[0]}>{self.link[1]}")
            keep = stream.randint(0, len(self.items))
        while len(self.items) > keep:
            self.items.pop()
        self._freeze()
        self.put(EndOfStream(reason))
        self._ended = True

    def fall_silent(self, notice_ms: float) -> None:
        """The sender is gone without a word. After a while the receiver notices."""
        if self._ended:
            return
        self._ended = True
        self._freeze()
        self._network.schedule.after(notice_ms, self, EndOfStream("connection lost"))

    def _freeze(self) -> None:
        for _, item in self.items:
            if isinstance(item, Freezable):
                item.freeze()

    def resume(self) -> None:
        """The link is mended."""
        self._arm()

    def take(self, item: Any) -> None:
        if isinstance(item, EndOfStream):
            self.items.append((self._network.schedule.now_ms, item))
            self._arm()
            return
        self._armed = False
        if not self.items:
            return
        if self._network.is_cut(self.link):
            self._network.hold(self)
            return
        _, due_item = self.items.popleft()
        self._arm()
        self._sink(due_item)

    def _arm(self) -> None:
        if self.items and not self._armed:
            self._armed = True
            self._network.schedule.at(self.items[0][0], self, None)
