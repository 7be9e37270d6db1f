"""Throttles of replication on this broker: what it sends to followers, and what it copies (KIP-73).

`leader.replication.throttled.rate` bounds what this broker sends of the partitions whose topic
names it in `leader.replication.throttled.replicas`; `follower.replication.throttled.rate` and
`follower.replication.throttled.replicas` bound what it copies. Only replicas outside the ISR are
held back: to slow one down that is in it would throw it out, and slow every producer down with it.

A follower that has to wait gets no records in its answer, and what else there is to tell; it looks
again with its next fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.replica.throttle import UNLIMITED, Bucket, names_replica

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.partition import Partition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class Throttles:
    """Both directions of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._buckets: dict[str, Bucket] = {}

    def holds_back(self, partition: Partition, follower: int) -> bool:
        """Whether the leader sends `follower` no records of this partition just now."""
        bucket = self._leader_bucket(partition, follower)
        return bucket is not None and bucket.wait_ms(self._node.now_ms) > 0

    def sent(self, partition: Partition, follower: int, size: int) -> None:
        """The leader sends `follower` so many bytes."""
        bucket = self._leader_bucket(partition, follower)
        if bucket is not None:
            bucket.take(size, self._node.now_ms)

    def copied(self, partition: Partition, size: int) -> float:
        """This follower has copied so many bytes; how long it waits before it asks again (ms)."""
        bucket = self._bucket(FOLLOWER_RATE, FOLLOWER_REPLICAS, partition, self._node.broker_id)
        if bucket is None:
            return 0.0
        bucket.take(size, self._node.now_ms)
        return bucket.wait_ms(self._node.now_ms)

    def _leader_bucket(self, partition: Partition, follower: int) -> Bucket | None:
        return self._bucket(LEADER_RATE, LEADER_REPLICAS, partition, follower)

    def _bucket(
        self, rate_name: str, replicas_name: str, partition: Partition, copying: int
    ) -> Bucket | None:
        """The bucket that counts, None when nothing holds `copying` back."""
        replicas = partition.topic.overrides.get(replicas_name)
        if not replicas or copying in partition.record.isr:
            return None
        node = self._node
        if not names_replica(replicas, partition.tp.partition, node.broker_id):
            return None
        rate = node.config.int(rate_name)
        if rate >= UNLIMITED:
            return None
        bucket = self._buckets.get(rate_name)
        if bucket is None:
            bucket = self._buckets[rate_name] = Bucket(
                rate,
                node.now_ms,
                sample_s=node.config.int("replication.quota.window.size.seconds"),
                samples=node.config.int("replication.quota.window.num"),
            )
        bucket.set_rate(rate, node.now_ms)
        return bucket
