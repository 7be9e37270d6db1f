"""What each broker lived through lately: kept cheap while all is well, told when it is not."""

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from replog.model.outputs import Report

ENTRIES_MAX: Final = 120  # per broker: about a quarter of a virtual second under load
REPORTS_MAX: Final = 60  # per broker: its own log lines are rarer and reach further back
TEXT_MAX: Final = 300  # characters of one entry


class Listener(Protocol):
    """Is told what happens to processes, all of it."""

    def note(self, place: str, what: str) -> None: ...


class Timeline:
    """Bounded history of one place."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.listener: Listener | None = None
        self._entries: deque[tuple[float, str, object]] = deque(maxlen=ENTRIES_MAX)
        self._reports: deque[tuple[float, str, object]] = deque(maxlen=REPORTS_MAX)

    def step(self, now_ms: float, event: object, outputs: Iterable[object]) -> None:
        """A step of the node. Objects are kept as they are and only shown when asked."""
        self._entries.append((now_ms, "<-", event))
        for output in outputs:
            if isinstance(output, Report):
                self._reports.append((now_ms, "log", output))
            else:
                self._entries.append((now_ms, "->", output))

    def note(self, now_ms: float, text: str) -> None:
        """Something that happened to the process."""
        self._reports.append((now_ms, "***", text))
        if self.listener is not None:
            self.listener.note(self.place, text)

    def lines(self) -> list[str]:
        """All that is remembered, in order of time."""
        entries = sorted([*self._reports, *self._entries], key=lambda entry: entry[0])
        return [f"{at:10.3f} {self.place} {mark} {_shown(what)}" for at, mark, what in entries]


def _shown(what: object) -> str:
    text = f"{what.level.value}: {what.text}" if isinstance(what, Report) else str(what)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."
