"""All backends behind one face: a test says what happens and waits for what is posted."""

import queue
import time
from pathlib import Path
from typing import Protocol, TypeVar

from replog.model.coordination import Operation, StoredNode, WriteResult
from replog.model.inputs import (
    CoordinatorChanged,
    CoordinatorRead,
    CoordinatorWritten,
    Input,
    SessionEnded,
    SessionStarted,
)
from replog.runtime.coordination.port import Coordination, SessionSettings
from replog.runtime.coordination.sqlite import SqliteCoordination
from replog.runtime.coordination.zk_client import ZkSettings
from replog.runtime.coordination.zookeeper import ZooKeeperCoordination
from replog.sim.mem_coordination import MemCoordination, MemCoordinator

WAIT_S = 20.0  # far beyond what anything here takes on a busy machine
E = TypeVar("E", bound=Input)


class Door:
    """One broker's access, and everything that was posted to it."""

    def __init__(self, coordination: Coordination | MemCoordination) -> None:
        self.coordination = coordination
        self.events: queue.Queue[Input] = queue.Queue()
        self.session: str | None = None
        self._token = 0

    def wait(self, kind: type[E]) -> E:
        """The next event of this kind; others before it are dropped."""
        deadline = time.monotonic() + WAIT_S
        while True:
            event = self.events.get(timeout=max(0.001, deadline - time.monotonic()))
            if isinstance(event, SessionStarted):
                self.session = event.session
            elif isinstance(event, SessionEnded):
                self.session = None
            if isinstance(event, kind):
                return event

    def wait_changed(self, path: str) -> None:
        """Until a hint names `path` or what it is below."""
        while not any(_is_at_or_below(path, p) for p in self.wait(CoordinatorChanged).paths):
            pass

    def write(self, *operations: Operation) -> WriteResult:
        self._token += 1
        self.coordination.write(self._token, operations, self.session)
        while (written := self.wait(CoordinatorWritten)).token != self._token:
            pass
        return written.result

    def read(self, *roots: str) -> dict[str, StoredNode]:
        self._token += 1
        self.coordination.read(self._token, roots)
        answer = self.wait(CoordinatorRead)
        assert answer.token == self._token
        assert answer.nodes is not None
        return answer.nodes

    def turn(self) -> None:
        """As an event loop would."""
        if not isinstance(self.coordination, MemCoordination):
            self.coordination.loop_turned()


def _is_at_or_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


class Backend(Protocol):
    """A coordinator that tests can open doors to."""

    def door(self, broker_id: int) -> Door: ...

    def expire(self, door: Door) -> None:
        """End the session of a door whose process is well."""
        ...

    def close(self) -> None: ...


class MemBackend:
    """The model."""

    def __init__(self) -> None:
        self.coordinator = MemCoordinator()

    def door(self, broker_id: int) -> Door:
        coordination = self.coordinator.door(broker_id)
        door = Door(coordination)
        coordination.start(door.events.put)
        door.wait(SessionStarted)
        return door

    def expire(self, door: Door) -> None:
        assert door.session is not None
        self.coordinator.expire(door.session, "test")

    def close(self) -> None:
        pass


class SqliteBackend:
    """The database, several doors in one process."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "coordinator" / "replog.db"
        self.doors: list[Door] = []

    def open(self) -> SqliteCoordination:
        return SqliteCoordination(self.path, busy_ms=300)

    def door(self, broker_id: int, *, silence_ms: int = 60_000, stall_ms: int = 60_000) -> Door:
        door = Door(self.open())
        self.doors.append(door)
        settings = SessionSettings(broker_id, silence_ms=silence_ms, stall_ms=stall_ms, ping_ms=50)
        door.coordination.start(settings, door.events.put)  # type: ignore[arg-type,call-arg]
        door.wait(SessionStarted)
        return door

    def expire(self, door: Door) -> None:
        from replog.runtime.coordination import store

        connection = store.open_database(self.path, create=False, busy_ms=5000)
        try:
            assert door.session is not None
            if len(store.sessions(connection)) < 2:
                other = store.SessionRow("0" * 16, 99, 0, 1, None)
                store.begin_session(connection, other)  # nobody may be alone and be expired
            assert store.expire_session(connection, door.session, "test")
        finally:
            connection.close()

    def close(self) -> None:
        for door in self.doors:
            door.coordination.close()


class ZooKeeperBackend:
    """A tree of its own in a real ensemble, several doors in one process."""

    def __init__(self, hosts: str, name: str) -> None:
        self.settings = ZkSettings(hosts, f"/{name}", session_timeout_ms=4000)
        self.doors: list[Door] = []

    def open(self) -> ZooKeeperCoordination:
        return ZooKeeperCoordination(self.settings)

    def door(
        self, broker_id: int, *, silence_ms: int = 60_000, stall_ms: int = 60_000, process: str = ""
    ) -> Door:
        door = Door(self.open())
        self.doors.append(door)
        settings = SessionSettings(
            broker_id,
            process=process,
            address=("127.0.0.1", 0),
            silence_ms=silence_ms,
            stall_ms=stall_ms,
            ping_ms=50,
        )
        door.coordination.start(settings, door.events.put)  # type: ignore[arg-type,call-arg]
        door.wait(SessionStarted)
        return door

    def expire(self, door: Door) -> None:
        """As the ensemble does after a time-out: a second client takes the session and ends it."""
        from kazoo.client import KazooClient

        coordination = door.coordination
        assert isinstance(coordination, ZooKeeperCoordination)
        assert coordination._client is not None
        session = coordination._client.kazoo.client_id
        thief = KazooClient(self.settings.hosts, client_id=session)
        thief.start()
        thief.stop()
        thief.close()

    def close(self) -> None:
        for door in self.doors:
            door.coordination.close()
