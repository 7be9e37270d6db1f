"""How fast replicas that are being caught up may be copied (KIP-73).

A bucket of bytes: it fills at the configured rate, and a copy takes out what it is worth
afterwards, below zero if need be. Copies wait while it is empty. So a batch that is larger than the
bucket passes, and the rate holds over any few seconds.

Kafka measures the rate over some samples of some seconds (`replication.quota.window.*`): at first
one sample's worth comes at once, later what was not used for as long as there are samples. So the
bucket has room for what all samples bring, and one sample's worth in it at the beginning.
"""

UNLIMITED = 2**63 - 1


class Bucket:
    """One direction on one broker. Rates in bytes per second, times in milliseconds."""

    __slots__ = ("_bytes", "_filled_ms", "_rate", "_window_s")

    def __init__(self, rate: int, now_ms: float, *, sample_s: int = 1, samples: int = 1) -> None:
        self._rate = max(rate, 1)  # nothing at all would let a replica never catch up
        self._window_s = sample_s * samples
        self._bytes: float = self._rate * sample_s
        self._filled_ms = now_ms

    def set_rate(self, rate: int, now_ms: float) -> None:
        """From now on; what is in the bucket stays, as far as it has room."""
        if max(rate, 1) != self._rate:
            self._fill(now_ms)
            self._rate = max(rate, 1)
            self._bytes = min(self._bytes, self._rate * self._window_s)

    def take(self, size: int, now_ms: float) -> None:
        """`size` bytes were copied."""
        self._fill(now_ms)
        self._bytes -= size

    def wait_ms(self, now_ms: float) -> float:
        """How long the next copy has to wait; 0 when it may come now."""
        self._fill(now_ms)
        return 0.0 if self._bytes > 0 else (1 - self._bytes) * 1000 / self._rate

    def _fill(self, now_ms: float) -> None:
        passed = max(0.0, now_ms - self._filled_ms)
        self._filled_ms = now_ms
        self._bytes = min(self._rate * self._window_s, self._bytes + self._rate * passed / 1000)


def names_replica(replicas: str, partition: int, broker: int) -> bool:
    """Whether a list of throttled replicas (`*`, or `PARTITION:BROKER,...`) names this one."""
    text = replicas.strip()
    if text == "*":
        return True
    return any(item.strip() == f"{partition}:{broker}" for item in text.split(","))
