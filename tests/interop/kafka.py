"""Running Apache Kafka's programs from the jars that the pom beside this file names."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

JARS = Path(__file__).parent / "java" / "jars"
CONNECT_JARS = Path(__file__).parent / "java-connect" / "jars"
SOURCES = JARS.parent
CLASSES = SOURCES / "classes"  # of the programs in `SOURCES`, compiled
JAVA = "java" if "JAVA_HOME" not in os.environ else f"{os.environ['JAVA_HOME']}/bin/java"

RUN_S = 180  # a tool, on a busy machine
START_S = 180  # several nodes at once, on a busy machine
STOP_S = 420  # the last of several may have no controller any more: it looks for one for 5 minutes

TOOLS = "org.apache.kafka.tools"

# Started once for a second or so each: a small heap, and no time spent on optimizing.
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dlog4j2.level=ERROR")

# 16 bytes in base64url. One that begins with a dash would be taken for an option.
CLUSTER_ID = "cmVwbG9nLWludGVyb3BzIQ"


class ToolFailed(AssertionError):
    """A program of Kafka's ended with an error."""


class Java:
    """Runs classes of these jars, and those compiled here."""

    def __init__(self, jars: Path = JARS) -> None:
        self._jars = jars

    def command(self, name: str, *words: str, options: tuple[str, ...] = SMALL) -> list[str]:
        return [JAVA, *_QUIET, *options, "-cp", f"{self._jars}/*:{CLASSES}", name, *words]

    def run(
        self,
        name: str,
        *words: str,
        options: tuple[str, ...] = SMALL,
        stdin: bytes = b"",
    ) -> str:
        """Its stdout; raises ToolFailed."""
        command = self.command(name, *words, options=options)
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=RUN_S)
        output = done.stdout.decode(errors="replace")
        if done.returncode:
            errors = done.stderr.decode(errors="replace")
            raise ToolFailed(f"{name} {' '.join(words)}: {done.returncode}\n{output}\n{errors}")
        return output

    def tool(
        self, name: str, *words: str, options: tuple[str, ...] = SMALL, stdin: bytes = b""
    ) -> str:
        """One of the package with the tools."""
        return self.run(f"{TOOLS}.{name}", *words, options=options, stdin=stdin)


def kafka_ports(nodes: int) -> list[tuple[int, int]]:
    """For each node one for clients and one for controllers, that nobody uses now."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(2 * nodes)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        ports = [sock.getsockname()[1] for sock in sockets]
    return list(zip(ports[::2], ports[1::2], strict=True))


def copy(folder: Path, target: Path) -> None:
    """A folder of Kafka under another name. Its indexes are large, and mostly holes."""
    subprocess.run(["cp", "-a", "--sparse=always", folder, target], check=True)


class KafkaServer:
    """One node, broker and controller. Everything of it is in `home`."""

    def __init__(
        self,
        java: Java,
        home: Path,
        ports: Sequence[tuple[int, int]],
        *,
        node: int = 1,
        folders: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Format the storage. `ports` has the client's and the controller's port of each node of
        the cluster, the first of which is node 1; `folders` is the number of its log folders."""
        self._java = java
        self._home = home
        self.node = node
        self.folders = [home / f"data-{number}" for number in range(folders)]
        port, controller_port = ports[node - 1]
        self._port = port
        self.bootstrap = f"127.0.0.1:{port}"
        self._log = home / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        count = str(len(ports))
        voters = [f"{number}@127.0.0.1:{each[1]}" for number, each in enumerate(ports, 1)]
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": ",".join(map(str, self.folders)),
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": count,
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.backoff.ms": "200",
            "log.retention.check.interval.ms": "500",
            "log.initial.task.delay.ms": "500",
            # A kill takes back deletions of records that are not in it yet: after a minute, else.
            "log.flush.start.offset.checkpoint.interval.ms": "500",
            **(settings or {}),
        }
        home.mkdir(exist_ok=True)
        self._file = home / "server.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        java.run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._file))

    @property
    def data(self) -> Path:
        """Its first log folder."""
        return self.folders[0]

    def start(self) -> None:
        """Start the process; `wait` for it then."""
        options = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._java.command("kafka.Kafka", str(self._file), options=options),
                stdout=log,
                stderr=log,
                cwd=self._home,
            )

    def wait(self) -> None:
        """Until it takes connections of clients."""
        assert self._process is not None
        limit = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > limit:
                    raise ToolFailed(f"Kafka did not start: {self._tail()}") from None
                time.sleep(0.1)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing moves: what is in its folders is what a kill would leave at this moment."""
        assert self._process is not None
        pid = self._process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            _, status = os.waitpid(pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), self._tail()
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self, *, kill: bool = False) -> None:
        """In good order, or not."""
        self.ask_to_stop(kill=kill)
        if self._process is not None:
            self._process.wait(STOP_S)

    def ask_to_stop(self, *, kill: bool = False) -> None:
        """`stop` without the end of it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:]
