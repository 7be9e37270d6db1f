"""Measures thousands of partitions: making them, and moving all leaderships of a broker.

    python bench/partitions.py [--partitions 3000] [--data DIR]

Three brokers, replication factor 3, nobody writes. Beside each time stands the CPU time that the
brokers used for it, which other load on the machine does not change much.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from frame import BenchFailed, in_folder, options, replog
from processes import cpu_seconds
from replog.cli.output import columns
from replog.cli.ports import free_ports
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.metadata import MetadataResponse, MetadataResponsePartition
from replog.runtime.client import AdminClient, ClientError
from replog.runtime.local_cluster import LocalCluster

TOPIC = "many"
PATIENCE_S = 300.0
REPLICAS = 3
POLL_S = 0.2  # an answer about thousands of partitions costs a broker tens of milliseconds


class Measurement:
    """One cluster, and the rows of the table."""

    def __init__(self, folder: Path, partitions: int) -> None:
        words = ("up", "--detach", "--port", str(free_ports(3)))
        replog(folder, *words, "--set", "auto.leader.rebalance.enable=false")
        self.cluster = LocalCluster.load(folder)
        self.rows: list[tuple[str, ...]] = []
        self._partitions = partitions

    @contextmanager
    def step(self, name: str, mark: str = "") -> Iterator[None]:
        """Time what is done inside."""
        before, began = cpu_seconds(self.cluster), time.monotonic()
        yield
        took = time.monotonic() - began
        after = cpu_seconds(self.cluster)
        used = [now - before.get(broker, 0.0) for broker, now in after.items()]
        shown = " + ".join(f"{seconds:.1f}" for seconds in used)
        self.rows.append((name, f"{took:.1f} s", f"{shown} s", mark))

    def create(self) -> None:
        topic = CreatableTopic(
            name=TOPIC, num_partitions=self._partitions, replication_factor=REPLICAS
        )
        with AdminClient(self.cluster.bootstrap_servers, PATIENCE_S) as client:
            answer = client.call(
                CreateTopicsRequest(topics=[topic], timeout_ms=int(PATIENCE_S * 1000))
            )
        if not isinstance(answer, CreateTopicsResponse) or answer.topics[0].error_code:
            raise BenchFailed(f"the topic was not made: {answer}")

    def wait(self, good: Callable[[MetadataResponsePartition], bool], *, but: int = -1) -> None:
        """Until all partitions are `good`, by what every running broker says."""
        deadline = time.monotonic() + PATIENCE_S
        for member in self.cluster.members:
            while member.broker_id != but:
                try:
                    with AdminClient([("127.0.0.1", member.port)], PATIENCE_S) as client:
                        found = client.metadata([TOPIC]).topics[0].partitions
                    if len(found) == self._partitions and all(map(good, found)):
                        break
                except ClientError:
                    pass
                if time.monotonic() > deadline:
                    raise BenchFailed(f"not so within {PATIENCE_S:g} s")
                time.sleep(POLL_S)

    def seen(self) -> MetadataResponse:
        with AdminClient(self.cluster.bootstrap_servers, PATIENCE_S) as client:
            return client.metadata([TOPIC])

    def kill(self, *, controller: bool) -> None:
        """Kill a broker and bring it back."""
        seen = self.seen()
        brokers = [member.broker_id for member in self.cluster.members]
        victim = next(b for b in brokers if (b == seen.controller_id) is controller)
        led = sum(p.leader_id == victim for p in seen.topics[0].partitions)
        what = f"{'controller' if controller else 'broker'} killed: {led} new leaders"
        (pid,) = [s.pid for s in self.cluster.status() if s.broker_id == victim]
        if pid is None:
            raise BenchFailed(f"broker {victim} does not run")
        with self.step(what, "10 s"):
            os.kill(pid, signal.SIGKILL)
            self.wait(lambda p: p.leader_id not in (victim, -1), but=victim)
        with self.step("it is started, and back in all ISRs"):
            self.cluster.start(victim, PATIENCE_S)
            self.wait(lambda p: len(p.isr_nodes) == REPLICAS)


def measure(folder: Path, partitions: int) -> str:
    """All steps, as a table. Raises BenchFailed."""
    measurement = Measurement(folder, partitions)
    try:
        with measurement.step(f"{partitions} partitions made, all in sync"):
            measurement.create()
            measurement.wait(lambda p: p.leader_id >= 0 and len(p.isr_nodes) == REPLICAS)
        measurement.kill(controller=False)
        measurement.kill(controller=True)
        with measurement.step("stopped in good order"):
            measurement.cluster.down(PATIENCE_S)
    finally:
        measurement.cluster.down()
    return columns(("STEP", "TIME", "CPU BY BROKER", "MARK"), measurement.rows)


def main() -> int:
    parser = options("Measure a cluster with many partitions.")
    parser.add_argument("--partitions", type=int, default=3_000, help="default: 3000")
    arguments = parser.parse_args()
    print(in_folder("partitions", arguments.data, lambda f: measure(f, arguments.partitions)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
