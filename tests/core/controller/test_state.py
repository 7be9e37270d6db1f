"""Drafts against a store in memory: whatever is committed, a later load finds it again."""

from collections.abc import Mapping

import pytest

from replog.core.controller import stored
from replog.core.controller.changes import new_partition
from replog.core.controller.eligible import TopicRules
from replog.core.controller.loading import ROOTS, Loaded, load_image
from replog.core.controller.registrations import take_registrations
from replog.core.controller.state import Delta, Draft
from replog.model.cluster import BrokerRecord, BrokerState, Endpoint, TopicRecord
from replog.model.coordination import Create, WriteDone
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.partition import PartitionRecord
from replog.sim.mem_coordination import MemTree

T0 = TopicPartition("t", 0)


def broker(broker_id: int, epoch: int) -> BrokerRecord:
    return BrokerRecord(broker_id, epoch, (Endpoint("PLAINTEXT", "h", 9092 + broker_id),))


def rules_of(overrides: Mapping[str, str], *, unclean: bool = False) -> TopicRules:
    """What the tests' topics say in their settings."""
    return TopicRules(
        min_isr=int(overrides.get("min.insync.replicas", "1")),
        unclean=overrides.get("unclean.leader.election.enable", str(unclean)).lower() == "true",
        durable=overrides.get("replog.durability") == "fsync",
    )


class Store:
    """A coordinator with one controller after the other."""

    def __init__(self) -> None:
        self.tree = MemTree()
        self.epoch = 0
        self.loaded = self.load()

    def load(self) -> Loaded:
        self.epoch += 1
        self.loaded = load_image(
            self.tree.read(ROOTS), cluster_id="c", controller_id=9, epoch=self.epoch
        )
        return self.loaded

    def draft(self, *, unclean: bool = False) -> Draft:
        return Draft(
            self.loaded.image, rules=lambda overrides: rules_of(overrides, unclean=unclean)
        )

    def commit(self, draft: Draft) -> Delta:
        result, _ = self.tree.write(None, draft.operations())
        assert isinstance(result, WriteDone), result
        delta = self.loaded.image.apply(draft)
        self.check()
        return delta

    def check(self) -> None:
        """A load finds the very image that was committed."""
        again = load_image(
            self.tree.read(ROOTS), cluster_id="c", controller_id=9, epoch=self.epoch
        ).image.cluster
        mine = self.loaded.image.cluster
        assert again.topics == mine.topics
        assert again.topic_names == mine.topic_names
        table = {b: (r.broker_epoch, r.state) for b, r in mine.brokers.items()}
        assert {b: (r.broker_epoch, r.state) for b, r in again.brokers.items()} == table

    def register(self, **epochs: int) -> Delta:
        draft = self.draft()
        take_registrations(draft, {int(n[1:]): broker(int(n[1:]), e) for n, e in epochs.items()})
        return self.commit(draft)

    def create(
        self, name: str, *replicas: tuple[int, ...], topic_id: int = 1, **configs: str
    ) -> Delta:
        draft = self.draft()
        named = {key.replace("__", "."): value for key, value in configs.items()}
        draft.create_topic(topic(draft, name, *replicas, topic_id=topic_id, configs=named))
        return self.commit(draft)

    def state_of(self, broker_id: int) -> BrokerState:
        return self.loaded.image.cluster.brokers[broker_id].state

    def record(self, tp: TopicPartition = T0) -> tuple[int, tuple[int, ...], int]:
        record = self.loaded.image.cluster.partition(tp)
        assert record is not None
        return record.leader, record.isr, record.leader_epoch


def topic(
    draft: Draft,
    name: str,
    *replicas: tuple[int, ...],
    topic_id: int = 1,
    configs: dict[str, str] | None = None,
) -> TopicRecord:
    eligible = draft.liveness.eligible
    partitions = [new_partition(r, eligible, controller_epoch=draft.epoch) for r in replicas]
    return TopicRecord(name, bytes([topic_id]) * 16, partitions, configs or {})


@pytest.fixture
def store() -> Store:
    store = Store()
    store.register(b0=10, b1=11, b2=12)
    store.create("t", (1, 0, 2), (2, 1, 0), (0, 2, 1))
    return store


def test_the_walk_through(store: Store) -> None:
    def leaders() -> list[int]:
        return [store.record(TopicPartition("t", p))[0] for p in range(3)]

    assert leaders() == [1, 2, 0]
    store.register(b1=11, b2=12)
    assert leaders() == [1, 2, 2]
    store.register(b1=11)
    assert leaders() == [1, 1, 1]
    store.register(b0=13, b1=11)
    assert leaders() == [1, 1, 1]
    assert store.record() == (1, (1,), 0)


def test_a_creation_is_sent_whole_and_a_change_by_partition(store: Store) -> None:
    delta = store.create("u", (0,), topic_id=2)
    assert delta.topics == {"u": None}
    delta = store.register(b1=11, b2=12)
    assert delta.brokers
    assert delta.topics == {"t": {0, 1, 2}, "u": {0}}


def test_a_restart_between_two_looks_is_down_and_up(store: Store) -> None:
    store.register(b0=10, b1=20, b2=12)
    # Broker 1 led partition 0 in its earlier life: somebody else leads, and it is out of the ISR.
    assert store.record() == (0, (0, 2), 1)


def test_a_restarted_last_member_leads_in_a_new_epoch(store: Store) -> None:
    store.register(b1=11)
    assert store.record() == (1, (1,), 0)
    store.register(b1=20)
    assert store.record() == (1, (1,), 2)


def test_all_die_at_once_and_any_member_of_the_isr_may_return_first(store: Store) -> None:
    store.register()
    assert store.record() == (NO_LEADER, (1, 0, 2), 1)
    store.register(b2=20)
    assert store.record() == (2, (2,), 2)
    store.register(b0=21, b1=22, b2=20)
    assert store.record() == (2, (2,), 2)


def test_all_die_one_by_one_and_only_the_last_may_lead(store: Store) -> None:
    store.register(b1=11, b2=12)
    store.register(b2=12)
    store.register()
    assert store.record() == (NO_LEADER, (2,), 2)
    store.register(b0=20, b1=21)
    assert store.record() == (NO_LEADER, (2,), 2)
    store.register(b0=20, b1=21, b2=22)
    assert store.record() == (2, (2,), 3)


def test_a_new_controller_sees_a_restart_that_nobody_else_saw(store: Store) -> None:
    store.load()
    store.register(b0=10, b1=20, b2=12)
    assert store.record() == (0, (0, 2), 1)


def test_a_new_controller_without_the_broker_table_takes_all_for_restarted(store: Store) -> None:
    del store.tree.nodes[stored.BROKER_STATES]
    store.load()
    store.register(b0=10, b1=11, b2=12)
    leader, isr, epoch = store.record()
    assert (leader, set(isr)) == (1, {0, 1, 2})
    assert epoch > 0


def test_a_broken_broker_table_is_reported(store: Store) -> None:
    store.tree.nodes[stored.BROKER_STATES] = store.tree.nodes["/brokers/topics/t"]
    assert any("restarted" in text for text in store.load().reports)


def test_unclean_elections_follow_the_topic_and_are_listed(store: Store) -> None:
    store.create("u", (1, 0), topic_id=2, unclean__leader__election__enable="true")
    store.register(b1=11)
    draft = store.draft()
    take_registrations(draft, {0: broker(0, 20)})
    assert draft.unclean == [TopicPartition("u", 0)]
    store.commit(draft)
    assert store.record(TopicPartition("u", 0))[:2] == (0, (0,))
    assert store.record()[0] == NO_LEADER


def test_a_controlled_shutdown_survives_a_new_controller(store: Store) -> None:
    draft = store.draft()
    draft.set_broker_state(1, BrokerState.CONTROLLED_SHUTDOWN)
    store.commit(draft)
    assert store.record()[:2] == (0, (0, 2))
    store.load()
    store.register(b0=10, b1=11, b2=12)
    assert store.state_of(1) is BrokerState.CONTROLLED_SHUTDOWN
    assert store.record()[:2] == (0, (0, 2))
    store.register(b0=10, b1=20, b2=12)
    assert store.state_of(1) is BrokerState.ACTIVE


def test_deleted_and_made_again_in_one_draft(store: Store) -> None:
    draft = store.draft()
    draft.delete_topic("t")
    assert draft.topic("t") is None
    assert draft.partition(T0) is None
    draft.create_topic(topic(draft, "t", (2, 0), topic_id=7))
    assert draft.topic_by_id(bytes([1]) * 16) is None
    delta = store.commit(draft)
    assert delta.deleted == [("t", bytes([1]) * 16)]
    assert delta.topics == {"t": None}
    assert store.record() == (2, (2, 0), 0)


def test_a_deletion_drops_changes_that_were_planned_before_it(store: Store) -> None:
    draft = store.draft()
    take_registrations(draft, {1: broker(1, 11), 2: broker(2, 12)})
    assert draft.changed
    draft.delete_topic("t")
    store.commit(draft)
    assert store.loaded.image.cluster.topics == {}
    assert not [path for path in store.tree.nodes if path.startswith("/brokers/topics/t")]
    assert "/config/topics/t" not in store.tree.nodes


def test_a_change_on_top_of_a_creation_in_one_draft(store: Store) -> None:
    draft = store.draft()
    draft.create_topic(topic(draft, "u", (0, 1), topic_id=2))
    take_registrations(draft, {1: broker(1, 11), 2: broker(2, 12)})
    store.commit(draft)
    assert store.record(TopicPartition("u", 0)) == (1, (1,), 1)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/topics/t", b"{"),
        ("/brokers/topics/t/partitions/1/state", b"[]"),
        ("/config/topics/t", b'{"version":1,"config":{"min.insync.replicas":2}}'),
    ],
)
def test_a_broken_node_takes_one_topic_offline(store: Store, path: str, data: bytes) -> None:
    store.create("u", (0, 1), topic_id=2)
    node = store.tree.nodes[path]
    store.tree.nodes[path] = type(node)(data, node.version + 1, node.created_at)
    loaded = store.load()
    assert len(loaded.reports) == 1
    assert "t is offline" in loaded.reports[0]
    cluster = loaded.image.cluster
    assert cluster.topics["t"].partitions == []
    assert cluster.topic_names == {bytes([2]) * 16: "u"}
    assert cluster.topics["u"].partitions[0].leader == 0
    # It can still be deleted.
    draft = store.draft()
    draft.delete_topic("t")
    result, _ = store.tree.write(None, draft.operations())
    assert isinstance(result, WriteDone)


def test_a_missing_state_takes_one_topic_offline(store: Store) -> None:
    del store.tree.nodes["/brokers/topics/t/partitions/1/state"]
    assert "t is offline" in store.load().reports[0]


def test_a_broken_registration_counts_as_none(store: Store) -> None:
    session = store.tree.begin_session(5)
    registration = stored.Registration(5, broker(5, 0).endpoints, None, "", True, "", 0, 1)
    good = stored.encode_registration(registration)
    for path, data in (
        ("/brokers/ids/5", good),
        ("/brokers/ids/6", b"?"),
        ("/brokers/ids/x", good),
    ):
        store.tree.write(session, [stored_create(path, data)])
    loaded = store.load()
    assert set(loaded.registered) == {5}
    assert loaded.registered[5].broker_epoch == store.tree.nodes["/brokers/ids/5"].created_at
    assert len(loaded.reports) == 2


def stored_create(path: str, data: bytes) -> Create:
    return Create(path, data, ephemeral=True)


def test_deltas_add_up() -> None:
    delta = Delta(topics={"a": {0}, "b": None, "gone": {1}})
    later = Delta(
        brokers=True,
        topics={"a": {1}, "b": {0}, "c": None},
        deleted=[("gone", bytes(16))],
    )
    delta.merge(later)
    assert delta == Delta(
        brokers=True,
        topics={"a": {0, 1}, "b": None, "c": None},
        deleted=[("gone", bytes(16))],
    )
    delta.merge(Delta(topics={"gone": None}))
    assert delta.topics["gone"] is None


@pytest.mark.parametrize(
    ("record", "leads"),
    [
        (PartitionRecord((0, 1), (0,), NO_LEADER, 3, 5, last_known_elr=(0, 1)), True),
        (PartitionRecord((0, 1), (0,), 0, 3, 5, last_known_elr=(1,)), False),  # one leads
        (PartitionRecord((0, 1), (0,), NO_LEADER, 3, 5, last_known_elr=(1,)), False),  # 0 has all
        (PartitionRecord((0, 1), (0,), NO_LEADER, 3, 5, last_known_elr=(0,)), False),  # 1 is behind
    ],
)
def test_what_was_compared_after_a_power_cut_is_of_use_while_suspects_alone_are_left(
    record: PartitionRecord, leads: bool
) -> None:
    store = Store()
    store.register(b0=10, b1=11)
    store.create("t", (0, 1))
    draft = store.draft()
    tp = TopicPartition("t", 0)
    draft.put_partition(tp, record)
    assert draft.lead_after_power_cut(tp, 1, "0 and 1") is leads
    now = draft.partition(tp)
    assert now is not None and (now.leader == 1) is leads and (tp in draft.power_cut) is leads
