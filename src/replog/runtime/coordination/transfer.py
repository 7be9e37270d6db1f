"""The whole tree of a stopped cluster as one document, and into an empty coordinator again.

What sessions own is left out: it goes with the brokers. Numbers of writes can't be carried over,
and broker epochs are such numbers: the new coordinator must be beyond those of the old one, so that
none is used twice. A ZooKeeper always is, as seen from a database.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from replog.model.coordination import (
    CLUSTER_ID,
    Create,
    Delete,
    Operation,
    StoredNode,
    WriteFailed,
    WriteResult,
)
from replog.runtime.coordination.port import Coordination, CoordinationError

FORMAT: Final = 1  # of the document
UNFINISHED: Final = "/replog/import"  # there while an import has not ended
# All that a cluster keeps. Nodes beside these are not ours.
ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/latest_producer_id_block",
    "/replog",
)
_NOT_CARRIED: Final = ("/replog/sessions", UNFINISHED)
_BATCH_BYTES: Final = 500_000  # of one write: half of what ZooKeeper takes


class TransferError(Exception):
    """The tree can't be carried over; the text is one line."""


@dataclass(frozen=True, slots=True)
class Document:
    """A tree: data by path, and the greatest number of a write in it."""

    nodes: Mapping[str, bytes]
    last_number: int


def export_tree(coordination: Coordination) -> Document:
    """All nodes of a cluster. Raises TransferError when there is none."""
    found = coordination.read_now(ROOTS)
    if CLUSTER_ID not in found or UNFINISHED in found:
        raise TransferError("there is no cluster in this coordinator")
    kept = {path: node for path, node in found.items() if not _is_left_out(path, node)}
    last = max(node.created_at for node in found.values())
    return Document({path: node.data for path, node in kept.items()}, last)


def registered(coordination: Coordination) -> list[str]:
    """Ids of the brokers that have a registration."""
    return sorted(
        path.rpartition("/")[2]
        for path, node in coordination.read_now(["/brokers/ids"]).items()
        if node.session is not None
    )


def _is_left_out(path: str, node: StoredNode) -> bool:
    return node.session is not None or any(
        path == root or path.startswith(root + "/") for root in _NOT_CARRIED
    )


def import_tree(coordination: Coordination, document: Document) -> int:
    """Make all nodes; returns how many. Raises TransferError.

    An import that was interrupted is begun anew. The cluster's id comes last: without it, no broker
    takes the tree for a cluster.
    """
    there = coordination.read_now(ROOTS)
    begun: tuple[Operation, ...] = ()
    if UNFINISHED in there:
        begun = tuple(Delete(root, recursive=True) for root in ROOTS if root in there)
    elif there:
        raise TransferError(
            f"this coordinator is not empty: it holds {len(there)} nodes, {min(there)} among them"
        )
    _done(coordination.write_now([*begun, Create(UNFINISHED, b"")]))
    first = coordination.read_now([UNFINISHED])[UNFINISHED].created_at
    if first <= document.last_number:
        raise TransferError(
            f"its numbers are at {first}, those of the old coordinator at {document.last_number}: "
            "broker epochs would be used twice"
        )
    nodes = {path: data for path, data in document.nodes.items() if path != CLUSTER_ID}
    for batch in _batches(nodes):
        _done(coordination.write_now(batch))
    cluster_id = document.nodes[CLUSTER_ID]
    _done(coordination.write_now([Create(CLUSTER_ID, cluster_id), Delete(UNFINISHED)]))
    return len(document.nodes)


def _batches(nodes: Mapping[str, bytes]) -> Iterator[list[Create]]:
    """Parents first. Those that exist by then, as parents of what was made before, are left out."""
    batch: list[Create] = []
    size, made = 0, {"/replog", "/cluster"}
    for path in sorted(nodes):
        if path in made and not nodes[path]:
            continue
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(Create(path, nodes[path]))
        made.add(path)
        size += len(path) + len(nodes[path])
    if batch:
        yield batch


def _done(result: WriteResult) -> None:
    if isinstance(result, WriteFailed):
        raise CoordinationError(f"the coordinator refuses a write: {result.error.value}")


# ---- as a file ------------------------------------------------------------------------------


def to_json(document: Document) -> str:
    """Text that people can read; what is no text is in base64."""
    nodes: dict[str, Any] = {}
    for path, data in sorted(document.nodes.items()):
        try:
            nodes[path] = {"text": data.decode()}
        except UnicodeDecodeError:
            nodes[path] = {"base64": base64.b64encode(data).decode()}
    return json.dumps(
        {"format": FORMAT, "last_number": document.last_number, "nodes": nodes}, indent=1
    )


def from_json(text: str) -> Document:
    """The inverse. Raises TransferError for what is none."""
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise TransferError(f"format {found['format']}; this version knows format {FORMAT}")
        nodes = {str(path): _data(value) for path, value in found["nodes"].items()}
        document = Document(nodes, int(found["last_number"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TransferError(
            "this is no export of a coordinator: what 'replog coordinator export' wrote is expected"
        ) from error
    _check_paths(list(nodes))
    return document


def _data(value: Mapping[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode()
    return base64.b64decode(value["base64"], validate=True)


def _check_paths(paths: Sequence[str]) -> None:
    if CLUSTER_ID not in paths:
        raise TransferError("this is no export of a coordinator: it has no cluster id")
    for path in paths:
        if not any(path == root or path.startswith(root + "/") for root in ROOTS):
            raise TransferError(f"this is no export of a coordinator: it has {path}")
