"""Which brokers have just stopped answering this one: news that is ahead of any election.

When a broker is killed, its clients learn it as soon as its peers do, and those that have a
connection to one of these ask at once who leads now. An answer that names the dead broker once more
satisfies librdkafka for up to a second; that there is no leader at the moment makes every client
ask again after its retry back-off, and by then there is one.
"""

# An election on proof of death takes a tenth of it. If nobody is elected until then, the broker
# lives, and is out of this broker's reach alone.
DOUBT_MS = 1_000


class Reach:
    """Since when brokers have failed to answer. It is a hint for clients and decides nothing."""

    def __init__(self) -> None:
        self._failed_ms: dict[int, float] = {}  # of the first failure after the last answer

    def answered(self, broker_id: int) -> None:
        """This broker can be reached."""
        if self._failed_ms:
            self._failed_ms.pop(broker_id, None)

    def failed(self, broker_id: int, now_ms: float) -> None:
        """A request to this broker has failed, or its connection has."""
        self._failed_ms.setdefault(broker_id, now_ms)

    def doubtful(self, broker_id: int, now_ms: float) -> bool:
        """Whether the broker has become unreachable less than DOUBT_MS ago."""
        failed_ms = self._failed_ms.get(broker_id)
        return failed_ms is not None and now_ms - failed_ms < DOUBT_MS
