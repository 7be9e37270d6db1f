"""Requests that tools for ZooKeeper leave as nodes below `/admin`, as they do with Kafka.

    /admin/reassign_partitions          {"partitions": [{"topic", "partition", "replicas"}]}
    /admin/preferred_replica_election   {"partitions": [{"topic", "partition"}]}
    /admin/delete_topics/TOPIC          empty

The controller carries them out like requests of clients, says how that went in its log, and removes
the node. One whose outcome is not known is carried out again by whoever is controller then: each of
them does nothing a second time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from replog.model.coordination import (
    ADMIN,
    DELETE_TOPICS,
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    Delete,
    StoredNode,
)
from replog.model.errors import ErrorCode
from replog.model.inputs import CoordinatorRead, CoordinatorWritten
from replog.model.messages import Response
from replog.model.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.model.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from replog.model.outputs import Level
from replog.node.handlers import alter_partition_reassignments, delete_topics, elect_leaders
from replog.node.handlers.admin import AdminCall

if TYPE_CHECKING:
    from replog.node.node import Node

TIMEOUT_MS = 30_000  # of one request; nobody waits for it

_Message = AlterPartitionReassignmentsRequest | DeleteTopicsRequest | ElectLeadersRequest


class AdminNodes:
    """What the controller makes of these nodes. Does nothing while another broker is it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._in_hand: set[str] = set()

    def look(self) -> None:
        """There may be a request."""
        if self._node.controlling.active:
            self._node.read_coordinator((ADMIN,), self._on_read)

    def forget(self) -> None:
        """This broker is not the controller any more, or begins anew."""
        self._in_hand.clear()

    def _on_read(self, read: CoordinatorRead) -> None:
        for path, found in sorted((read.nodes or {}).items()):
            if path in self._in_hand or not _is_request(path):
                continue
            self._in_hand.add(path)
            try:
                message = _message(path, found.data)
            except (ValueError, TypeError, KeyError) as error:
                self._node.report(Level.WARNING, f"{path} can't be understood: {error!r}")
                self._remove(path, found)
            else:
                self._execute(path, found, message)

    def _execute(self, path: str, found: StoredNode, message: _Message) -> None:
        node = self._node

        def respond(response: Response) -> None:
            node.report(Level.INFO, f"{path}: {_outcome(response)}")
            self._remove(path, found)

        call = AdminCall(
            respond=respond,
            not_controller=self.forget,
            deadline_ms=node.now_ms + TIMEOUT_MS,
            origin=node.broker_id,
            version=type(message).VERSIONS[1],
        )
        match message:
            case AlterPartitionReassignmentsRequest():
                alter_partition_reassignments.execute(node, message, call)
            case DeleteTopicsRequest():
                delete_topics.execute(node, message, call)
            case ElectLeadersRequest():
                elect_leaders.execute(node, message, call)

    def _remove(self, path: str, found: StoredNode) -> None:
        fence = self._node.controlling.fence()
        if fence is None:
            self.forget()
            return

        def done(written: CoordinatorWritten) -> None:
            self._in_hand.discard(path)

        self._node.write_coordinator((fence, Delete(path, found.version)), done)


def _is_request(path: str) -> bool:
    if path in (REASSIGN_PARTITIONS, PREFERRED_ELECTION):
        return True
    return path.startswith(DELETE_TOPICS + "/")


def _message(path: str, data: bytes) -> _Message:
    """The client's request that stands for a node. Raises ValueError, TypeError or KeyError."""
    if path.startswith(DELETE_TOPICS):
        named = [DeleteTopicState(name=path.rpartition("/")[2])]
        return DeleteTopicsRequest(topics=named, timeout_ms=TIMEOUT_MS)
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for asked in json.loads(data)["partitions"]:
        by_topic.setdefault(str(asked["topic"]), []).append(asked)
    if path == PREFERRED_ELECTION:
        wanted = [
            TopicPartitions(topic=name, partitions=[int(p["partition"]) for p in partitions])
            for name, partitions in by_topic.items()
        ]
        return ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(
                    partition_index=int(p["partition"]), replicas=[int(b) for b in p["replicas"]]
                )
                for p in partitions
            ],
        )
        for name, partitions in by_topic.items()
    ]
    return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def _outcome(response: Response) -> str:
    """In words: `done`, or the errors."""
    errors: set[int] = set()
    if isinstance(response, DeleteTopicsResponse):
        errors = {result.error_code for result in response.responses}
    elif isinstance(response, ElectLeadersResponse):
        results = [p for t in response.replica_election_results for p in t.partition_result]
        errors = {response.error_code, *(result.error_code for result in results)}
    elif isinstance(response, AlterPartitionReassignmentsResponse):
        moves = [p for t in response.responses for p in t.partitions]
        errors = {response.error_code, *(move.error_code for move in moves)}
    refused = sorted(ErrorCode(code).name for code in errors - {0})
    return ", ".join(refused) or "done"
