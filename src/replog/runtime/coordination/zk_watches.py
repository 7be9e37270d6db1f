"""What brokers are told of: ZooKeeper's watches, each used up by one event, set again and again.

A watch is set anew before its event is passed on. So whoever reads when told sees what happened, or
is told once more.
"""

from collections.abc import Callable
from typing import Any, Final

from replog.model.coordination import BROKER_IDS, DELETE_TOPICS, HINTED
from replog.runtime.coordination.zk_sessions import SESSIONS
from replog.runtime.coordination.zk_tree import Tree

WATCHED: Final = (*HINTED, SESSIONS)
WITH_CHILDREN: Final = (BROKER_IDS, DELETE_TOPICS, SESSIONS)


class Watches:
    """The watches of one client."""

    def __init__(self, tree: Tree, on_event: Callable[[Any], None]) -> None:
        """`on_event` is called on kazoo's thread, and hands the event to `fired` on its own."""
        self._tree = tree
        self._on_event = on_event
        self._nodes: set[str] = set()  # watched for being made, changed, removed
        self._parents: set[str] = set()  # watched for children
        self._children: dict[str, list[str]] = {}  # as last seen

    def fired(self, event: Any) -> str | None:
        """The path that an event is about; None for the end of all watches at a disconnection."""
        if event.path is None:
            self._nodes.clear()
            self._parents.clear()
            return None
        path: str = event.path
        if event.type == "CHILD":
            self._parents.discard(path)
        else:
            self._nodes.discard(path)
        if event.type == "DELETED":
            self._parents.discard(path)
        return path

    def arm(self) -> set[str]:
        """Set all watches that are not set. Returns paths that came or went since they were seen.

        Raises Unreachable, SessionGone.
        """
        changed: set[str] = set()
        for root in WATCHED:
            exists = self._arm_node(root)
            if root in WITH_CHILDREN and exists:
                changed |= self._arm_children(root)
        return changed

    def _arm_node(self, path: str) -> bool:
        if path in self._nodes:
            return True
        exists = self._tree.watch(path, self._on_event)
        self._nodes.add(path)
        return exists

    def _arm_children(self, root: str) -> set[str]:
        before = self._children.get(root, [])
        if root not in self._parents:
            now = self._tree.children(root, self._on_event)
            if now is not None:
                self._parents.add(root)
            self._children[root] = now or []
        for name in self._children[root]:
            self._arm_node(f"{root}/{name}")
        return {f"{root}/{name}" for name in set(before) ^ set(self._children[root])}
