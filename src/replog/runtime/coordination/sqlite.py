"""The coordinator of a cluster on one machine: a SQLite database, file locks and datagrams.

Threads of one broker: the *worker* owns the database connection and does everything with it in
order; the *pings* thread sends and hears pings and nudges; one thread for each other session sits
in the kernel until the lock of that session is free, which proves its death. Any broker that finds
out removes the dead session's nodes in one transaction, so it does not matter who is first.

A session that other brokers have ended on suspicion is kept, as a sign that the process lives,
until this broker can hear most of the others again: who is cut off stays out, and does not
come and go.

When the database can't be written (a process was stopped inside a transaction, the disk is full),
a write is answered UNKNOWN after `busy_ms`, a read that fails with None. Sessions go on, because
they live outside of the database, and so the broker serves on without elections. One line says so
when it begins and one when it is over.
"""

import logging
import os
import queue
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from replog.model.coordination import Operation, StoredNode, WriteError, WriteFailed, WriteResult
from replog.model.inputs import (
    CoordinatorChanged,
    CoordinatorRead,
    CoordinatorWritten,
    SessionEnded,
    SessionStarted,
)
from replog.runtime.coordination import session_lock, store
from replog.runtime.coordination.pings import LOCAL, Address, PingHandlers, Pings, now_ms
from replog.runtime.coordination.port import CoordinationError, Post, SessionSettings
from replog.runtime.coordination.session_lock import SessionLock
from replog.runtime.coordination.worker import CoordinationWorker

BUSY_MS: Final = 1000  # wait for another writer: longer than any healthy one takes to commit
POLL_S: Final = 1.0  # backstop for nudges that got lost
SESSIONS_FOLDER: Final = "sessions"

_log = logging.getLogger("replog.coordinator")


class SqliteCoordination(CoordinationWorker):
    """One process's access to the coordinator database; see `port.Coordination`."""

    def __init__(self, path: Path, *, create: bool = True, busy_ms: int = BUSY_MS) -> None:
        """Open or make the database. Raises CoordinationError."""
        super().__init__(path)
        self._path = path
        self._folder = path.parent / SESSIONS_FOLDER
        self._connection = store.open_database(path, create=create, busy_ms=busy_ms)
        self._pings = Pings(store.cookie(self._connection))
        self._lock: SessionLock | None = None
        self._seen_zxid = store.last_zxid(self._connection)
        self._watched: set[str] = set()
        self._poll_queued = False

    # ---- the port ---------------------------------------------------------------------------

    def start(self, settings: SessionSettings, post: Post) -> None:
        self._pings.start(settings, PingHandlers(self._queue_poll, self._queue_suspects))
        super().start(settings, post)

    def loop_turned(self) -> None:
        self._pings.loop_turned_ms = now_ms()
        if self._session is None:
            self._queue_poll()

    def read_now(self, roots: Sequence[str]) -> dict[str, StoredNode]:
        try:
            with self._direct:
                return store.read(self._connection, roots)
        except sqlite3.Error as error:
            raise CoordinationError(f"{self._path} can't be read: {error}") from error

    def write_now(self, operations: Sequence[Operation]) -> WriteResult:
        try:
            with self._direct:
                result = store.write(self._connection, None, operations)
                rows = store.sessions(self._connection)
        except sqlite3.Error as error:
            raise CoordinationError(f"{self._path} can't be written: {error}") from error
        if self._worker is None:  # else the worker keeps them
            self._pings.set_peers(self._addresses(rows))
        self._pings.nudge()
        return result

    def _give_back(self) -> None:
        self._pings.close()
        if self._lock is not None:
            self._lock.release()
        if self._worker is None or not self._worker.is_alive():
            self._connection.close()

    # ---- the worker -------------------------------------------------------------------------

    def _run(self) -> None:
        """One job after the other; a look at the database at least every second."""
        self._attempt(self._begin_session)
        while True:
            try:
                job = self._jobs.get(timeout=POLL_S)
            except queue.Empty:
                job = self._poll
            if job is None:
                break
            self._attempt(job)
        self._attempt(self._end_session)

    def _attempt(self, job: Callable[[], None]) -> None:
        """Run a job; a database that refuses is said once, and again when it is back."""
        try:
            with self._direct:
                job()
        except (sqlite3.Error, OSError) as error:
            self._lost_touch(str(error))

    def _do_write(self, token: int, operations: tuple[Operation, ...], session: str | None) -> None:
        result: WriteResult = WriteFailed(WriteError.UNKNOWN)
        try:
            if session is None or session != self._session:
                result = WriteFailed(WriteError.SESSION_EXPIRED)
            else:
                result = store.write(self._connection, session, operations)
                self._in_touch()
        finally:
            self._emit(CoordinatorWritten(token, result))
        if isinstance(result, WriteFailed):
            if result.error is WriteError.SESSION_EXPIRED:
                self._poll()
            return
        self._poll()  # before the nudge: it learns of sessions that began just before this write
        self._pings.nudge()

    def _do_read(self, token: int, roots: tuple[str, ...]) -> None:
        nodes: dict[str, StoredNode] | None = None
        try:
            nodes = store.read(self._connection, roots)
        finally:
            self._emit(CoordinatorRead(token, nodes))

    # ---- hints and sessions -----------------------------------------------------------------

    def _queue_poll(self) -> None:
        if not self._poll_queued:
            self._poll_queued = True
            self._jobs.put(self._poll)

    def _poll(self) -> None:
        """See what was written and who is there; notice the end of our own session."""
        self._poll_queued = False
        zxid, paths = store.changes_since(self._connection, self._seen_zxid)
        if zxid != self._seen_zxid or self._session is None:
            self._look_at_sessions()
        self._seen_zxid = zxid
        if paths:
            self._emit(CoordinatorChanged(paths))

    def _look_at_sessions(self) -> None:
        rows = store.sessions(self._connection)
        own = next((row for row in rows if row.session == self._session), None)
        if self._session is not None and (own is None or own.expired is not None):
            self._lose_session("removed" if own is None else own.expired or "")
            return
        others = [row for row in rows if row.session not in (self._session, self._parked)]
        self._pings.set_peers(self._addresses(others))
        self._pings.hold(row.session for row in others if row.expired is None)
        if self._session is None:
            self._begin_session()
            return
        for row in others:
            if row.session not in self._watched:
                self._watched.add(row.session)
                session_lock.watch(self._folder, row.session, self._queue_burial)

    @staticmethod
    def _addresses(rows: list[store.SessionRow]) -> dict[str, Address]:
        return {row.session: (LOCAL, row.port) for row in rows}

    def _begin_session(self) -> None:
        """Bury the dead first: our own predecessor may be among them."""
        if self._settings is None or self._is_stalled(self._settings):
            return
        if self._parked is not None and not self._pings.hears_half():
            return  # cut off from the others: the next session would be ended as well
        parked, self._parked = self._parked, None
        self._give_up(parked)
        rows = store.sessions(self._connection)
        for row in rows:
            if session_lock.is_free(self._folder, row.session):
                self._bury(row.session)
        session_lock.sweep(self._folder, {row.session for row in rows})
        session = secrets.token_hex(8)
        lock = SessionLock(self._folder, session)
        try:
            store.begin_session(
                self._connection,
                store.SessionRow(
                    session, self._settings.broker_id, os.getpid(), self._pings.port, None
                ),
            )
        except BaseException:
            lock.release()
            raise
        self._lock, self._session = lock, session
        self._pings.session = session
        self._in_touch()
        self._emit(SessionStarted(session))
        self._poll()
        self._pings.nudge()

    def _is_stalled(self, settings: SessionSettings) -> bool:
        """A new session would be ended again at once, and so on: it waits for the loop to turn."""
        return now_ms() - self._pings.loop_turned_ms >= settings.stall_ms

    def _lose_session(self, reason: str) -> None:
        """Our session was ended by a peer: say so, and begin another once we hear the others."""
        self._parked, self._session = self._session, None
        self._pings.session = ""
        self._pings.listen_anew()
        _log.warning("session with the coordinator was ended by a peer: %s", reason)
        self._emit(SessionEnded(reason))
        self._begin_session()

    def _give_up(self, session: str | None) -> None:
        """Remove a session of ours, and its lock."""
        if self._lock is not None:
            self._lock.release()  # first: should the database refuse, any peer can bury it
            self._lock = None
        if session is not None:
            store.end_session(self._connection, session)

    def _end_session(self) -> None:
        session = self._session or self._parked
        self._session = self._parked = None
        if session is not None:
            self._give_up(session)
            self._pings.nudge()

    def _queue_burial(self, session: str) -> None:
        if not self._stopped.is_set():
            self._jobs.put(lambda: self._bury(session))

    def _bury(self, session: str) -> None:
        """Remove a session whose process is dead for certain."""
        if store.end_session(self._connection, session):
            self._pings.nudge()
        self._watched.discard(session)
        session_lock.remove_file(self._folder, session)
        self._queue_poll()

    def _queue_suspects(self, suspects: list[tuple[str, str]]) -> None:
        self._jobs.put(lambda: self._expire(suspects))

    def _expire(self, suspects: list[tuple[str, str]]) -> None:
        """End the sessions that are suspected still, the majority rule permitting."""
        for session, reason in suspects:
            if self._session is None or not self._pings.still_suspected(session):
                continue
            if store.expire_session(self._connection, session, reason):
                _log.warning("session %s of a peer was ended: %s", session, reason)
                self._pings.nudge()
                self._poll()
