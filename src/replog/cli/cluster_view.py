"""What brokers say about the cluster, gathered into plain values for printing and checking.

Each broker may be asked alone: that the answers agree is not taken for granted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from replog.cli.errors import Failure
from replog.model.errors import ErrorCode
from replog.model.ids import NO_OFFSET, topic_id_text
from replog.model.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from replog.model.messages.describe_replicas import (
    DescribedReplica,
    DescribeReplicasRequest,
    DescribeReplicasResponse,
    DescribeReplicasTopic,
)
from replog.model.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from replog.runtime.client import AdminClient, ClientError, error_name

TOPIC_RESOURCE = 2  # resource type of DescribeConfigs


@dataclass(slots=True)
class ReplicaView:
    """One replica as its own broker describes it."""

    broker: int
    role: str = "unreachable"
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    high_watermark: int | None = None
    leader_epoch: int | None = None
    caught_up_ms_ago: int | None = None  # as the leader knows it; None for the leader itself


@dataclass(slots=True)
class PartitionView:
    """One partition as metadata describes it, with its replicas in AR order."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()  # may lead although they left the ISR (KIP-966)
    details: list[ReplicaView] = field(default_factory=list)

    @property
    def osr(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.isr)


@dataclass(slots=True)
class TopicView:
    """One topic as metadata describes it."""

    name: str
    topic_id: str
    internal: bool
    partitions: list[PartitionView]
    min_insync_replicas: int = 1

    @property
    def replication_factor(self) -> int:
        return max((len(p.replicas) for p in self.partitions), default=0)

    @property
    def promise(self) -> int:
        """m of the promise: an acknowledged record survives the loss of m - 1 replicas' disks."""
        return min(self.min_insync_replicas, self.replication_factor)

    @property
    def offline(self) -> int:
        return sum(1 for p in self.partitions if p.leader < 0)

    @property
    def under_replicated(self) -> int:
        return sum(1 for p in self.partitions if p.osr)


@dataclass(frozen=True, slots=True)
class Losses:
    """Elections since the cluster began after which committed records may be missing."""

    unclean: int  # a replica out of sync was allowed to lead
    power_cut: int  # the hosts of all replicas in sync had restarted, or their disks had failed


@dataclass(frozen=True, slots=True)
class FolderView:
    """A log folder that is not in order, as its broker says."""

    broker: int
    path: str
    state: str  # online, full (only read from) or failed
    reason: str
    replicas: int  # in it
    strays: tuple[str, ...]  # folders in it that belong to no topic, and are kept

    @property
    def usable(self) -> bool:
        """Records can be written to it."""
        return self.state == "online"


@dataclass(frozen=True, slots=True)
class DamagedLogView:
    """A log that is not as it was written, as its broker says."""

    broker: int
    partition: str
    reason: str


@dataclass(slots=True)
class Troubles:
    """What brokers say of themselves. Who is silent is left out: that is another matter."""

    coordinator_away_s: dict[int, float] = field(default_factory=dict)  # who can't use it
    folders: list[FolderView] = field(default_factory=list)
    damaged: list[DamagedLogView] = field(default_factory=list)


def troubles(client: AdminClient, brokers: Iterable[int]) -> Troubles:
    """Ask each of the brokers."""
    found = Troubles()
    for broker in brokers:
        try:
            answer = client.call(DescribeReplicasRequest(topics=[]), broker=broker)
        except ClientError:
            continue
        if not isinstance(answer, DescribeReplicasResponse):
            continue
        if answer.coordinator_away_ms >= 0:
            found.coordinator_away_s[broker] = answer.coordinator_away_ms / 1000
        found.damaged += [
            DamagedLogView(broker, f"{log.topic}-{log.index}", log.reason)
            for log in answer.damaged_logs
        ]
        found.folders += [
            FolderView(broker, f.path, f.state, f.reason, f.replicas, tuple(f.strays))
            for f in answer.log_folders
        ]
    return found


def losses(client: AdminClient, controller: int) -> Losses | None:
    """As the controller counts them; None when it can't be asked."""
    try:
        answer = client.call(DescribeReplicasRequest(topics=[]), broker=controller)
    except ClientError:
        return None
    if not isinstance(answer, DescribeReplicasResponse) or answer.unclean_elections < 0:
        return None
    return Losses(answer.unclean_elections, answer.bounded_losses)


def explain(code: int, message: str | None = None) -> str:
    """An error code in words: its name, and what the broker said about it."""
    return f"{message} ({error_name(code)})" if message else error_name(code)


def metadata(
    client: AdminClient, names: Iterable[str] | None = None, *, broker: int | None = None
) -> MetadataResponse:
    """Metadata of `names` (None: all topics), from `broker` or from any."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    response = client.call(
        MetadataRequest(topics=topics, allow_auto_topic_creation=False), broker=broker
    )
    if not isinstance(response, MetadataResponse):
        raise Failure(f"the broker answered {type(response).__name__} to a metadata request")
    return response


def topics(client: AdminClient, names: Sequence[str] | None = None) -> list[TopicView]:
    """Topics by name, all or those named. Raises Failure for one that is not there."""
    response = metadata(client, names)
    views = []
    for topic in response.topics:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Failure(f"there is no topic {topic.name!r} ({ErrorCode(3).name})")
        if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            raise Failure(f"topic {topic.name!r}: {explain(topic.error_code)}")
        views.append(topic_view(topic))
    _add_promises(client, views)
    return sorted(views, key=lambda view: view.name)


def topic_view(topic: MetadataResponseTopic) -> TopicView:
    """One topic of a metadata answer."""
    partitions = [
        PartitionView(
            index=p.partition_index,
            leader=p.leader_id,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
            offline=tuple(p.offline_replicas),
        )
        for p in topic.partitions
    ]
    return TopicView(
        name=topic.name or "",
        topic_id=topic_id_text(topic.topic_id),
        internal=topic.is_internal,
        partitions=sorted(partitions, key=lambda p: p.index),
    )


def add_eligible(client: AdminClient, views: Sequence[TopicView]) -> None:
    """Add who may lead although it left the ISR, which metadata does not tell."""
    partitions = {(view.name, p.index): p for view in views for p in view.partitions}
    cursor = None
    while partitions:
        answer = client.call(
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=view.name) for view in views], cursor=cursor
            )
        )
        if not isinstance(answer, DescribeTopicPartitionsResponse):
            return
        for topic in answer.topics:
            for told in topic.partitions:
                partition = partitions.get((topic.name or "", told.partition_index))
                if partition is not None:
                    partition.elr = tuple(told.eligible_leader_replicas or ())
        if answer.next_cursor is None:
            return
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )


def _add_promises(client: AdminClient, views: Sequence[TopicView]) -> None:
    if not views:
        return
    resources = [
        DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE,
            resource_name=view.name,
            configuration_keys=["min.insync.replicas"],
        )
        for view in views
    ]
    response = client.call(DescribeConfigsRequest(resources=resources))
    if not isinstance(response, DescribeConfigsResponse):
        return
    values = {
        result.resource_name: int(config.value)
        for result in response.results
        for config in result.configs
        if config.name == "min.insync.replicas" and config.value
    }
    for view in views:
        view.min_insync_replicas = values.get(view.name, 1)


def add_replicas(client: AdminClient, views: Sequence[TopicView]) -> None:
    """Ask every broker that holds a replica for it; a broker that does not answer stays so."""
    request = DescribeReplicasRequest(
        topics=[
            DescribeReplicasTopic(name=view.name, partitions=[p.index for p in view.partitions])
            for view in views
        ]
    )
    holders = {b for view in views for p in view.partitions for b in p.replicas}
    found: dict[tuple[int, str, int], DescribedReplica] = {}
    for broker in sorted(holders):
        try:
            answer = client.call(request, broker=broker)
        except ClientError:
            continue  # shown as unreachable: that a broker is down must not hide the others
        if isinstance(answer, DescribeReplicasResponse):
            for topic in answer.topics:
                for replica in topic.partitions:
                    found[broker, topic.name, replica.index] = replica
    for view in views:
        for partition in view.partitions:
            partition.details = _details(view.name, partition, found)


def _details(
    topic: str, partition: PartitionView, found: dict[tuple[int, str, int], DescribedReplica]
) -> list[ReplicaView]:
    leader = found.get((partition.leader, topic, partition.index))
    progress = {p.broker_id: p.caught_up_ms_ago for p in leader.caught_up_ms_ago} if leader else {}
    details = []
    for broker in partition.replicas:
        replica = found.get((broker, topic, partition.index))
        if replica is None:
            details.append(ReplicaView(broker))
        elif replica.error_code:
            details.append(ReplicaView(broker, role=error_name(replica.error_code).lower()))
        else:
            details.append(
                ReplicaView(
                    broker,
                    role=replica.role,
                    log_start_offset=replica.log_start_offset,
                    log_end_offset=replica.log_end_offset,
                    high_watermark=_known(replica.high_watermark),
                    leader_epoch=replica.leader_epoch,
                    caught_up_ms_ago=progress.get(broker),
                )
            )
    return details


def _known(offset: int) -> int | None:
    return None if offset == NO_OFFSET else offset
