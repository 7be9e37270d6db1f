"""One broker as a process: from its configuration to its exit code.

Order of a start, so that a mistake leaves nothing half made: configuration, ports, log folder and
its lock, coordinator, the folder's identity, and only then the node, its session, and clients.
"""

import gc
import importlib
import logging
import random
import secrets
import signal
import socket
import sys
import time
from asyncio import AbstractEventLoop, new_event_loop
from pathlib import Path
from types import FrameType
from typing import Final

from replog.codec import prepare
from replog.core.controller import stored
from replog.log.disk import DiskError
from replog.model.cluster import Endpoint
from replog.model.config import BrokerConfig, ConfigError, parse_properties
from replog.model.coordination import CLUSTER_ID, DELETE_TOPICS, SECRET, Create
from replog.model.ids import topic_id_text
from replog.model.inputs import StopRequested
from replog.node.log_folder import FolderSetup
from replog.node.node import Node, NodeSetup
from replog.runtime.coordination.opening import open_coordination
from replog.runtime.coordination.port import (
    Coordination,
    CoordinationError,
    CoordinationUnreachable,
    SessionSettings,
)
from replog.runtime.errors import StartError
from replog.runtime.jobs import run_tasks
from replog.runtime.limits import Limits
from replog.runtime.listener import Listener, ListenError, listen
from replog.runtime.log_dirs import LogDirs
from replog.runtime.loop import Cluster, NodeLoop
from replog.wire import SERVED, api_ranges

_log = logging.getLogger("replog.broker")

EXIT_FAILED: Final = 1
EXIT_TRY_AGAIN: Final = 75  # of a broker that can't reach its coordinator: nobody need mend it

DESCRIPTORS_KEPT: Final = 1_000  # for log files: so many fewer connections

# Most of what a broker makes dies young and has no cycles. A full collection walks everything that
# was made since the start, so it is made rare; the youngest generation alone costs microseconds.
_GC_THRESHOLDS: Final = (20_000, 20, 100)


# Produce, Fetch, Metadata, ApiVersions, BrokerHandshake, UpdateCluster
_AT_START: Final = (0, 1, 3, 18, 20000, 20001)


class _Line(logging.Formatter):
    """One line: time, level, broker, text."""

    def __init__(self, broker_id: int) -> None:
        layout = f"%(asctime)s.%(msecs)03d %(levelname)s broker {broker_id}: %(message)s"
        super().__init__(layout, "%Y-%m-%d %H:%M:%S")


def set_up_logging(broker_id: int) -> None:
    """Everything goes to stderr, one line each; exceptions are the only ones with more."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(broker_id))
    root = logging.getLogger("replog")
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False


class BrokerProcess:
    """The process around one node."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._log_dirs = LogDirs(config.log_dirs)
        self._sockets: list[socket.socket] = []
        self._coordination: Coordination | None = None
        self._stop_signals = 0

    def run(self) -> int:
        """Serve until told to stop; returns the exit code. Raises StartError."""
        started = time.monotonic()
        try:
            self._take_places()
            coordination = self._coordination = open_coordination(self._config)
            cluster = join_cluster(coordination)
            folders = self._log_dirs.claim(
                cluster_id=cluster.cluster_id, node_id=self._config.node_id
            )
            node = self._make_node(cluster, folders)
            loop = _new_loop()
            host = NodeLoop(loop, node, coordination, cluster, self._limits())
            return self._serve(host, node, started)
        except CoordinationUnreachable as error:
            raise StartError(str(error), EXIT_TRY_AGAIN) from error
        except (ListenError, CoordinationError, DiskError) as error:
            raise StartError(str(error)) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise StartError(f"{where}{error.strerror or error}") from error
        finally:
            self._give_back()

    # ---- before there is a node -------------------------------------------------------------

    def _take_places(self) -> None:
        """The folder of a broker that runs already is noticed before its port is."""
        self._log_dirs.lock_existing()
        for address in self._config.listeners:
            backlog = self._config.socket_listen_backlog_size
            self._sockets.append(listen(address, backlog, self._buffers()))
        self._log_dirs.lock_all()

    def _buffers(self) -> tuple[int | None, int | None]:
        """Kafka's default of 100 KiB holds fast networks back: it counts only when asked for."""

        def size(name: str) -> int | None:
            asked = self._config.int(name) if name in self._config.given else -1
            return asked if asked >= 0 else None

        return size("socket.send.buffer.bytes"), size("socket.receive.buffer.bytes")

    def _make_node(self, cluster: Cluster, folders: list[FolderSetup]) -> Node:
        setup = NodeSetup(
            config=self._config,
            cluster_id=cluster.cluster_id,
            endpoints=self._endpoints(),
            api_ranges=api_ranges(),
            boot_id=boot_id(),
            clean_start=self._log_dirs.clean,
            folder_id=self._log_dirs.folder_id,
            run_tasks=run_tasks,
        )
        return Node(
            setup,
            folders,
            random.Random(secrets.randbits(64)),
            now_ms=time.monotonic() * 1000,
            wall_ms=int(time.time() * 1000),
        )

    def _endpoints(self) -> tuple[Endpoint, ...]:
        """As others reach this broker, with ports that the system chose filled in."""
        ports = {
            listener.name: sock.getsockname()[1]
            for listener, sock in zip(self._config.listeners, self._sockets, strict=True)
        }
        endpoints = [
            Endpoint(
                listener.name,
                listener.host or socket.gethostname(),
                listener.port or ports[listener.name],
                listener.security_protocol,
            )
            for listener in self._config.advertised_listeners
        ]
        between_brokers = self._config.inter_broker_listener_name
        return tuple(sorted(endpoints, key=lambda e: e.name != between_brokers))

    def _limits(self) -> Limits:
        usual = Limits()
        config = self._config
        places = max(64, raise_descriptor_limit() - DESCRIPTORS_KEPT)
        queued = config.queued_max_request_bytes
        return Limits(
            connections=min(config.max_connections, usual.connections, places),
            connections_per_ip=min(config.max_connections_per_ip, usual.connections_per_ip),
            connections_per_ip_overrides=config.max_connections_per_ip_overrides,
            connections_max=min(usual.connections, places),
            request_bytes=queued if queued > 0 else usual.request_bytes,
            job_threads=config.background_threads,
            request_threads=config.request_threads,
            requests_waiting=config.queued_max_requests,
            idle_ms=config.connections_max_idle_ms,
            frame_bytes=config.socket_request_max_bytes,
        )

    # ---- serving ----------------------------------------------------------------------------

    def _serve(self, host: NodeLoop, node: Node, started: float) -> int:
        listeners = [
            Listener(host, sock, address.name, host.places)
            for address, sock in zip(self._config.listeners, self._sockets, strict=True)
        ]
        self._heed_signals(host)
        host.start(node.start())
        if self._coordination is not None:
            self._coordination.start(self._session_settings(node), host.post_threadsafe)
        for listener in listeners:
            listener.start()
        where = ", ".join(f"{e.name}://{e.host}:{e.port}" for e in node.setup.endpoints)
        took_ms = (time.monotonic() - started) * 1000
        folders = ", ".join(map(str, self._log_dirs.paths))
        _log.info("serving %s from %s (started in %.0f ms)", where, folders, took_ms)
        gc.freeze()  # what is there now stays: no collection looks at it again
        gc.set_threshold(*_GC_THRESHOLDS)
        if host.exit_code is None:
            host.loop.run_forever()
        for listener in listeners:
            listener.close()
        host.close()
        return host.exit_code if host.exit_code is not None else EXIT_FAILED

    def _session_settings(self, node: Node) -> SessionSettings:
        first = node.setup.endpoints[0]  # the one between brokers
        owner = self._log_dirs.owner
        return SessionSettings(
            node.broker_id,
            process=f"{owner}@{node.setup.boot_id}" if owner else "",
            address=(first.host, first.port),
            silence_ms=self._config.replog_session_silence_ms,
            ping_ms=self._config.ping_interval_ms,
        )

    def _heed_signals(self, host: NodeLoop) -> None:
        """From now on: the loop's own handlers would miss a signal that comes before it turns."""

        def handler(number: int, frame: FrameType | None) -> None:
            host.loop.call_soon_threadsafe(self._on_stop_signal, host)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, handler)

    def _on_stop_signal(self, host: NodeLoop) -> None:
        self._stop_signals += 1
        if self._stop_signals == 1:
            _log.info("asked to stop")
            host.deliver(StopRequested())
        else:
            _log.warning("asked to stop again: ending at once")
            host.stop(EXIT_FAILED)

    def _give_back(self) -> None:
        if self._coordination is not None:
            self._coordination.close()
        for sock in self._sockets:
            sock.close()
        self._log_dirs.give_back()


def join_cluster(coordination: Coordination) -> Cluster:
    """The cluster's id and secret; whoever comes first makes them up."""
    own = stored.encode_cluster_id(topic_id_text(secrets.token_bytes(16)))
    coordination.write_now([Create(CLUSTER_ID, own)])
    coordination.write_now([Create(SECRET, secrets.token_bytes(32))])
    coordination.write_now([Create(DELETE_TOPICS, b"")])  # tools put names below it
    nodes = coordination.read_now([CLUSTER_ID, SECRET])
    if CLUSTER_ID not in nodes or SECRET not in nodes:
        raise StartError("the coordinator has no cluster id: it can't be written")
    try:
        return Cluster(stored.decode_cluster_id(nodes[CLUSTER_ID].data), nodes[SECRET].data)
    except stored.BadNode as error:
        raise StartError(f"{CLUSTER_ID} in the coordinator can't be read: {error}") from error


def boot_id() -> str:
    """Names this run of the host: it changes when the machine restarts, and with nothing else."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import subprocess

        command = ["sysctl", "-n", "kern.bootsessionuuid"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def raise_descriptor_limit() -> int:
    """Allow as many open files as the system lets us; returns how many."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1_048_576) if hard != resource.RLIM_INFINITY else 65_536
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # some systems refuse what they call the limit
    return soft


def import_all() -> None:
    """Load what a broker loads when it needs it, and compile the codecs that every start uses.

    For a process that forks brokers: it makes nothing that a fork would break.
    """
    for name in ("uvloop", "setproctitle", "encodings.idna", "resource"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # a broker does without it, too
    for key in _AT_START:
        for cls in (SERVED[key].request, SERVED[key].response):
            prepare(cls, SERVED[key].max_version)


def _new_loop() -> AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return new_event_loop()
    return uvloop.new_event_loop()


def run_broker_settings(given: dict[str, str]) -> int:
    """Run a broker with these settings; returns the exit code. Mistakes are said in one line."""
    try:
        config = BrokerConfig(given)
    except ConfigError as error:
        print(f"replog: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    set_up_logging(config.node_id)
    try:
        import setproctitle

        setproctitle.setproctitle(f"replog broker {config.node_id}")
    except ImportError:
        pass  # only for the eyes of who runs `ps`
    try:
        return BrokerProcess(config).run()
    except StartError as error:
        print(f"replog: broker {config.node_id}: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def run_broker(path: Path) -> int:
    """As `run_broker_settings`, with those of a properties file."""
    try:
        given = parse_properties(path.read_text())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        print(f"replog: {path} can't be read: {reason}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    return run_broker_settings(given)
