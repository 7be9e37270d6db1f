"""Brokers for torture: real processes by the real command, with a network that can be cut."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from replog.cli.ports import free_ports
from replog.model.errors import ErrorCode
from replog.model.messages.metadata import MetadataResponse
from replog.runtime.client import AdminClient, ClientError

ROOT = Path(__file__).resolve().parents[3]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 2.0
SILENCE_MS = 1_500
SETTINGS = {
    "inter.broker.listener.name": "PEERS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT",
    "replica.lag.time.max.ms": "3000",
    "replog.session.silence.ms": str(SILENCE_MS),
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    "log.segment.bytes": str(1 << 20),
    "log.segment.delete.delay.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}


class TortureError(Exception):
    """The run can't go on; the text says why in one line."""


class Brokers:
    """The processes of one cluster, and the network between them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.ids = list(range(count))
        first = free_ports(3 * count)
        self._ports = {broker: first + broker for broker in self.ids}
        self._peer_ports = {broker: first + count + broker for broker in self.ids}
        self._fronts = {broker: first + 2 * count + broker for broker in self.ids}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self._proxy: subprocess.Popen[str] | None = None
        self._cut: Counter[tuple[int, int]] = Counter()  # by how many faults
        self._network = threading.Lock()
        self.paused: set[int] = set()

    @property
    def bootstrap(self) -> str:
        """For clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def log_folder(self, broker: int) -> Path:
        """Where it keeps its partitions."""
        return self.folder / f"broker-{broker}" / "data"

    def log_file(self, broker: int) -> Path:
        """What it says."""
        return self.folder / f"broker-{broker}" / "broker.log"

    # ---- life -------------------------------------------------------------------------------

    def up(self) -> None:
        """Start the network and all brokers. Raises TortureError."""
        fronts = [f"{self._fronts[b]}:{self._peer_ports[b]}:{b}" for b in self.ids]
        self._proxy = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.torture.proxy", *fronts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        if self._proxy.stdout is None or self._proxy.stdout.readline() != "ready\n":
            raise TortureError("the network between the brokers does not start")
        for broker in self.ids:
            self.start(broker)
        self.wait("the cluster is not complete", lambda: len(self.alive()) == len(self.ids))

    def start(self, broker: int) -> None:
        """Start a broker that does not run; it joins by itself."""
        home = self.folder / f"broker-{broker}"
        home.mkdir(parents=True, exist_ok=True)
        listening = {"PLAINTEXT": self._ports[broker], "PEERS": self._peer_ports[broker]}
        reached = {**listening, "PEERS": self._fronts[broker]}
        settings = {
            **SETTINGS,
            "node.id": str(broker),
            "log.dirs": str(self.log_folder(broker)),
            "replog.coordinator": f"sqlite:{self.folder / 'coordinator' / 'replog.db'}",
            "listeners": ",".join(f"{name}://127.0.0.1:{p}" for name, p in listening.items()),
            "advertised.listeners": ",".join(f"{n}://127.0.0.1:{p}" for n, p in reached.items()),
        }
        file = home / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        environment = {**os.environ}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        log = self.log_file(broker).open("ab")
        self._logs.append(log)
        self._processes[broker] = subprocess.Popen(
            [sys.executable, "-m", "replog", "broker", "run", "--config", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )

    def signal(self, broker: int, number: signal.Signals) -> None:
        """Send a signal to a broker; nothing happens when it has ended."""
        self._processes[broker].send_signal(number)
        if number is signal.SIGSTOP:
            self.paused.add(broker)
        else:
            self.paused.discard(broker)

    def runs(self, broker: int) -> bool:
        """Whether the process is there, frozen or not."""
        return self._processes[broker].poll() is None

    def wait_ended(self, broker: int) -> int:
        """Wait until the process has ended; its exit code. Raises TortureError."""
        try:
            return self._processes[broker].wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise TortureError(
                f"broker {broker} does not end within {STOP_TIMEOUT_S:g} s"
            ) from error

    def down(self) -> None:
        """Stop all brokers in good order, and the network. Raises TortureError."""
        for broker in self.ids:
            if self.runs(broker):
                self.signal(broker, signal.SIGTERM)
        try:
            for broker in self.ids:
                code = self.wait_ended(broker)
                if code:
                    raise TortureError(f"broker {broker} ended with exit code {code}")
        finally:
            self.kill_all()

    def kill_all(self) -> None:
        """Leave no process behind."""
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait(STOP_TIMEOUT_S)
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait(STOP_TIMEOUT_S)
            for pipe in (self._proxy.stdin, self._proxy.stdout):
                if pipe is not None:
                    pipe.close()
        for log in self._logs:
            log.close()
        self._logs.clear()

    # ---- network ----------------------------------------------------------------------------

    def cut(self, directions: Iterable[tuple[int, int]]) -> None:
        """Nothing passes from the first to the second of each pair, until as many `heal`."""
        with self._network:
            self._cut.update(directions)
            self._tell({"cut": [pair for pair, times in self._cut.items() if times > 0]})

    def heal(self, directions: Iterable[tuple[int, int]]) -> None:
        """What was held passes, unless another fault holds it, too."""
        with self._network:
            self._cut.subtract(directions)
            self._tell({"heal": [pair for pair, times in self._cut.items() if times <= 0]})

    def heal_all(self) -> None:
        """Nothing is cut any more."""
        with self._network:
            self._cut.clear()
            self._tell({"heal": [(a, b) for a in self.ids for b in self.ids]})

    def reset(self, broker: int) -> None:
        """Close all connections between this broker and others."""
        with self._network:
            self._tell({"reset": [broker]})

    def _tell(self, command: dict[str, object]) -> None:
        proxy = self._proxy
        if proxy is None or proxy.stdin is None or proxy.stdout is None:
            raise TortureError("there is no network")
        proxy.stdin.write(json.dumps(command) + "\n")
        proxy.stdin.flush()
        if proxy.stdout.readline() != "done\n":
            raise TortureError("the network between the brokers has ended")

    # ---- looking ----------------------------------------------------------------------------

    def metadata(
        self, topics: Sequence[str] | None = (), but: Iterable[int] = ()
    ) -> MetadataResponse:
        """What the first broker says that answers, and is not among `but`. Raises ClientError."""
        failure = ClientError("nobody runs")
        avoided = {*but, *self.paused}
        for broker, port in self._ports.items():
            if broker in avoided or not self.runs(broker):
                continue
            try:
                with AdminClient([("127.0.0.1", port)], CALL_TIMEOUT_S) as client:
                    return client.metadata(topics)
            except ClientError as error:
                failure = error
        raise failure

    def admin(self) -> AdminClient:
        """To all that runs and is not frozen."""
        running = [b for b in self.ids if self.runs(b) and b not in self.paused]
        return AdminClient([("127.0.0.1", self._ports[b]) for b in running], 5 * CALL_TIMEOUT_S)

    def alive(self) -> set[int]:
        """Who is registered."""
        return {broker.node_id for broker in self.metadata().brokers}

    def wait(
        self, failure: str, done: Callable[[], bool], timeout_s: float = START_TIMEOUT_S
    ) -> float:
        """Seconds until `done()`; nobody answering is not done. Raises TortureError."""
        began = time.monotonic()
        while True:
            try:
                if done():
                    return time.monotonic() - began
            except ClientError:
                pass
            if time.monotonic() - began > timeout_s:
                raise TortureError(f"after {timeout_s:g} s: {failure}")
            time.sleep(0.05)

    def in_sync(self, topics: Sequence[str], replicas: int = 3) -> bool:
        """Whether every partition has a leader and all its replicas in the ISR."""
        answer = self.metadata(topics)
        return all(
            topic.error_code == ErrorCode.NONE
            and topic.partitions
            and all(
                p.leader_id >= 0 and len(p.isr_nodes) == len(p.replica_nodes) == replicas
                for p in topic.partitions
            )
            for topic in answer.topics
        )
