"""Configuration of one log: Kafka's topic settings as attributes, with Kafka's defaults."""

from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

from replog.records.validate import NO_LIMIT_BYTES, NO_LIMIT_MS, ProduceRules

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class LogConfig:
    """`segment_bytes` is `segment.bytes`, and so on. Sizes in bytes, times in milliseconds."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 168 * _HOUR_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    preallocate: bool = False
    max_message_bytes: int = 1024 * 1024 + 12
    max_decompressed_message_bytes: int = NO_LIMIT_BYTES
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT_MS
    message_timestamp_after_max_ms: int = _HOUR_MS
    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    retention_ms: int = 168 * _HOUR_MS
    retention_bytes: int = -1
    max_compaction_lag_ms: int = NO_LIMIT_MS
    file_delete_delay_ms: int = 60_000

    # Each append asks for these: they are worked out once.

    @cached_property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == LOG_APPEND_TIME

    @cached_property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @cached_property
    def roll_ms_min(self) -> int:
        """No segment rolls by time before it is so old."""
        return self._roll_ms(self.segment_jitter_ms)

    def roll_ms(self, segment: str) -> int:
        """How old a segment may get, by its records' times, before another begins.

        `segment.jitter.ms` takes a part away that depends on the segment's path alone, so that
        partitions that began together do not all roll at once. A compacted topic's segment is
        sealed in time for `max.compaction.lag.ms`.
        """
        jitter_ms = 0
        if self.segment_jitter_ms:
            jitter_ms = crc32(segment.encode()) % min(self.segment_jitter_ms, self.segment_ms)
        return self._roll_ms(jitter_ms)

    def _roll_ms(self, jitter_ms: int) -> int:
        longest = self.segment_ms - jitter_ms
        return min(longest, self.max_compaction_lag_ms) if self.compacted else longest

    def produce_rules(self) -> ProduceRules:
        """What `validate_produce` holds against each batch; make it once per configuration."""
        return ProduceRules(
            max_message_bytes=self.max_message_bytes,
            segment_bytes=self.segment_bytes,
            decompressed_bytes_max=self.max_decompressed_message_bytes,
            compacted=self.compacted,
            log_append_time=self.log_append_time,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
        )
