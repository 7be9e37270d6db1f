"""Real clusters for tests, started and stopped as a user does it: by the command line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replog.cli.ports import free_ports
from replog.runtime.client import AdminClient, ClientError
from replog.runtime.local_cluster import LocalCluster

PATIENCE_S = 30.0


def wait_until(what: str, done: Callable[[], bool], timeout_s: float = PATIENCE_S) -> float:
    """Seconds until `done()` is true. A broker that does not answer meanwhile is no failure."""
    began = time.monotonic()
    while True:
        try:
            if done():
                return time.monotonic() - began
        except ClientError:
            pass
        assert time.monotonic() - began < timeout_s, f"after {timeout_s} s: {what}"
        time.sleep(0.02)


class CommandFailed(AssertionError):
    """A command that a test relies on did not succeed."""


def replog(
    *words: str, home: Path, stdin: bytes | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run `replog` with a user data directory of its own, so that no test meets another's `up`."""
    environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home / "share")}
    done = subprocess.run(
        [sys.executable, "-m", "replog", *words],
        input=b"" if stdin is None else stdin,
        capture_output=True,
        env=environment,
        timeout=timeout_s,
        cwd=home,
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


class Cluster:
    """One cluster of its own folder and ports."""

    def __init__(
        self,
        home: Path,
        *,
        brokers: int = 3,
        first_id: int = 0,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.home = home
        self.data = home / "cluster"
        self.first_port = free_ports(brokers)
        self.broker_ids = list(range(first_id, first_id + brokers))
        sets = [word for pair in (settings or {}).items() for word in ("--set", "=".join(pair))]
        started = self.run(
            "up",
            "--detach",
            "--brokers",
            str(brokers),
            "--first-id",
            str(first_id),
            "--port",
            str(self.first_port),
            *sets,
        )
        self.bootstrap: str = started["bootstrap_servers"]
        self.local = LocalCluster.load(self.data)  # for what is done often: no new interpreter
        self.ports: dict[int, int] = {b["broker"]: b["port"] for b in started["brokers"]}

    def run(self, *words: str) -> Any:
        """A command in JSON on this cluster's folder, which must succeed."""
        done = replog(*words, "--data", str(self.data), "--format", "json", home=self.home)
        if done.returncode != 0:
            raise CommandFailed(f"replog {' '.join(words)}: {done.returncode} {done.stderr}")
        return json.loads(done.stdout)

    def try_to(self, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """A command that may fail, on this cluster's folder."""
        return replog(*words, "--data", str(self.data), home=self.home, stdin=stdin)

    def create_topic(self, name: str, *, partitions: int = 3, replicas: int = 3) -> None:
        self.run(
            "topic",
            "create",
            name,
            "--partitions",
            str(partitions),
            "--replication-factor",
            str(replicas),
        )

    def describe(self, topic: str) -> dict[str, Any]:
        described = self.run("topic", "describe", topic)
        assert isinstance(described, list) and len(described) == 1
        return dict(described[0])

    def seats(self, topic: str, *, but: int | None = None) -> dict[int, tuple[int, set[int]]]:
        """Leader and ISR by partition, asked from the first broker that answers and is not `but`.

        Cheaper than `describe`, for loops.
        """
        addresses = [("127.0.0.1", port) for broker, port in self.ports.items() if broker != but]
        with AdminClient(addresses, 5) as client:
            found = client.metadata([topic]).topics[0]
        return {p.partition_index: (p.leader_id, set(p.isr_nodes)) for p in found.partitions}

    def wait_in_sync(self, topic: str, timeout_s: float = 30) -> dict[str, Any]:
        """Wait until every partition has a leader and no replica is out of sync."""
        limit = time.monotonic() + timeout_s
        while True:
            view = self.describe(topic)
            if all(p["leader"] >= 0 and not p["out_of_sync_replicas"] for p in view["partitions"]):
                return view
            if time.monotonic() > limit:
                raise CommandFailed(f"not in sync after {timeout_s} s: {view}")
            time.sleep(0.1)

    def log_folders(self) -> dict[int, Path]:
        """Where each broker keeps its partitions."""
        return {broker: self.data / f"broker-{broker}" / "data" for broker in self.broker_ids}

    @contextmanager
    def one_more(self, broker: int, home: Path) -> Iterator[Path]:
        """A broker beside those of `up`: of its own port and folder below `home`, made by hand.

        Yields its log folder. In the end it is stopped in good order, and must obey.
        """
        file = home / "more.properties"
        settings = {
            "node.id": broker,
            "listeners": f"PLAINTEXT://127.0.0.1:{free_ports(1)}",
            "log.dirs": home / "more",
            "replog.coordinator": f"sqlite:{self.local.coordinator}",
            **self.local.settings,
        }
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [sys.executable, "-m", "replog", "broker", "run", "--config", str(file)]
        with (home / "more.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield home / "more"
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, (home / "more.log").read_text()
        finally:
            process.kill()
            process.wait()

    def down(self) -> None:
        self.run("down")

    def logs(self, lines: int = 15) -> str:
        """The ends of the brokers' own logs, for the message of a failing test."""
        parts = []
        for path in sorted(self.data.glob("broker-*/broker.log")):
            tail = path.read_text(errors="replace").splitlines()[-lines:]
            parts.append(f"--- {path.parent.name}\n" + "\n".join(tail))
        return "\n".join(parts)
