"""A cluster whose brokers, and the servers of its ensemble, have machines of their own."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.cluster import PATIENCE_S
from tests.support.load import WRITERS
from tests.support.machines import Machines
from tests.support.zookeeper import Ensemble

from replog.cli.ledger import judge
from replog.cli.topic_create import create_topic
from replog.cli.traffic import Producer, read_everything
from replog.model.messages.create_topics import CreatableTopic
from replog.model.messages.metadata import MetadataResponse
from replog.runtime.client import AdminClient, ClientError

PORT = 9092
BROKERS = (1, 2, 3)
ZK_PORT = 2181


class SpreadCluster:
    """Brokers 1, 2, 3 on the machines b1, b2, b3; servers on z1, z2, z3."""

    def __init__(self, folder: Path, machines: Machines, settings: dict[str, str]) -> None:
        self.machines = machines
        self.folder = folder
        self.address = {n: machines.addresses[f"b{n}"][0] for n in BROKERS}
        self.bootstrap = ",".join(f"{host}:{PORT}" for host in self.address.values())
        self.ensemble = Ensemble(
            folder / "ensemble",
            hosts=[machines.addresses[f"z{n}"][0] for n in BROKERS],
            prefixes=[machines.prefix(f"z{n}") for n in BROKERS],
        )
        self.settings = settings
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        """Start everything and wait until it is a cluster."""
        self.ensemble.start()
        for broker in BROKERS:
            self.start(broker)
        self.wait(
            "all brokers are there",
            lambda m: len(m.brokers) == 3 and m.controller_id > 0,
            timeout_s=180,
        )

    def start(self, broker: int) -> None:
        home = self.folder / f"b{broker}"
        home.mkdir(exist_ok=True)
        config = {
            "node.id": str(broker),
            "listeners": f"PLAINTEXT://{self.address[broker]}:{PORT}",
            "log.dirs": str(home / "data"),
            "zookeeper.connect": f"{self.ensemble.hosts}/replog",
            "offsets.topic.replication.factor": "3",
            "default.replication.factor": "3",
            **self.settings,
        }
        file = home / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        command = [sys.executable, "-m", "replog", "broker", "run", "--config", str(file)]
        with open(home / "log", "ab") as log:
            self.processes[broker] = self.machines.run(
                f"b{broker}", command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, broker: int) -> None:
        process = self.processes.pop(broker)
        process.kill()
        process.wait()

    def close(self) -> None:
        for broker in list(self.processes):
            self.kill(broker)
        self.ensemble.close()

    # ---- asking ------------------------------------------------------------------------------

    def metadata(self, *, of: int | None = None) -> MetadataResponse:
        """What a broker says, of all topics; any broker that answers when none is named."""
        hosts = list(self.address.values()) if of is None else [self.address[of]]
        with AdminClient([(host, PORT) for host in hosts], 3) as client:
            return client.metadata(None)

    def wait(
        self,
        what: str,
        done: Callable[[MetadataResponse], bool],
        *,
        of: int | None = None,
        timeout_s: float = 60,
    ) -> float:
        """Seconds until what a broker says is so."""
        began = time.monotonic()
        while True:
            try:
                if done(self.metadata(of=of)):
                    return time.monotonic() - began
            except ClientError:
                pass
            assert time.monotonic() - began < timeout_s, (
                f"after {timeout_s} s: {what}\n{self.logs()}"
            )
            time.sleep(0.05)

    def create(self, topic: str, partitions: int = 3) -> None:
        hosts = [(host, PORT) for host in self.address.values()]
        with AdminClient(hosts, PATIENCE_S) as client:
            wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=3)
            result = create_topic(client, wanted)
        assert not result.error_code, result.error_message

    @staticmethod
    def seats(topic: str, said: MetadataResponse) -> dict[int, tuple[int, set[int]]]:
        """Leader and ISR by partition."""
        found = next(t for t in said.topics if t.name == topic)
        return {p.partition_index: (p.leader_id, set(p.isr_nodes)) for p in found.partitions}

    def wait_in_sync(self, topic: str) -> None:
        for broker in BROKERS:
            self.wait(
                f"{topic} is in sync by broker {broker}",
                lambda m: all(
                    leader > 0 and len(isr) == 3 for leader, isr in self.seats(topic, m).values()
                ),
                of=broker,
            )

    def producers(self, topic: str, partitions: range) -> list[Producer]:
        made = [
            Producer(self.bootstrap, topic, w, partitions=partitions, records_per_second=200)
            for w in WRITERS
        ]
        for producer in made:
            producer.start()
        return made

    def judge(self, topic: str, partitions: range, producers: list[Producer]) -> None:
        """Nothing that was acknowledged is lost, repeated, moved or changed."""
        unanswered = [producer.finish() for producer in producers]
        self.wait_in_sync(topic)
        logs = read_everything(self.bootstrap, topic, partitions)
        acknowledged = [ack for producer in producers for ack in producer.acknowledged]
        verdict = judge(logs, acknowledged, WRITERS)
        assert verdict.ok, "\n".join([*verdict.problems, self.logs()])
        assert unanswered == [0, 0]
        assert len(acknowledged) > 500

    def logs(self, lines: int = 25) -> str:
        parts = []
        for broker in BROKERS:
            tail = (self.folder / f"b{broker}" / "log").read_text().splitlines()[-lines:]
            parts.append(f"--- broker {broker}\n" + "\n".join(tail))
        return "\n".join(parts)
