"""The state of the cluster: what the controller decides and every broker is told.

`ClusterState` is the same type at both ends. The controller owns one and changes it after each
commit; a broker holds the copy that `UpdateCluster` messages keep up to date. Nobody else writes
it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from replog.model.config_resources import ResourceType
from replog.model.ids import NO_BROKER, NO_EPOCH, TopicPartition
from replog.model.partition import PartitionRecord


class BrokerState(IntEnum):
    """Life of a broker as the controller sees it (KIP-841).

    A registration begins as ACTIVE, or as FENCED when the controller has ended the one before as
    the broker did not answer. Legal transitions: FENCED -> ACTIVE (it has answered), and either ->
    CONTROLLED_SHUTDOWN. A broker in FENCED or CONTROLLED_SHUTDOWN leads nothing new and joins no
    ISR.
    """

    FENCED = 1
    ACTIVE = 2
    CONTROLLED_SHUTDOWN = 3


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker as others reach it."""

    name: str  # listener name, e.g. PLAINTEXT
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerLife:
    """One registration as far as it tells whether the broker may have lost records since the one
    before (mission rule 13). Empty texts: not known."""

    broker_epoch: int  # of the registration
    boot_id: str = ""  # of the host
    folder_id: str = ""  # of the log folders, made up when they are new, with commas between them
    incarnation: str = ""  # of the process
    stopped_epoch: int = NO_EPOCH  # of the registration after which it stopped cleanly before


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """One registered broker."""

    broker_id: int
    broker_epoch: int  # number of this registration; greater than that of any earlier one
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    state: BrokerState = BrokerState.ACTIVE
    life: BrokerLife | None = field(default=None, compare=False)  # known to the controller alone

    @property
    def eligible(self) -> bool:
        """May lead partitions and join an ISR."""
        return self.state is BrokerState.ACTIVE

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of `listener`, or None when the broker does not have that listener."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return None


@dataclass(slots=True)
class TopicRecord:
    """One topic. `partitions[i]` is partition i."""

    name: str
    topic_id: bytes
    partitions: list[PartitionRecord]
    configs: dict[str, str] = field(default_factory=dict)  # topic-level overrides only


@dataclass(slots=True)
class ClusterState:
    """Everything that is cluster-wide, at one version of one controller."""

    cluster_id: str = ""
    controller_id: int = NO_BROKER
    controller_epoch: int = NO_EPOCH
    version: int = -1  # rises with every change pushed by this controller epoch
    brokers: dict[int, BrokerRecord] = field(default_factory=dict)
    topics: dict[str, TopicRecord] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)  # topic id -> name
    # dynamic configurations of brokers: broker id as text, "" for the cluster-wide default
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)  # by group id
    client_metrics: dict[str, dict[str, str]] = field(default_factory=dict)  # by subscription

    def configs(self, kind: ResourceType) -> dict[str, dict[str, str]]:
        """All settings of resources of a kind that are no topics, by name."""
        match kind:
            case ResourceType.BROKER:
                return self.broker_configs
            case ResourceType.GROUP:
                return self.group_configs
            case ResourceType.CLIENT_METRICS:
                return self.client_metrics
        raise ValueError(f"{kind.name} has no table of settings")

    def configs_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """The settings of one resource; empty when there are none."""
        if kind is ResourceType.TOPIC:
            topic = self.topics.get(name)
            return {} if topic is None else topic.configs
        return self.configs(kind).get(name, {})

    def put_configs(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        """Replace the settings of a topic that is there, or of another resource."""
        if kind is ResourceType.TOPIC:
            self.topics[name].configs = dict(configs)
        elif configs:
            self.configs(kind)[name] = dict(configs)
        else:
            self.configs(kind).pop(name, None)

    def put_topic(self, topic: TopicRecord) -> None:
        """Add `topic`, or replace the one of the same name (also when it has another id)."""
        previous = self.topics.get(topic.name)
        if previous is not None:
            self.topic_names.pop(previous.topic_id, None)
        self.topics[topic.name] = topic
        self.topic_names[topic.topic_id] = topic.name

    def remove_topic(self, name: str) -> None:
        """Forget the topic; does nothing when it is not there."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self.topic_names.pop(topic.topic_id, None)

    def partition(self, tp: TopicPartition) -> PartitionRecord | None:
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionRecord]]:
        """Every partition of every topic."""
        for name, topic in self.topics.items():
            for index, record in enumerate(topic.partitions):
                yield TopicPartition(name, index), record

    def alive(self) -> frozenset[int]:
        """Ids of the brokers that may lead and be in an ISR."""
        return frozenset(b.broker_id for b in self.brokers.values() if b.eligible)
