"""The coordinator in memory: a deterministic model that passes the contract of the real ones.

`MemTree` is the shared truth: it answers at once and never calls back, so a world decides when an
answer, a hint or an expiry arrives, or that it is lost. `MemCoordination` is one broker's door to
it, in the shape of the port of the real world, for worlds that need no delays between.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

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
from replog.model.inputs import (
    CoordinatorChanged,
    CoordinatorRead,
    CoordinatorWritten,
    Input,
    SessionEnded,
    SessionStarted,
)


@dataclass(slots=True)
class _Draft:
    """What one multi would change: laid over the tree until all of it is known to succeed."""

    nodes: dict[str, StoredNode]
    changed: set[str]


def subtrees(nodes: Mapping[str, StoredNode], roots: Sequence[str]) -> dict[str, StoredNode]:
    """Each root that exists in `nodes` and all that is below it."""
    return {
        path: node
        for root in roots
        for path, node in nodes.items()
        if path == root or _is_below(path, root)
    }


class MemTree:
    """The tree, its sessions and its counter."""

    def __init__(self) -> None:
        self.nodes: dict[str, StoredNode] = {}
        self.zxid = 0
        self._sessions: dict[str, int] = {}  # session -> broker id
        self._made = itertools.count(1)

    # ---- reading ----------------------------------------------------------------------------

    def read(self, roots: Sequence[str]) -> dict[str, StoredNode]:
        """Each root that exists and all that is below it."""
        return subtrees(self.nodes, roots)

    def sessions(self) -> dict[str, int]:
        """Broker id by session."""
        return dict(self._sessions)

    # ---- writing ----------------------------------------------------------------------------

    def write(
        self, session: str | None, operations: Sequence[Operation]
    ) -> tuple[WriteResult, frozenset[str]]:
        """Carry out one multi; also returns the paths that it changed. None: a tool, no session."""
        if session is not None and session not in self._sessions:
            return WriteFailed(WriteError.SESSION_EXPIRED), frozenset()
        draft = _Draft(dict(self.nodes), set())
        for index, operation in enumerate(operations):
            error = self._apply(draft, session, operation)
            if error is not None:
                return WriteFailed(error, index), frozenset()
        self._commit(draft)
        return WriteDone(self.zxid), frozenset(draft.changed)

    def begin_session(self, broker_id: int) -> str:
        """A new session; names never repeat."""
        session = f"session-{next(self._made)}-of-{broker_id}"
        self._sessions[session] = broker_id
        self.zxid += 1
        return session

    def end_session(self, session: str) -> frozenset[str]:
        """Closed, dead or expired: its nodes go. Returns the paths; does nothing a second time."""
        if self._sessions.pop(session, None) is None:
            return frozenset()
        draft = _Draft(dict(self.nodes), set())
        for path in [p for p, node in self.nodes.items() if node.session == session]:
            self._drop(draft, path)
        self._commit(draft)
        return frozenset(draft.changed)

    def _commit(self, draft: _Draft) -> None:
        self.nodes = draft.nodes
        self.zxid += 1

    def _apply(self, draft: _Draft, session: str | None, operation: Operation) -> WriteError | None:
        path = operation.path
        node = draft.nodes.get(path)
        if isinstance(operation, Create):
            if node is not None:
                return WriteError.NODE_EXISTS
            return self._create(draft, session, operation)
        if node is None:
            return WriteError.NO_NODE
        if operation.version not in (ANY_VERSION, node.version):
            return WriteError.BAD_VERSION
        match operation:
            case Check():
                return None
            case SetData():
                draft.nodes[path] = replace(node, data=operation.data, version=node.version + 1)
                draft.changed.add(path)
                return None
            case Delete():
                if not operation.recursive and any(_is_below(p, path) for p in draft.nodes):
                    return WriteError.NOT_EMPTY
                self._drop(draft, path)
                return None

    def _create(self, draft: _Draft, session: str | None, operation: Create) -> WriteError | None:
        if operation.ephemeral and session is None:
            return WriteError.SESSION_EXPIRED
        parts = operation.path.split("/")
        for end in range(2, len(parts)):
            parent = "/".join(parts[:end])
            if parent not in draft.nodes:
                draft.nodes[parent] = StoredNode(b"", 0, self.zxid + 1)
                draft.changed.add(parent)
        owner = session if operation.ephemeral else None
        draft.nodes[operation.path] = StoredNode(operation.data, 0, self.zxid + 1, owner)
        draft.changed.add(operation.path)
        return None

    @staticmethod
    def _drop(draft: _Draft, path: str) -> None:
        for gone in [p for p in draft.nodes if p == path or _is_below(p, path)]:
            del draft.nodes[gone]
            draft.changed.add(gone)


def _is_below(path: str, root: str) -> bool:
    return path.startswith(root if root.endswith("/") else root + "/") and path != root


class MemCoordinator:
    """A tree with its doors: a change through one is a hint at all of them."""

    def __init__(self) -> None:
        self.tree = MemTree()
        self._doors: list[MemCoordination] = []

    def door(self, broker_id: int) -> "MemCoordination":
        """A broker's access. Its session begins with `start`."""
        door = MemCoordination(self, broker_id)
        self._doors.append(door)
        return door

    def expire(self, session: str, reason: str) -> None:
        """End a session; its owner is told and begins a new one."""
        self.hint(self.tree.end_session(session))
        for door in self._doors:
            door.on_expired(session, reason)

    def hint(self, paths: frozenset[str]) -> None:
        """Tell every door."""
        if paths:
            for door in self._doors:
                door.on_changed(paths)


class MemCoordination:
    """One broker's door: every call posts its answer before it returns."""

    def __init__(self, coordinator: MemCoordinator, broker_id: int) -> None:
        self._coordinator = coordinator
        self._broker_id = broker_id
        self._post: Callable[[Input], None] | None = None
        self._reply_lost = False
        self.session: str | None = None

    def start(self, post: Callable[[Input], None]) -> None:
        """Begin a session: SessionStarted is posted."""
        self._post = post
        self.session = self._coordinator.tree.begin_session(self._broker_id)
        post(SessionStarted(self.session))

    def write(self, token: int, operations: Sequence[Operation], session: str | None) -> None:
        """Post CoordinatorWritten, then the hint."""
        result: WriteResult = WriteFailed(WriteError.SESSION_EXPIRED)
        paths: frozenset[str] = frozenset()
        if session is not None:
            result, paths = self._coordinator.tree.write(session, operations)
        if self._reply_lost:
            self._reply_lost = False
            result = WriteFailed(WriteError.UNKNOWN)
        self._emit(CoordinatorWritten(token, result))
        self._coordinator.hint(paths)

    def read(self, token: int, roots: Sequence[str]) -> None:
        """Post CoordinatorRead."""
        self._emit(CoordinatorRead(token, self._coordinator.tree.read(roots)))

    def read_now(self, roots: Sequence[str]) -> dict[str, StoredNode]:
        """The nodes at and below `roots`."""
        return self._coordinator.tree.read(roots)

    def write_now(self, operations: Sequence[Operation]) -> WriteResult:
        """One multi outside of any session."""
        result, paths = self._coordinator.tree.write(None, operations)
        self._coordinator.hint(paths)
        return result

    def lose_next_reply(self) -> None:
        """The next write is carried out, or fails, and is answered UNKNOWN."""
        self._reply_lost = True

    def close(self) -> None:
        """End the session."""
        session, self.session, self._post = self.session, None, None
        if session is not None:
            self._coordinator.hint(self._coordinator.tree.end_session(session))

    def on_expired(self, session: str, reason: str) -> None:
        """The session may have been ours."""
        if session == self.session and self._post is not None:
            self._emit(SessionEnded(reason))
            self.start(self._post)

    def on_changed(self, paths: frozenset[str]) -> None:
        """Pass a hint on."""
        self._emit(CoordinatorChanged(paths))

    def _emit(self, event: Input) -> None:
        if self._post is not None:
            self._post(event)
