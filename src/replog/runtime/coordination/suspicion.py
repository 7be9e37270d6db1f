"""Who has been silent for too long: pure bookkeeping over the pings of the other sessions.

Suspicion is not proof: the transaction that acts on it never lets it take more than half of the
sessions. And who was paused itself has heard nobody meanwhile, so it begins counting anew. Who
is cut off hears nobody either, and must suspect nobody (`deaf`).
"""

from collections.abc import Iterable


class Suspicion:
    """What one session has heard of the others. Times are milliseconds of one monotonic clock."""

    def __init__(
        self, *, silence_ms: float, stall_ms: float, gap_ms: float, presume: bool = True
    ) -> None:
        self._silence_ms = silence_ms
        self._stall_ms = stall_ms
        self._gap_ms = gap_ms  # between two `turn`s: more means that we were paused ourselves
        self._presume = presume  # who is new counts as heard; else its first ping is awaited
        self._known: set[str] = set()
        self._heard_ms: dict[str, float] = {}
        self._heard_most = 0  # sessions that were heard at one time: so many others can be
        self._listened: set[str] = set()  # heard since `listen_anew`
        self._turned_ms: dict[str, float] = {}  # when the event loop of the session last turned
        self._last_turn_ms: float | None = None

    def turn(self, now_ms: float) -> bool:
        """Call it often. True when this process has been paused, and all is counted anew."""
        last, self._last_turn_ms = self._last_turn_ms, now_ms
        if last is None or now_ms - last <= self._gap_ms:
            return False
        for session in self._heard_ms:
            self._heard_ms[session] = now_ms
            self._turned_ms[session] = now_ms
        return True

    def members(self, sessions: Iterable[str], now_ms: float) -> None:
        """These are the others that are held to their pings."""
        self._known = set(sessions)
        for gone in self._heard_ms.keys() - self._known:
            del self._heard_ms[gone], self._turned_ms[gone]
        if self._presume:
            for new in self._known - self._heard_ms.keys():
                self._heard_ms[new] = self._turned_ms[new] = now_ms
            self._heard_most = max(self._heard_most, len(self._heard_ms))

    def heard(self, session: str, loop_age_ms: float, now_ms: float) -> None:
        """A ping came; `loop_age_ms` is how long ago the sender's event loop had last turned."""
        if session in self._known:
            self._listened.add(session)
            self._heard_ms[session] = now_ms
            self._turned_ms[session] = now_ms - loop_age_ms
            self._heard_most = max(self._heard_most, len(self._heard_ms))

    def deaf(self, now_ms: float) -> bool:
        """Whether more than half are not heard: it is more likely us who is cut off.

        They do not all seem silent at once: who was last heard half the time ago counts as well. So
        does a session that was never heard, as it may be the next one of a broker that was.
        """
        since_ms = now_ms - self._silence_ms / 2
        heard = sum(heard_ms > since_ms for heard_ms in self._heard_ms.values())
        return len(self._known) - heard > (len(self._known) + 1) // 2

    def listen_anew(self) -> None:
        """From now on it counts who is heard."""
        self._listened.clear()

    def hears_half(self) -> bool:
        """Whether half of those that can be heard were so since `listen_anew`, whatever their
        sessions are called by now."""
        known = min(self._heard_most, len(self._known))
        return 2 * len(self._listened & self._known) >= known

    def suspects(self, now_ms: float) -> list[tuple[str, str]]:
        """(session, reason) of each that is suspected, the longest silent first."""
        found = []
        for session, heard in sorted(self._heard_ms.items(), key=lambda item: item[1]):
            if now_ms - heard >= self._silence_ms:
                found.append((session, f"silent for {now_ms - heard:.0f} ms"))
            elif now_ms - self._turned_ms[session] >= self._stall_ms:
                stalled = now_ms - self._turned_ms[session]
                found.append((session, f"event loop stopped for {stalled:.0f} ms"))
        return found
