"""A cluster on one machine: each broker a process of its own, everything about it in one folder.

    DATA/cluster.json                 who belongs to it: the truth for every later start
    DATA/coordinator/replog.db        where the brokers meet
    DATA/broker-N/server.properties   written anew at each start, from cluster.json
    DATA/broker-N/broker.log          what the broker says
    DATA/broker-N/broker.pid          process id and start time
    DATA/broker-N/data/               its log folder

`up` imports once and forks, which starts fast and shares memory; `start` makes a process that needs
no parent. Both run the same code with the same file, and nobody dies with who started them.
"""

import fcntl
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Final

from replog.model.config import BrokerConfig, ConfigError
from replog.model.properties import format_properties
from replog.runtime.client import AdminClient, ClientError
from replog.runtime.cluster_plan import (
    PLAN_FILE,
    ClusterError,
    Member,
    Plan,
    describe,
    read_plan,
    write_plan,
)
from replog.runtime.last_up import default_data_dir, last_up, remember_up
from replog.runtime.ports import PortError, check_ports, free_ports
from replog.runtime.processes import (
    ProcessRef,
    ProcessState,
    read_pid_file,
    reap,
    reference,
    write_pid_file,
)

__all__ = ["PLAN_FILE", "ClusterError", "LocalCluster", "Member", "default_data_dir", "last_up"]

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
STOP_TIMEOUT_S: Final = 30.0
READY_TIMEOUT_S: Final = 30.0
STARTING_FILE: Final = ".starting"
_READY_POLL_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker as the operating system sees it."""

    broker_id: int
    port: int
    pid: int | None  # None when it is dead
    state: ProcessState
    log_file: Path


class LocalCluster:
    """The cluster of one data folder, whether it runs or not."""

    def __init__(self, data_dir: Path, plan: Plan) -> None:
        """Use `plan` or `load`."""
        self.data_dir = data_dir
        self._plan = plan

    @classmethod
    def load(cls, data_dir: Path) -> "LocalCluster":
        """The cluster that was made in this folder. Raises ClusterError when there is none."""
        data_dir = data_dir.absolute()
        return cls(data_dir, read_plan(data_dir))

    @classmethod
    def plan(
        cls,
        data_dir: Path,
        *,
        brokers: int = 3,
        first_id: int = 0,
        port: int = 9092,
        settings: Mapping[str, str] | None = None,
    ) -> "LocalCluster":
        """A cluster that can be brought up, or ClusterError. Nothing is made.

        `port` is the first of consecutive ones; 0 picks free ones.
        """
        if brokers < 1:
            raise ClusterError("a cluster has at least one broker")
        last = port + brokers - 1
        if port and not 1 <= port <= last <= PORT_MAX:
            raise ClusterError(f"ports {port} to {last} are not all between 1 and {PORT_MAX}")
        ports = list(range(port, port + brokers)) if port else free_ports(HOST, brokers)
        members = tuple(Member(first_id + n, p) for n, p in enumerate(ports))
        cluster = cls(data_dir.absolute(), Plan(members, dict(settings or {})))
        cluster._check()
        return cluster

    # ---- what there is ----------------------------------------------------------------------

    @property
    def members(self) -> tuple[Member, ...]:
        """The brokers, by id."""
        return self._plan.members

    @property
    def settings(self) -> dict[str, str]:
        """What all brokers were given, by Kafka's names."""
        return self._plan.settings

    @property
    def bootstrap_servers(self) -> str:
        """For `--bootstrap-server`, and for clients."""
        return ",".join(f"{HOST}:{member.port}" for member in self.members)

    @property
    def config(self) -> BrokerConfig:
        """What the first broker is told."""
        return BrokerConfig(self._properties(self.members[0]))

    @property
    def coordinator(self) -> Path:
        """The coordinator's database, unless the brokers meet elsewhere."""
        return self.data_dir / "coordinator" / "replog.db"

    def log_file(self, broker_id: int) -> Path:
        """Where the broker writes what it has to say."""
        return self._folder(broker_id) / "broker.log"

    def log_dir(self, broker_id: int) -> Path:
        """The broker's log folder, with a folder for each partition."""
        return self._folder(broker_id) / "data"

    def status(self) -> list[BrokerStatus]:
        """Each broker, in the order of the plan."""
        return [self._status(member) for member in self.members]

    def running(self) -> list[int]:
        """Ids of the brokers whose processes are there, paused ones among them."""
        return [s.broker_id for s in self.status() if s.state is not ProcessState.DEAD]

    # ---- making and starting ----------------------------------------------------------------

    def up(self, *, fork: bool | None = None, remember: bool = True) -> None:
        """Start all brokers of a new cluster, or of the one that is in the folder already.

        All ports are checked before anything is made. `fork` None: fork unless this process has
        threads, which a fork would break. `remember`: this is the last `up` from now on.
        """
        self._check_folder()
        self._check_ports(self.members)
        try:
            self.make()
            for member in self.members:
                self._prepare(member)
        except OSError as error:
            where = error.filename or self.data_dir
            raise ClusterError(f"{where} can't be written: {error.strerror}") from error
        if fork is None:
            fork = threading.active_count() == 1
        if fork:
            _import_broker()
        with self._alone():
            self._check_folder()
            for member in self.members:
                self._remember(member, self._fork(member) if fork else self._spawn(member))
        if remember:
            remember_up(self.data_dir)

    def make(self) -> None:
        """Write down who belongs to the cluster. Nothing is started. Raises OSError."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        write_plan(self.data_dir, self._plan)

    def meet_at(self, coordinator: str, settings: Mapping[str, str]) -> None:
        """Brokers that are started from now on meet there. `settings` say how to get there."""
        changed = {**self.settings, **settings, "replog.coordinator": coordinator}
        changed.pop("zookeeper.connect", None)
        self._plan = replace(self._plan, settings=changed)
        write_plan(self.data_dir, self._plan)

    def start(self, broker_id: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Start one broker as a process that needs no parent, and wait until it has joined.

        `timeout_s` 0: don't wait. Raises ClusterError, also when it runs already.
        """
        member = self._member(broker_id)
        with self._alone():
            if self._status(member).state is not ProcessState.DEAD:
                raise ClusterError(f"broker {broker_id} is running already")
            self._check_ports([member])
            self._prepare(member)
            self._remember(member, self._spawn(member))
        if timeout_s:
            self.wait_ready(timeout_s, [broker_id])

    # ---- ending -----------------------------------------------------------------------------

    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
        """Stop all brokers: SIGTERM, then SIGKILL to who is late. Returns the ids of the latter."""
        found = [(m.broker_id, self._process(m.broker_id)) for m in self.members]
        processes = [(broker_id, p) for broker_id, p in found if p is not None]
        for _, process in processes:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
        deadline = time.monotonic() + timeout_s
        late = [
            (broker_id, process)
            for broker_id, process in processes
            if not process.wait_dead(deadline - time.monotonic())
        ]
        for _, process in late:
            process.send(signal.SIGKILL)
        for _, process in late:
            process.wait_dead(STOP_TIMEOUT_S)
        return [broker_id for broker_id, _ in late]

    def stop(self, broker_id: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop one broker in good order; False when it had to be killed after `timeout_s`."""
        return self._live(broker_id).terminate(timeout_s)

    def kill(self, broker_id: int) -> None:
        """SIGKILL; returns when the process is gone."""
        process = self._live(broker_id)
        process.send(signal.SIGKILL)
        process.wait_dead(STOP_TIMEOUT_S)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: the broker is there but does nothing."""
        self._live(broker_id).send(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._live(broker_id).send(signal.SIGCONT)

    # ---- waiting ----------------------------------------------------------------------------

    def wait_ready(
        self, timeout_s: float = READY_TIMEOUT_S, brokers: list[int] | None = None
    ) -> None:
        """Until each of `brokers` (default: all) knows all of them, and a controller.

        Raises ClusterError with what a broker said last when it ends, or when time is up.
        """
        wanted = {m.broker_id: m for m in self.members if brokers is None or m.broker_id in brokers}
        deadline = time.monotonic() + timeout_s
        waiting = list(wanted.values())
        reason = "nobody answers"
        while waiting:
            try:
                missing = _missing(waiting[0], set(wanted), deadline - time.monotonic())
            except ClientError as error:
                missing = str(error)
            if missing is None:
                waiting.pop(0)
                continue
            reason = f"broker {waiting[0].broker_id}: {missing}"
            self._raise_if_ended(waiting)
            if time.monotonic() >= deadline:
                raise ClusterError(f"not ready within {timeout_s:g} s: {reason}")
            time.sleep(_READY_POLL_S)

    def _raise_if_ended(self, members: list[Member]) -> None:
        for member in members:
            if self._status(member).state is ProcessState.DEAD:
                last = _last_line(self.log_file(member.broker_id))
                raise ClusterError(f"broker {member.broker_id} has ended: {last}")

    # ---- inside -----------------------------------------------------------------------------

    def _folder(self, broker_id: int) -> Path:
        return self.data_dir / f"broker-{broker_id}"

    def _check_folder(self) -> None:
        """The folder is new, or holds this very cluster, and nothing of it runs."""
        if not (self.data_dir / PLAN_FILE).is_file():
            return
        there = read_plan(self.data_dir)
        if self.members != there.members:
            wanted = describe(self._plan)
            raise ClusterError(
                f"{self.data_dir} holds a cluster of {describe(there)}, not of {wanted}"
            )
        if (
            met := LocalCluster(self.data_dir, there).config.coordinator
        ) != self.config.coordinator:
            raise ClusterError(
                f"the brokers of {self.data_dir} meet at {met}: 'replog coordinator' moves them"
            )
        running = self.running()
        if running:
            raise ClusterError(
                f"brokers {', '.join(map(str, running))} of {self.data_dir} are running already"
            )

    def _check(self) -> None:
        """Settings that a broker would refuse are refused before anything is made."""
        if "," in str(self.data_dir):
            raise ClusterError(f"{self.data_dir}: a data folder's name can't have a comma")
        for member in self.members:
            try:
                BrokerConfig(self._properties(member))
            except ConfigError as error:
                raise ClusterError(str(error)) from error

    @staticmethod
    def _check_ports(members: Iterable[Member]) -> None:
        try:
            check_ports(HOST, [member.port for member in members])
        except PortError as error:
            raise ClusterError(str(error)) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One command at a time starts brokers: of two for one broker, the second would write the
        pid of its own failed attempt over that of the broker that runs, which nobody could stop."""
        path = self.data_dir / STARTING_FILE
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ClusterError(f"{path} can't be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a forked broker may not have closed its copy yet
            os.close(lock)

    def _properties(self, member: Member) -> dict[str, str]:
        elsewhere = "zookeeper.connect" in self._plan.settings
        return {
            **({} if elsewhere else {"replog.coordinator": f"sqlite:{self.coordinator}"}),
            **self._plan.settings,
            "node.id": str(member.broker_id),
            "listeners": f"PLAINTEXT://{HOST}:{member.port}",
            "log.dirs": str(self.log_dir(member.broker_id)),
        }

    def _prepare(self, member: Member) -> None:
        folder = self._folder(member.broker_id)
        folder.mkdir(exist_ok=True)
        (folder / "server.properties").write_text(format_properties(self._properties(member)))

    def _fork(self, member: Member) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            self._detach(member)
            from replog.runtime.broker import run_broker_settings

            code = run_broker_settings(self._properties(member))
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _detach(self, member: Member) -> None:
        """In the child: a session and files of its own, nothing of the parent's."""
        import random

        os.setsid()
        os.closerange(3, 65_536)
        with self._open_log(member) as log, open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  # for life
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        random.seed()

    def _spawn(self, member: Member) -> int:
        command = [
            sys.executable,
            "-m",
            "replog.runtime",
            str(self._folder(member.broker_id) / "server.properties"),
        ]
        with self._open_log(member) as log:
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
            ]
            return os.posix_spawn(
                sys.executable, command, os.environ, file_actions=actions, setsid=True
            )

    def _open_log(self, member: Member) -> FileIO:
        return open(self.log_file(member.broker_id), "ab", buffering=0)

    def _remember(self, member: Member, pid: int) -> None:
        process = reference(pid)
        if process is not None:
            write_pid_file(self._pid_file(member.broker_id), process)

    def _pid_file(self, broker_id: int) -> Path:
        return self._folder(broker_id) / "broker.pid"

    def _process(self, broker_id: int) -> ProcessRef | None:
        """The broker's process if it is there."""
        process = read_pid_file(self._pid_file(broker_id))
        if process is None:
            return None
        reap(process.pid)
        return None if process.state() is ProcessState.DEAD else process

    def _live(self, broker_id: int) -> ProcessRef:
        self._member(broker_id)
        process = self._process(broker_id)
        if process is None:
            raise ClusterError(f"broker {broker_id} is not running")
        return process

    def _status(self, member: Member) -> BrokerStatus:
        process = self._process(member.broker_id)
        state = ProcessState.DEAD if process is None else process.state()
        pid = None if process is None else process.pid
        return BrokerStatus(
            member.broker_id, member.port, pid, state, self.log_file(member.broker_id)
        )

    def _member(self, broker_id: int) -> Member:
        for member in self.members:
            if member.broker_id == broker_id:
                return member
        ids = ", ".join(str(m.broker_id) for m in self.members)
        raise ClusterError(f"there is no broker {broker_id} in {self.data_dir}: it has {ids}")


def _import_broker() -> None:
    """All that a broker needs, in the parent: no thread, loop, lock, database or generator yet."""
    from replog.runtime import broker

    broker.import_all()
    gc.collect()
    gc.freeze()


def _missing(member: Member, wanted: set[int], left_s: float) -> str | None:
    """What broker `member` does not know yet of a cluster that is ready; None when it does."""
    with AdminClient([(HOST, member.port)], timeout_s=max(0.1, left_s)) as client:
        answer = client.metadata()
    absent = wanted - {broker.node_id for broker in answer.brokers}
    if absent:
        return f"brokers {', '.join(map(str, sorted(absent)))} are not active yet"
    return None if answer.controller_id >= 0 else "there is no controller yet"


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else f"{path} says nothing"
