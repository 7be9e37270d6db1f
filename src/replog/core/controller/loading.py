"""From the nodes of one consistent read to the controller's image.

A node that can't be understood costs what it describes and nothing else: a topic is offline, a
broker counts as not registered. Each such case is a line in `Loaded.reports`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replog.core.controller import stored
from replog.core.controller.state import ControllerImage, Losses, offline_topic
from replog.model.cluster import (
    BrokerLife,
    BrokerRecord,
    BrokerState,
    ClusterState,
    TopicRecord,
)
from replog.model.config_resources import ResourceType
from replog.model.coordination import (
    BROKER_IDS,
    CONFIG_BROKERS,
    CONFIG_CLIENT_METRICS,
    CONFIG_GROUPS,
    CONFIG_TOPICS,
    TOPICS,
    StoredNode,
)
from replog.model.ids import NO_EPOCH, ZERO_TOPIC_ID, TopicPartition

# What a controller reads when it begins.
ROOTS = ("/brokers", "/config", stored.BROKER_STATES, stored.BROKER_LIVES, stored.LOSSES)


@dataclass(slots=True)
class Loaded:
    """An image that is true to the store, and what could not be read."""

    image: ControllerImage
    registered: dict[int, BrokerRecord] = field(default_factory=dict)  # as of the read
    reports: list[str] = field(default_factory=list)


def load_image(
    nodes: Mapping[str, StoredNode], *, cluster_id: str, controller_id: int, epoch: int
) -> Loaded:
    """Build the image for the controller `controller_id` of `epoch`. Its version is 0.

    The broker table is as the last controller left it, not as brokers are registered now: the
    difference is what `Draft.registrations` is for. Where there is no such table, every member of
    an ISR stands in it with no epoch, so that it counts as gone or restarted.
    """
    cluster = ClusterState(
        cluster_id=cluster_id, controller_id=controller_id, controller_epoch=epoch, version=0
    )
    loaded = Loaded(ControllerImage(cluster))
    configs = _children(nodes, CONFIG_TOPICS)
    loaded.image.config_nodes = {path for path in nodes if path.startswith("/config/")}
    for name in sorted(_children(nodes, TOPICS)):
        try:
            cluster.put_topic(_topic(nodes, name, configs.get(name)))
        except stored.BadNode as error:
            loaded.image.broken[name] = str(error)
            loaded.reports.append(
                f"topic {name} is offline, as the coordinator's data is bad: {error}"
            )
            cluster.put_topic(offline_topic(name))
    cluster.topic_names.pop(ZERO_TOPIC_ID, None)
    _load_configs(loaded, nodes)
    _load_broker_states(loaded, nodes)
    _load_lives(loaded, nodes)
    return loaded


def _load_configs(loaded: Loaded, nodes: Mapping[str, StoredNode]) -> None:
    parents = (
        (ResourceType.BROKER, CONFIG_BROKERS),
        (ResourceType.GROUP, CONFIG_GROUPS),
        (ResourceType.CLIENT_METRICS, CONFIG_CLIENT_METRICS),
    )
    for kind, parent in parents:
        for node_name, node in sorted(_children(nodes, parent).items()):
            if kind is not ResourceType.BROKER:
                name = stored.unescaped(node_name)
            else:
                name = "" if node_name == stored.DEFAULT_BROKER_CONFIG else node_name
            try:
                loaded.image.cluster.put_configs(kind, name, stored.decode_configs(node.data))
            except stored.BadNode as error:
                what = kind.name.lower().replace("_", " ")
                loaded.reports.append(f"configuration of {what} {name!r} is ignored: {error}")


def _load_lives(loaded: Loaded, nodes: Mapping[str, StoredNode]) -> None:
    for name, node in sorted(_children(nodes, stored.BROKER_LIVES).items()):
        try:
            broker = stored.decode_broker_id(name)
        except stored.BadNode:
            continue
        try:
            loaded.image.lives[broker] = stored.decode_broker_life(node.data)
        except stored.BadNode as error:
            # The node is there, and no registration is like it: whoever comes has lost all.
            loaded.image.lives[broker] = BrokerLife(NO_EPOCH, "unknown", "unknown")
            loaded.reports.append(
                f"broker {broker} counts as having lost its disk, as its node "
                f"{stored.broker_life_path(broker)} is bad: {error}"
            )
    node_of_losses = nodes.get(stored.LOSSES)
    if node_of_losses is not None:
        try:
            loaded.image.losses = Losses(*stored.decode_losses(node_of_losses.data))
        except stored.BadNode as error:
            loaded.image.losses = Losses()
            loaded.reports.append(f"{stored.LOSSES} begins at 0 again, as it is bad: {error}")


def _load_broker_states(loaded: Loaded, nodes: Mapping[str, StoredNode]) -> None:
    cluster = loaded.image.cluster
    loaded.registered, unreadable = load_registrations(nodes)
    loaded.reports += unreadable
    node = nodes.get(stored.BROKER_STATES)
    loaded.image.states_stored = node is not None
    states: dict[int, tuple[int, BrokerState]] | None = None
    if node is not None:
        try:
            states = stored.decode_broker_states(node.data)
        except stored.BadNode as error:
            loaded.reports.append(
                f"all brokers count as restarted, as {stored.BROKER_STATES} is bad: {error}"
            )
    if states is None:
        states = {
            broker: (NO_EPOCH, BrokerState.ACTIVE)
            for _, record in cluster.partitions()
            for broker in record.isr
        }
    for broker, (epoch, state) in sorted(states.items()):
        known = loaded.registered.get(broker)
        endpoints = known.endpoints if known is not None else ()
        rack = known.rack if known is not None else None
        cluster.brokers[broker] = BrokerRecord(broker, epoch, endpoints, rack, state)


def load_registrations(
    nodes: Mapping[str, StoredNode],
) -> tuple[dict[int, BrokerRecord], list[str]]:
    """Who is registered, by broker id, and what could not be read."""
    registered = {}
    reports = []
    for name, node in sorted(_children(nodes, BROKER_IDS).items()):
        try:
            broker = stored.decode_broker_id(name)
            registered[broker] = stored.decode_registration(broker, node.data).record(
                node.created_at
            )
        except stored.BadNode as error:
            reports.append(f"registration {name!r} is ignored: {error}")
    return registered, reports


def _topic(nodes: Mapping[str, StoredNode], name: str, config: StoredNode | None) -> TopicRecord:
    described = stored.decode_topic(nodes[stored.topic_path(name)].data)
    partitions = []
    for index in range(len(described.replicas)):
        path = stored.partition_path(TopicPartition(name, index))
        node = nodes.get(path)
        if node is None:
            raise stored.BadNode(f"{path} is missing")
        try:
            partitions.append(stored.decode_partition(index, described, node.data))
        except stored.BadNode as error:
            raise stored.BadNode(f"{path}: {error}") from None
    settings = stored.decode_configs(config.data) if config is not None else {}
    return TopicRecord(name, described.topic_id, partitions, settings)


def _children(nodes: Mapping[str, StoredNode], parent: str) -> dict[str, StoredNode]:
    """The nodes right below `parent`, by name."""
    prefix = parent + "/"
    return {
        path[len(prefix) :]: node
        for path, node in nodes.items()
        if path.startswith(prefix) and "/" not in path[len(prefix) :]
    }
