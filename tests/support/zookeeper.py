"""ZooKeeper servers for tests: started by hand, each with a folder of its own, never the system's.

Needs Java and the jars of Debian's package `zookeeper`; `REPLOG_ZOOKEEPER_JAR` names another
`zookeeper.jar` whose manifest, or whose folder, has what it depends on.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from replog.runtime.ports import free_ports

HOST = "127.0.0.1"
TICK_MS = 2000  # ZooKeeper's own default
START_TIMEOUT_S = 60.0
HOW_TO_GET_IT = (
    "ZooKeeper is missing: install it, e.g. with 'apt-get install zookeeper', or set "
    "REPLOG_ZOOKEEPER_JAR to a zookeeper.jar that lies beside the jars it needs"
)


def classpath() -> str:
    """Of a server. Fails with how to get it when there is none."""
    jar = Path(os.environ.get("REPLOG_ZOOKEEPER_JAR", "/usr/share/java/zookeeper.jar"))
    assert shutil.which("java") and jar.is_file(), HOW_TO_GET_IT
    beside = [] if jar.parent == Path("/usr/share/java") else [f"{jar.parent}/*"]
    # For its log: without a binding of SLF4J the servers are mute.
    binding = [str(p) for p in (jar.parent / "slf4j-simple.jar", jar.parent / "netty-codec.jar")]
    codecs = [str(jar.parent / f"netty-{name}.jar") for name in ("common", "resolver")]
    return ":".join([str(jar), *binding, *codecs, *beside])


def ask(port: int, word: str, host: str = HOST, timeout_s: float = 2.0) -> str:
    """The answer to one of ZooKeeper's four-letter words; empty when there is none."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as sock:
            sock.sendall(word.encode())
            answer = b""
            while chunk := sock.recv(4096):
                answer += chunk
    except OSError:
        return ""
    return answer.decode(errors="replace")


class Server:
    """One server, running or not."""

    def __init__(
        self, folder: Path, number: int, config: Mapping[str, str], prefix: Sequence[str] = ()
    ) -> None:
        """`prefix` stands before the command, e.g. to run it in a network namespace."""
        self.number = number
        self.port = int(config["clientPort"])
        self.host = config["clientPortAddress"]
        self.folder = folder
        self._prefix = list(prefix)
        self.process: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(f"{number}\n")
        lines = [f"{key}={value}" for key, value in {**config, "dataDir": str(data)}.items()]
        (folder / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Without waiting until it serves."""
        assert self.process is None
        memory = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [
            *self._prefix,
            "java",
            *memory,
            "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-cp",
            classpath(),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(self.folder / "zoo.cfg"),
        ]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """SIGTERM; returns when it is gone."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def mode(self) -> str:
        """`leader`, `follower` or `standalone`; empty when it does not serve."""
        for line in ask(self.port, "srvr", self.host).splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        return ""


class Ensemble:
    """Servers that form a quorum. One server alone runs without one."""

    def __init__(
        self,
        folder: Path,
        size: int = 3,
        *,
        settings: Mapping[str, str] | None = None,
        hosts: Sequence[str] | None = None,
        prefixes: Sequence[Sequence[str]] | None = None,
    ) -> None:
        """On loopback at free ports; with `hosts`, one server at each, at ZooKeeper's own ports."""
        numbers = range(1, size + 1)
        if hosts is None:
            hosts, free = [HOST] * size, free_ports(HOST, 3 * size)
            ports = [free[3 * n - 3 : 3 * n] for n in numbers]
        else:
            ports = [[2181, 2888, 3888]] * size
        config = {
            "tickTime": str(TICK_MS),
            "initLimit": "10",
            "syncLimit": "5",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "ruok,srvr,mntr",
            **(settings or {}),
        }
        if size > 1:
            for n, host, (_, peers, elections) in zip(numbers, hosts, ports, strict=True):
                config[f"server.{n}"] = f"{host}:{peers}:{elections}"
        self.servers = [
            Server(
                folder / f"zk-{n}",
                n,
                {**config, "clientPort": str(ports[n - 1][0]), "clientPortAddress": hosts[n - 1]},
                prefixes[n - 1] if prefixes else (),
            )
            for n in numbers
        ]

    @property
    def hosts(self) -> str:
        """As clients are told."""
        return ",".join(f"{server.host}:{server.port}" for server in self.servers)

    def start(self, servers: Sequence[Server] | None = None) -> None:
        """Start these (default: all), and wait until they serve."""
        started = list(self.servers if servers is None else servers)
        for server in started:
            server.start()
        for server in started:
            self.wait(server)

    @staticmethod
    def wait(server: Server, timeout_s: float = START_TIMEOUT_S) -> None:
        """Until it serves as a member of a quorum."""
        deadline = time.monotonic() + timeout_s
        while not server.mode():
            ended = server.process is None or server.process.poll() is not None
            log = server.folder / "log"
            assert not ended, f"the server has ended: {log.read_text(errors='replace')[-2000:]}"
            assert time.monotonic() < deadline, f"no quorum after {timeout_s} s; see {log}"
            time.sleep(0.05)

    def leader(self) -> Server:
        """The server that leads the quorum now."""
        return next(server for server in self.servers if server.mode() in ("leader", "standalone"))

    def close(self) -> None:
        """Kill them all."""
        for server in self.servers:
            server.kill()
