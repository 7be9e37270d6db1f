"""Measures the storage alone: appends, reads, fsync, recovery and compaction of one log, each
beside what the same files give without a log.

    make bench            or  python bench/log.py [--short] [--json FILE] [--data DIR]

What waits for no device is measured in CPU time of the thread, system calls included, so that other
work of the machine is left out. Rounds of the log and of the bare files alternate, and the best of
each counts. Nothing is judged; marks are printed beside the figures.
"""

import argparse
import cProfile
import json
import os
import pstats
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from crc32c import crc32c

from log_tools import (
    CHUNK,
    FULL,
    MIB,
    SEGMENT,
    SHORT,
    TIME_MS,
    Figure,
    Folder,
    Size,
    alternate,
    batch_of,
    fill,
    seconds,
    waited,
)
from replog.cli.output import columns
from replog.log.cleaner import CleaningPass, CleanRules
from replog.log.cleaner_map import keys_within
from replog.log.config import LogConfig
from replog.log.durability import LogFlush
from replog.log.partition_log import PartitionLog
from replog.log.results import LogRead
from replog.records.header import BatchHeader
from replog.records.validate import validate_produce

# ---- appends and reads -----------------------------------------------------------------------


class Appending:
    """The same batches into a log and into a bare file, fresh files both."""

    def __init__(self, folder: Folder, size: Size, record: int, batch: int) -> None:
        self._folder = folder
        self._batches = [batch_of(batch, record) for _ in range(8)]
        self._fronts = [bytes(each[:16]) for each in self._batches]  # before they are stamped
        self._count = max(1, size.write // len(self._batches[0]))
        self.megabytes = self._count * len(self._batches[0]) / 1e6

    def log(self) -> float:
        """What a leader's log does with a batch whose header was read."""
        log = self._folder.log()
        took = seconds(lambda: fill(log, self._batches, self._count))
        self._folder.drop(log)
        return took

    def checked(self) -> float:
        """The checks of a produce request as well, the CRC among them."""
        log = self._folder.log()
        batches, fronts = self._batches, self._fronts
        rules = SEGMENT.produce_rules()

        def work() -> None:
            for index in range(self._count):
                buffer = batches[index % len(batches)]
                buffer[:16] = fronts[index % len(batches)]
                headers = validate_produce(memoryview(buffer), rules=rules, now_ms=TIME_MS)
                if not isinstance(headers, list):
                    raise SystemExit(f"refused: {headers}")
                log.append_as_leader(buffer, headers, 0, TIME_MS)

        took = seconds(work)
        self._folder.drop(log)
        return took

    def raw(self) -> float:
        descriptor = self._folder.raw_file()
        batches = self._batches

        def work() -> None:
            position = 0
            for index in range(self._count):
                position += os.pwritev(descriptor, (batches[index % len(batches)],), position)

        took = seconds(work)
        os.close(descriptor)
        return took


def appends(folder: Folder, size: Size, record: int, batch: int) -> list[Figure]:
    """Into page cache."""
    work = Appending(folder, size, record, batch)
    log_s, checked_s, raw_s = alternate(size.rounds, work.log, work.checked, work.raw)
    raw = work.megabytes / raw_s
    what = f"{record:,} B records, {batch // 1024} KiB batches"
    mark = ">= 70 %" if batch == 64 * 1024 else ""
    return [
        Figure(f"append, {what}", "MB/s", work.megabytes / log_s, "writev", raw, mark),
        Figure(f"check and append, {what}", "MB/s", work.megabytes / checked_s, "writev", raw),
    ]


def reads(folder: Folder, size: Size, batch: int, fetch: int) -> list[Figure]:
    """From page cache, front to back, `fetch` bytes at a time; what a consumer far behind does."""
    batches = [batch_of(batch, 1024) for _ in range(8)]
    batch_bytes, per_batch = len(batches[0]), BatchHeader(batches[0], 0).count
    log = folder.log()
    fill(log, batches, max(1, size.write // batch_bytes))
    total = log.size
    lengths: list[int] = []

    def ours() -> float:
        lengths.clear()

        def work() -> None:
            offset, end = 0, log.log_end_offset
            while offset < end:
                read = log.read(offset, fetch, upto=end, min_one=True)
                if not isinstance(read, LogRead) or read.range is None:
                    raise SystemExit(f"nothing at {offset}")
                length = len(read.range.read())
                lengths.append(length)
                # All batches have as many records, so that counting them costs nothing.
                offset += length // batch_bytes * per_batch

        log.segments[0].forget()
        return seconds(work)

    def raw() -> float:
        descriptor = os.open(folder.path / log.directory / f"{0:020d}.log", os.O_RDONLY)

        def work() -> None:
            position = 0
            for length in lengths:
                position += len(os.pread(descriptor, length, position))

        took = seconds(work)
        os.close(descriptor)
        if sum(lengths) != total:
            raise SystemExit("not all was read")
        return took

    ours_s, raw_s = alternate(size.rounds, ours, raw)
    folder.drop(log)
    megabytes = total / 1e6
    what = f"{batch // 1024} KiB batches, {fetch // 1024} KiB a time"
    # 1 MiB is what a fetch asks for when nobody says otherwise.
    mark = ">= 70 %" if fetch == MIB or batch == fetch else ""
    return [Figure(f"read, {what}", "MB/s", megabytes / ours_s, "pread", megabytes / raw_s, mark)]


# ---- fsync -------------------------------------------------------------------------------------


def syncs(folder: Folder, size: Size) -> list[Figure]:
    """1 KB records, one a batch: synced one by one, and by group commit as the broker does it."""
    buffer = batch_of(1024, 1024)

    def one_by_one() -> float:
        log = folder.log()

        def work() -> None:
            for _ in range(size.syncs):
                fill(log, [buffer], 1)
                flush = log.begin_flush(to_end=True)
                flush()
                log.flushed(flush)

        took = waited(work) / size.syncs
        folder.drop(log)
        return took

    def together() -> float:
        log = folder.log()
        stop = threading.Event()

        def append() -> None:
            while not stop.is_set():
                fill(log, [buffer], 20)
                time.sleep(0)

        synced = 0
        writer = threading.Thread(target=append)
        writer.start()
        began = time.perf_counter()
        for _ in range(max(1, size.syncs // 4)):
            flush: LogFlush = log.begin_flush(to_end=True)
            flush()
            synced = log.flushed(flush)
        took = time.perf_counter() - began
        stop.set()
        writer.join()
        folder.drop(log)
        return took / max(1, synced)

    def raw() -> float:
        descriptor = folder.raw_file()

        def work() -> None:
            for index in range(size.syncs):
                os.pwrite(descriptor, buffer, index * len(buffer))
                os.fsync(descriptor)

        took = waited(work) / size.syncs
        os.close(descriptor)
        return took

    one_s, group_s, raw_s = alternate(size.rounds, one_by_one, together, raw)
    name = "write and fsync"
    return [
        Figure("fsync after each append", "records/s", 1 / one_s, name, 1 / raw_s),
        Figure("group commit", "records/s", 1 / group_s, name, 1 / raw_s),
    ]


# ---- recovery ----------------------------------------------------------------------------------


def recovery(folder: Folder, size: Size, batch: int) -> tuple[Figure, str]:
    """After a kill, nothing checkpointed: every batch is read and its CRC checked. With a profile
    for small batches, whose cost is in Python and not in bytes."""
    small = batch < 16 * 1024
    total = size.recover // 8 if small else size.recover
    batches = [batch_of(batch, 1024) for _ in range(8)]
    log = folder.log(LogConfig(segment_bytes=2**31 - 1))
    fill(log, batches, max(1, total // len(batches[0])))
    total, name = log.size, log.directory
    log.abandon()

    def ours() -> float:
        opened: list[PartitionLog] = []
        config = LogConfig(segment_bytes=2**31 - 1)
        took = seconds(lambda: opened.append(folder.open(name, config, recovery_point=0)))
        if opened[0].size != total or opened[0].recovery.batches_scanned == 0:
            raise SystemExit("the log was not recovered")
        opened[0].abandon()
        return took

    def raw() -> float:
        descriptor = os.open(folder.path / name / f"{0:020d}.log", os.O_RDONLY)

        def work() -> None:
            position, crc = 0, 0
            while data := os.pread(descriptor, CHUNK, position):
                crc = crc32c(data, crc)
                position += len(data)

        took = seconds(work)
        os.close(descriptor)
        return took

    ours_s, raw_s = alternate(size.rounds, ours, raw)
    profile = _profile(ours) if small else ""
    shutil.rmtree(folder.path / name)
    megabytes = total / 1e6
    figure = Figure(
        f"recovery, {batch // 1024} KiB batches ({ours_s / total * 1e9:.2f} s/GB)",
        "MB/s",
        megabytes / ours_s,
        "read and CRC",
        megabytes / raw_s,
        "" if small else ">= 1,000 MB/s",
    )
    return figure, profile


def _profile(work: Callable[[], float]) -> str:
    profile = cProfile.Profile()
    profile.runcall(work)
    stats = pstats.Stats(profile).sort_stats("tottime")
    lines = []
    for place in stats.fcn_list[:8]:  # type: ignore[attr-defined]
        _, calls, own, _, _ = stats.stats[place][:5]  # type: ignore[attr-defined]
        file, line, function = place
        where = f"{Path(file).name}:{line}" if line else ""
        lines.append((f"{own:.3f} s", f"{calls:,}", function, where))
    return columns(("OWN TIME", "CALLS", "FUNCTION", "WHERE"), lines)


# ---- compaction --------------------------------------------------------------------------------


def compaction(folder: Folder, size: Size) -> Figure:
    """Every key is written four times in all, 1 KB records in 64 KiB batches; bare files copied."""
    config = LogConfig(segment_bytes=8 * MIB, cleanup_policy=("compact",))
    keys = size.compact // 1024 // 4
    written = 0

    def build() -> PartitionLog:
        log = folder.log(config)
        first = 0
        while log.size < size.compact:
            fill(log, [batch_of(64 * 1024, 1024, keys, first)], 1)
            first = log.log_end_offset
        log.roll()
        log.flush()
        return log

    def ours() -> float:
        nonlocal written
        log = build()
        before = log.size
        took = seconds(lambda: _compact(folder, log, config))
        if log.size > 0.5 * before:
            raise SystemExit(f"{before} bytes became {log.size}")
        written = log.size
        folder.drop(log)
        return took

    def raw() -> float:
        source, target = folder.raw_file(), folder.raw_file()
        for position in range(0, size.compact, CHUNK):
            os.pwrite(source, bytes(CHUNK), position)

        def work() -> None:
            for position in range(0, size.compact, CHUNK):
                data = os.pread(source, CHUNK, position)
                if position < written:
                    os.pwrite(target, data, position)
            os.fsync(target)

        took = seconds(work)
        os.close(source)
        os.close(target)
        return took

    ours_s, raw_s = alternate(min(2, size.rounds), ours, raw)
    megabytes = size.compact / 1e6
    return Figure(
        "compaction, 1,024 B records", "MB/s", megabytes / ours_s, "copy", megabytes / raw_s
    )


def _compact(folder: Folder, log: PartitionLog, config: LogConfig) -> None:
    rules = CleanRules(
        wall_ms=TIME_MS,
        delete_retention_ms=86_400_000,
        producer_expiration_ms=86_400_000,
        keys_max=keys_within(128 * MIB),
    )
    work = CleaningPass(
        folder.disk,
        log.directory,
        log.segments[:-1],
        first_dirty=0,
        end=log.log_end_offset,
        config=config,
        rules=rules,
    )
    while not work.done:
        work.advance()
        if work.ready is not None:
            log.replace(work.ready)
            log.sync_replaced()
            for path in log.leave_replaced():
                folder.disk.remove(path)
    if work.failure:
        raise SystemExit(work.failure)


# ---- all of it ---------------------------------------------------------------------------------


def measure(path: Path, size: Size, say: Callable[[str], None]) -> tuple[list[Figure], str]:
    folder = Folder(path)
    figures: list[Figure] = []
    for record, batch in ((100, 64), (1024, 1), (1024, 16), (1024, 64), (1024, 1024)):
        say(f"append {record} B records in {batch} KiB batches")
        figures += appends(folder, size, record, batch * 1024)
    for batch, fetch in ((1, 64), (64, 64), (64, 1024), (1024, 1024)):
        say(f"read {batch} KiB batches, {fetch} KiB a time")
        figures += reads(folder, size, batch * 1024, fetch * 1024)
    say("fsync")
    figures += syncs(folder, size)
    profile = ""
    for batch in (64, 1):
        say(f"recovery of {batch} KiB batches")
        figure, profile = recovery(folder, size, batch * 1024)
        figures.append(figure)
    say("compaction")
    figures.append(compaction(folder, size))
    return figures, profile


def table(figures: Sequence[Figure]) -> str:
    """For people."""
    rows = [
        (
            figure.name,
            f"{figure.value:,.0f} {figure.unit}",
            f"{figure.ratio:.0%} of {figure.raw_name} ({figure.raw:,.0f})",
            figure.mark,
        )
        for figure in figures
    ]
    return columns(("MEASURE", "BEST", "RATIO", "MARK"), rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the storage of one log.")
    parser.add_argument("--short", action="store_true", help="less of everything, for CI")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where (default: temporary)")
    arguments = parser.parse_args()
    path = Path(tempfile.mkdtemp(prefix="replog-bench-log-", dir=arguments.data))
    try:
        figures, profile = measure(
            path,
            SHORT if arguments.short else FULL,
            lambda text: print(f"... {text}", file=sys.stderr),
        )
    finally:
        shutil.rmtree(path, ignore_errors=True)
    print(table(figures))
    print(f"\nwhere the time of recovering 1 KiB batches goes:\n{profile}")
    if arguments.json:
        results = [asdict(figure) | {"ratio": figure.ratio} for figure in figures]
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
