"""Measures failovers: how long a partition cannot be written to when its leader dies or freezes.

    python bench/failover.py [--kills N] [--freezes N] [--json FILE] [--data DIR]

Three brokers, replication factor 3. Two clocks run for each failover: that of a client (librdkafka,
acks=all, everything at its defaults: from the blow to the first acknowledgement of a record that
was sent after it), and that of the cluster (until a survivor acknowledges a record with acks=all to
somebody who asks both survivors over and over). The difference is the client's own back-off. Each
failover meets a new client: one that has seen a broker die backs off from it for up to ten seconds.

A frozen leader keeps its connections, so a client waits for it until its own request times out
(librdkafka: a minute), whatever the cluster does: there only the cluster's clock runs.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from frame import BenchFailed, in_folder, options
from replog.cli.output import columns
from replog.cli.ports import free_ports
from replog.model.errors import ErrorCode
from replog.model.messages.elect_leaders import ElectLeadersRequest
from replog.model.messages.metadata import MetadataResponse, MetadataResponsePartition
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch
from replog.runtime.client import AdminClient, ClientError
from replog.runtime.local_cluster import LocalCluster

TOPIC = "failover"
PARTITIONS = 6
PROBE_PAUSE_S = 0.004  # between two questions to one survivor
PATIENCE_S = 30.0
SETTLED_S = 0.5  # of quiet before the next blow, so that one is not measured into another
PREFERRED = 0


@dataclass(frozen=True, slots=True)
class Case:
    """What is done, how often, and what it may take (milliseconds)."""

    name: str
    number: signal.Signals
    controller: bool  # the victim is the controller, too
    cluster_ms: float  # the median
    client_ms: tuple[float, float] | None  # median and worst; None: no client is watched


@dataclass(frozen=True, slots=True)
class Sample:
    """One failover."""

    cluster_ms: float
    client_ms: float | None


CASES = (
    Case("leader killed", signal.SIGKILL, False, 100, (300, 600)),
    Case("leader and controller killed", signal.SIGKILL, True, 100, (300, 600)),
    Case("leader frozen", signal.SIGSTOP, False, 2_000, None),
    Case("leader and controller frozen", signal.SIGSTOP, True, 2_000, None),
)


class Cluster:
    """Three brokers and one topic."""

    def __init__(self, folder: Path) -> None:
        port = free_ports(3)
        self._replog(folder, "up", "--detach", "--port", str(port), *self._settings())
        self.local = LocalCluster.load(folder)
        self._replog(
            *(folder, "topic", "create", TOPIC, "--partitions", str(PARTITIONS)),
            *("--replication-factor", "3"),
        )

    @staticmethod
    def _settings() -> tuple[str, ...]:
        return ("--set", "auto.leader.rebalance.enable=false")

    @staticmethod
    def _replog(folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "replog", *words, "--data", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise BenchFailed(f"replog {' '.join(words)}: {done.stderr.strip()}")

    def metadata(self) -> MetadataResponse:
        with AdminClient(self.local.bootstrap_servers, PATIENCE_S) as client:
            return client.metadata([TOPIC])

    def balance(self) -> None:
        """Wait until all is in sync, and give every partition back to its preferred leader."""
        self._wait("a broker does not come back in sync", lambda p: len(p.isr_nodes) == 3)
        with AdminClient(self.local.bootstrap_servers, PATIENCE_S) as client:
            everything = ElectLeadersRequest(
                election_type=PREFERRED, topic_partitions=None, timeout_ms=10_000
            )
            client.call(everything)
        self._wait("leaders stay where they are", lambda p: p.leader_id == p.replica_nodes[0])
        time.sleep(SETTLED_S)

    def _wait(self, failure: str, good: Callable[[MetadataResponsePartition], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not all(good(partition) for partition in self.metadata().topics[0].partitions):
            if time.monotonic() > deadline:
                raise BenchFailed(failure)
            time.sleep(0.05)

    def restart(self, broker: int) -> None:
        """Start a broker that was killed, once its process is gone."""
        while broker in self.local.running():
            time.sleep(0.01)
        self.local.start(broker)

    def victim(self, *, controller: bool) -> tuple[int, int]:
        """A broker and a partition that it leads."""
        seen = self.metadata()
        for partition in seen.topics[0].partitions:
            if (partition.leader_id == seen.controller_id) is controller:
                return partition.leader_id, partition.partition_index
        raise BenchFailed("no partition is led by such a broker")


class Probe(threading.Thread):
    """Asks one survivor over and over to take a record; notes when it first does, with acks=all."""

    def __init__(self, address: tuple[str, int], partition: int) -> None:
        super().__init__(daemon=True)
        self.accepted_at: float | None = None
        self._client = AdminClient([address], PATIENCE_S)
        self._partition = partition
        self._stopping = threading.Event()
        self._client.metadata([])  # connected, versions known

    def run(self) -> None:
        while not self._stopping.wait(PROBE_PAUSE_S):
            try:
                accepted = self._produce()
            except ClientError:
                return
            if accepted:
                self.accepted_at = time.monotonic()
                return

    def _produce(self) -> bool:
        batch = build_batch([Record(0, int(time.time() * 1000), None, b"probe")])
        data = PartitionProduceData(index=self._partition, records=memoryview(batch))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=int(PATIENCE_S * 1000), topic_data=[topic])
        answer = self._client.call(request, 9)
        assert isinstance(answer, ProduceResponse)
        error = answer.responses[0].partition_responses[0].error_code
        return ErrorCode(error) is ErrorCode.NONE

    def stop(self) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)
        self._client.close()


class Writer(threading.Thread):
    """librdkafka at its defaults, a record every few milliseconds to one partition."""

    def __init__(self, bootstrap: str, partition: int) -> None:
        super().__init__(daemon=True)
        from confluent_kafka import Producer

        self.blow_at = float("inf")  # monotonic seconds; a record counts when it is sent later
        self.acknowledged = threading.Event()
        self.acknowledged_at = 0.0
        self._partition = partition
        self._client = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            answered = self._answered(time.monotonic())
            self._client.produce(TOPIC, b"x", partition=self._partition, on_delivery=answered)
            self._client.poll(0.005)

    def _answered(self, sent_at: float) -> Callable[[Any, Any], None]:
        def answered(error: Any, message: Any) -> None:
            if error is None and sent_at > self.blow_at and not self.acknowledged.is_set():
                self.acknowledged_at = time.monotonic()
                self.acknowledged.set()

        return answered

    def stop(self) -> None:
        self._stopping.set()
        self.join(PATIENCE_S)
        self._client.flush(PATIENCE_S)


def fail_over(cluster: Cluster, case: Case) -> Sample:
    """One blow, both clocks, and the way back."""
    cluster.balance()
    victim, partition = cluster.victim(controller=case.controller)
    writer = Writer(cluster.local.bootstrap_servers, partition)
    probes = [
        Probe(("127.0.0.1", member.port), partition)
        for member in cluster.local.members
        if member.broker_id != victim
    ]
    threads: list[Writer | Probe] = [writer, *probes]
    for thread in threads:
        thread.start()
    time.sleep(SETTLED_S)
    (pid,) = [s.pid for s in cluster.local.status() if s.broker_id == victim]
    assert pid is not None
    writer.blow_at = blow_at = time.monotonic()
    os.kill(pid, case.number)
    try:
        accepted_at = first_acceptance(probes)
        if case.client_ms is not None and not writer.acknowledged.wait(PATIENCE_S):
            raise BenchFailed(f"nothing acknowledged to a client in {PATIENCE_S} s: {case.name}")
    finally:
        if case.number is signal.SIGKILL:
            cluster.restart(victim)
        else:
            cluster.local.resume(victim)
        for thread in threads:
            thread.stop()
    client_ms = None if case.client_ms is None else (writer.acknowledged_at - blow_at) * 1000
    return Sample((accepted_at - blow_at) * 1000, client_ms)


def first_acceptance(probes: Sequence[Probe]) -> float:
    """When a survivor took a record, in monotonic seconds. Raises BenchFailed."""
    deadline = time.monotonic() + PATIENCE_S
    while not (taken := [p.accepted_at for p in probes if p.accepted_at is not None]):
        if time.monotonic() > deadline:
            raise BenchFailed(f"no survivor takes a record in {PATIENCE_S} s")
        time.sleep(0.01)
    return min(taken)


def measure(folder: Path, counts: dict[Case, int]) -> dict[Case, list[Sample]]:
    """All cases. Raises BenchFailed."""
    cluster = Cluster(folder)
    samples: dict[Case, list[Sample]] = {case: [] for case in counts}
    try:
        for case, count in counts.items():
            for number in range(count):
                if sys.stderr.isatty():
                    print(f"\r{case.name}: {number + 1} of {count}    ", end="", file=sys.stderr)
                samples[case].append(fail_over(cluster, case))
    finally:
        cluster.local.down()
        if sys.stderr.isatty():
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return samples


def table(samples: dict[Case, list[Sample]]) -> str:
    """For people: a line for each clock of each case. Nothing is judged but by whoever reads it."""
    rows = []
    for case, taken in samples.items():
        if not taken:
            continue
        cluster = [s.cluster_ms for s in taken]
        met = statistics.median(cluster) <= case.cluster_ms
        rows.append(_row(f"{case.name}, cluster", cluster, f"{case.cluster_ms:,.0f} ms", met))
        client = [s.client_ms for s in taken if s.client_ms is not None]
        if case.client_ms is not None and client:
            median, worst = case.client_ms
            met = statistics.median(client) <= median and max(client) <= worst
            mark = f"{median:,.0f} ms, worst {worst:,.0f} ms"
            rows.append(_row(f"{case.name}, client", client, mark, met))
    header = ("FAILOVER", "TIMES", "MEDIAN", "P90", "WORST", "MARK", "VERDICT")
    return columns(header, rows)


def _row(name: str, values: Sequence[float], mark: str, met: bool) -> tuple[str, ...]:
    ordered = sorted(values)
    p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    figures = (statistics.median(values), p90, ordered[-1])
    shown = [f"{f:,.0f} ms" for f in figures]
    return (name, str(len(values)), *shown, mark, "met" if met else "missed")


def main() -> int:
    parser = options("Measure failovers of a local cluster.")
    parser.add_argument("--kills", type=int, default=50, help="of each kind (default: 50)")
    parser.add_argument("--freezes", type=int, default=5, help="of each kind (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the samples there, too")
    arguments = parser.parse_args()
    counts = {
        case: arguments.kills if case.number is signal.SIGKILL else arguments.freezes
        for case in CASES
    }
    samples = in_folder("failover", arguments.data, lambda f: measure(f / "cluster", counts))
    print(table(samples))
    if arguments.json:
        found = {case.name: [asdict(s) for s in taken] for case, taken in samples.items()}
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
