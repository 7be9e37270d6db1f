"""Members of a group come and go at random, while records are produced: nothing may go wrong.

    python -m tests.interop.rebalance --minutes 3 [--kind librdkafka/range ...] [--seed N]

Starts three brokers of its own. Some members leave in good order, some die without a word.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tests.interop.kafka import Java
from tests.interop.rebalance_events import Event, Judgement, judge, parse
from tests.support.cluster import Cluster, wait_until

from replog.cli.group_view import committed_offsets
from replog.cli.ledger import Writer
from replog.cli.traffic import Producer, client_library, log_end
from replog.runtime.client import AdminClient

MEMBERS_MAX = 20
MEMBERS_MIN = 5
PARTITIONS = 60
RECORDS_PER_SECOND = 300
PAUSE_MS = (200, 1_500)  # between two members that come or go
SETTLED_S = 120.0  # within which all is read when nobody comes or goes any more

ASSIGNORS = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
KINDS = tuple(f"{library}/{name}" for library in ("librdkafka", "java") for name in ASSIGNORS)


class Members(ABC):
    """The members of one group, and all that they have told."""

    def __init__(self) -> None:
        self.events: list[Event] = []  # only grows
        self._readers: list[threading.Thread] = []

    def listen(self, process: subprocess.Popen[str]) -> None:
        def read() -> None:
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    self.events.append(parse(line))

        reader = threading.Thread(target=read, daemon=True)
        self._readers.append(reader)
        reader.start()

    @abstractmethod
    def join(self, name: str) -> None:
        """A new one."""

    @abstractmethod
    def leave(self, name: str) -> None:
        """Asks one to leave in good order, and does not wait for it."""

    @abstractmethod
    def vanish(self, name: str) -> None:
        """Ends one without a word to its coordinator."""

    @abstractmethod
    def close(self) -> None:
        """Ends processes that are still there: within a minute in good order, else by force."""

    def finish(self) -> list[Event]:
        self.close()
        for reader in self._readers:
            reader.join()
        return self.events


class Processes(Members):
    """On librdkafka: a process for each, that can be killed."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self._words = words
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def join(self, name: str) -> None:
        program = Path(__file__).parent / "python" / "member.py"
        process = subprocess.Popen(
            [sys.executable, str(program), name, *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes[name] = process
        self.listen(process)

    def leave(self, name: str) -> None:
        stdin = self._processes[name].stdin
        assert stdin is not None
        stdin.close()

    def vanish(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()
        self.leave(name)
        self.events.append(Event(time.monotonic_ns(), name, "killed", "-"))

    def close(self) -> None:
        limit = time.monotonic() + 60
        for name, process in self._processes.items():
            try:
                process.wait(max(0.0, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.events.append(Event(time.monotonic_ns(), name, "failed", "never-left"))


class Threads(Members):
    """Kafka's Java client: a thread for each, in one process."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        options = ("-Xmx512m", "-XX:+UseSerialGC")
        self._process = subprocess.Popen(
            Java().command("Members", *words, options=options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.listen(self._process)

    def _tell(self, command: str, name: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command} {name}\n")
        self._process.stdin.flush()

    def join(self, name: str) -> None:
        self._tell("join", name)

    def leave(self, name: str) -> None:
        self._tell("leave", name)

    def vanish(self, name: str) -> None:
        self._tell("vanish", name)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self.events.append(Event(time.monotonic_ns(), "all", "failed", "never-left"))


def members_of(kind: str, words: Sequence[str]) -> Members:
    library, assignor = kind.split("/")
    if library == "java":
        return Threads([*words, ASSIGNORS[assignor]])
    return Processes([*words, assignor])


class Watcher(threading.Thread):
    """Asks for the group's committed offsets, over and over."""

    def __init__(self, bootstrap: str, group: str) -> None:
        super().__init__(daemon=True)
        self.snapshots: list[dict[int, int]] = []  # only grows
        self._servers = bootstrap
        self._group = group
        self._ended = threading.Event()

    def run(self) -> None:
        with AdminClient(self._servers) as admin:
            while not self._ended.wait(0.3):
                found = committed_offsets(admin, self._group)
                self.snapshots.append(
                    {
                        place.partition: position.committed
                        for place, position in found.items()
                        if position.committed is not None
                    }
                )

    def finish(self) -> None:
        self._ended.set()
        self.join()


def come_and_go(members: Members, seconds: float, rng: random.Random) -> list[str]:
    """Let members join and leave; those that are there in the end, as many as there may be."""
    names = (f"m{number}" for number in range(10_000))
    present: list[str] = []
    limit = time.monotonic() + seconds

    def join() -> None:
        present.append(next(names))
        members.join(present[-1])

    for _ in range(MEMBERS_MAX // 2):
        join()
    while time.monotonic() < limit:
        time.sleep(rng.uniform(*PAUSE_MS) / 1_000)
        some_must_stay = len(present) <= MEMBERS_MIN
        if some_must_stay or (len(present) < MEMBERS_MAX and rng.random() < 0.55):
            join()
            continue
        gone = present.pop(rng.randrange(len(present)))
        if rng.random() < 0.1:
            members.vanish(gone)
        else:
            members.leave(gone)
    while len(present) < MEMBERS_MAX:
        join()
    return present


def log_ends(bootstrap: str, topic: str) -> dict[int, int]:
    library = client_library()
    client = library.Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    places = [library.TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = {place.partition: log_end(client, place, 30) for place in places}
    client.close()
    return found


def rebalance(cluster: Cluster, topic: str, kind: str, seconds: float, seed: int) -> Judgement:
    """One run on a topic that is yet to be made; what came of it."""
    cluster.create_topic(topic, partitions=PARTITIONS)
    partitions = range(PARTITIONS)
    writer = Writer("writer", idempotent=True)
    producer = Producer(
        cluster.bootstrap,
        topic,
        writer,
        partitions=partitions,
        records_per_second=RECORDS_PER_SECOND,
    )
    watcher = Watcher(cluster.bootstrap, topic)
    members = members_of(kind, [cluster.bootstrap, topic, topic])
    problems: list[str] = []
    producer.start()
    watcher.start()
    try:
        present = come_and_go(members, seconds, random.Random(seed))
        assert producer.finish() == 0
        ends = log_ends(cluster.bootstrap, topic)

        def settled() -> bool:
            owners = judge(list(members.events), {}, ()).owner.values()
            return (
                set(owners) == set(present)
                and len(owners) == PARTITIONS
                and bool(watcher.snapshots)
                and watcher.snapshots[-1] == ends
            )

        try:
            wait_until("each member has its share, and all is read", settled, SETTLED_S)
        except AssertionError as stuck:
            left = judge(list(members.events), {}, ())
            idle = sorted(set(present) - set(left.owner.values()))
            problems.append(f"{stuck}; without partitions: {idle}; owned: {len(left.owner)}")
        for name in present:
            members.leave(name)
    finally:
        watcher.finish()
        events = members.finish()
    judgement = judge(events, ends, watcher.snapshots)
    judgement.problems[:0] = problems
    return judgement


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for all that members tell")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder), settings={"group.initial.rebalance.delay.ms": "0"})
        try:
            for kind in options.kind or KINDS:
                topic = f"rebalance-{kind.replace('/', '-')}"
                found = rebalance(cluster, topic, kind, options.minutes * 60, options.seed)
                if options.keep:
                    lines = (" ".join(map(str, event)) for event in found.events)
                    (options.keep / topic).write_text("\n".join(lines))
                print(f"{kind}: {len(found.problems)} problems; {dict(found.counts)}", flush=True)
                for problem in found.problems[:20]:
                    print(f"  {problem}")
                failed = failed or bool(found.problems)
        finally:
            cluster.down()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
