"""The programs of all clients, and how they are called.

Each client has one small program, written as its own documentation says, which understands:

    version
        prints the version of the library
    produce BOOTSTRAP TOPIC FIRST COUNT CODEC MODE PER_SECOND
        writes COUNT numbered records with acks=all, prints `PARTITION OFFSET NUMBER` for each that
        is acknowledged; MODE is `idempotent` or `plain`; PER_SECOND 0 is as fast as it goes
    consume BOOTSTRAP TOPIC GROUP COUNT
        joins GROUP, reads from the beginning or from what is committed, prints `PARTITION OFFSET
        NUMBER` for each record, commits on its way; after COUNT different records commits, leaves
        and ends
    admin BOOTSTRAP TOPIC DATA GROUP
        makes TOPIC and looks at it, changes it, removes it; looks at GROUP, which has positions in
        DATA; prints `CALL ANSWER` for each call

They end with 0 when all that they did succeeded.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.interop.kafka import CLASSES, Java

HERE = Path(__file__).parent
SHORT = bool(os.environ.get("REPLOG_INTEROP_SHORT"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 180.0

# The calls of an admin client, and what is answered when DATA has 300 records that GROUP has read.
CALLS = {
    "cluster": "3",  # brokers
    "create": "ok",
    "describe": "3",  # partitions
    "config": "123456",  # retention.ms
    "alter": "654321",
    "grow": "5",
    "groups": "true",
    "group": "empty",
    "offsets": "300",
    "ends": "300",
    "delete-records": "5",  # where partition 0 begins then
    "delete-group": "ok",
    "delete": "ok",
}


@dataclass(frozen=True)
class Client:
    """A library with its program."""

    name: str
    language: str
    command: tuple[str, ...]
    needs: tuple[Path, str]  # a file that is there when it can run, and how to get it if not
    codecs: tuple[str, ...] = CODECS
    idempotent: bool = True
    lacks: tuple[str, ...] = ()  # the calls that its admin client does not have
    slow_to_build: bool = False

    def run(self, *words: str) -> str:
        """What it prints; AssertionError when it does not end well, with what it said."""
        self.check()
        done = subprocess.run(
            [*self.command, *words], capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{self.name} {words}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def check(self) -> None:
        """Fails with a hint when it is not there: skipped, nobody would notice."""
        path, hint = self.needs
        if not path.exists():
            pytest.fail(f"{self.name} needs {path.relative_to(HERE)}: {hint}", pytrace=False)


class Told(NamedTuple):
    """A record, as a program tells of it."""

    partition: int
    offset: int
    number: int


class Running:
    """A program that is at work, and what it has told so far."""

    def __init__(self, client: Client, *words: str) -> None:
        client.check()
        self.records: list[Told] = []  # only grows
        self._errors: list[str] = []
        self._name = f"{client.name} {' '.join(words)}"
        self._process = subprocess.Popen(
            [*client.command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=reader, daemon=True)
            for reader in (self._read_records, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever happened, no process is left behind, nor one that it has started."""
        self._kill()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.records.append(Told(*map(int, line.split())))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors += self._process.stderr

    def _kill(self) -> None:
        """It leads a session of its own, so whatever it has started goes with it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def finish(self) -> list[Told]:
        """All that it told; AssertionError when it does not end well, or not in time."""
        try:
            code: int | str = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = f"no end within {PATIENCE_S:g} s"
            self._kill()
        for reader in self._readers:
            reader.join()
        said = "".join(self._errors[-30:])
        assert code == 0, f"{self._name}: {code}, {len(self.records)} records\n{said}"
        return self.records


def _python(name: str, program: str, **features: Any) -> Client:
    path = HERE / "python" / program
    return Client(name, "Python", (sys.executable, str(path)), (path, ""), **features)


def _go(name: str, **features: Any) -> Client:
    binary = HERE / "go" / "bin" / name
    needs = (binary, "'make interop' builds it, with Go")
    return Client(name, "Go", (str(binary),), needs, **features)


def _node(name: str, program: str, **features: Any) -> Client:
    path = HERE / program
    needs = (path.parent / "node_modules" / name, "'make interop' fetches it, with npm")
    return Client(name, "Node.js", ("node", str(path)), needs, **features)


ALL = (
    Client(
        "Kafka's Java client",
        "Java",
        tuple(Java().command("Client")),
        (CLASSES / "Client.class", "'make interop' compiles it, with a JDK"),
    ),
    _python("confluent-kafka", "librdkafka.py"),
    _python("kafka-python", "kafka_python.py"),
    _python("aiokafka", "aio.py", lacks=("ends", "delete-group")),
    _go("franz-go"),
    _go("sarama"),
    _go("kafka-go", idempotent=False, lacks=("delete-records",)),
    _node("kafkajs", "node/kafkajs.js", codecs=("none", "gzip", "snappy")),
    _node(
        "@confluentinc/kafka-javascript",
        "node-librdkafka/confluent.js",
        codecs=("none", "gzip", "snappy", "lz4"),  # zstd only where its headers are
        lacks=("cluster", "config", "alter", "grow"),
        slow_to_build=True,
    ),
    Client(
        "kcat",
        "C",
        (sys.executable, str(HERE / "python" / "kcat.py")),
        (Path(shutil.which("kcat") or "/usr/bin/kcat"), "install the package kcat"),
        lacks=tuple(CALLS),
    ),
)
CLIENTS = tuple(client for client in ALL if not (SHORT and client.slow_to_build))
