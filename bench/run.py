"""Measures a local cluster of three brokers, beside what the machine does at best.

    make bench            or  python bench/run.py [--short] [--json FILE] [--data DIR]

Load comes from `load.c`, compiled here, so that the client is not what is measured. A figure
counts only when all records were acknowledged, are on all replicas, and were read back with the
digest that the producer summed up; anything else ends the run with exit code 1. Nothing is judged
by time: marks are printed beside the figures, for people to compare.
"""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frame import BenchFailed, in_folder, options
from processes import cpu_seconds
from replog.cli.output import columns
from replog.cli.ports import free_ports
from replog.runtime.local_cluster import LocalCluster

HERE = Path(__file__).resolve().parent
LOAD = HERE / "bin" / "load"
PARTITIONS = 6
RECORD_BYTES = 1024
WARM_UP_RECORDS = 200  # one at a time, before those that are measured


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done; `rounds` are measured after one that only warms up."""

    records: int
    single_records: int
    rounds: int
    starts: int
    raw_megabytes: int


FULL = Size(records=403_200, single_records=5_000, rounds=5, starts=5, raw_megabytes=512)
SHORT = Size(records=57_600, single_records=500, rounds=1, starts=1, raw_megabytes=128)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the result. `values` are the rounds; what counts is their median."""

    name: str
    unit: str
    values: Sequence[float]
    mark: str  # what it is meant to reach on two cores
    beside: tuple[str, float] | None = None  # what the machine does at best: name, same unit

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def compile_load() -> None:
    """Build `bin/load` when it is older than its source."""
    source = HERE / "load.c"
    if LOAD.exists() and LOAD.stat().st_mtime > source.stat().st_mtime:
        return
    compiler = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        raise BenchFailed("no C compiler here: install gcc or clang")
    LOAD.parent.mkdir(exist_ok=True)
    subprocess.run([compiler, "-O2", "-pthread", "-o", str(LOAD), str(source)], check=True)


def load(command: str, **options: object) -> dict[str, Any]:
    """Run the load program; its one line of JSON."""
    words = [w for k, v in options.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    done = subprocess.run([str(LOAD), command, *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchFailed(f"{command}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    if not isinstance(result, dict):
        raise BenchFailed(f"{command} printed {done.stdout!r}")
    return result


class Bench:
    """One cluster, and what is done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(3)
        self.bootstrap = f"127.0.0.1:{self.port}"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "replog", *words, "--data", str(self.folder)]

    def replog(self, *words: str) -> Any:
        done = subprocess.run(
            [*self.command(*words), "--format", "json"], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise BenchFailed(f"replog {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def start(self) -> dict[str, Any]:
        """`replog up`; milliseconds from the command to the first acks=all acknowledgement."""
        words = self.command(
            *("up", "--detach", "--port", str(self.port)),
            *("--set", "log.segment.delete.delay.ms=100"),
        )
        since = time.monotonic_ns()
        up = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        first = load("firstack", bootstrap=self.bootstrap, since=since, topic="first", partitions=1)
        if up.wait() != 0:
            raise BenchFailed("replog up failed")
        return first

    def down(self) -> None:
        subprocess.run(self.command("down"), stdout=subprocess.DEVNULL, check=True)

    def round(self, size: Size, replicas: int) -> tuple[float, float]:
        """Write, check the replicas, read back, delete: MB/s written and read."""
        topic = f"rf{replicas}-{time.monotonic_ns()}"
        self._create(topic, PARTITIONS, replicas)
        where = {"bootstrap": self.bootstrap, "topic": topic}
        wrote = load("produce", **where, records=size.records, size=RECORD_BYTES)
        self._check_replicas(topic, wrote["records"], replicas)
        read = load("consume", **where, records=wrote["records"], digest=wrote["digest"])
        if read["records"] != wrote["records"] or wrote["records"] != size.records:
            raise BenchFailed(f"{topic}: {size.records} asked, {wrote} written, {read} read")
        self.replog("topic", "delete", topic)
        return wrote["mb_per_s"], read["mb_per_s"]

    def singles(self, size: Size) -> dict[str, Any]:
        """One record at a time, acks=all, three replicas."""
        topic = f"single-{time.monotonic_ns()}"
        self._create(topic, 1, 3)
        cluster = LocalCluster.load(self.folder)
        before = cpu_seconds(cluster)
        result = load(
            "latency",
            bootstrap=self.bootstrap,
            topic=topic,
            records=size.single_records,
            size=RECORD_BYTES,
            warmup=WARM_UP_RECORDS,
        )
        after = cpu_seconds(cluster)
        used_s = sum(after[broker] - used for broker, used in before.items())
        result["cpu_ms"] = 1000 * used_s / (size.single_records + WARM_UP_RECORDS)
        return result

    def _create(self, topic: str, partitions: int, replicas: int) -> None:
        self.replog(
            *("topic", "create", topic, "--partitions", str(partitions)),
            *("--replication-factor", str(replicas), "--start-index", "0", "--shift", "0"),
        )

    def _check_replicas(self, topic: str, records: int, replicas: int) -> None:
        """Every replica, asked by itself, has all records."""
        (view,) = self.replog("topic", "describe", topic)
        held: dict[int, int] = {}
        for partition in view["partitions"]:
            if len(partition["replicas"]) != replicas:
                raise BenchFailed(f"{topic}: {len(partition['replicas'])} replicas")
            for place, replica in enumerate(partition["replicas"]):
                held[place] = held.get(place, 0) + (replica["log_end_offset"] or 0)
        if set(held.values()) != {records}:
            raise BenchFailed(f"{topic}: replicas hold {held}, {records} were acknowledged")


def measure(folder: Path, size: Size, say: Callable[[str], None]) -> list[Figure]:
    """All figures. Raises BenchFailed."""
    say("the machine itself")
    raw = load("raw", directory=folder, megabytes=size.raw_megabytes)
    firsts = []
    bench = Bench(folder / "start-0")
    for attempt in range(size.starts):
        say(f"start {attempt + 1} of {size.starts}")
        bench = Bench(folder / f"start-{attempt}")
        firsts.append(bench.start()["first_ack_ms"])
        if attempt + 1 < size.starts:
            bench.down()
    try:
        rounds: dict[int, list[tuple[float, float]]] = {3: [], 1: []}
        for replicas, results in rounds.items():
            for number in range(size.rounds + 1):
                say(f"replication {replicas}, round {number} of {size.rounds}")
                results.append(bench.round(size, replicas))
        say("one record at a time")
        singles = [bench.singles(size) for _ in range(size.rounds)]
    finally:
        bench.down()
    page_cache = ("page cache", float(raw["page_cache_again"]))
    loopback = ("loopback", float(raw["loopback"]))
    from_file = ("sendfile over loopback", float(raw["sendfile"]))
    read = [r for results in rounds.values() for _, r in results[1:]]
    return [
        Figure("first ack after start, 3 brokers", "ms", firsts, "<= 1,500"),
        Figure(
            "produce acks=all RF 3", "MB/s", [w for w, _ in rounds[3][1:]], ">= 200", page_cache
        ),
        Figure("produce acks=all RF 1", "MB/s", [w for w, _ in rounds[1][1:]], ">= 600", loopback),
        Figure("consume from the beginning", "MB/s", read, ">= 1,000", from_file),
        Figure("one at a time RF 3, p50", "ms", [s["p50_ms"] for s in singles], "<= 0.6"),
        Figure("one at a time RF 3, p99", "ms", [s["p99_ms"] for s in singles], "<= 2"),
        Figure("one at a time RF 3, CPU of brokers", "ms", [s["cpu_ms"] for s in singles], ""),
        Figure("raw: page cache, fresh pages", "MB/s", [raw["page_cache_fresh"]], ""),
        Figure("raw: page cache, used pages", "MB/s", [raw["page_cache_again"]], ""),
        Figure("raw: loopback", "MB/s", [raw["loopback"]], ""),
        Figure("raw: sendfile over loopback", "MB/s", [raw["sendfile"]], ""),
    ]


def table(figures: Sequence[Figure]) -> str:
    """For people."""
    rows = []
    for figure in figures:
        spread = f"{min(figure.values):,.2f} to {max(figure.values):,.2f}"
        ratio = ""
        if figure.beside is not None:
            name, best = figure.beside
            ratio = f"{figure.median / best:.0%} of {name}"
        rows.append(
            (
                figure.name,
                f"{figure.median:,.2f} {figure.unit}",
                figure.mark,
                spread if len(figure.values) > 1 else "",
                ratio,
            )
        )
    return columns(("MEASURE", "MEDIAN", "MARK", "ROUNDS", "RATIO"), rows)


def main() -> int:
    parser = options("Measure a local cluster of three brokers.")
    parser.add_argument("--short", action="store_true", help="less of everything, for CI")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    arguments = parser.parse_args()
    size = SHORT if arguments.short else FULL
    print(
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; {size.records:,} records of {RECORD_BYTES} bytes"
    )

    def measured(folder: Path) -> list[Figure]:
        compile_load()
        return measure(folder, size, lambda text: print(f"... {text}", file=sys.stderr))

    figures = in_folder("bench", arguments.data, measured)
    print(table(figures))
    if arguments.json:
        results = {
            f.name: {"unit": f.unit, "median": f.median, "rounds": list(f.values)} for f in figures
        }
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
