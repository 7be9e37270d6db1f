"""Images and deltas as bytes: whatever the controller commits, a broker ends up with."""

from hypothesis import given, settings
from hypothesis import strategies as st

from replog.codec import decode, encode_bytes
from replog.core.controller.changes import new_partition
from replog.core.controller.registrations import take_registrations
from replog.core.controller.state import ControllerImage, Delta, Draft, offline_topic
from replog.model.cluster import BrokerRecord, ClusterState, Endpoint, TopicRecord
from replog.model.config_resources import ResourceType
from replog.model.ids import ZERO_TOPIC_ID, TopicPartition
from replog.model.messages.update_cluster import UpdateClusterRequest
from replog.node.cluster_image import CONFIGURED, apply_image, delta_image, full_image


def carried(message: UpdateClusterRequest) -> UpdateClusterRequest:
    arrived, _ = decode(UpdateClusterRequest, 0, encode_bytes(message, 0))
    return arrived


def same(broker: ClusterState, controller: ClusterState) -> None:
    assert broker.brokers == controller.brokers
    assert broker.topics == controller.topics
    assert broker.topic_names == controller.topic_names
    for kind in CONFIGURED:
        assert broker.configs(kind) == controller.configs(kind)
    assert (broker.controller_id, broker.controller_epoch, broker.version) == (
        controller.controller_id,
        controller.controller_epoch,
        controller.version,
    )


def fresh_image() -> ControllerImage:
    cluster = ClusterState("c", controller_id=1, controller_epoch=3, version=0)
    cluster.broker_configs = {"": {"log.retention.ms": "5"}, "1": {"message.max.bytes": "9"}}
    return ControllerImage(cluster)


names = st.sampled_from(["a", "b", "c"])
registrations = st.dictionaries(st.integers(0, 3), st.integers(1, 3), max_size=4)
settings_of_one = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from("12"), max_size=2)
steps = st.one_of(
    st.tuples(st.just("brokers"), registrations),
    st.tuples(st.just("create"), names, st.integers(1, 3)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("grow"), names, st.integers(1, 2)),
    st.tuples(st.just("configs"), st.sampled_from(CONFIGURED), names, settings_of_one),
    st.tuples(st.just("configs"), st.just(ResourceType.TOPIC), names, settings_of_one),
    st.tuples(st.just("send")),
)


@settings(max_examples=150)
@given(st.lists(steps, max_size=25))
def test_any_history_arrives_in_any_pieces(history: list[tuple[object, ...]]) -> None:
    image = fresh_image()
    first = apply_image(ClusterState(), carried(full_image(image.cluster, 9)))
    assert first is not None
    broker = first.cluster
    base, pending, topic_number = 0, Delta(), 0
    for step in [*history, ("send",)]:
        draft = Draft(image)
        match step:
            case ("brokers", dict() as registered):
                take_registrations(
                    draft,
                    {
                        b: BrokerRecord(b, epoch, (Endpoint("PLAINTEXT", "h", b + 1),), rack="r")
                        for b, epoch in registered.items()
                    },
                )
            case ("create", str() as name, int() as count) if draft.topic(name) is None:
                topic_number += 1
                eligible = draft.liveness.eligible
                partitions = [
                    new_partition((n, n + 1), eligible, controller_epoch=3) for n in range(count)
                ]
                topic_id = topic_number.to_bytes(16)
                draft.create_topic(TopicRecord(name, topic_id, partitions, {"k": str(count)}))
            case ("delete", str() as name) if draft.topic(name) is not None:
                draft.delete_topic(name)
            case ("grow", str() as name, int() as count) if draft.topic(name) is not None:
                more = [new_partition((n, 9), {n}, controller_epoch=4) for n in range(count)]
                draft.add_partitions(name, more)
            case ("configs", ResourceType() as kind, str() as name, dict() as configs):
                if kind is not ResourceType.TOPIC or draft.topic(name) is not None:
                    draft.put_configs(kind, name, configs)
            case ("send",):
                message = delta_image(image.cluster, pending, broker_epoch=9, base_version=base)
                assert apply_image(broker, carried(message)) is not None
                same(broker, image.cluster)
                base, pending = image.cluster.version, Delta()
                continue
        pending.merge(image.apply(draft))
    # Who comes late gets all at once, and is told of deletions by what is not there any more.
    late = apply_image(first.cluster, carried(full_image(image.cluster, 9)))
    assert late is not None
    same(late.cluster, image.cluster)


def test_partitions_look_again_when_the_settings_of_their_topic_change() -> None:
    known = state(topic("t", 1, 1, 2), topic("u", 2, 1))
    controller = state(topic("t", 1, 1, 2), topic("u", 2, 1), version=5)
    controller.topics["t"].configs = {"retention.ms": "5"}
    delta = Delta(topics={"t": set(), "u": set()})
    message = carried(delta_image(controller, delta, broker_epoch=5, base_version=4))
    applied = apply_image(known, message)
    assert applied is not None
    assert applied.changed == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert known.topics["t"].configs == {"retention.ms": "5"}


def topic(name: str, topic_id: int, *leaders: int) -> TopicRecord:
    partitions = [new_partition((b, 9), {b, 9}, controller_epoch=1) for b in leaders]
    return TopicRecord(name, bytes([topic_id]) * 16, partitions)


def state(*topics: TopicRecord, version: int = 4) -> ClusterState:
    cluster = ClusterState("c", controller_id=1, controller_epoch=3, version=version)
    for record in topics:
        cluster.put_topic(record)
    cluster.topic_names.pop(ZERO_TOPIC_ID, None)
    return cluster


def test_a_full_image_names_what_is_gone_and_what_is_another_topic_now() -> None:
    known = state(topic("gone", 1, 1), topic("again", 2, 1), topic("stays", 3, 1))
    message = full_image(state(topic("again", 7, 2), topic("stays", 3, 1), version=9), 5)
    applied = apply_image(known, carried(message))
    assert applied is not None
    assert sorted(applied.deleted) == [("again", bytes([2]) * 16), ("gone", bytes([1]) * 16)]
    assert applied.changed == [TopicPartition("again", 0), TopicPartition("stays", 0)]


def test_a_topic_that_can_not_be_read_is_not_deleted_and_has_no_id() -> None:
    known = state(topic("t", 1, 1, 2))
    applied = apply_image(known, carried(full_image(state(offline_topic("t"), version=9), 5)))
    assert applied is not None
    assert (applied.deleted, applied.changed) == ([], [])
    assert applied.cluster.topics["t"].partitions == []
    assert applied.cluster.topic_names == {}
    # When it can be read again, it is there again.
    again = apply_image(applied.cluster, carried(full_image(known, 5)))
    assert again is not None
    assert again.deleted == []
    assert again.changed == [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_a_delta_leaves_everything_else_alone() -> None:
    known = state(topic("t", 1, 1, 2), topic("u", 2, 1))
    before = known.topics["t"].partitions[0]
    controller = state(topic("t", 1, 3, 4), topic("u", 2, 4), version=5)
    delta = Delta(topics={"t": {1}})
    message = carried(delta_image(controller, delta, broker_epoch=5, base_version=4))
    applied = apply_image(known, message)
    assert applied is not None
    assert applied.cluster is known
    assert applied.changed == [TopicPartition("t", 1)]
    assert known.topics["t"].partitions[0] is before
    assert known.topics["t"].partitions[1].leader == 4
    assert known.topics["u"].partitions[0].leader == 1
    assert apply_image(known, message) is None  # it does not fit a second time
