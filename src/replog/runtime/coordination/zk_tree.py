"""The tree in ZooKeeper: consistent reads of many nodes, and multis as the port means them.

ZooKeeper reads one node at a time. Every answer carries the number of the last write that the
server had carried out, and no server answers reads in the middle of a multi: nodes that were read
under one number are the tree of one moment. When somebody writes meanwhile, all is read again until
the number stands still or two readings are alike.

The one who uses a `Tree` has one request under way at a time, so that the number of an answer is
that of the client when the answer is there.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from replog.model.coordination import (
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
from replog.runtime.coordination.zk_client import ZkClient

READINGS_MAX: Final = 10  # of one subtree while others write
PLANS_MAX: Final = 10  # of one multi while others make or remove nodes on its way
# A server drops the connection of who sends more than its `jute.maxbuffer`, 1 MiB as a rule.
MULTI_BYTES_MAX: Final = 1_000_000
_OPERATION_BYTES: Final = 64  # of a multi, beside path and data
_ZOOKEEPERS_OWN: Final = "/zookeeper"


class Unreachable(Exception):
    """No answer: the ensemble can't be reached, or has no quorum. The text says what is known."""


class Unsettled(Exception):
    """Others write so fast that no two readings are alike: try again."""


class Denied(Unreachable):
    """The ensemble does not let this user do that."""


class SessionGone(Exception):
    """ZooKeeper has ended the session."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation for ZooKeeper, on behalf of the operation of that index."""

    index: int
    operation: Operation
    helper: bool = False  # ours: makes a parent, or removes what lies below


class Tree:
    """Reads and writes of one client."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._kazoo = client.kazoo
        self._there: set[str] = set()  # persistent nodes that were seen: parents for new ones

    # ---- reading ----------------------------------------------------------------------------

    def read(self, roots: Sequence[str]) -> dict[str, StoredNode]:
        """Each root that exists and all below it, as of one moment, not older than this call.

        Raises Unreachable, SessionGone, Unsettled.
        """
        self._wait(self._kazoo.sync_async("/"))
        before, found = self._kazoo.last_zxid, None
        for _ in range(READINGS_MAX):
            last, found = found, self._collect(roots)
            after = self._kazoo.last_zxid
            if after == before or found == last:
                return {path: _stored(data, stat) for path, (data, stat) in found.items()}
            before = after
        raise Unsettled

    def _collect(self, roots: Iterable[str]) -> dict[str, tuple[bytes, Any]]:
        """One reading, level by level; last a request that shows the number as of its end."""
        found: dict[str, tuple[bytes, Any]] = {}
        level = list(dict.fromkeys(roots))
        while level:
            parents = []
            for path, answer in self._each(self._kazoo.get_async, level):
                if path != "/":
                    found[path] = answer
                if answer[1].numChildren:
                    parents.append(path)
            lists = self._each(self._kazoo.get_children_async, parents)
            below = {f"{path.rstrip('/')}/{name}" for path, names in lists for name in names}
            level = sorted(below - found.keys() - {_ZOOKEEPERS_OWN})
        self._wait(self._kazoo.exists_async("/"))
        return found

    def _each(self, ask: Any, paths: Sequence[str]) -> list[tuple[str, Any]]:
        """The answer for each path that exists; up to `zookeeper.max.in.flight.requests` are
        under way at a time."""
        from kazoo.exceptions import NoNodeError

        answers = []
        pending: deque[tuple[str, Any]] = deque()
        left = iter(paths)
        for path in islice(left, self._client.settings.in_flight_max):
            pending.append((path, ask(path)))
        while pending:
            path, result = pending.popleft()
            try:
                answers.append((path, self._wait(result)))
            except NoNodeError:
                self._there.discard(path)
            pending.extend((path, ask(path)) for path in islice(left, 1))
        return answers

    def children(self, path: str, on_change: Any) -> list[str] | None:
        """Names below `path`, None when it does not exist. `on_change` is called once."""
        from kazoo.exceptions import NoNodeError

        try:
            names: list[str] = self._wait(self._kazoo.get_children_async(path, watch=on_change))
        except NoNodeError:
            return None
        return names

    def watch(self, path: str, on_change: Any) -> bool:
        """Have `on_change` called once when `path` is made, changed or removed; is it there?"""
        return self._wait(self._kazoo.exists_async(path, watch=on_change)) is not None

    def _wait(self, result: Any) -> Any:
        from kazoo import exceptions

        try:
            return result.get(timeout=self._client.patience_s)
        except exceptions.SessionExpiredError as error:
            raise SessionGone from error
        except (
            exceptions.ConnectionLoss,
            exceptions.ConnectionClosedError,
            exceptions.OperationTimeoutError,
            self._kazoo.handler.timeout_exception,
        ) as error:
            raise Unreachable(type(error).__name__) from error
        except (exceptions.NoAuthError, exceptions.AuthFailedError) as error:
            raise Denied("access is denied") from error

    # ---- writing ----------------------------------------------------------------------------

    def write(self, operations: Sequence[Operation], guard: Check | None = None) -> WriteResult:
        """One multi. When `guard` fails, SESSION_EXPIRED, and nothing is carried out.

        Missing parents are made and what lies below a recursive delete is removed in the same
        multi. Somebody may make or remove such a node meanwhile: then it is planned anew.
        """
        try:
            for _ in range(PLANS_MAX):
                steps = self._plan(operations)
                if guard is not None:
                    steps.insert(0, _Step(-1, guard))
                result = self._commit(steps)
                if result is not None:
                    return result
        except Denied:
            return WriteFailed(WriteError.REFUSED)
        except Unreachable:
            return WriteFailed(WriteError.UNKNOWN)
        except SessionGone:
            return WriteFailed(WriteError.SESSION_EXPIRED)
        return WriteFailed(WriteError.UNKNOWN)

    def _plan(self, operations: Sequence[Operation]) -> list[_Step]:
        steps: list[_Step] = []
        made: set[str] = set()
        creates = [operation for operation in operations if isinstance(operation, Create)]
        self._look_for({parent for create in creates for parent in _parents(create.path)})
        for index, operation in enumerate(operations):
            if isinstance(operation, Create):
                for parent in _parents(operation.path):
                    if parent not in made and parent not in self._there:
                        steps.append(_Step(index, Create(parent, b""), helper=True))
                        made.add(parent)
                made.add(operation.path)
            elif isinstance(operation, Delete):
                if operation.recursive:
                    steps += self._below(index, operation.path, made)
                made = {path for path in made if not _is_at_or_below(path, operation.path)}
                self._forget(operation.path)
            steps.append(_Step(index, operation))
        return steps

    def _look_for(self, paths: set[str]) -> None:
        """Which of these exist? Those that do are remembered."""
        unknown = sorted(paths - self._there)
        for path, stat in self._each(self._kazoo.exists_async, unknown):
            if stat is not None and not stat.ephemeralOwner:
                self._there.add(path)

    def _below(self, index: int, path: str, made: set[str]) -> list[_Step]:
        """Removal of all below `path`, leaves first."""
        below = {p for p in (*self._collect([path]), *made) if _is_at_or_below(p, path)} - {path}
        leaves_first = sorted(below, key=lambda p: (-p.count("/"), p))
        return [_Step(index, Delete(p), helper=True) for p in leaves_first]

    def _forget(self, root: str) -> None:
        self._there = {path for path in self._there if not _is_at_or_below(path, root)}

    def _commit(self, steps: Sequence[_Step]) -> WriteResult | None:
        """Carry out; None when it has to be planned anew."""
        from kazoo.exceptions import RolledBackError

        if sum(_size(step.operation) for step in steps) > MULTI_BYTES_MAX:
            return WriteFailed(WriteError.REFUSED)
        transaction = self._kazoo.transaction()
        for step in steps:
            self._add(transaction, step.operation)
        results = self._wait(transaction.commit_async())
        zxid = self._kazoo.last_zxid
        failures = (
            (step, result)
            for step, result in zip(steps, results, strict=False)
            if isinstance(result, Exception) and not isinstance(result, RolledBackError)
        )
        failed = next(failures, None)
        if failed is None:
            self._there.update(step.operation.path for step in steps if step.helper)
            self._there -= {s.operation.path for s in steps if isinstance(s.operation, Delete)}
            return WriteDone(zxid)
        return self._failed(*failed)

    def _add(self, transaction: Any, operation: Operation) -> None:
        path = operation.path
        match operation:
            case Create():
                acl = self._client.acl(path)
                transaction.create(path, operation.data, acl=acl, ephemeral=operation.ephemeral)
            case SetData():
                transaction.set_data(path, operation.data, operation.version)
            case Delete():
                transaction.delete(path, operation.version)
            case Check():
                transaction.check(path, operation.version)

    def _failed(self, step: _Step, error: Exception) -> WriteFailed | None:
        known = _error(error)
        if step.index < 0 and known in (WriteError.NO_NODE, WriteError.BAD_VERSION):
            return WriteFailed(WriteError.SESSION_EXPIRED)
        operation = step.operation
        parent_gone = isinstance(operation, Create) and known is WriteError.NO_NODE
        not_all_seen = isinstance(operation, Delete) and operation.recursive
        if parent_gone:
            for path in _parents(operation.path):
                self._forget(path)
        if parent_gone or (not_all_seen and known is WriteError.NOT_EMPTY):
            return None
        if step.helper and known is not WriteError.REFUSED:
            return None
        return WriteFailed(known, step.index)


def _error(error: Exception) -> WriteError:
    from kazoo import exceptions

    table = {
        exceptions.NodeExistsError: WriteError.NODE_EXISTS,
        exceptions.NoNodeError: WriteError.NO_NODE,
        exceptions.BadVersionError: WriteError.BAD_VERSION,
        exceptions.NotEmptyError: WriteError.NOT_EMPTY,
        exceptions.SessionExpiredError: WriteError.SESSION_EXPIRED,
    }
    return table.get(type(error), WriteError.REFUSED)


def _stored(data: bytes, stat: Any) -> StoredNode:
    owner = stat.ephemeralOwner
    session = f"{owner & (1 << 64) - 1:016x}" if owner else None
    return StoredNode(data, stat.version, stat.czxid, session)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


def _is_at_or_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _size(operation: Operation) -> int:
    data = getattr(operation, "data", b"")
    return len(operation.path) + len(data) + _OPERATION_BYTES
