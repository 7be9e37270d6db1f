"""Nodes of the coordinator as JSON: Kafka's layout, so that its users find their way, and ours.

Decoders take bytes that anybody may have edited. They raise `BadNode` and nothing else.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from replog.model.cluster import BrokerLife, BrokerRecord, BrokerState, Endpoint, TopicRecord
from replog.model.config_resources import ResourceType
from replog.model.coordination import (
    BROKER_IDS,
    CONFIG_BROKERS,
    CONFIG_CLIENT_METRICS,
    CONFIG_GROUPS,
    CONFIG_TOPICS,
    TOPICS,
)
from replog.model.ids import NO_EPOCH, TopicPartition, topic_id_from_text, topic_id_text
from replog.model.partition import PartitionRecord

# Table of brokers as the controller last dealt with them, so that its successor can tell a broker
# that restarted in between from one that stayed up.
BROKER_STATES = "/replog/broker_states"
# The newest registration of each broker that a controller has dealt with, gone or not: what a
# broker that comes back may have lost is judged by it.
BROKER_LIVES = "/replog/brokers"
# How many elections may have lost committed records, since the cluster began.
LOSSES = "/replog/losses"
DEFAULT_BROKER_CONFIG = "<default>"

# By their numbers in Kafka's protocol.
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BadNode(ValueError):
    """A node can't be understood; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself under `/brokers/ids`. Its epoch is the number of the write."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    boot_id: str  # of the host
    clean_start: bool  # the run before this one ended in good order
    incarnation: str  # of the process: tells an own stale registration from that of a stranger
    timestamp_ms: int
    inter_broker_version: int
    folder_id: str = ""  # of the log folder
    stopped_epoch: int = NO_EPOCH  # registration of the run before this one, if it ended so

    def record(self, broker_epoch: int) -> BrokerRecord:
        """The broker, under the epoch of this registration."""
        life = BrokerLife(
            broker_epoch, self.boot_id, self.folder_id, self.incarnation, self.stopped_epoch
        )
        return BrokerRecord(self.broker_id, broker_epoch, self.endpoints, self.rack, life=life)


# ---- paths ------------------------------------------------------------------------------


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_life_path(broker_id: int) -> str:
    return f"{BROKER_LIVES}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partition_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{CONFIG_TOPICS}/{topic}"


def broker_config_path(broker: str) -> str:
    """`broker` is an id as text, or "" for the default of all brokers."""
    return f"{CONFIG_BROKERS}/{broker or DEFAULT_BROKER_CONFIG}"


def config_path(kind: ResourceType, name: str) -> str:
    """Where the settings of a resource are. Groups may have any name: what a path can't hold is
    written as %XX."""
    match kind:
        case ResourceType.TOPIC:
            return topic_config_path(name)
        case ResourceType.BROKER:
            return broker_config_path(name)
        case ResourceType.GROUP:
            return f"{CONFIG_GROUPS}/{_escaped(name)}"
        case ResourceType.CLIENT_METRICS:
            return f"{CONFIG_CLIENT_METRICS}/{_escaped(name)}"
    raise ValueError(f"{kind.name} has no settings in the coordinator")


def _escaped(name: str) -> str:
    return quote(name, safe="", errors="surrogatepass").replace(".", "%2E")


def unescaped(name: str) -> str:
    """The name of a group or client metrics subscription from its node's."""
    return unquote(name, errors="surrogatepass")


# ---- encoding ---------------------------------------------------------------------------


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def encode_registration(registration: Registration) -> bytes:
    """The node `/brokers/ids/<id>`."""
    first = registration.endpoints[0]
    return _dump(
        {
            "version": 5,
            "endpoints": [_endpoint_text(e) for e in registration.endpoints],
            "listener_security_protocol_map": {
                e.name: e.security_protocol for e in registration.endpoints
            },
            "host": first.host,
            "port": first.port,
            "jmx_port": -1,
            "timestamp": str(registration.timestamp_ms),
            "rack": registration.rack,
            "features": {},
            "boot_id": registration.boot_id,
            "clean_start": registration.clean_start,
            "incarnation": registration.incarnation,
            "inter_broker_version": registration.inter_broker_version,
            "folder_id": registration.folder_id,
            "stopped_epoch": registration.stopped_epoch,
        }
    )


def encode_cluster_id(cluster_id: str) -> bytes:
    """The node `/cluster/id`."""
    return _dump({"version": "1", "id": cluster_id})


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """The node `/controller`. Kafka says there, too, that no KRaft controller is behind it."""
    return _dump(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def encode_topic(topic: TopicRecord) -> bytes:
    """The node `/brokers/topics/<name>`: identity and assignment."""
    indexed = [(str(index), record) for index, record in enumerate(topic.partitions)]
    return _dump(
        {
            "version": 3,
            "topic_id": topic_id_text(topic.topic_id),
            "partitions": {index: list(record.replicas) for index, record in indexed},
            "adding_replicas": {i: list(record.adding) for i, record in indexed if record.adding},
            "removing_replicas": {
                i: list(record.removing) for i, record in indexed if record.removing
            },
        }
    )


def encode_partition(record: PartitionRecord, topic_id: bytes) -> bytes:
    """The node `/brokers/topics/<name>/partitions/<index>/state`."""
    return _dump(
        {
            "controller_epoch": record.controller_epoch,
            "leader": record.leader,
            "version": 1,
            "leader_epoch": record.leader_epoch,
            "isr": list(record.isr),
            "partition_epoch": record.partition_epoch,
            "elr": list(record.elr),
            "last_known_elr": list(record.last_known_elr),
            "failed_replicas": list(record.failed),
            "topic_id": topic_id_text(topic_id),
        }
    )


def encode_configs(configs: Mapping[str, str]) -> bytes:
    """A node below `/config`."""
    return _dump({"version": 1, "config": dict(configs)})


def encode_broker_states(brokers: Mapping[int, BrokerRecord]) -> bytes:
    """The node `/replog/broker_states`."""
    table = {
        str(broker): {"epoch": brokers[broker].broker_epoch, "state": brokers[broker].state.name}
        for broker in sorted(brokers)
    }
    return _dump({"version": 1, "brokers": table})


def encode_broker_life(life: BrokerLife) -> bytes:
    """The node `/replog/brokers/<id>`."""
    return _dump(
        {
            "version": 1,
            "epoch": life.broker_epoch,
            "boot_id": life.boot_id,
            "folder_id": life.folder_id,
            "incarnation": life.incarnation,
        }
    )


def encode_losses(unclean: int, power_cut: int) -> bytes:
    """The node `/replog/losses`."""
    return _dump({"version": 1, "unclean_elections": unclean, "power_cut_elections": power_cut})


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{endpoint.port}"


# ---- decoding ---------------------------------------------------------------------------


class _Reader:
    """Typed access to a JSON object; whatever is not as expected is a BadNode."""

    def __init__(self, data: bytes) -> None:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise BadNode("it is not JSON") from None
        if not isinstance(value, dict):
            raise BadNode("it is not a JSON object")
        self._fields: dict[str, object] = value

    def integer(self, name: str, default: int | None = None) -> int:
        return _integer(self._fields.get(name, default), name)

    def text(self, name: str) -> str:
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise BadNode(f"{name} is not a text")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def flag(self, name: str, default: bool) -> bool:
        value = self._fields.get(name, default)
        if not isinstance(value, bool):
            raise BadNode(f"{name} is neither true nor false")
        return value

    def integers(self, name: str, *, optional: bool = False) -> tuple[int, ...]:
        value = self._fields.get(name)
        if value is None and optional:
            return ()
        return _integers(value, name)

    def texts(self, name: str) -> list[str]:
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadNode(f"{name} is not a list of texts")
        return value

    def table(self, name: str, *, optional: bool = False) -> dict[str, object]:
        value = self._fields.get(name)
        if value is None and optional:
            return {}
        if not isinstance(value, dict):
            raise BadNode(f"{name} is not an object")
        return value


def _integer(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadNode(f"{name} is not an integer")
    return value


def _integers(value: object, name: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise BadNode(f"{name} is not a list of integers")
    return tuple(_integer(item, name) for item in value)


def decode_registration(broker_id: int, data: bytes) -> Registration:
    """The inverse of `encode_registration`; keys that are ours may be missing."""
    reader = _Reader(data)
    protocols = reader.table("listener_security_protocol_map")
    endpoints = tuple(_endpoint(text, protocols) for text in reader.texts("endpoints"))
    if not endpoints:
        raise BadNode("it has no endpoints")
    return Registration(
        broker_id=broker_id,
        endpoints=endpoints,
        rack=reader.optional_text("rack"),
        boot_id=reader.optional_text("boot_id") or "",
        clean_start=reader.flag("clean_start", True),
        incarnation=reader.optional_text("incarnation") or "",
        timestamp_ms=_decimal(reader.optional_text("timestamp") or "0"),
        inter_broker_version=reader.integer("inter_broker_version", 0),
        folder_id=reader.optional_text("folder_id") or "",
        stopped_epoch=reader.integer("stopped_epoch", NO_EPOCH),
    )


def _endpoint(text: str, protocols: Mapping[str, object]) -> Endpoint:
    name, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    protocol = protocols.get(name, name)
    if not (separator and colon and port.isascii() and port.isdigit() and len(port) <= 5):
        raise BadNode(f"endpoint {text!r} is not NAME://HOST:PORT")
    if not isinstance(protocol, str) or protocol not in SECURITY_PROTOCOLS:
        raise BadNode(f"endpoint {text!r} has no known security protocol")
    return Endpoint(name, host.removeprefix("[").removesuffix("]"), int(port), protocol)


def _decimal(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise BadNode(f"{text!r} is not a number")
    return int(text)


def decode_cluster_id(data: bytes) -> str:
    """The id in `/cluster/id`. The first databases have the id alone, as it is."""
    return _Reader(data).text("id") if data.startswith(b"{") else data.decode("ascii", "replace")


def decode_controller(data: bytes) -> int:
    """The broker id in `/controller`."""
    return _Reader(data).integer("brokerid")


def decode_controller_epoch(data: bytes) -> int:
    """The number in `/controller_epoch`."""
    return _decimal(data.decode("ascii", "replace").strip())


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """The node of a topic: what is there before any partition has a state."""

    topic_id: bytes
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]


def decode_topic(data: bytes) -> StoredTopic:
    """The inverse of `encode_topic`. Partitions must be numbered from 0 on without a gap."""
    reader = _Reader(data)
    try:
        topic_id = topic_id_from_text(reader.text("topic_id"))
    except ValueError as error:
        raise BadNode(str(error)) from None
    partitions = _by_partition(reader.table("partitions"))
    if not partitions or sorted(partitions) != list(range(len(partitions))):
        raise BadNode("partitions are not numbered from 0 on without a gap")
    replicas = tuple(partitions[index] for index in range(len(partitions)))
    if any(not r or len(set(r)) < len(r) for r in replicas):
        raise BadNode("a partition has no replicas, or one twice")
    return StoredTopic(
        topic_id,
        replicas,
        _by_partition(reader.table("adding_replicas", optional=True)),
        _by_partition(reader.table("removing_replicas", optional=True)),
    )


def _by_partition(table: Mapping[str, object]) -> dict[int, tuple[int, ...]]:
    return {_decimal(index): _integers(value, index) for index, value in table.items()}


def _partition_reader(data: bytes, topic_id: bytes) -> _Reader:
    reader = _Reader(data)
    found = reader.optional_text("topic_id")
    if found is not None and found != topic_id_text(topic_id):
        raise BadNode(f"it belongs to topic id {found}")
    return reader


def decode_leader(data: bytes, topic_id: bytes) -> tuple[int, int]:
    """Leader and leader epoch alone, of the node of a partition of this topic.

    Raises BadNode.
    """
    reader = _partition_reader(data, topic_id)
    return reader.integer("leader"), reader.integer("leader_epoch")


def decode_partition(index: int, topic: StoredTopic, data: bytes) -> PartitionRecord:
    """The record of partition `index`: its state node, with what the topic's node says of it."""
    reader = _partition_reader(data, topic.topic_id)
    record = PartitionRecord(
        replicas=topic.replicas[index],
        isr=reader.integers("isr"),
        leader=reader.integer("leader"),
        leader_epoch=reader.integer("leader_epoch"),
        partition_epoch=reader.integer("partition_epoch"),
        controller_epoch=reader.integer("controller_epoch"),
        elr=reader.integers("elr", optional=True),
        last_known_elr=reader.integers("last_known_elr", optional=True),
        failed=reader.integers("failed_replicas", optional=True),
        adding=topic.adding.get(index, ()),
        removing=topic.removing.get(index, ()),
    )
    if not record.isr or len(set(record.isr)) < len(record.isr):
        raise BadNode("its ISR is empty, or names a broker twice")
    if record.leader_epoch < 0 or record.partition_epoch < 0:
        raise BadNode("an epoch is negative")
    if record.online and record.leader not in record.isr:
        raise BadNode(f"leader {record.leader} is not in the ISR")
    return record


def decode_configs(data: bytes) -> dict[str, str]:
    """The inverse of `encode_configs`."""
    table = _Reader(data).table("config")
    configs = {}
    for name, value in table.items():
        if not isinstance(value, str):
            raise BadNode(f"the value of {name} is not a text")
        configs[name] = value
    return configs


def decode_broker_states(data: bytes) -> dict[int, tuple[int, BrokerState]]:
    """Broker id -> (broker epoch, state)."""
    states = {}
    for broker, entry in _Reader(data).table("brokers").items():
        if not isinstance(entry, dict):
            raise BadNode(f"broker {broker} has no entry")
        name = entry.get("state")
        if not isinstance(name, str) or name not in BrokerState.__members__:
            raise BadNode(f"broker {broker} has no known state")
        epoch = _integer(entry.get("epoch", NO_EPOCH), "epoch")
        states[_decimal(broker)] = (epoch, BrokerState[name])
    return states


def decode_broker_life(data: bytes) -> BrokerLife:
    """The inverse of `encode_broker_life`."""
    reader = _Reader(data)
    return BrokerLife(
        broker_epoch=reader.integer("epoch"),
        boot_id=reader.optional_text("boot_id") or "",
        folder_id=reader.optional_text("folder_id") or "",
        incarnation=reader.optional_text("incarnation") or "",
    )


def decode_losses(data: bytes) -> tuple[int, int]:
    """Unclean elections, and those after a power cut."""
    reader = _Reader(data)
    return reader.integer("unclean_elections"), reader.integer("power_cut_elections")


def decode_broker_id(name: str) -> int:
    """The broker that a name below `/brokers/ids` stands for."""
    broker = _decimal(name)
    if broker < 0:
        raise BadNode(f"{name!r} is not a broker id")
    return broker
