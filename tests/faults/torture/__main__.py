"""Torture: real brokers and real clients, a fault every few seconds, and then the reckoning.

    python -m tests.faults.torture --minutes 3 [--seed N] [--brokers 5] [--format json]

At the end everything is mended; every partition must come back in sync, every record that was
acknowledged must be where it was said to be, all readers must have seen the same, and the replicas'
files must be equal byte by byte. Exit code 1 when anything is not so.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.torture.brokers import Brokers, TortureError
from tests.faults.torture.clients import (
    AioClients,
    ConfluentReader,
    ConfluentWriter,
    Place,
    SingleWriter,
    behind,
    log_ends,
    read_all,
)
from tests.faults.torture.faults import Extras, Nemesis, schedule
from tests.faults.torture.history import (
    History,
    LogJudge,
    Problems,
    Reading,
    Writer,
    compare_readings,
)
from tests.faults.torture.report import Report, as_dict, as_text
from tests.faults.torture.topics import REPLICAS, Topics

from replog.cli.replica_files import compare_replicas
from replog.model.ids import GROUP_OFFSETS_TOPIC

TOPICS = ("orders", "events", "clicks", "audits")
PARTITIONS = 2
RATES = {"librdkafka-idempotent": 120.0, "librdkafka-plain": 80.0}
SINGLE_RATE = 40.0
AIO_RATE = 80.0
SETTLE_S = 3.0  # clients run before the first fault
CATCH_UP_S = 60.0


@dataclass(slots=True)
class Clients:
    """All that write and read during the run."""

    history: History
    writers: list[ConfluentWriter]
    single: SingleWriter
    readers: list[ConfluentReader]
    aio: AioClients
    problems: Problems = field(repr=False)

    def start(self) -> None:
        for thread in (*self.writers, self.single, *self.readers, self.aio):
            thread.start()

    def finish_writing(self) -> None:
        unanswered = [writer.finish() for writer in (*self.writers, self.single)]
        unanswered.append(self.aio.finish_writing())
        if any(unanswered):
            self.problems.add(f"records were never answered: {unanswered}")
        for writer in self.writers:
            if writer.fatal is not None:
                self.problems.add(f"{writer.name} gave up: {writer.fatal}")
        if self.aio.failure is not None:
            self.problems.add(f"aiokafka failed: {self.aio.failure!r}")

    def catch_up(self, ends: dict[Place, int], folder: Path) -> None:
        """Wait until all is read; what a client said that does not get there goes to `folder`."""
        limit = time.monotonic() + CATCH_UP_S
        for reader in self._all_readers():
            while missing := behind(reader.readings, ends):
                if time.monotonic() > limit:
                    self.problems.add(f"{reader.name} did not read to the end: {missing}")
                    if isinstance(reader, ConfluentReader):
                        text = "\n".join(reader.last_words.lines())
                        (folder / f"{reader.name}.log").write_text(text)
                    break
                time.sleep(0.1)

    def finish(self) -> None:
        for reader in self._all_readers():
            reader.finish()

    def readings(self, place: Place) -> list[Reading]:
        return [reader.readings[place] for reader in self._all_readers()]

    def _all_readers(self) -> list[ConfluentReader | AioClients]:
        return [*self.readers, self.aio]


def make_clients(bootstrap: str, places: list[Place], problems: Problems) -> Clients:
    """One of each kind; each writes to all topics."""
    kinds = [*RATES, "aiokafka", "single"]
    names = {kind: [f"{kind}@{topic}" for topic in TOPICS] for kind in kinds}
    idempotent = {"librdkafka-idempotent", "aiokafka"}
    history = History(
        Writer(name, topic, kind in idempotent)
        for kind in kinds
        for name, topic in zip(names[kind], TOPICS, strict=True)
    )
    settings: dict[str, dict[str, object]] = {
        "librdkafka-idempotent": {"enable.idempotence": True},
        "librdkafka-plain": {},
    }
    writers = [
        ConfluentWriter(bootstrap, history, names[kind], places, rate=rate, **settings[kind])
        for kind, rate in RATES.items()
    ]
    single = SingleWriter(bootstrap, history, names["single"], places, rate=SINGLE_RATE)
    readers = [
        ConfluentReader("reader", bootstrap, places, problems),
        ConfluentReader("member", bootstrap, places, problems, group="torture"),
    ]
    aio = AioClients(
        *(bootstrap, history, names["aiokafka"], places, problems), rate=AIO_RATE, idempotent=True
    )
    return Clients(history, writers, single, readers, aio, problems)


class Run:
    """One run from an empty folder to the verdict."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._seed = arguments.seed
        self._minutes = arguments.minutes
        self._live = arguments.format == "text" and sys.stderr.isatty()
        self._places = [(topic, p) for topic in TOPICS for p in range(PARTITIONS)]
        self._problems = Problems()
        threading.excepthook = lambda what: self._problems.add(
            f"thread {what.thread.name if what.thread else '?'} failed: {what.exc_value!r}"
        )
        self._brokers = Brokers(folder, arguments.brokers)
        self._topics = Topics(self._brokers, self._places, self._problems)
        extras = Extras(reassign=self._topics.reassign, recreate=self._topics.recreate)
        faults = schedule(arguments.seed, arguments.minutes)
        self._nemesis = Nemesis(self._brokers, TOPICS, faults, extras)

    def play(self) -> Report:
        """Everything. Raises TortureError when the cluster does not even start or end."""
        try:
            return self._play()
        finally:
            self._brokers.kill_all()

    def _play(self) -> Report:
        brokers, problems, nemesis = self._brokers, self._problems, self._nemesis
        brokers.up()
        self._topics.create_all()
        brokers.wait("the topics are not in sync", lambda: brokers.in_sync(TOPICS))
        clients = make_clients(brokers.bootstrap, self._places, problems)
        clients.start()
        time.sleep(SETTLE_S)
        began = time.monotonic()
        nemesis.start()
        while nemesis.is_alive():
            nemesis.join(0.5)
            self._show(began, clients.history)
        healed_s = self._heal()
        time.sleep(SETTLE_S)
        clients.finish_writing()
        ends = log_ends(brokers.bootstrap, self._places)
        clients.catch_up(ends, brokers.folder)
        clients.finish()
        repeats = self._judge(clients, ends)
        replicas = {
            (topic.name or "", p.partition_index): p.replica_nodes
            for topic in brokers.metadata(None).topics
            for p in topic.partitions
        }
        brokers.down()
        self._compare_files(replicas)
        self._read_logs()
        for event in nemesis.events:
            if event.failure is not None:
                problems.add(f"{event.text}: {event.failure}")
        return Report(
            seed=self._seed,
            minutes=self._minutes,
            brokers=len(brokers.ids),
            began=began,
            events=nemesis.events,
            history=clients.history,
            records=sum(ends.values()),
            repeats=repeats,
            in_sync_after_s=healed_s,
            problems=problems,
        )

    def _show(self, began: float, history: History) -> None:
        if not self._live:
            return
        longest = max((gap.seconds for gap in history.gaps.values()), default=0.0)
        now = "; ".join(event.text for event in self._nemesis.active) or "-"
        line = (
            f"{time.monotonic() - began:5.0f} s of {self._minutes * 60:.0f}  "
            f"{len(self._nemesis.events)} faults  longest pause {longest:.1f} s  now: {now}"
        )
        width = shutil.get_terminal_size().columns - 1
        print("\r" + line[:width].ljust(width), end="", file=sys.stderr, flush=True)

    def _heal(self) -> float | None:
        """Mend everything. Seconds until all is in sync; None, and a problem, when it never is."""
        brokers = self._brokers
        brokers.heal_all()
        for broker in brokers.ids:
            if brokers.runs(broker):
                brokers.signal(broker, signal.SIGCONT)
            else:
                self._problems.add(f"broker {broker} had ended by itself")
                brokers.start(broker)
        topics = [*TOPICS, GROUP_OFFSETS_TOPIC]
        try:
            return brokers.wait(
                "not all partitions are in sync again", lambda: brokers.in_sync(topics, REPLICAS)
            )
        except TortureError as error:
            self._problems.add(str(error))
            return None

    def _judge(self, clients: Clients, ends: dict[Place, int]) -> int:
        """The last word: what two new consumers read. Returns how many repeats were allowed."""
        judges = {place: LogJudge(clients.history, *place, self._problems) for place in ends}
        lasts = [{place: Reading(name, *place) for place in ends} for name in ("last", "second")]

        def take(place: Place, offset: int, value: bytes) -> None:
            lasts[0][place].take(offset, value, self._problems)
            judges[place].take(offset, value)

        def take_again(place: Place, offset: int, value: bytes) -> None:
            lasts[1][place].take(offset, value, self._problems)

        for each in (take, take_again):
            if not read_all(self._brokers.bootstrap, ends, each, 10 * CATCH_UP_S):
                self._problems.add("a new consumer can't read everything")
        for place, judge in judges.items():
            judge.finish()
            for reading in (lasts[1][place], *clients.readings(place)):
                compare_readings(lasts[0][place], reading, self._problems)
        return sum(judge.repeats for judge in judges.values())

    def _compare_files(self, replicas: dict[Place, list[int]]) -> None:
        for (topic, partition), holders in replicas.items():
            folders = {broker: self._brokers.log_folder(broker) for broker in holders}
            files = [f for d in folders.values() for f in d.glob(f"{topic}-{partition}/*.log")]
            if not any(file.stat().st_size for file in files):
                continue  # nobody has written to it
            same, text = compare_replicas(folders, topic, [partition])
            if not same:
                self._problems.add(text)
            for broker in set(self._brokers.ids) - set(holders):
                if (self._brokers.log_folder(broker) / f"{topic}-{partition}").exists():
                    self._problems.add(f"broker {broker} still holds {topic}-{partition}")

    def _read_logs(self) -> None:
        """A broker that had to print a traceback has a fault, whatever the clients saw."""
        for broker in self._brokers.ids:
            text = self._brokers.log_file(broker).read_text(errors="replace")
            count = text.count("Traceback (most recent call last)")
            if count:
                where = text.index("Traceback (most recent call last)")
                tail = text[where : where + 3_000].splitlines()
                last = next((line for line in tail[1:] if line and line[0] != " "), "")
                self._problems.add(f"broker {broker} printed {count} tracebacks: {last}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.torture", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=30.0, help="default: 30")
    parser.add_argument("--seed", type=int, help="of an earlier run (default: a new one)")
    parser.add_argument("--brokers", type=int, default=5, help="3 or more (default: 5)")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--data", type=Path, help="where; kept (default: temporary)")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1_000_000)
    if arguments.brokers < REPLICAS or arguments.minutes <= 0:
        parser.error(f"at least {REPLICAS} brokers, and some time")
    folder = arguments.data or Path(tempfile.mkdtemp(prefix="replog-torture-"))
    print(
        f"seed {arguments.seed}, {arguments.minutes:g} minutes, {arguments.brokers} brokers, "
        f"{os.cpu_count()} cores, {folder}",
        file=sys.stderr,
    )
    try:
        report = Run(folder, arguments).play()
    except TortureError as error:
        print(f"torture: {error} (seed {arguments.seed}, {folder})", file=sys.stderr)
        return 1
    print("\r", end="", file=sys.stderr)
    print(json.dumps(as_dict(report), indent=2) if arguments.format == "json" else as_text(report))
    if report.problems.count:
        print(f"torture: everything is kept in {folder}", file=sys.stderr)
        return 1
    if arguments.data is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
