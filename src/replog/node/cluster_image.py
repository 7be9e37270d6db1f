"""The controller's image of the cluster as a message, and a broker's own image brought up to date
by one.

A full image replaces what a broker knew. A delta is taken only on top of the very version that it
was made for: versions are numbered by (controller epoch, version), and one that does not fit is a
gap.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from replog.core.controller.state import Delta
from replog.core.controller.stored import SECURITY_PROTOCOLS
from replog.model.cluster import BrokerRecord, BrokerState, ClusterState, Endpoint, TopicRecord
from replog.model.config_resources import ResourceType
from replog.model.ids import ZERO_TOPIC_ID, TopicPartition
from replog.model.messages.update_cluster import (
    ClusterBroker,
    ClusterConfig,
    ClusterConfigEntry,
    ClusterEndpoint,
    ClusterPartition,
    ClusterTopic,
    ClusterTopicConfig,
    DeletedTopic,
    UpdateClusterRequest,
)
from replog.model.partition import PartitionRecord

# What has settings apart from topics, which bring theirs along.
CONFIGURED = (ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
NO_BASE = -1  # base version of a full image


# ---- image to message -------------------------------------------------------------------


def full_image(cluster: ClusterState, broker_epoch: int) -> UpdateClusterRequest:
    """Everything, for the registration `broker_epoch` of the receiver."""
    message = _header(cluster, broker_epoch, NO_BASE)
    message.brokers = _brokers(cluster)
    message.brokers_included = True
    message.topics = [_topic(topic, None) for topic in cluster.topics.values()]
    message.configs = [
        _config(cluster, kind, name) for kind in CONFIGURED for name in cluster.configs(kind)
    ]
    return message


def delta_image(
    cluster: ClusterState, delta: Delta, *, broker_epoch: int, base_version: int
) -> UpdateClusterRequest:
    """What changed since `base_version`; contents are those of `cluster` as it is now."""
    message = _header(cluster, broker_epoch, base_version)
    if delta.brokers:
        message.brokers = _brokers(cluster)
        message.brokers_included = True
    message.topics = [
        _topic(cluster.topics[name], indexes)
        for name, indexes in delta.topics.items()
        if name in cluster.topics
    ]
    message.deleted_topics = [
        DeletedTopic(name=name, topic_id=topic_id) for name, topic_id in delta.deleted
    ]
    message.configs = [_config(cluster, kind, name) for kind, name in sorted(delta.configs)]
    return message


def _config(cluster: ClusterState, kind: ResourceType, name: str) -> ClusterConfig:
    """All settings of a resource; without any, it has none any more."""
    return ClusterConfig(
        resource_type=kind,
        resource_name=name,
        entries=[
            ClusterConfigEntry(name=k, value=v) for k, v in cluster.configs_of(kind, name).items()
        ],
    )


def _header(cluster: ClusterState, broker_epoch: int, base_version: int) -> UpdateClusterRequest:
    return UpdateClusterRequest(
        controller_id=cluster.controller_id,
        controller_epoch=cluster.controller_epoch,
        broker_epoch=broker_epoch,
        version=cluster.version,
        base_version=base_version,
        cluster_id=cluster.cluster_id,
    )


def _brokers(cluster: ClusterState) -> list[ClusterBroker]:
    return [
        ClusterBroker(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            state=int(broker.state),
            rack=broker.rack,
            endpoints=[
                ClusterEndpoint(
                    name=e.name,
                    host=e.host,
                    port=e.port,
                    security_protocol=SECURITY_PROTOCOLS.index(e.security_protocol),
                )
                for e in broker.endpoints
            ],
        )
        for broker in cluster.brokers.values()
    ]


def _topic(topic: TopicRecord, indexes: Iterable[int] | None) -> ClusterTopic:
    chosen = range(len(topic.partitions)) if indexes is None else sorted(indexes)
    return ClusterTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        configs=[ClusterTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
        partitions=[_partition(index, topic.partitions[index]) for index in chosen],
    )


def _partition(index: int, record: PartitionRecord) -> ClusterPartition:
    return ClusterPartition(
        index=index,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        replicas=list(record.replicas),
        isr=list(record.isr),
        elr=list(record.elr),
        last_known_elr=list(record.last_known_elr),
        adding_replicas=list(record.adding),
        removing_replicas=list(record.removing),
        failed_replicas=list(record.failed),
        controller_epoch=record.controller_epoch,
    )


# ---- message to image -------------------------------------------------------------------


@dataclass(slots=True)
class Applied:
    """The image after a message, and what partitions have to look at."""

    cluster: ClusterState
    changed: list[TopicPartition] = field(default_factory=list)
    deleted: list[tuple[str, bytes]] = field(default_factory=list)


def apply_image(known: ClusterState, message: UpdateClusterRequest) -> Applied | None:
    """Bring `known` up to date; None when the message is a delta that doesn't fit on it.

    A delta changes `known` itself; a full image leaves it alone and makes a new one.
    """
    if message.base_version == NO_BASE:
        return _apply_full(known, message)
    if (
        message.controller_epoch != known.controller_epoch
        or message.base_version != known.version
        or any(_is_gap(known, topic) for topic in message.topics)
    ):
        return None
    return _apply_delta(known, message)


def _apply_full(known: ClusterState, message: UpdateClusterRequest) -> Applied:
    cluster = ClusterState(cluster_id=message.cluster_id)
    applied = Applied(cluster)
    _take_header(cluster, message)
    for topic in message.topics:
        _put_whole_topic(applied, topic)
    _take_configs(cluster, message)
    for name, topic_record in known.topics.items():
        now = cluster.topics.get(name)
        gone = now is None or now.topic_id not in (topic_record.topic_id, ZERO_TOPIC_ID)
        if gone and topic_record.topic_id != ZERO_TOPIC_ID:
            applied.deleted.append((name, topic_record.topic_id))
    return applied


def _take_configs(cluster: ClusterState, message: UpdateClusterRequest) -> None:
    for config in message.configs:
        if config.resource_type in CONFIGURED:
            cluster.put_configs(
                ResourceType(config.resource_type),
                config.resource_name,
                {entry.name: entry.value for entry in config.entries if entry.value is not None},
            )


def _apply_delta(known: ClusterState, message: UpdateClusterRequest) -> Applied:
    applied = Applied(known)
    _take_header(known, message)
    _take_configs(known, message)
    for gone in message.deleted_topics:
        topic = known.topics.get(gone.name)
        if topic is not None and topic.topic_id == gone.topic_id:
            known.remove_topic(gone.name)
        applied.deleted.append((gone.name, gone.topic_id))
    for sent in message.topics:
        record = known.topics.get(sent.name)
        if record is None or record.topic_id != sent.topic_id:
            _put_whole_topic(applied, sent)
            continue
        changed = {partition.index for partition in sent.partitions}
        for partition in sorted(sent.partitions, key=lambda partition: partition.index):
            if partition.index == len(record.partitions):
                record.partitions.append(_record(partition))
            else:
                record.partitions[partition.index] = _record(partition)
        configs = _topic_configs(sent)
        if configs != record.configs:
            record.configs = configs
            changed.update(range(len(record.partitions)))
        applied.changed += [TopicPartition(sent.name, index) for index in sorted(changed)]
    return applied


def _is_gap(known: ClusterState, sent: ClusterTopic) -> bool:
    """Whether `sent` speaks of partitions that can't be placed."""
    record = known.topics.get(sent.name)
    indexes = [partition.index for partition in sent.partitions]
    if record is None or record.topic_id != sent.topic_id:
        return indexes != list(range(len(indexes)))
    known_count = len(record.partitions)
    new = sorted(index for index in indexes if not 0 <= index < known_count)
    return new != list(range(known_count, known_count + len(new)))  # a topic may have grown


def _take_header(cluster: ClusterState, message: UpdateClusterRequest) -> None:
    cluster.controller_id = message.controller_id
    cluster.controller_epoch = message.controller_epoch
    cluster.version = message.version
    if message.brokers_included:
        cluster.brokers = {broker.broker_id: _broker(broker) for broker in message.brokers}


def _put_whole_topic(applied: Applied, sent: ClusterTopic) -> None:
    partitions = [_record(partition) for partition in sent.partitions]
    applied.cluster.put_topic(
        TopicRecord(sent.name, sent.topic_id, partitions, _topic_configs(sent))
    )
    # A topic that the controller can't read has no id: nobody may find it by one.
    applied.cluster.topic_names.pop(ZERO_TOPIC_ID, None)
    applied.changed += [TopicPartition(sent.name, index) for index in range(len(partitions))]


def _topic_configs(sent: ClusterTopic) -> dict[str, str]:
    return {config.name: config.value for config in sent.configs if config.value is not None}


def _broker(sent: ClusterBroker) -> BrokerRecord:
    endpoints = tuple(
        Endpoint(e.name, e.host, e.port, SECURITY_PROTOCOLS[e.security_protocol])
        for e in sent.endpoints
    )
    return BrokerRecord(
        sent.broker_id, sent.broker_epoch, endpoints, sent.rack, BrokerState(sent.state)
    )


def _record(sent: ClusterPartition) -> PartitionRecord:
    return PartitionRecord(
        replicas=tuple(sent.replicas),
        isr=tuple(sent.isr),
        leader=sent.leader,
        leader_epoch=sent.leader_epoch,
        partition_epoch=sent.partition_epoch,
        controller_epoch=sent.controller_epoch,
        elr=tuple(sent.elr),
        last_known_elr=tuple(sent.last_known_elr),
        adding=tuple(sent.adding_replicas),
        removing=tuple(sent.removing_replicas),
        failed=tuple(sent.failed_replicas),
    )
