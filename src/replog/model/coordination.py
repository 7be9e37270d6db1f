"""Words for the coordinator: a tree of versioned nodes, as ZooKeeper has it.

A broker writes with one atomic multi and reads whole subtrees. Paths and JSON are Kafka's
(`/brokers/ids/1`, `/controller`, ...), so that tools for ZooKeeper can look inside.
"""

from dataclasses import dataclass
from enum import Enum

ANY_VERSION = -1

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
CONFIG_GROUPS = "/config/groups"
CONFIG_CLIENT_METRICS = "/config/client-metrics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
SECRET = "/replog/secret"
ADMIN = "/admin"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"

# Brokers are told of every change at and below these; of other nodes they may be.
HINTED = (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    REASSIGN_PARTITIONS,
    PREFERRED_ELECTION,
    DELETE_TOPICS,
)


@dataclass(frozen=True, slots=True)
class Create:
    """Fails with NODE_EXISTS. Missing parents are made as empty persistent nodes."""

    path: str
    data: bytes
    ephemeral: bool = False  # owned by the writer's session, and gone with it


@dataclass(frozen=True, slots=True)
class SetData:
    """Fails with NO_NODE or BAD_VERSION."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Fails with NO_NODE, BAD_VERSION or NOT_EMPTY. `recursive` takes what lies below along."""

    path: str
    version: int = ANY_VERSION
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """Fails with NO_NODE or BAD_VERSION, and with it the whole multi."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class StoredNode:
    """One node as it was read."""

    data: bytes
    version: int  # of the data: 0 when created, +1 for each SetData
    created_at: int  # zxid: number of the write that created it, rising over the whole tree
    session: str | None = None  # owner of an ephemeral node


class WriteError(Enum):
    """Why a multi was not carried out; UNKNOWN when it may have been (the reply was lost)."""

    NODE_EXISTS = "node exists"
    NO_NODE = "no node"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    SESSION_EXPIRED = "session expired"
    REFUSED = "refused by the coordinator"  # too large for it, or not allowed: it will never do
    UNKNOWN = "outcome unknown"


@dataclass(frozen=True, slots=True)
class WriteDone:
    """The multi is durable. `zxid` is its number: the `created_at` of every node that it made."""

    zxid: int


@dataclass(frozen=True, slots=True)
class WriteFailed:
    """Nothing of the multi was carried out (but see WriteError.UNKNOWN)."""

    error: WriteError
    index: int = -1  # of the operation that failed; -1 when it was none of them


WriteResult = WriteDone | WriteFailed
