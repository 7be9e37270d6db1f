"""How far moves are: bytes that the new replicas have, by their brokers' own account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replog.cli.errors import Failure
from replog.cli.output import columns, ids
from replog.model.ids import TopicPartition
from replog.model.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    DescribeReplicasTopic,
)
from replog.model.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from replog.runtime.client import AdminClient, ClientError


@dataclass(frozen=True, slots=True)
class Progress:
    """One partition under way. Bytes are those of all new replicas together."""

    tp: TopicPartition
    origin: tuple[int, ...]
    target: tuple[int, ...]
    moved: int
    total: int | None  # None: no old replica can be asked

    @property
    def remaining(self) -> int | None:
        return None if self.total is None else max(0, self.total - self.moved)

    @property
    def percent(self) -> int | None:
        if self.total is None:
            return None
        return 100 if self.total == 0 else min(100, self.moved * 100 // self.total)


def look(client: AdminClient) -> list[Progress]:
    """Every partition that is being moved, as it is now. Raises ClientError, Failure."""
    answer = client.call(ListPartitionReassignmentsRequest(topics=None))
    if not isinstance(answer, ListPartitionReassignmentsResponse):
        raise Failure(f"the broker answered {type(answer).__name__}")
    ongoing = {
        TopicPartition(topic.name, p.partition_index): p
        for topic in answer.topics
        for p in topic.partitions
    }
    sizes = _sizes(client, {tp: p.replicas for tp, p in ongoing.items()})
    found = []
    for tp, p in sorted(ongoing.items()):
        old = [b for b in p.replicas if b not in p.adding_replicas]
        whole = max((sizes[tp, b] for b in old if (tp, b) in sizes), default=None)
        total = None if whole is None else whole * len(p.adding_replicas)
        have = [sizes.get((tp, b), 0) for b in p.adding_replicas]
        moved = sum(have) if whole is None else sum(min(size, whole) for size in have)
        target = tuple(b for b in p.replicas if b not in p.removing_replicas)
        found.append(Progress(tp, tuple(old), target, moved, total))
    return found


def _sizes(
    client: AdminClient, replicas: Mapping[TopicPartition, Sequence[int]]
) -> dict[tuple[TopicPartition, int], int]:
    """Bytes of each replica; those of brokers that do not answer are missing."""
    by_broker: dict[int, dict[str, list[int]]] = {}
    for tp, brokers in replicas.items():
        for broker in brokers:
            by_broker.setdefault(broker, {}).setdefault(tp.topic, []).append(tp.partition)
    sizes = {}
    for broker, wanted in by_broker.items():
        request = DescribeReplicasRequest(
            topics=[DescribeReplicasTopic(name=n, partitions=p) for n, p in wanted.items()]
        )
        try:
            answer = client.call(request, broker=broker)
        except ClientError:
            continue  # a broker that is down must not hide how far the others are
        if isinstance(answer, DescribeReplicasResponse):
            for topic in answer.topics:
                for replica in topic.partitions:
                    if not replica.error_code:
                        tp = TopicPartition(topic.name, replica.index)
                        sizes[tp, broker] = replica.log_bytes
    return sizes


@dataclass(slots=True)
class _Seen:
    moved: int
    since_s: float  # when `moved` became what it is
    rate: float | None = None  # bytes per second


@dataclass(frozen=True, slots=True)
class Row:
    """Progress, and how it goes."""

    progress: Progress
    rate: float | None  # bytes per second since the look before; None at the first
    stalled_s: float | None  # for how long nothing has come; None while something comes

    @property
    def eta_s(self) -> float | None:
        remaining = self.progress.remaining
        if remaining is None or not self.rate:
            return None
        return remaining / self.rate

    def as_json(self) -> dict[str, Any]:
        """The row for programs. Times in seconds, rates in bytes per second."""
        p = self.progress
        return {
            "topic": p.tp.topic,
            "partition": p.tp.partition,
            "from": list(p.origin),
            "to": list(p.target),
            "bytes_moved": p.moved,
            "bytes_remaining": p.remaining,
            "percent": p.percent,
            "rate": None if self.rate is None else round(self.rate),
            "eta_s": None if self.eta_s is None else round(self.eta_s, 1),
            "stalled_s": None if self.stalled_s is None else round(self.stalled_s, 1),
        }


class Watch:
    """Looks at moves again and again: what each look adds tells rate and standstill."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}
        self._looked_s = 0.0

    def rows(self, found: Sequence[Progress], now_s: float) -> list[Row]:
        """What was found at `now_s`, beside what was found before."""
        passed = now_s - self._looked_s
        self._looked_s = now_s
        seen: dict[TopicPartition, _Seen] = {}
        rows = []
        for progress in found:
            before = self._seen.get(progress.tp)
            now = seen[progress.tp] = _Seen(progress.moved, now_s)
            stalled = None
            if before is not None and passed > 0:
                now.rate = max(0.0, (progress.moved - before.moved) / passed)
                if progress.moved == before.moved and progress.remaining != 0:
                    now.since_s = before.since_s
                    stalled = now_s - before.since_s
            rows.append(Row(progress, now.rate, stalled))
        self._seen = seen
        return rows


def table(rows: Sequence[Row]) -> str:
    """Rows for people."""
    return columns(
        ("PARTITION", "FROM", "TO", "MOVED", "REMAINING", "%", "RATE", "ETA", "STALLED"),
        [
            (
                f"{row.progress.tp.topic}:{row.progress.tp.partition}",
                ids(row.progress.origin),
                ids(row.progress.target),
                size(row.progress.moved),
                None if row.progress.remaining is None else size(row.progress.remaining),
                row.progress.percent,
                None if row.rate is None else f"{size(round(row.rate))}/s",
                None if row.eta_s is None else duration(row.eta_s),
                None if row.stalled_s is None else f"for {duration(row.stalled_s)}",
            )
            for row in rows
        ],
    )


def size(count: int) -> str:
    """Bytes as people read them: 512 B, 1.5 KB, 20 MB (powers of 1,000)."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: float) -> str:
    """Seconds as people read them: 8 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
