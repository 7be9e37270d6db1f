"""What a log answers. Plain values; one or two are made for each request, so they are cheap."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from replog.log.disk import DiskFile
from replog.model.records import FileRange
from replog.records.header import BatchHeader

NO_APPEND_TIME = -1


@dataclass(slots=True)
class AppendResult:
    """Batches that are in the log now, at `first_offset` to `last_offset`."""

    first_offset: int
    last_offset: int
    bytes: int
    log_append_time_ms: int = NO_APPEND_TIME  # the leader's clock, where it is the records' time
    rolled: bool = False  # a segment was sealed: worth a `flush_sealed` outside the step
    headers: Sequence[BatchHeader] = ()  # of the batches, with the offsets they got
    skipped: int = 0  # offsets in front of and between fetched batches that are in none


@dataclass(slots=True)
class LogRead:
    """Whole batches from the one that holds `offset` on; no range when there are none to give."""

    range: FileRange | None
    offset: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The offset is before the log's start or behind its end."""

    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """Bytes of `file` from `position` on are no longer those that were there.

    When `recovery_point_lowered`, the recovery point checkpoint must be written before the next
    append: it vouches for bytes that will be other ones.
    """

    file: DiskFile
    position: int
    recovery_point_lowered: bool


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did; for the operator's log and for tests."""

    batches_scanned: int = 0
    bytes_truncated: int = 0  # of removed segments too
    segments_removed: int = 0
    indexes_rebuilt: int = 0
    epochs_rebuilt: bool = False
    stray_folder: str | None = None  # where a folder of unknown topic was set aside
    reasons: list[str] = field(default_factory=list)  # why anything was cut or removed

    @property
    def lost_anything(self) -> bool:
        return bool(self.bytes_truncated or self.segments_removed or self.stray_folder)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a folder, in which file, and at which byte of it where that can be said."""

    path: str
    position: int | None
    what: str
