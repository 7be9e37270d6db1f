"""Running Apache Kafka's programs from the jars that the pom beside this file names."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

JARS = Path(__file__).parent / "java" / "jars"
SOURCES = JARS.parent
JAVA = "java" if "JAVA_HOME" not in os.environ else f"{os.environ['JAVA_HOME']}/bin/java"

TOOLS = "org.apache.kafka.tools"

# Started once for a second or so each: a small heap, and no time spent on optimizing.
_SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dlog4j2.level=ERROR")

# 16 bytes in base64url. One that begins with a dash would be taken for an option.
CLUSTER_ID = "cmVwbG9nLWludGVyb3BzIQ"


class ToolFailed(AssertionError):
    """A program of Kafka's ended with an error."""


class Java:
    """Runs classes."""

    def command(self, name: str, *words: str, options: tuple[str, ...] = _SMALL) -> list[str]:
        return [JAVA, *options, *_QUIET, "-cp", f"{JARS}/*", name, *words]

    def run(self, name: str, *words: str, stdin: bytes = b"", timeout_s: float = 90) -> str:
        """Its stdout; raises ToolFailed."""
        done = subprocess.run(
            self.command(name, *words), input=stdin, capture_output=True, timeout=timeout_s
        )
        output = done.stdout.decode(errors="replace")
        if done.returncode:
            errors = done.stderr.decode(errors="replace")
            raise ToolFailed(f"{name} {' '.join(words)}: {done.returncode}\n{output}\n{errors}")
        return output

    def tool(self, name: str, *words: str, stdin: bytes = b"", timeout_s: float = 90) -> str:
        """One of the package with the tools."""
        return self.run(f"{TOOLS}.{name}", *words, stdin=stdin, timeout_s=timeout_s)


class KafkaServer:
    """One node. Everything of it is in `home`."""

    def __init__(self, java: Java, home: Path, port: int, controller_port: int) -> None:
        self.data = home / "data"
        self.bootstrap = f"127.0.0.1:{port}"
        self._log = home / "server.log"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.backoff.ms": "200",
            "log.retention.check.interval.ms": "500",
            "log.initial.task.delay.ms": "500",
        }
        file = home / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        java.run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file))
        options = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                java.command("kafka.Kafka", str(file), options=options),
                stdout=log,
                stderr=log,
                cwd=home,
            )
        self._wait(port)

    def _wait(self, port: int) -> None:
        limit = time.monotonic() + 90
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > limit:
                    raise ToolFailed(f"Kafka did not start: {self._tail()}") from None
                time.sleep(0.1)

    def stop(self, *, kill: bool = False) -> None:
        """In good order, or not."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            self._process.wait(60)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]
