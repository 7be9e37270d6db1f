"""The controller's committed image of the cluster, and a draft of the next one.

A draft is written against the image without touching it. It turns into one atomic multi; only when
that multi is durable does `ControllerImage.apply` take the draft over, and tells what changed so
that brokers can be told.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from replog.core.controller import reassignment, stored
from replog.core.controller.changes import (
    Change,
    Liveness,
    reconcile,
    replica_begins_anew,
    replica_failed,
    replica_read_only,
    replicas_returned,
)
from replog.core.controller.config_draft import ConfigDraft, Resource
from replog.core.controller.eligible import TopicRules, led_by_suspect, only_suspects
from replog.model.cluster import (
    BrokerLife,
    BrokerRecord,
    BrokerState,
    ClusterState,
    TopicRecord,
)
from replog.model.config_resources import ResourceType
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
    configs: set[Resource] = field(default_factory=set)  # other than topics

    def merge(self, later: "Delta") -> None:
        """Add what changed afterwards."""
        self.brokers = self.brokers or later.brokers
        self.configs |= later.configs
        for name, topic_id in later.deleted:
            self.deleted.append((name, topic_id))
            self.topics.pop(name, None)
        for name, partitions in later.topics.items():
            known = self.topics.get(name, set())
            whole = partitions is None or known is None
            self.topics[name] = None if whole else (known or set()) | (partitions or set())


@dataclass(frozen=True, slots=True)
class Losses:
    """Elections since the cluster began after which committed records may be missing."""

    unclean: int = 0  # somebody out of sync was allowed to lead
    power_cut: int = 0  # all who were in sync came back from a restart of their hosts
    stored: bool = True  # whether there is a node for it


@dataclass(slots=True)
class ControllerImage:
    """What the coordinator holds, as of the last multi that this controller knows to be durable.

    Versions of single nodes are not kept: each multi is fenced by the version of
    `/controller_epoch`, so nobody else can have written in between.
    """

    cluster: ClusterState
    config_nodes: set[str] = field(default_factory=set)  # paths below /config
    broken: dict[str, str] = field(default_factory=dict)  # topics that can't be read, and why
    states_stored: bool = False  # whether the broker table has its node
    # The newest registration of every broker that the controller has dealt with, gone or not.
    lives: dict[int, BrokerLife] = field(default_factory=dict)
    losses: Losses = field(default_factory=lambda: Losses(stored=False))

    @property
    def epoch(self) -> int:
        return self.cluster.controller_epoch

    def apply(self, draft: "Draft") -> Delta:
        """Take over what was committed; the version rises by one."""
        cluster = self.cluster
        delta = Delta()
        for name, topic in draft.deleted.items():
            cluster.remove_topic(name)
            self.config_nodes.discard(stored.topic_config_path(name))
            self.broken.pop(name, None)
            delta.deleted.append((name, topic.topic_id))
        for name, topic in draft.grown.items():
            cluster.topics[name].partitions = list(topic.partitions)
        for tp, record in draft.changed.items():
            cluster.topics[tp.topic].partitions[tp.partition] = record
            indexes = delta.topics.setdefault(tp.topic, set())
            if indexes is not None:
                indexes.add(tp.partition)
        for name, topic in draft.created.items():
            cluster.put_topic(topic)
            self.config_nodes.add(stored.topic_config_path(name))
            delta.topics[name] = None
        for kind, name in draft.configs.apply():
            if kind is ResourceType.TOPIC:
                delta.topics.setdefault(name, set())  # its settings go with it
            else:
                delta.configs.add((kind, name))
        if draft.brokers_changed:
            cluster.brokers = draft.brokers
            self.states_stored = True
            delta.brokers = True
        self.lives.update(draft.lives)
        self.losses = draft.losses
        cluster.version += 1
        return delta


class Draft:
    """Changes to the image that are not committed yet. Reads see them."""

    def __init__(
        self,
        image: ControllerImage,
        *,
        rules: Callable[[Mapping[str, str]], TopicRules] = lambda overrides: TopicRules(),
    ) -> None:
        """`rules` tells from a topic's own settings what holds for it."""
        self._image = image
        self._rules_of = rules
        self._rules: dict[str, TopicRules] = {}
        self.epoch = image.epoch
        self.brokers: dict[int, BrokerRecord] = dict(image.cluster.brokers)
        self.brokers_changed = False
        self.changed: dict[TopicPartition, PartitionRecord] = {}
        self.created: dict[str, TopicRecord] = {}
        self.grown: dict[str, TopicRecord] = {}  # topics with more partitions than before
        self.configs = ConfigDraft(image.cluster, image.config_nodes)
        self.deleted: dict[str, TopicRecord] = {}
        self.unclean: list[TopicPartition] = []  # elections that may have lost committed records
        self.power_cut: dict[TopicPartition, str] = {}  # likewise, with what was compared
        self.lives: dict[int, BrokerLife] = {}  # registrations that are dealt with in this draft
        self.suspects: dict[int, str] = {}  # brokers that may have lost records, and what

    # ---- reading ------------------------------------------------------------------------

    def topic(self, name: str) -> TopicRecord | None:
        """The topic as of this draft; its `partitions` may lag behind `partition()`."""
        created = self.created.get(name)
        if created is not None:
            return created
        grown = self.grown.get(name)
        if grown is not None:
            return grown
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
        others = 2 * len(self.deleted) + len(self.grown) + len(self.configs.changed)
        return len(self.changed) + created + others

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
            grown = self.grown.pop(name, topic)
            self.configs.forget(ResourceType.TOPIC, name)
            for index in range(len(grown.partitions)):
                self.changed.pop(TopicPartition(name, index), None)

    def add_partitions(self, name: str, records: Sequence[PartitionRecord]) -> None:
        """Let a topic that is there have further partitions."""
        topic = self.topic(name)
        if topic is None:
            return
        first = len(topic.partitions)
        larger = replace(topic, partitions=[*topic.partitions, *records])
        if name in self.created:
            self.created[name] = larger
            return
        self.grown[name] = larger
        for index, record in enumerate(records, first):
            self.changed[TopicPartition(name, index)] = record

    def put_configs(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        """Replace the settings of a topic that is there, or of another resource."""
        created = self.created.get(name) if kind is ResourceType.TOPIC else None
        if created is not None:
            created.configs = dict(configs)
        else:
            self.configs.put(kind, name, configs)
        self._rules.clear()

    def configs_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """The settings of a resource as of this draft."""
        created = self.created.get(name) if kind is ResourceType.TOPIC else None
        return self.configs.get(kind, name) if created is None else created.configs

    def former_life(self, broker: int) -> BrokerLife | None:
        """The newest registration of a broker that was dealt with before."""
        return self._image.lives.get(broker)

    def postpone(self, most: int) -> bool:
        """Leave changed partitions beyond `most` for another draft, and the broker table with what
        hangs on it; False when there are none."""
        if len(self.changed) <= most:
            return False
        self.changed = dict(islice(self.changed.items(), most))
        self.unclean = [tp for tp in self.unclean if tp in self.changed]
        self.brokers = dict(self._image.cluster.brokers)
        self.brokers_changed = False
        self.lives, self.suspects = {}, {}
        return True

    def lead_after_power_cut(self, tp: TopicPartition, leader: int, compared: str) -> bool:
        """Let `leader` begin anew, as its log is the greatest; False when that is not needed any
        more, or it can't lead now."""
        record = self.partition(tp)
        broker = self.brokers.get(leader)
        if record is None or not only_suspects(record) or leader not in record.last_known_elr:
            return False
        if broker is None or not broker.eligible or leader in record.failed:
            return False
        self.put_partition(tp, led_by_suspect(record, leader, controller_epoch=self.epoch))
        self.power_cut[tp] = compared
        return True

    def change_isr(self, tp: TopicPartition, record: PartitionRecord) -> PartitionRecord:
        """Store what became of a leader's proposal; a move that this was waiting for ends now."""
        done = self._moved(tp, record)
        self.put_partition(tp, done)
        return done

    def _moved(self, tp: TopicPartition, record: PartitionRecord) -> PartitionRecord:
        min_isr = self.rules(tp.topic).min_isr if record.adding or record.removing else 1
        done = reassignment.complete(
            record, self.liveness.eligible, controller_epoch=self.epoch, min_isr=min_isr
        )
        return done or record

    @property
    def losses(self) -> Losses:
        """As of this draft."""
        before = self._image.losses
        if not self.unclean and not self.power_cut:
            return before
        return Losses(before.unclean + len(self.unclean), before.power_cut + len(self.power_cut))

    def replica_damaged(
        self, tp: TopicPartition, broker: int, *, leader_epoch: int, readable: bool
    ) -> None:
        """`broker` says that its log of a partition is damaged, and asks to begin it anew. One that
        can be read leads on while nobody else can."""
        record = self.partition(tp)
        if record is None or record.leader_epoch != leader_epoch:
            return  # it has not heard of all that happened: it tells of it again, if still so
        change = replica_begins_anew(
            record,
            broker,
            self.liveness,
            controller_epoch=self.epoch,
            min_isr=self.rules(tp.topic).min_isr,
        )
        if change is None and not readable:
            self.replica_offline(tp, broker, readable=False)
        self.put_change(tp, change)

    def replica_offline(self, tp: TopicPartition, broker: int, *, readable: bool) -> None:
        """`broker` says that its log of a partition can't be used, or only be read."""
        record = self.partition(tp)
        if record is None:
            return
        rule = replica_read_only if readable else replica_failed
        rules = self.rules(tp.topic)
        change = rule(
            record,
            broker,
            self.liveness,
            unclean=rules.unclean,
            controller_epoch=self.epoch,
            min_isr=rules.min_isr,
        )
        self.put_change(tp, change)

    def replica_usable(self, tp: TopicPartition, broker: int) -> None:
        """`broker` could open its log of a partition after all: for this one it registers anew."""
        record = self.partition(tp)
        if record is None:
            return
        returned = replicas_returned(record, (broker,), controller_epoch=self.epoch)
        if returned is not None:
            self.put_partition(tp, returned)
            self.reconcile([(tp, returned)])

    def set_broker_state(self, broker: int, state: BrokerState) -> None:
        """Move a registered broker to `state`, and partitions with it."""
        self.brokers[broker] = replace(self.brokers[broker], state=state)
        self.brokers_changed = True
        self.reconcile()

    def reconcile(
        self, partitions: Iterable[tuple[TopicPartition, PartitionRecord]] | None = None
    ) -> None:
        """Bring every partition, or each of `partitions`, into line with the broker table."""
        liveness = self.liveness
        for tp, record in list(self.partitions() if partitions is None else partitions):
            rules = self.rules(tp.topic)
            change = reconcile(
                record,
                liveness,
                unclean=rules.unclean,
                controller_epoch=self.epoch,
                min_isr=rules.min_isr,
            )
            self.put_change(tp, change)
            now = record if change is None else change.record
            moved = self._moved(tp, now)
            if moved is not now:
                self.put_partition(tp, moved)

    def put_change(self, tp: TopicPartition, change: Change | None) -> None:
        """Take a change over, and count it when it is an unclean election."""
        if change is not None:
            self.put_partition(tp, change.record)
            if change.unclean:
                self.unclean.append(tp)

    def rules(self, name: str) -> TopicRules:
        """What holds for elections of a topic."""
        found = self._rules.get(name)
        if found is None:
            overrides = self.configs_of(ResourceType.TOPIC, name)
            found = self._rules[name] = self._rules_of(overrides)
        return found

    # ---- what is to be stored -----------------------------------------------------------

    def operations(self) -> list[Operation]:
        """The multi, without its check of the controller epoch."""
        operations: list[Operation] = []
        for name in self.deleted:
            operations.append(Delete(stored.topic_path(name), recursive=True))
            if stored.topic_config_path(name) in self._image.config_nodes:
                operations.append(Delete(stored.topic_config_path(name), recursive=True))
        for topic in self.created.values():
            operations.extend(self._creation(topic))
        for name in self._moved_topics():
            operations.append(SetData(stored.topic_path(name), self._topic_node(name)))
        operations.extend(self.configs.operations())
        for tp, record in self.changed.items():
            topic_id = self._image.cluster.topics[tp.topic].topic_id
            data = stored.encode_partition(record, topic_id)
            there = tp.partition < len(self._image.cluster.topics[tp.topic].partitions)
            path = stored.partition_path(tp)
            operations.append(SetData(path, data) if there else Create(path, data))
        if self.brokers_changed:
            data = stored.encode_broker_states(self.brokers)
            if self._image.states_stored:
                operations.append(SetData(stored.BROKER_STATES, data))
            else:
                operations.append(Create(stored.BROKER_STATES, data))
        for broker, life in sorted(self.lives.items()):
            path = stored.broker_life_path(broker)
            known = broker in self._image.lives
            data = stored.encode_broker_life(life)
            operations.append(SetData(path, data) if known else Create(path, data))
        if self.unclean or self.power_cut:
            data = stored.encode_losses(self.losses.unclean, self.losses.power_cut)
            known = self._image.losses.stored
            make = SetData if known else Create
            operations.append(make(stored.LOSSES, data))
        return operations

    def _moved_topics(self) -> list[str]:
        """Topics of which a partition has other replicas than before, or is new."""
        topics = self._image.cluster.topics
        moved: dict[str, None] = dict.fromkeys(self.grown)
        for tp, record in self.changed.items():
            if tp.topic in moved:
                continue
            before = topics[tp.topic].partitions[tp.partition]
            if (before.replicas, before.adding, before.removing) != (
                record.replicas,
                record.adding,
                record.removing,
            ):
                moved[tp.topic] = None
        return list(moved)

    def _topic_node(self, name: str) -> bytes:
        topic = self.grown.get(name) or self._image.cluster.topics[name]
        partitions = [
            self.changed.get(TopicPartition(name, index), record)
            for index, record in enumerate(topic.partitions)
        ]
        return stored.encode_topic(replace(topic, partitions=partitions))

    def _creation(self, topic: TopicRecord) -> Iterator[Operation]:
        yield Create(stored.topic_path(topic.name), stored.encode_topic(topic))
        for index, record in enumerate(topic.partitions):
            path = stored.partition_path(TopicPartition(topic.name, index))
            yield Create(path, stored.encode_partition(record, topic.topic_id))
        configs = stored.encode_configs(topic.configs)
        # Configurations without a topic were put there by hand: they make room for those of this
        # topic.
        path = stored.topic_config_path(topic.name)
        if path in self._image.config_nodes and topic.name not in self.deleted:
            yield SetData(path, configs)
        else:
            yield Create(path, configs)


def offline_topic(name: str) -> TopicRecord:
    """Stands for a topic that can't be read: it is there, but it has no id and no partitions."""
    return TopicRecord(name, ZERO_TOPIC_ID, [])
