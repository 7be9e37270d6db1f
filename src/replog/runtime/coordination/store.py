"""The tree in a SQLite database: what is stored, and the transactions on it.

One WAL database with `synchronous=FULL`: a write that was reported is durable, so no epoch that
is derived from a zxid is ever used twice. Functions run on the thread that owns `connection`.

Tables: `nodes` is the tree; `changes` the recent paths by zxid, from which hints are made;
`sessions` who is there (`expired` is the reason why a session was ended on suspicion while its
process may still be alive: the row stays until that process answers or is proved dead, so that
suspicion alone can never add up to a majority).
"""

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replog.model.coordination import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    StoredNode,
    WriteDone,
    WriteError,
    WriteFailed,
    WriteResult,
)
from replog.runtime.coordination.port import ANYTHING, CoordinationError

STORE_FORMAT: Final = 1  # of the tables; a database with a greater number is refused
CHANGES_KEPT: Final = (
    4096  # zxids for which changed paths are remembered; who lags more re-reads all
)
CREATION_WAIT_S: Final = 10.0  # for another process that is making the tables

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nodes (
    path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL,
    czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, session TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS nodes_by_session ON nodes (session) WHERE session IS NOT NULL;
CREATE TABLE IF NOT EXISTS changes (
    zxid INTEGER NOT NULL, path TEXT NOT NULL, PRIMARY KEY (zxid, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    session TEXT PRIMARY KEY, broker INTEGER NOT NULL, pid INTEGER NOT NULL,
    port INTEGER NOT NULL, started INTEGER NOT NULL, expired TEXT) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session as the database has it."""

    session: str
    broker_id: int
    pid: int
    port: int  # UDP port on 127.0.0.1 for pings and nudges
    expired: str | None  # why it was ended on suspicion; None while it holds


class _Refuse(Exception):
    """Undoes the transaction and becomes its result."""

    def __init__(self, error: WriteError, index: int = -1) -> None:
        super().__init__(error.value)
        self.result = WriteFailed(error, index)


def open_database(path: Path, *, create: bool, busy_ms: int) -> sqlite3.Connection:
    """Open the database, making it when `create`. Raises CoordinationError in one line."""
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _creation_lock(path):
                return _open(path, "rwc", busy_ms)
        return _open(path, "rw", busy_ms)
    except (OSError, sqlite3.Error) as error:
        raise CoordinationError(
            f"the coordinator database {path} can't be opened: {error}"
        ) from error


@contextmanager
def _creation_lock(path: Path) -> Iterator[None]:
    """One process at a time makes tables and switches to WAL: SQLite does not wait for either."""
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + CREATION_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, mode: str, busy_ms: int) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=busy_ms / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        if mode == "rwc":
            connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        if mode == "rwc":
            _prepare(connection)
        _check_format(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name='sessions'").fetchone():
        return
    connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
    connection.execute(
        "INSERT OR IGNORE INTO meta VALUES ('zxid', 0), ('format', ?), ('cookie', ?)",
        (STORE_FORMAT, secrets.token_bytes(8)),
    )


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    row = connection.execute("SELECT value FROM meta WHERE name='format'").fetchone()
    if row is None or row[0] > STORE_FORMAT:
        found = "no format" if row is None else f"format {row[0]}"
        raise CoordinationError(
            f"the coordinator database {path} has {found}; this version knows format {STORE_FORMAT}"
        )


def cookie(connection: sqlite3.Connection) -> bytes:
    """Eight bytes that datagrams between the processes of this cluster begin with."""
    value = connection.execute("SELECT value FROM meta WHERE name='cookie'").fetchone()[0]
    return bytes(value)


# ---- reading --------------------------------------------------------------------------------


def read(connection: sqlite3.Connection, roots: Sequence[str]) -> dict[str, StoredNode]:
    """Each root that exists and all that is below it, as of one moment."""
    nodes: dict[str, StoredNode] = {}
    connection.execute("BEGIN")
    try:
        for root in roots:
            where, arguments = _below(root, inclusive=True)
            for path, data, version, czxid, session in connection.execute(
                f"SELECT path, data, version, czxid, session FROM nodes WHERE {where}", arguments
            ):
                nodes[path] = StoredNode(data, version, czxid, session)
    finally:
        connection.execute("COMMIT")
    return nodes


def _below(root: str, *, inclusive: bool) -> tuple[str, tuple[str, ...]]:
    """Condition for what is below `root`; "0" is the character after "/"."""
    if root == "/":
        return "path >= ?", ("/",)
    if inclusive:
        return "(path = ? OR (path > ? AND path < ?))", (root, root + "/", root + "0")
    return "(path > ? AND path < ?)", (root + "/", root + "0")


def last_zxid(connection: sqlite3.Connection) -> int:
    """Number of the last write."""
    return int(connection.execute("SELECT value FROM meta WHERE name='zxid'").fetchone()[0])


def changes_since(connection: sqlite3.Connection, seen: int) -> tuple[int, frozenset[str]]:
    """The last zxid, and the paths that were written after `seen`."""
    zxid = last_zxid(connection)
    if zxid == seen:
        return zxid, frozenset()
    rows = connection.execute("SELECT path FROM changes WHERE zxid > ?", (seen,)).fetchall()
    paths = {path for (path,) in rows}
    if zxid - seen > CHANGES_KEPT:
        paths.add(ANYTHING)
        paths.update(path for (path,) in connection.execute("SELECT path FROM nodes"))
    return zxid, frozenset(paths)


def sessions(connection: sqlite3.Connection) -> list[SessionRow]:
    """All sessions, those that were ended on suspicion among them."""
    rows = connection.execute("SELECT session, broker, pid, port, expired FROM sessions")
    return [SessionRow(*row) for row in rows.fetchall()]


# ---- writing --------------------------------------------------------------------------------


class _Transaction:
    """One multi under way: its number and the paths that it touches."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.zxid = last_zxid(connection) + 1
        self.paths: set[str] = set()

    def finish(self) -> None:
        execute = self.connection.execute
        execute("UPDATE meta SET value = ? WHERE name = 'zxid'", (self.zxid,))
        self.connection.executemany(
            "INSERT INTO changes VALUES (?, ?)", [(self.zxid, path) for path in sorted(self.paths)]
        )
        if self.zxid % 256 == 0:
            execute("DELETE FROM changes WHERE zxid < ?", (self.zxid - CHANGES_KEPT,))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[_Transaction]:
    """Everything or nothing, with the write lock taken first: what is checked stays so."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        transaction = _Transaction(connection)
        yield transaction
        transaction.finish()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def write(
    connection: sqlite3.Connection, session: str | None, operations: Sequence[Operation]
) -> WriteResult:
    """Carry out one multi for `session` (None: for a tool). Raises sqlite3.Error when it can't."""
    try:
        with _transaction(connection) as transaction:
            if session is not None and not _holds(connection, session):
                raise _Refuse(WriteError.SESSION_EXPIRED)
            for index, operation in enumerate(operations):
                error = _apply(transaction, session, operation)
                if error is not None:
                    raise _Refuse(error, index)
            return WriteDone(transaction.zxid)
    except _Refuse as refusal:
        return refusal.result


def _holds(connection: sqlite3.Connection, session: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM sessions WHERE session = ? AND expired IS NULL", (session,)
    ).fetchone()
    return row is not None


def _apply(
    transaction: _Transaction, session: str | None, operation: Operation
) -> WriteError | None:
    path = operation.path
    row = transaction.connection.execute(
        "SELECT version FROM nodes WHERE path = ?", (path,)
    ).fetchone()
    if isinstance(operation, Create):
        if row is not None:
            return WriteError.NODE_EXISTS
        return _create(transaction, session, operation)
    if row is None:
        return WriteError.NO_NODE
    if operation.version not in (ANY_VERSION, row[0]):
        return WriteError.BAD_VERSION
    if isinstance(operation, Check):
        return None
    if isinstance(operation, SetData):
        transaction.paths.add(path)
        transaction.connection.execute(
            "UPDATE nodes SET data = ?, version = version + 1, mzxid = ? WHERE path = ?",
            (operation.data, transaction.zxid, path),
        )
        return None
    return _delete(transaction, operation)


def _create(transaction: _Transaction, session: str | None, operation: Create) -> WriteError | None:
    if operation.ephemeral and session is None:
        return WriteError.SESSION_EXPIRED
    execute, zxid = transaction.connection.execute, transaction.zxid
    parts = operation.path.split("/")
    for end in range(2, len(parts)):
        parent = "/".join(parts[:end])
        made = execute(
            "INSERT OR IGNORE INTO nodes VALUES (?, x'', 0, ?, ?, NULL)", (parent, zxid, zxid)
        )
        if made.rowcount:
            transaction.paths.add(parent)
    owner = session if operation.ephemeral else None
    execute(
        "INSERT INTO nodes VALUES (?, ?, 0, ?, ?, ?)",
        (operation.path, operation.data, zxid, zxid, owner),
    )
    transaction.paths.add(operation.path)
    return None


def _delete(transaction: _Transaction, operation: Delete) -> WriteError | None:
    if not operation.recursive:
        where, arguments = _below(operation.path, inclusive=False)
        found = transaction.connection.execute(
            f"SELECT 1 FROM nodes WHERE {where} LIMIT 1", arguments
        ).fetchone()
        if found:
            return WriteError.NOT_EMPTY
    _delete_tree(transaction, operation.path)
    return None


def _delete_tree(transaction: _Transaction, path: str) -> None:
    where, arguments = _below(path, inclusive=True)
    execute = transaction.connection.execute
    gone = execute(f"SELECT path FROM nodes WHERE {where}", arguments).fetchall()
    transaction.paths.update(p for (p,) in gone)
    execute(f"DELETE FROM nodes WHERE {where}", arguments)


# ---- sessions -------------------------------------------------------------------------------


def begin_session(connection: sqlite3.Connection, row: SessionRow) -> None:
    """Enter a new session. Its lock is held already."""
    with _transaction(connection) as transaction:
        connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, NULL)",
            (row.session, row.broker_id, row.pid, row.port, transaction.zxid),
        )


def end_session(connection: sqlite3.Connection, session: str) -> bool:
    """Remove a session that is over for certain, with all that it owns; False when it is gone."""
    found = connection.execute("SELECT 1 FROM sessions WHERE session = ?", (session,)).fetchone()
    if found is None:
        return False  # a peer was faster: the usual case, settled without the write lock
    with _transaction(connection) as transaction:
        _drop_ephemerals(transaction, session)
        gone = connection.execute("DELETE FROM sessions WHERE session = ?", (session,)).rowcount
    return gone > 0


def expire_session(connection: sqlite3.Connection, session: str, reason: str) -> bool:
    """End a session on suspicion, unless more than half of all would then be so ended."""
    if not _may_expire(sessions(connection), session):
        return False
    with _transaction(connection) as transaction:
        if not _may_expire(sessions(connection), session):
            return False
        _drop_ephemerals(transaction, session)
        connection.execute("UPDATE sessions SET expired = ? WHERE session = ?", (reason, session))
    return True


def _may_expire(rows: list[SessionRow], session: str) -> bool:
    expired = sum(row.expired is not None for row in rows)
    holds = any(row.session == session and row.expired is None for row in rows)
    return holds and expired + 1 <= len(rows) // 2


def _drop_ephemerals(transaction: _Transaction, session: str) -> None:
    rows = transaction.connection.execute("SELECT path FROM nodes WHERE session = ?", (session,))
    for (path,) in rows.fetchall():
        _delete_tree(transaction, path)
