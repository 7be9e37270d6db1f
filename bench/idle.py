"""Measures what a cluster costs that has nothing to do: CPU time from /proc, so other load on the
machine does not count.

    python bench/idle.py [--seconds 60] [--data DIR]

Three brokers, 150 partitions (50 of them of `__consumer_offsets`) with three replicas each, and ten
consumers in groups of their own, which wait for records that never come: five with librdkafka's
defaults, five that ask as the Java client does (fetch.max.wait.ms 500, heartbeats every 3 s).
"""

import sys
import threading
import time
from pathlib import Path

from frame import BenchFailed, in_folder, options, replog
from processes import cpu_seconds
from replog.cli.output import columns
from replog.cli.ports import free_ports
from replog.runtime.local_cluster import LocalCluster

TOPICS = 5
PARTITIONS = 20
CONSUMERS = 10
MARK_PERCENT = 6.0  # of one core, for all brokers together
SETTLED_S = 15.0  # groups form, rebalances end
JAVA = {"fetch.wait.max.ms": 500, "heartbeat.interval.ms": 3_000, "session.timeout.ms": 45_000}


def start(folder: Path) -> LocalCluster:
    """Three brokers and their topics."""
    replog(
        *(folder, "up", "--detach", "--port", str(free_ports(3))),
        *("--set", "offsets.topic.num.partitions=50", "--set", "default.replication.factor=3"),
    )
    cluster = LocalCluster.load(folder)
    for number in range(TOPICS):
        replog(
            *(folder, "topic", "create", f"idle-{number}", "--partitions", str(PARTITIONS)),
            *("--replication-factor", "3"),
        )
    return cluster


class Idler(threading.Thread):
    """One consumer that waits."""

    def __init__(self, number: int, bootstrap: str) -> None:
        super().__init__(daemon=True)
        from confluent_kafka import Consumer

        self.assigned = threading.Event()
        self._stopping = threading.Event()
        self._client = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"idle-{number}",
                **(JAVA if number % 2 else {}),
            }
        )
        self._client.subscribe(
            [f"idle-{number % TOPICS}"], on_assign=lambda _, partitions: self.assigned.set()
        )

    def run(self) -> None:
        while not self._stopping.is_set():
            self._client.poll(1.0)
        self._client.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def measure(cluster: LocalCluster, seconds: float) -> dict[int, float]:
    """Percent of one core that each broker uses."""
    idlers = [Idler(number, cluster.bootstrap_servers) for number in range(CONSUMERS)]
    for idler in idlers:
        idler.start()
    try:
        if not all(idler.assigned.wait(60) for idler in idlers):
            raise BenchFailed("a consumer got no partitions")
        time.sleep(SETTLED_S)
        before = cpu_seconds(cluster)
        began = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        after = cpu_seconds(cluster)
        return {broker: 100 * (after[broker] - used) / took for broker, used in before.items()}
    finally:
        for idler in idlers:
            idler.stop()


def main() -> int:
    parser = options("Measure what an idle cluster costs.")
    parser.add_argument("--seconds", type=float, default=60.0, help="default: 60")
    arguments = parser.parse_args()

    def measured(folder: Path) -> dict[int, float]:
        cluster = start(folder)
        try:
            return measure(cluster, arguments.seconds)
        finally:
            cluster.down()

    used = in_folder("idle", arguments.data, measured)
    total = sum(used.values())
    rows = [(f"broker {broker}", f"{percent:.1f} %", "") for broker, percent in used.items()]
    rows.append(("all", f"{total:.1f} %", f"{MARK_PERCENT:g} %"))
    print(columns(("CPU OF ONE CORE", "USED", "MARK"), rows))
    print("met" if total <= MARK_PERCENT else "missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
