"""The coordinator of a cluster on several machines: a ZooKeeper ensemble.

Threads of one broker: the *worker* does everything with the ensemble in order, one request after
the other; kazoo's own threads carry the requests and send heartbeats; the *pings* thread and the
*connection watch* find out about other brokers sooner than a session times out. Whoever finds out
ends the session of the dead broker in one multi (`zk_sessions`), so nobody waits for it.

A session that other brokers have ended on suspicion is kept, as a sign that the process lives,
until this broker can hear most of the others again. Only then it begins a new one: who is cut off
from all others stays out of the cluster although it can reach the ensemble.

While no quorum can be reached, writes are answered UNKNOWN and reads with None. The session goes
on: ZooKeeper counts none of that time. One line says so when it begins and one when it is over.
"""

import hashlib
import logging
import queue
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from replog.model.coordination import (
    SECRET,
    Operation,
    StoredNode,
    WriteDone,
    WriteError,
    WriteFailed,
    WriteResult,
)
from replog.model.inputs import (
    CoordinatorChanged,
    CoordinatorRead,
    CoordinatorWritten,
    SessionEnded,
    SessionStarted,
)
from replog.runtime.coordination import zk_sessions
from replog.runtime.coordination.connection_watch import ConnectionWatch
from replog.runtime.coordination.pings import Address, PingHandlers, Pings, now_ms
from replog.runtime.coordination.port import (
    ANYTHING,
    CoordinationError,
    CoordinationUnreachable,
    Post,
    SessionSettings,
)
from replog.runtime.coordination.worker import CoordinationWorker
from replog.runtime.coordination.zk_client import ZkClient, ZkSettings
from replog.runtime.coordination.zk_sessions import SESSIONS, SessionRow
from replog.runtime.coordination.zk_tree import SessionGone, Tree, Unreachable, Unsettled
from replog.runtime.coordination.zk_watches import Watches

POLL_S: Final = 0.5  # between looks at what nobody tells of
PATIENCE: Final = 1.5  # of session timeouts, until the session of a dead process is over for sure

_log = logging.getLogger("replog.coordinator")


class ZooKeeperCoordination(CoordinationWorker):
    """One process's access to an ensemble; see `port.Coordination`."""

    def __init__(self, settings: ZkSettings) -> None:
        """Nothing is connected before it is needed."""
        super().__init__(settings)
        self._zk = settings
        self._client: ZkClient | None = None
        self._tree: Tree | None = None
        self._watches: Watches | None = None
        self._pings: Pings | None = None
        self._connections: ConnectionWatch | None = None
        self._changed: set[str] = set()  # paths that brokers are to be told of
        self._proved_dead: set[str] = set()  # sessions that are to be buried
        self._addresses: dict[Address, Address] = {}  # numeric, by what sessions say
        self._loop_turned_ms = now_ms()

    # ---- the port ---------------------------------------------------------------------------

    def start(self, settings: SessionSettings, post: Post) -> None:
        self._loop_turned_ms = now_ms()
        super().start(settings, post)

    def loop_turned(self) -> None:
        self._loop_turned_ms = now_ms()
        if self._pings is not None:
            self._pings.loop_turned_ms = self._loop_turned_ms

    def read_now(self, roots: Sequence[str]) -> dict[str, StoredNode]:
        with self._direct:
            try:
                return self._connected_tree().read(roots)
            except (Unreachable, SessionGone, Unsettled) as error:
                raise CoordinationUnreachable(f"{self._zk} can't be read: {error}") from error

    def write_now(self, operations: Sequence[Operation]) -> WriteResult:
        for index, operation in enumerate(operations):
            if getattr(operation, "ephemeral", False):
                return WriteFailed(WriteError.SESSION_EXPIRED, index)
        with self._direct:
            result = self._connected_tree().write(operations)
        if result == WriteFailed(WriteError.UNKNOWN):
            raise CoordinationUnreachable(f"{self._zk} can't be written")
        return result

    def _give_back(self) -> None:
        if self._pings is not None:
            self._pings.close()
        if self._connections is not None:
            self._connections.close()
        if self._client is not None:
            self._client.close()

    # ---- the worker -------------------------------------------------------------------------

    def _run(self) -> None:
        """One job after the other. A look around follows when there is news and nothing else waits,
        and every `POLL_S` whatever waits."""
        due_ms = 0.0
        while True:
            if now_ms() >= due_ms or (self._changed and self._jobs.empty()):
                self._attempt(self._poll)
                due_ms = now_ms() + 1000 * POLL_S
            try:
                job = self._jobs.get(timeout=max(0.0, (due_ms - now_ms()) / 1000))
            except queue.Empty:
                continue
            if job is None:
                return
            self._attempt(job)

    def _attempt(self, job: Callable[[], None]) -> None:
        """Run a job; an ensemble that can't be reached is said once, and again when it is back."""
        try:
            with self._direct:
                job()
        except (Unreachable, CoordinationError) as error:
            self._lost_touch(str(error))
        except SessionGone:
            self._lose_session("ZooKeeper has ended it")
        except Unsettled:
            pass  # a reading was answered with None, and the next look around does the rest

    def _do_write(self, token: int, operations: tuple[Operation, ...], session: str | None) -> None:
        result: WriteResult = WriteFailed(WriteError.SESSION_EXPIRED)
        tree = self._tree
        if session is not None and session == self._session and tree is not None:
            result = WriteFailed(WriteError.UNKNOWN)
            if self._is_connected():
                result = tree.write(operations, zk_sessions.guard(session))
        self._emit(CoordinatorWritten(token, result))
        if isinstance(result, WriteDone):
            self._in_touch()
        elif result.error is WriteError.REFUSED:
            _log.error("coordinator %s refuses a write of %d operations", self._zk, len(operations))
        elif result.error is WriteError.SESSION_EXPIRED:
            self._look_at_sessions()

    def _do_read(self, token: int, roots: tuple[str, ...]) -> None:
        nodes: dict[str, StoredNode] | None = None
        try:
            if self._tree is not None and self._is_connected():
                nodes = self._tree.read(roots)
        finally:
            self._emit(CoordinatorRead(token, nodes))

    def _is_connected(self) -> bool:
        """Nothing is asked of kazoo before: it would be carried out whenever it can be."""
        return self._client is not None and self._client.connected

    def _connected_tree(self) -> Tree:
        if self._tree is None:
            self._open()
        if self._tree is None:
            raise CoordinationUnreachable(f"{self._zk} can't be reached")
        return self._tree

    def _open(self) -> None:
        client = ZkClient(self._zk, self._on_state, self._stopped)
        self._client, self._tree = client, Tree(client)
        self._watches = Watches(self._tree, lambda event: self._on_event(client, event))

    # ---- what kazoo's threads report -----------------------------------------------------------

    def _on_state(self, client: ZkClient, state: str) -> None:
        self._jobs.put(lambda: self._state_changed(client, state))

    def _on_event(self, client: ZkClient, event: Any) -> None:
        self._jobs.put(lambda: self._event_came(client, event))

    def _state_changed(self, client: ZkClient, state: str) -> None:
        if client is not self._client:
            return
        if state == "LOST":
            raise SessionGone
        if state == "SUSPENDED":
            self._lost_touch("the connection is broken")
            return
        self._in_touch()
        self._changed.add(ANYTHING)

    def _event_came(self, client: ZkClient, event: Any) -> None:
        if client is not self._client or self._watches is None:
            return
        path = self._watches.fired(event)
        self._changed.add(ANYTHING if path is None else path)

    # ---- looking around -----------------------------------------------------------------------

    def _poll(self) -> None:
        """Begin a session if there is none; set watches, and pass on what they have shown."""
        if self._settings is None:
            return
        if self._session is None:
            self._begin_session(self._settings)
        if self._watches is None or not self._is_connected():
            return
        self._changed |= self._watches.arm()
        changed, self._changed = self._changed, set()
        if changed & {ANYTHING, SESSIONS} or any(p.startswith(SESSIONS) for p in changed):
            self._look_at_sessions()
        told = frozenset(path for path in changed if not path.startswith(SESSIONS))
        if told:
            self._emit(CoordinatorChanged(told))
        self._bury_the_dead()

    def _look_at_sessions(self) -> None:
        """Who is there; and does our own session hold?"""
        if self._tree is None or self._pings is None or self._connections is None:
            return
        found = zk_sessions.rows(self._tree.read([SESSIONS]))
        own = next((row for row in found if row.session == self._session), None)
        if self._session is not None and (own is None or own.expired is not None):
            self._parked = None if own is None else self._session
            self._pings.listen_anew()
            self._lose_session("removed" if own is None else own.expired or "", keep=True)
            return
        others = [row for row in found if row.session not in (self._session, self._parked)]
        holding = [row for row in others if row.expired is None]
        self._pings.set_peers(
            {
                row.session: self._numeric((row.address[0], row.ping_port))
                for row in others
                if row.address is not None and row.ping_port is not None
            }
        )
        self._pings.hold(row.session for row in holding)
        self._connections.set_peers(
            {row.session: self._numeric(row.address) for row in others if row.address is not None}
        )

    def _numeric(self, address: Address) -> Address:
        """What a name stands for; a name that nobody knows stays, and reaches nobody."""
        known = self._addresses.get(address)
        if known is not None:
            return known
        try:
            found = socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM)
        except OSError:
            return address
        numeric = (str(found[0][4][0]), address[1])
        self._addresses[address] = numeric
        return numeric

    # ---- our own session ------------------------------------------------------------------------

    def _begin_session(self, settings: SessionSettings) -> None:
        """Bury our own predecessor first, which left what it owned."""
        if now_ms() - self._loop_turned_ms >= settings.stall_ms or self._is_cut_off():
            return
        if self._parked is not None:
            self._forget_client()  # its session ends: a new one needs a new client
        tree = self._connected_tree()
        if self._client is None:
            return
        if self._pings is None:
            self._open_pings(settings, tree)
        session = self._client.session
        for row in zk_sessions.rows(tree.read([SESSIONS])):
            if settings.process and row.process == settings.process and row.session != session:
                zk_sessions.bury(tree, row.session)
        ping_port = None if self._pings is None else self._pings.port
        row = SessionRow(session, settings.broker_id, settings.process, settings.address, ping_port)
        entered = zk_sessions.begin(tree, row)
        if isinstance(entered, WriteFailed) and entered.error is not WriteError.NODE_EXISTS:
            raise Unreachable(entered.error.value)
        self._session = session
        if self._pings is not None:
            self._pings.session = session
        self._in_touch()
        self._changed |= {ANYTHING, SESSIONS}
        self._emit(SessionStarted(session, PATIENCE * self._zk.session_timeout_ms))

    def _open_pings(self, settings: SessionSettings, tree: Tree) -> None:
        """Datagrams at the number of the broker's own port, so that firewalls need know one."""
        secret = tree.read([SECRET]).get(SECRET)
        key = hashlib.sha256(b"pings" + (b"" if secret is None else secret.data)).digest()
        host, port = settings.address or ("127.0.0.1", 0)
        family = "::" if ":" in host else ""
        try:
            self._pings = Pings(key, (family, port), presume=False)
        except OSError as error:
            _log.warning("UDP port %d can't be used for pings: %s", port, error.strerror)
            self._pings = Pings(key, (family, 0), presume=False)
        handlers = PingHandlers(lambda: None, self._queue_suspects)
        self._pings.start(settings, handlers)
        self._connections = ConnectionWatch(self._queue_burial)

    def _lose_session(self, reason: str, *, keep: bool = False) -> None:
        """The session is over. `keep`: other brokers ended it, ZooKeeper has not."""
        session, self._session = self._session, None
        if self._pings is not None:
            self._pings.session = ""
        if session is not None:
            _log.warning("session with the coordinator ended: %s", reason)
            self._emit(SessionEnded(reason))
        if not (keep and self._parked is not None):
            self._forget_client()
        self._changed.add(ANYTHING)

    def _forget_client(self) -> None:
        client, self._client, self._tree, self._watches = self._client, None, None, None
        self._parked = None
        if client is not None:
            client.close()

    # ---- the sessions of others ---------------------------------------------------------------

    def _is_cut_off(self) -> bool:
        """Others have ended our session, and since then we have not heard half of them."""
        if self._pings is None or self._parked is None:
            return False
        return not self._pings.hears_half()

    def _queue_burial(self, session: str) -> None:
        self._jobs.put(lambda: self._proved(session))

    def _proved(self, session: str) -> None:
        self._proved_dead.add(session)
        self._bury_the_dead()

    def _bury_the_dead(self) -> None:
        """Now, or when the ensemble can be reached again: a process that is dead stays so."""
        if self._session is None or self._tree is None or not self._is_connected():
            return
        for session in sorted(self._proved_dead):
            if zk_sessions.bury(self._tree, session):
                _log.info("the process of session %s is gone", session)
            self._proved_dead.discard(session)

    def _queue_suspects(self, suspects: list[tuple[str, str]]) -> None:
        self._jobs.put(lambda: self._expire(suspects))

    def _expire(self, suspects: list[tuple[str, str]]) -> None:
        """End the sessions that are suspected still, unless it is us who hear nobody."""
        if self._pings is None or self._pings.deaf():
            return
        for session, reason in suspects:
            own, tree = self._session, self._tree
            if own is None or tree is None or not self._is_connected():
                return
            if self._pings.still_suspected(session) and zk_sessions.expire(
                tree, session, reason, own
            ):
                _log.warning("session %s of a peer was ended: %s", session, reason)
