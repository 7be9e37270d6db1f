"""`replog demo failover`: the walk-through on real processes, with clients that never stop.

Nothing is taken on trust: each row is read from every live broker and from the coordinator, every
acknowledged record is looked for at the end, and the replicas' files are compared byte by byte.
"""

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replog.cli.errors import FAILED, OK, Failure, UsageError
from replog.cli.ledger import Writer, judge
from replog.cli.options import Arguments, Parser, add_coordinator, add_format, examples, port
from replog.cli.output import print_json
from replog.cli.replica_files import compare_replicas
from replog.cli.traffic import Consumer, Producer, client_library, read_everything
from replog.cli.walkthrough import STEPS, Observation, Step, table_lines
from replog.cli.walkthrough_cluster import TOPIC, WalkCluster

ROW_TIMEOUT_S = 20.0  # generous: the point is what the row says, not that a busy machine is slow
RECORDS_PER_ROW = 200  # acknowledged, and read, in each state


def failover_options(parser: Parser) -> None:
    """Options of `replog demo failover`."""
    examples(
        parser,
        "replog demo failover",
        "replog demo failover --kill              SIGKILL instead of SIGTERM",
        "replog demo failover --data ./walk --format json",
        "replog demo failover --coordinator zk://127.0.0.1:2181/demo",
    )
    parser.add_argument("--kill", action="store_true", help="stop brokers by SIGKILL")
    parser.add_argument(
        "--data", metavar="DIR", help="an empty folder to use and keep (default: a temporary one)"
    )
    parser.add_argument("--port", type=port, metavar="PORT", help="first port (default: free ones)")
    parser.add_argument(
        "--rate", type=int, default=500, metavar="N", help="records a second (default: 500)"
    )
    add_coordinator(parser)
    add_format(parser)


@dataclass(slots=True)
class Outcome:
    """Everything that the demo found out."""

    steps: list[dict[str, Any]] = field(default_factory=list)
    checks: list[tuple[bool, str]] = field(default_factory=list)

    def check(self, good: bool, text: str) -> None:
        self.checks.append((good, text))

    @property
    def ok(self) -> bool:
        """All steps were taken and seen as expected, and nothing else is wrong either."""
        rows = len(self.steps) == len(STEPS) and all(step["ok"] for step in self.steps)
        return rows and all(good for good, _ in self.checks)


def failover(arguments: Arguments) -> int:
    """Walk through; 1 when a row differs or a record is not as it was promised."""
    client_library()
    if arguments.rate < 1:
        raise UsageError("--rate takes records a second, from 1 on")
    folder = Path(arguments.data or tempfile.mkdtemp(prefix="replog-demo-"))
    if arguments.data and folder.exists() and any(folder.iterdir()):
        raise Failure(f"{folder} is not empty: the demo needs a fresh cluster")
    show = _Show(arguments)
    outcome = Outcome()
    cluster = WalkCluster(
        folder,
        first_port=arguments.port,
        kill=arguments.kill,
        coordinator=arguments.coordinator,
    )
    try:
        cluster.begin()
        try:
            _walk(cluster, arguments.rate, show, outcome)
        except Failure as failure:
            outcome.check(False, str(failure))  # what was seen until then is still worth showing
    finally:
        cluster.end()
        if not arguments.data:
            _clean_up(folder, keep=not outcome.ok)
    show.end(outcome)
    return OK if outcome.ok else FAILED


def _clean_up(folder: Path, *, keep: bool) -> None:
    if keep and any(folder.iterdir()):
        print(f"replog demo failover: logs and data are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def _walk(cluster: WalkCluster, rate: int, show: "_Show", outcome: Outcome) -> None:
    writer = Writer("walker", idempotent=True)
    partitions = list(cluster.partitions)
    producer = Producer(
        cluster.bootstrap, TOPIC, writer, partitions=partitions, records_per_second=rate
    )
    consumer = Consumer(cluster.bootstrap, TOPIC, "walkers")
    producer.start()
    consumer.start()
    try:
        for step in STEPS:
            _take_step(cluster, step, producer, consumer, outcome)
            show.step(step, outcome.steps[-1])
        cluster.start_missing()
        cluster.wait_in_sync(ROW_TIMEOUT_S)
    finally:
        unanswered = producer.finish()
    _judge_records(cluster, producer, unanswered, outcome)
    _judge_consumer(producer, consumer, outcome)
    cluster.wait_same_ends(ROW_TIMEOUT_S)
    cluster.end()
    good, text = compare_replicas(cluster.log_folders(), TOPIC, partitions)
    outcome.check(good, text)


def _take_step(
    cluster: WalkCluster, step: Step, producer: Producer, consumer: Consumer, outcome: Outcome
) -> None:
    began = time.monotonic()
    if step.stop is not None:
        cluster.stop_broker(step.stop)
    if step.start is not None:
        cluster.start_broker(step.start)
    seen = _wait_for_row(cluster, step)
    took_s = time.monotonic() - began
    wrote = producer.wait_for_more(RECORDS_PER_ROW, ROW_TIMEOUT_S)
    read = consumer.wait_for_more(RECORDS_PER_ROW, ROW_TIMEOUT_S)
    seen = cluster.observe() if not seen.differing(step.expected) else seen
    outcome.steps.append(
        {
            "step": step.title,
            "ok": not seen.differing(step.expected) and wrote and read,
            "expected": [str(seat) for seat in step.expected],
            "seen": {
                source: [str(seat) for seat in row] if row else None
                for source, row in seen.rows.items()
            },
            "producer_went_on": wrote,
            "consumer_went_on": read,
            "seconds": round(took_s, 2),
            "lines": table_lines(step, seen),
        }
    )


def _wait_for_row(cluster: WalkCluster, step: Step) -> Observation:
    limit = time.monotonic() + ROW_TIMEOUT_S
    while True:
        seen = cluster.observe()
        if not seen.differing(step.expected) or time.monotonic() > limit:
            return seen
        time.sleep(0.02)


def _judge_records(
    cluster: WalkCluster, producer: Producer, unanswered: int, outcome: Outcome
) -> None:
    logs = read_everything(cluster.bootstrap, TOPIC, cluster.partitions)
    verdict = judge(logs, producer.acknowledged, [producer.writer])
    outcome.check(
        verdict.ok and not unanswered and not producer.refused,
        f"{verdict.acknowledged:,} records acknowledged (acks=all, idempotent); {verdict.read:,} "
        f"read from offset 0: {_count(verdict.problem_count, 'lost, repeated, moved or changed')}; "
        f"{_count(unanswered + len(producer.refused), 'refused or unanswered')}",
    )
    for problem in [*verdict.problems, *producer.refused[:5]]:
        outcome.check(False, problem)
    outcome.check(
        True, f"longest time without an acknowledgement: {producer.longest_silence_s:.2f} s"
    )


def _judge_consumer(producer: Producer, consumer: Consumer, outcome: Outcome) -> None:
    wanted = {(ack.partition, ack.offset) for ack in producer.acknowledged}
    limit = time.monotonic() + ROW_TIMEOUT_S
    while not wanted <= consumer.values.keys() and time.monotonic() < limit:
        time.sleep(0.05)
    consumer.finish()
    missing = len(wanted - consumer.values.keys())
    outcome.check(
        not missing and not consumer.problems,
        f"the consumer that ran throughout read {len(consumer.values):,} records: "
        f"{_count(missing, 'missing')}, {_count(len(consumer.problems), 'skipped or changed')}, "
        f"{consumer.read_again:,} handed over again after a move",
    )
    for problem in consumer.problems[:5]:
        outcome.check(False, problem)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number else f"none {what}"


class _Show:
    """Prints each step when it is done; in JSON, everything at the end."""

    def __init__(self, arguments: Arguments) -> None:
        self._json = arguments.format == "json"
        self._console: Any = None
        if not self._json:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=True)
            how = "SIGKILL" if arguments.kill else "SIGTERM"
            self._console.print(
                f"Three brokers, one topic, three partitions; leader / in-sync replicas. "
                f"Brokers are stopped by {how}; a producer and a consumer run throughout.\n"
            )

    def step(self, step: Step, result: dict[str, Any]) -> None:
        if self._json:
            return
        from rich.table import Table

        table = Table(
            title=f"{step.title}  ({result['seconds']} s)",
            title_justify="left",
            box=None,
            title_style="bold",
        )
        for name in ("source", "P0", "P1", "P2", ""):
            table.add_column(name, min_width=12)
        for source, cells, right in result["lines"]:
            table.add_row(source, *cells, _mark(right))
        self._console.print(table)
        for name in ("producer", "consumer"):
            if not result[f"{name}_went_on"]:
                self._console.print(f"[red]the {name} stood still[/red]")
        self._console.print()

    def end(self, outcome: Outcome) -> None:
        if self._json:
            steps = [{k: v for k, v in s.items() if k != "lines"} for s in outcome.steps]
            checks = [{"ok": good, "text": text} for good, text in outcome.checks]
            print_json({"ok": outcome.ok, "steps": steps, "checks": checks})
            return
        for good, text in outcome.checks:
            self._console.print(_mark(good), text)
        rows = sum(1 for step in outcome.steps if step["ok"])
        self._console.print(_mark(outcome.ok), f"{rows} of {len(STEPS)} rows as expected")


def _mark(right: bool | None) -> str:
    return {True: "[green]ok[/green]", False: "[red]DIFFERS[/red]", None: ""}[right]
