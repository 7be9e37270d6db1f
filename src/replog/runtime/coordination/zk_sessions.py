"""Sessions of brokers in ZooKeeper: an ephemeral node each, and how another broker ends one.

`/replog/sessions/<session>` belongs to the session that it names. All that a broker writes is one
multi with a check of that node, so whoever removes or changes it has fenced the broker, whatever
ZooKeeper thinks of the session. A broker that is proved dead is *buried*: its session's node and
all that the session owns go in one multi, and nobody waits for the session to time out. One that is
only suspected is *expired*: its node stays, and says why, until the process answers or its session
ends, so that suspicion alone can never add up to more than half of the sessions.

No two multis can end the same session, as each needs the node as it was read. So none removes what
a successor of the dead process has made meanwhile.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from replog.model.coordination import (
    BROKER_IDS,
    CONTROLLER,
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
from replog.runtime.coordination.pings import Address
from replog.runtime.coordination.zk_tree import Tree, Unreachable

SESSIONS: Final = "/replog/sessions"
OWNED_BELOW: Final = (BROKER_IDS, CONTROLLER)  # where brokers have ephemeral nodes


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What a session says of itself, and what was said of it."""

    session: str
    broker_id: int
    process: str  # only one process at a time can have this name
    address: Address | None  # TCP: of the broker
    ping_port: int | None  # UDP, at the same host
    expired: str | None = None  # why it was ended on suspicion; None while it holds
    version: int = 0  # of its node


def session_path(session: str) -> str:
    return f"{SESSIONS}/{session}"


def guard(session: str) -> Check:
    """The check that every write under the session begins with."""
    return Check(session_path(session), 0)


def encode(row: SessionRow) -> bytes:
    """The node of a session."""
    host, port = row.address or (None, None)
    value = {
        "version": 1,
        "broker": row.broker_id,
        "process": row.process,
        "host": host,
        "port": port,
        "ping_port": row.ping_port,
        "expired": row.expired,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def rows(nodes: Mapping[str, StoredNode]) -> list[SessionRow]:
    """All sessions in the order of their names. Nodes that can't be understood are left out."""
    found = []
    for path in sorted(nodes):
        if path.startswith(SESSIONS + "/"):
            row = _decode(path.rpartition("/")[2], nodes[path])
            if row is not None:
                found.append(row)
    return found


def _decode(session: str, node: StoredNode) -> SessionRow | None:
    try:
        value = json.loads(node.data)
        host, port, ping_port = value["host"], value["port"], value["ping_port"]
        return SessionRow(
            session,
            int(value["broker"]),
            str(value["process"]),
            None if host is None else (str(host), int(port)),
            None if ping_port is None else int(ping_port),
            None if value["expired"] is None else str(value["expired"]),
            node.version,
        )
    except (ValueError, TypeError, KeyError):
        return None


def may_expire(found: Iterable[SessionRow], session: str) -> bool:
    """Whether suspicion may end this session, too: never more than half of all."""
    known = list(found)
    expired = sum(row.expired is not None for row in known)
    holds = any(row.session == session and row.expired is None for row in known)
    return holds and expired + 1 <= len(known) // 2


def begin(tree: Tree, row: SessionRow) -> WriteResult:
    """Enter the session, which must be that of the client."""
    return tree.write([Create(session_path(row.session), encode(row), ephemeral=True)])


def bury(tree: Tree, session: str) -> bool:
    """End a session whose process is dead for certain; False when somebody was faster.

    Raises Unreachable when it is not known to be over.
    """
    nodes = tree.read([SESSIONS, *OWNED_BELOW])
    own = nodes.get(session_path(session))
    if own is None:
        return False
    operations = [Delete(session_path(session), own.version), *_owned(nodes, session)]
    result = tree.write(operations)
    if isinstance(result, WriteFailed) and result.error is WriteError.UNKNOWN:
        raise Unreachable("nobody knows whether a dead session was ended")
    return isinstance(result, WriteDone)


def expire(tree: Tree, session: str, reason: str, by: str) -> bool:
    """End a session on suspicion, unless more than half of all would then be so ended.

    `by` is the session of the one who suspects: it must hold itself.
    """
    nodes = tree.read([SESSIONS, *OWNED_BELOW])
    found = rows(nodes)
    suspect = next((row for row in found if row.session == session), None)
    parent = nodes.get(SESSIONS)
    if suspect is None or parent is None or not may_expire(found, session):
        return False
    marked = SessionRow(
        session, suspect.broker_id, suspect.process, suspect.address, suspect.ping_port, reason
    )
    operations = [
        SetData(SESSIONS, b"", parent.version),  # two can't be expired by the same count
        SetData(session_path(session), encode(marked), suspect.version),
        *_owned(nodes, session),
    ]
    return isinstance(tree.write(operations, guard(by)), WriteDone)


def _owned(nodes: Mapping[str, StoredNode], session: str) -> list[Operation]:
    return [
        Delete(path, node.version)
        for path, node in sorted(nodes.items())
        if node.session == session and not path.startswith(SESSIONS)
    ]
