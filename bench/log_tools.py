"""What the measures of `log.py` share: folders, batches, clocks, and one line of the result."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.records.batch import Record, build_batch
from replog.records.header import BatchHeader
from replog.runtime.os_disk import OsDisk

MIB = 1024 * 1024
TIME_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
SEGMENT = LogConfig(segment_bytes=512 * MIB)
CHUNK = 4 * MIB  # of raw reads, as recovery reads


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done."""

    write: int  # bytes an append round writes
    recover: int
    compact: int
    syncs: int
    rounds: int


FULL = Size(write=256 * MIB, recover=1024 * MIB, compact=64 * MIB, syncs=400, rounds=5)
SHORT = Size(write=64 * MIB, recover=128 * MIB, compact=16 * MIB, syncs=100, rounds=3)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result: the log, the bare files in the same run, and the mark."""

    name: str
    unit: str
    value: float
    raw_name: str
    raw: float
    mark: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.raw if self.raw else 0.0


class Folder:
    """A log folder, and files beside it that are no log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = OsDisk(str(path))
        self._count = 0

    def log(self, config: LogConfig = SEGMENT) -> PartitionLog:
        """A new, empty one."""
        self._count += 1
        return self.open(f"t-{self._count}", config, recovery_point=0)

    def open(self, name: str, config: LogConfig, *, recovery_point: int) -> PartitionLog:
        return PartitionLog.open(
            self.disk,
            name,
            config,
            topic_id=TOPIC_ID,
            recovery_point=recovery_point,
            clean=False,
        )

    def drop(self, log: PartitionLog) -> None:
        log.abandon()
        shutil.rmtree(self.path / log.directory)

    def raw_file(self) -> int:
        """A new, empty file; its descriptor."""
        self._count += 1
        path = self.path / f"raw-{self._count}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        path.unlink()  # it goes when it is closed
        return descriptor


def batch_of(size: int, record: int, keys: int = 0, first: int = 0) -> bytearray:
    """A batch of about `size` bytes in records of about `record`, which can't be compressed."""
    count = max(1, size // record)
    body = max(1, record - 12)
    records = [
        Record(0, TIME_MS, b"key %d" % ((first + i) % keys) if keys else None, os.urandom(body))
        for i in range(count)
    ]
    return bytearray(build_batch(records))


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this thread, in user mode and in the kernel."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def waited(work: Callable[[], object]) -> float:
    """Seconds on the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def alternate(rounds: int, *works: Callable[[], float]) -> list[float]:
    """The shortest time of each, taken in turns."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for index, work in enumerate(works):
            best[index] = min(best[index], work())
    return best


def fill(log: PartitionLog, batches: Sequence[bytearray], count: int) -> None:
    for index in range(count):
        buffer = batches[index % len(batches)]
        log.append_as_leader(buffer, [BatchHeader(buffer, 0)], 0, TIME_MS)
