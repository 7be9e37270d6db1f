"""Brokers that have just left the cluster, which clients are told of for a little longer.

A client that hears in one answer that a partition has a new leader and that its old leader is no
broker any more has two things to do at once, and librdkafka (2.x) loses the new leader over the
second: it forgets the broker together with the partitions that have not moved yet, and asks again a
second later. While the old leader is still listed, it moves them at once. Kafka lists a dead broker
too, until its session ends; only then it elects.
"""

from collections.abc import Collection, Mapping

from replog.model.cluster import BrokerRecord

# Clients that write or read ask for the new leader within a second of its election.
LISTED_MS = 5_000


class FormerBrokers:
    """Registrations that ended a short time ago."""

    def __init__(self) -> None:
        self._until_ms: dict[int, tuple[BrokerRecord, float]] = {}

    def changed(
        self, before: Mapping[int, BrokerRecord], after: Collection[int], now_ms: float
    ) -> None:
        """Whoever is in `before` and not in `after` has just left."""
        for broker_id, broker in before.items():
            if broker_id not in after:
                self._until_ms[broker_id] = (broker, now_ms + LISTED_MS)
        for broker_id in after:
            self._until_ms.pop(broker_id, None)

    def listed(self, now_ms: float) -> list[BrokerRecord]:
        """Those who left less than LISTED_MS ago, and are not back."""
        if not self._until_ms:
            return []
        for broker_id in [b for b, (_, until) in self._until_ms.items() if until <= now_ms]:
            del self._until_ms[broker_id]
        return [broker for broker, _ in self._until_ms.values()]
