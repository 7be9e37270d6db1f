"""Produced batches that need work before they can be stored: outside the step, and in their order.

Two kinds do: those in another codec than the topic's `compression.type` names, and those whose
records must be looked at one by one. A job does the work, on one of `num.io.threads`. Until it has
ended, later batches for the same partition queue up behind it, whatever they need: a producer's
batches stay in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from replog.model.errors import ErrorCode
from replog.records.compression import Compression
from replog.records.errors import UndecodablePayload
from replog.records.header import BatchHeader
from replog.records.recompress import expanded_bytes_max, recompress
from replog.records.validate import LookInside, RefusedBatch, check_fits, look_inside

if TYPE_CHECKING:
    from replog.model.inputs import JobDone
    from replog.node.node import Node
    from replog.node.partition import Partition
    from replog.records.validate import ProduceRules

# Batches that wait, their own work or that of others before them. Clients' buffers are bounded by
# `queued.max.request.bytes`; this bounds what small batches cost beside their bytes.
BATCHES_MAX: Final = 10_000

# `compression.type` -> the codec in which batches are stored; None: as they came.
CODECS: Final[dict[str, Compression | None]] = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}

Ready = Callable[[str | None], None]


class Preparation:
    """One batch on its way to the form in which it is stored.

    Calling it does the work, on any thread; afterwards `refused` tells why the batch can't be
    stored, or `buffer` and `headers` have what can.
    """

    __slots__ = ("_codec", "_level", "_look", "_now_ms", "_rules", "buffer", "headers", "refused")

    def __init__(
        self,
        buffer: memoryview,
        headers: list[BatchHeader],
        *,
        rules: ProduceRules,
        now_ms: int,
        look: bool,
        codec: Compression | None,
        level: int | None,
    ) -> None:
        self.buffer = buffer
        self.headers = headers
        self.refused: RefusedBatch | None = None
        self._rules = rules
        self._now_ms = now_ms
        self._look = look
        self._codec = codec
        self._level = level

    @property
    def has_work(self) -> bool:
        """False when the batch only waits for its turn."""
        return self._look or self._codec is not None

    def __call__(self) -> None:
        (header,) = self.headers
        if self._look:
            limit = expanded_bytes_max(header.length)
            self.refused = look_inside(
                self.buffer, header, rules=self._rules, now_ms=self._now_ms, limit=limit
            )
        if self.refused is None and self._codec is not None:
            self._recompress(header)
        if self.refused is None:
            self.refused = check_fits(self.headers[0], self._rules)

    def _recompress(self, header: BatchHeader) -> None:
        try:
            made = recompress(self.buffer, header, self._codec or Compression.NONE, self._level)
        except UndecodablePayload as error:
            self.refused = RefusedBatch(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            return
        self.buffer = memoryview(made)
        self.headers = [BatchHeader(made, 0)]


class _Turn:
    """A batch in the queue of its partition."""

    __slots__ = ("done", "error", "partition", "preparation", "ready")

    def __init__(self, partition: Partition, preparation: Preparation, ready: Ready) -> None:
        self.partition = partition
        self.preparation = preparation
        self.ready = ready
        self.done = not preparation.has_work
        self.error: str | None = None


class Recompression:
    """The queues of all partitions that have a batch in work."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queues: dict[Partition, deque[_Turn]] = {}
        self._batches = 0

    def needed(
        self, partition: Partition, buffer: memoryview, checked: list[BatchHeader] | LookInside
    ) -> Preparation | None:
        """What a batch with a good header still needs; None: it can be stored now, as it is."""
        topic = partition.topic
        codec = CODECS.get(topic.compression_type)
        look = isinstance(checked, LookInside)
        headers = checked.headers if isinstance(checked, LookInside) else checked
        if codec == headers[0].compression:
            codec = None
        if not look and codec is None and partition not in self._queues:
            return None
        levels = {
            Compression.GZIP: topic.compression_gzip_level,
            Compression.LZ4: topic.compression_lz4_level,
            Compression.ZSTD: topic.compression_zstd_level,
        }
        return Preparation(
            buffer,
            headers,
            rules=partition.produce_rules,
            now_ms=self._node.wall_ms,
            look=look,
            codec=codec,
            level=None if codec is None else levels.get(codec),
        )

    def submit(self, partition: Partition, preparation: Preparation, ready: Ready) -> bool:
        """Do what is needed, in a job; `ready` runs in a later step, when the batch is prepared and
        all before it were, with the error of a job that failed. False: too much is waiting."""
        if self._batches >= BATCHES_MAX:
            return False
        turn = _Turn(partition, preparation, ready)
        self._batches += 1
        self._queues.setdefault(partition, deque()).append(turn)
        if preparation.has_work:
            self._run(turn)
        return True

    def _run(self, turn: _Turn) -> None:
        def ended(done: JobDone) -> None:
            turn.done = True
            turn.error = done.error
            self._advance(turn.partition)

        self._node.run_job(turn.preparation, ended, for_request=True)

    def _advance(self, partition: Partition) -> None:
        """Whoever is first and prepared may go."""
        queue = self._queues[partition]
        while queue and queue[0].done:
            turn = queue.popleft()
            self._batches -= 1
            if not queue:
                del self._queues[partition]
            turn.ready(turn.error)
