"""The controller's committed image of the cluster, and a draft of the next one.

A draft is written against the image without touching it. It turns into one atomic multi; only when
that multi is durable does `ControllerImage.apply` take the draft over, and tells what changed so
that brokers can be told.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from replog.core.controller import stored
from replog.core.controller.changes import (
    Change,
    Liveness,
    reconcile,
    replica_failed,
    replica_read_only,
    replicas_returned,
)
from replog.model.cluster import BrokerRecord, BrokerState, ClusterState, TopicRecord
from replog.model.coordination import Create, Delete, Operation, SetData
from replog.model.ids import ZERO_TOPIC_ID, TopicPartition
from replog.model.partition import PartitionRecord


@dataclass(slots=True)
class Delta:
    """What differs between two versions of the image. A topic maps to the indexes of its changed
    partitions, or to None when it is to be sent whole."""

    brokers: bool = False
    topics: dict[str, set[int] | None] = field(default_factory=dict)
    deleted: list[tuple[str, bytes]] = field(default_factory=list)  # name, topic id

    def merge(self, later: "Delta") -> None:
        """Add what changed afterwards."""
        self.brokers = self.brokers or later.brokers
        for name, topic_id in later.deleted:
            self.deleted.append((name, topic_id))
            self.topics.pop(name, None)
        for name, partitions in later.topics.items():
            known = self.topics.get(name, set())
            whole = partitions is None or known is None
            self.topics[name] = None if whole else (known or set()) | (partitions or set())


@dataclass(slots=True)
class ControllerImage:
    """What the coordinator holds, as of the last multi that this controller knows to be durable.

    Versions of single nodes are not kept: each multi is fenced by the version of
    `/controller_epoch`, so nobody else can have written in between.
    """

    cluster: ClusterState
    config_nodes: set[str] = field(default_factory=set)  # topics with a node under /config/topics
    broken: dict[str, str] = field(default_factory=dict)  # topics that can't be read, and why
    states_stored: bool = False  # whether the broker table has its node

    @property
    def epoch(self) -> int:
        return self.cluster.controller_epoch

    def apply(self, draft: "Draft") -> Delta:
        """Take over what was committed; the version rises by one."""
        cluster = self.cluster
        delta = Delta()
        for name, topic in draft.deleted.items():
            cluster.remove_topic(name)
            self.config_nodes.discard(name)
            self.broken.pop(name, None)
            delta.deleted.append((name, topic.topic_id))
        for tp, record in draft.changed.items():
            cluster.topics[tp.topic].partitions[tp.partition] = record
            indexes = delta.topics.setdefault(tp.topic, set())
            if indexes is not None:
                indexes.add(tp.partition)
        for name, topic in draft.created.items():
            cluster.put_topic(topic)
            self.config_nodes.add(name)
            delta.topics[name] = None
        if draft.brokers_changed:
            cluster.brokers = draft.brokers
            self.states_stored = True
            delta.brokers = True
        cluster.version += 1
        return delta


class Draft:
    """Changes to the image that are not committed yet. Reads see them."""

    def __init__(self, image: ControllerImage, *, unclean_default: bool) -> None:
        self._image = image
        self._unclean_default = unclean_default
        self.epoch = image.epoch
        self.brokers: dict[int, BrokerRecord] = dict(image.cluster.brokers)
        self.brokers_changed = False
        self.changed: dict[TopicPartition, PartitionRecord] = {}
        self.created: dict[str, TopicRecord] = {}
        self.deleted: dict[str, TopicRecord] = {}
        self.unclean: list[TopicPartition] = []  # elections that may have lost committed records

    # ---- reading ------------------------------------------------------------------------

    def topic(self, name: str) -> TopicRecord | None:
        """The topic as of this draft; its `partitions` may lag behind `partition()`."""
        created = self.created.get(name)
        if created is not None:
            return created
        return None if name in self.deleted else self._image.cluster.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicRecord | None:
        """The topic with this id, as of this draft."""
        for topic in self.created.values():
            if topic.topic_id == topic_id:
                return topic
        name = self._image.cluster.topic_names.get(topic_id)
        if name is None or name in self.deleted:
            return None
        return self._image.cluster.topics[name]

    def topic_names(self) -> Iterator[str]:
        """Every topic there is, those that can't be read included."""
        for name in self._image.cluster.topics:
            if name not in self.deleted:
                yield name
        yield from self.created

    def is_broken(self, name: str) -> bool:
        """Whether the topic is there but can't be read."""
        return name in self._image.broken and name not in self.deleted

    def partition(self, tp: TopicPartition) -> PartitionRecord | None:
        """The record as of this draft."""
        record = self.changed.get(tp)
        if record is not None:
            return record
        topic = self.topic(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            return None
        return topic.partitions[tp.partition]

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionRecord]]:
        """Every partition as of this draft."""
        for name in list(self.topic_names()):
            topic = self.topic(name)
            if topic is not None:
                for index, record in enumerate(topic.partitions):
                    tp = TopicPartition(name, index)
                    yield tp, self.changed.get(tp, record)

    @property
    def liveness(self) -> Liveness:
        return Liveness.of(self.brokers)

    @property
    def size(self) -> int:
        """About how many operations the multi will have."""
        created = sum(len(topic.partitions) + 2 for topic in self.created.values())
        return len(self.changed) + created + 2 * len(self.deleted)

    # ---- writing ------------------------------------------------------------------------

    def put_partition(self, tp: TopicPartition, record: PartitionRecord) -> None:
        """Replace the record of a partition that is there."""
        created = self.created.get(tp.topic)
        if created is not None:
            created.partitions[tp.partition] = record
        else:
            self.changed[tp] = record

    def create_topic(self, topic: TopicRecord) -> None:
        """Add a topic whose name is free."""
        self.created[topic.name] = topic

    def delete_topic(self, name: str) -> None:
        """Remove a topic that is there."""
        created = self.created.pop(name, None)
        if created is None:
            topic = self._image.cluster.topics[name]
            self.deleted[name] = topic
            for index in range(len(topic.partitions)):
                self.changed.pop(TopicPartition(name, index), None)

    def registrations(self, registered: dict[int, BrokerRecord]) -> None:
        """Bring the broker table into line with who is registered, and partitions with it.

        A registration with another epoch is a restart: the broker went down, and came up again. A
        broker that is known keeps its state until it is gone.
        """
        gone = {
            broker
            for broker, record in self.brokers.items()
            if broker not in registered or registered[broker].broker_epoch != record.broker_epoch
        }
        if gone:
            self.brokers = {b: r for b, r in self.brokers.items() if b not in gone}
            self.brokers_changed = True
            self.reconcile()
        came = {broker: r for broker, r in registered.items() if broker not in self.brokers}
        if came:
            self.brokers.update(came)
            self.brokers_changed = True
            self._believe_again(came)
            self.reconcile()

    def _believe_again(self, came: Collection[int]) -> None:
        """Brokers that came up have not said yet that a log of theirs can't be used."""
        for tp, record in list(self.partitions()):
            returned = replicas_returned(record, came, controller_epoch=self.epoch)
            if returned is not None:
                self.put_partition(tp, returned)

    def replica_offline(self, tp: TopicPartition, broker: int, *, readable: bool) -> None:
        """`broker` says that its log of a partition can't be used, or only be read."""
        record = self.partition(tp)
        if record is None:
            return
        rule = replica_read_only if readable else replica_failed
        unclean = self._unclean(tp.topic)
        self._put(
            tp, rule(record, broker, self.liveness, unclean=unclean, controller_epoch=self.epoch)
        )

    def set_broker_state(self, broker: int, state: BrokerState) -> None:
        """Move a registered broker to `state`, and partitions with it."""
        self.brokers[broker] = replace(self.brokers[broker], state=state)
        self.brokers_changed = True
        self.reconcile()

    def reconcile(self) -> None:
        """Bring every partition into line with the broker table."""
        liveness = self.liveness
        for tp, record in list(self.partitions()):
            change = reconcile(
                record,
                liveness,
                unclean=self._unclean(tp.topic),
                controller_epoch=self.epoch,
            )
            self._put(tp, change)

    def _put(self, tp: TopicPartition, change: Change | None) -> None:
        if change is not None:
            self.put_partition(tp, change.record)
            if change.unclean:
                self.unclean.append(tp)

    def _unclean(self, name: str) -> bool:
        topic = self.topic(name)
        override = topic.configs.get("unclean.leader.election.enable") if topic else None
        return self._unclean_default if override is None else override.strip().lower() == "true"

    # ---- what is to be stored -----------------------------------------------------------

    def operations(self) -> list[Operation]:
        """The multi, without its check of the controller epoch."""
        operations: list[Operation] = []
        for name in self.deleted:
            operations.append(Delete(stored.topic_path(name), recursive=True))
            if name in self._image.config_nodes:
                operations.append(Delete(stored.topic_config_path(name), recursive=True))
        for topic in self.created.values():
            operations.extend(self._creation(topic))
        for tp, record in self.changed.items():
            topic_id = self._image.cluster.topics[tp.topic].topic_id
            data = stored.encode_partition(record, topic_id)
            operations.append(SetData(stored.partition_path(tp), data))
        if self.brokers_changed:
            data = stored.encode_broker_states(self.brokers)
            if self._image.states_stored:
                operations.append(SetData(stored.BROKER_STATES, data))
            else:
                operations.append(Create(stored.BROKER_STATES, data))
        return operations

    def _creation(self, topic: TopicRecord) -> Iterator[Operation]:
        yield Create(stored.topic_path(topic.name), stored.encode_topic(topic))
        for index, record in enumerate(topic.partitions):
            path = stored.partition_path(TopicPartition(topic.name, index))
            yield Create(path, stored.encode_partition(record, topic.topic_id))
        configs = stored.encode_configs(topic.configs)
        # Configurations without a topic were put there by hand: they make room for those of this
        # topic.
        if topic.name in self._image.config_nodes and topic.name not in self.deleted:
            yield SetData(stored.topic_config_path(topic.name), configs)
        else:
            yield Create(stored.topic_config_path(topic.name), configs)


def offline_topic(name: str) -> TopicRecord:
    """Stands for a topic that can't be read: it is there, but it has no id and no partitions."""
    return TopicRecord(name, ZERO_TOPIC_ID, [])
