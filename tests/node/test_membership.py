"""Registration, controller race, images and the way out: each test is named by what goes wrong."""

import pytest
from tests.node.town import Town

from replog.core.controller import stored
from replog.model.coordination import CONTROLLER, CONTROLLER_EPOCH, Create, Delete, SetData
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH
from replog.model.inputs import (
    CoordinatorReach,
    PeerIdentity,
    Received,
    SessionEnded,
    SessionStarted,
)
from replog.model.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from replog.model.messages.update_cluster import (
    ClusterPartition,
    ClusterTopic,
    UpdateClusterRequest,
    UpdateClusterResponse,
)
from replog.node.membership import DUPLICATE_PATIENCE


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    return town


def registration_epoch(town: Town, broker_id: int) -> int:
    return town.tree.nodes[stored.broker_path(broker_id)].created_at


# ---- registration -----------------------------------------------------------------------


def test_the_broker_epoch_is_the_number_of_the_write(town: Town) -> None:
    for broker_id in town.brokers:
        node = town.tree.nodes[stored.broker_path(broker_id)]
        assert node.session == town.lives[broker_id].session
        assert town.node(broker_id).broker_epoch == node.created_at


@pytest.mark.scenario(48)
def test_a_second_broker_of_the_same_id_gives_up(town: Town) -> None:
    first = town.lives[1]
    del town.disks[1]
    town.start(1)
    twin = town.lives[1]
    town.lives[101], town.lives[1] = twin, first  # others reach the first one
    town.run(1_500)
    assert twin.stopped is None
    town.run(DUPLICATE_PATIENCE * 1_500)
    assert twin.stopped is not None
    assert twin.stopped.failed
    assert "broker id 1 is already registered" in twin.stopped.reason
    assert registration_epoch(town, 1) == first.node.broker_epoch


def test_a_broker_waits_for_the_session_of_its_former_life_to_end(town: Town) -> None:
    former = town.lives[1]
    former.alive = False  # the coordinator has not noticed
    town.start(1)
    town.run(500)
    assert town.node(1).broker_epoch == NO_EPOCH
    assert former.session is not None
    town.tree.end_session(former.session)
    town.run_until(lambda: town.node(1).membership.active)
    assert town.node(1).broker_epoch > former.node.broker_epoch


@pytest.mark.scenario(43)
def test_an_own_registration_of_the_previous_session_is_replaced_at_once(town: Town) -> None:
    life = town.lives[1]
    before = life.node.broker_epoch
    # The old session is over for the broker, but its node has not been swept yet.
    town.post(life, SessionEnded("expired"))
    life.session = town.tree.begin_session(1)
    town.post(life, SessionStarted(life.session))
    town.run()
    assert life.node.broker_epoch > before
    assert registration_epoch(town, 1) == life.node.broker_epoch
    assert town.tree.nodes[stored.broker_path(1)].session == life.session


def test_the_reply_to_a_registration_is_lost() -> None:
    town = Town()
    lost: list[int] = []

    def lose(broker: int, operations: tuple[object, ...]) -> bool:
        first = operations[0]
        if isinstance(first, Create) and first.path == stored.broker_path(1) and not lost:
            lost.append(broker)
            return True
        return False

    town.lose_write_reply = lose
    town.start()
    town.run(100)
    assert lost == [1]
    assert town.node(1).broker_epoch == registration_epoch(town, 1)
    assert town.node(1).membership.active


@pytest.mark.scenario(43)
def test_an_expired_session_costs_the_epoch_and_the_isr_but_not_the_leadership_of_others(
    town: Town,
) -> None:
    town.create("t", [1, 0, 2], [0, 1, 2])
    before = town.node(1).broker_epoch
    town.expire(1)
    town.run()
    node = town.node(1)
    assert node.broker_epoch == NO_EPOCH
    assert not node.membership.active
    # It does not know better, and may serve; nothing that it writes can be committed.
    assert node.cluster.topics["t"].partitions[0].leader == 1
    town.begin_session(1)
    town.run_until(lambda: town.everybody_sees("t", (0, [0, 2, 1]), (0, [0, 2, 1])))
    assert node.broker_epoch > before
    assert node.membership.active


def test_a_registration_that_a_hand_removed_is_made_again(town: Town) -> None:
    before = town.node(2).broker_epoch
    _, paths = town.tree.write(None, [Delete(stored.broker_path(2))])
    town._hint(paths)
    town.run(100)
    assert town.node(2).broker_epoch == registration_epoch(town, 2) > before
    assert town.node(2).membership.active


# ---- the race for the controllership ------------------------------------------------------


def test_the_first_ever_controller_has_epoch_1(town: Town) -> None:
    assert town.controller == 0
    assert town.tree.nodes[CONTROLLER_EPOCH].data == b"1"
    assert stored.decode_controller(town.tree.nodes[CONTROLLER].data) == 0
    assert town.tree.nodes[CONTROLLER].session == town.lives[0].session


def test_the_controller_dies_and_the_next_has_a_higher_epoch(town: Town) -> None:
    town.kill(0)
    town.run(100)
    assert town.controller in (1, 2)
    assert town.tree.nodes[CONTROLLER_EPOCH].data == b"2"
    for broker_id in (1, 2):
        cluster = town.node(broker_id).cluster
        assert (cluster.controller_id, cluster.controller_epoch) == (town.controller, 2)
        assert sorted(cluster.brokers) == [1, 2]
        controller = town.node(broker_id).membership.controller()
        assert controller is not None
        assert controller.broker_id == town.controller


@pytest.mark.scenario(42)
def test_the_reply_to_the_winner_of_the_race_is_lost() -> None:
    town = Town()
    lost: list[int] = []

    def lose(broker: int, operations: tuple[object, ...]) -> bool:
        first = operations[0]
        if isinstance(first, Create) and first.path == CONTROLLER and not lost:
            lost.append(broker)
            return True
        return False

    town.lose_write_reply = lose
    town.start()
    town.run(200)
    assert lost == [0]
    assert town.controller == 0
    town.create("t", [1, 0, 2])
    assert all(node.cluster.controller_epoch == 2 for node in map(town.node, town.brokers))


@pytest.mark.scenario(46)
def test_an_epoch_node_that_lost_its_newest_value_does_not_bring_an_old_epoch_back(
    town: Town,
) -> None:
    town.kill(0)
    town.run(100)
    assert town.tree.nodes[CONTROLLER_EPOCH].data == b"2"
    town.tree.write(None, [SetData(CONTROLLER_EPOCH, b"1")])
    dead = town.controller
    town.kill(dead)
    town.run(100)
    assert town.controller != dead
    assert town.tree.nodes[CONTROLLER_EPOCH].data == b"3"


@pytest.mark.scenario(41)
def test_a_paused_controller_wakes_up_to_a_successor(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.pause(0)
    life = town.lives[0]
    assert life.session is not None
    town._hint(town.tree.end_session(life.session))
    town.run(200)
    successor = town.controller
    assert successor != 0
    # It wakes with a broker change before it hears of its own end: neither write nor push counts.
    before = {b: town.node(b).cluster.version for b in (1, 2)}
    epoch_before = town.tree.nodes[CONTROLLER_EPOCH].data
    life.paused = False
    life.node.controlling.on_registrations({}, 10**9)
    town._carry_out(life, life.node._take_outputs())
    town.resume(0)
    life.session = None
    town.run(50)
    assert not life.node.controlling.engaged
    assert town.tree.nodes[CONTROLLER_EPOCH].data == epoch_before
    assert {b: town.node(b).cluster.version for b in (1, 2)} == before
    town.post(life, SessionEnded("expired"))
    town.begin_session(0)
    town.run_until(lambda: town.everybody_sees("t", (1, [1, 2, 0])))
    assert town.controller == successor


# ---- images -----------------------------------------------------------------------------


def push(town: Town, target: int, **fields: object) -> UpdateClusterResponse:
    """An image as a broker might send it; by default one that says nothing new."""
    node = town.node(target)
    sender = fields.pop("sender", node.cluster.controller_id)
    values: dict[str, object] = {
        "controller_id": node.cluster.controller_id,
        "controller_epoch": node.cluster.controller_epoch,
        "broker_epoch": node.broker_epoch,
        "version": node.cluster.version + 1,
        "base_version": node.cluster.version,
        "cluster_id": "town",
    }
    message = UpdateClusterRequest(**(values | fields))  # type: ignore[arg-type]
    peer = PeerIdentity(sender, 0) if isinstance(sender, int) else None
    return node.membership.update_cluster(Received(1, 1, 0, message, peer=peer), message)


@pytest.mark.scenario(15)
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"sender": 2}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ({"sender": None}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ({"broker_epoch": 1}, ErrorCode.STALE_BROKER_EPOCH),
        ({"broker_epoch": 10**6}, ErrorCode.STALE_BROKER_EPOCH),
        ({"controller_epoch": 0}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"base_version": 0}, ErrorCode.INVALID_UPDATE_VERSION),  # a gap
        ({"controller_epoch": 2}, ErrorCode.INVALID_UPDATE_VERSION),  # a delta to another's image
        ({"controller_epoch": 2, "base_version": -1, "version": 0}, ErrorCode.NONE),
    ],
)
def test_whose_images_are_taken(town: Town, fields: dict[str, object], error: ErrorCode) -> None:
    before = town.node(1).cluster.version
    answer = push(town, 1, **fields)
    assert ErrorCode(answer.error_code) is error
    after = town.node(1).cluster.version
    assert answer.version == after
    if error is not ErrorCode.NONE:
        assert after == before


def test_an_image_that_was_overtaken_changes_nothing(town: Town) -> None:
    town.create("t", [1, 0, 2])
    version = town.node(1).cluster.version
    for base in (-1, version - 2):
        answer = push(town, 1, version=version - 1, base_version=base)
        assert ErrorCode(answer.error_code) is ErrorCode.NONE
        assert answer.version == version
    assert "t" in town.node(1).cluster.topics


def test_a_broker_without_a_registration_takes_no_image(town: Town) -> None:
    town.expire(1)
    town.run()
    answer = push(town, 1, broker_epoch=NO_EPOCH)
    assert ErrorCode(answer.error_code) is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("index", [-1, 2])
def test_a_delta_of_partitions_that_can_not_be_placed_is_a_gap(town: Town, index: int) -> None:
    town.create("t", [1, 0, 2])
    topic_id = town.node(1).cluster.topics["t"].topic_id
    part = ClusterPartition(index=index, replicas=[1], isr=[1], leader=1)
    for sent in (
        ClusterTopic(name="t", topic_id=topic_id, partitions=[part]),
        ClusterTopic(name="new", topic_id=b"n" * 16, partitions=[part]),
    ):
        answer = push(town, 1, topics=[sent])
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_UPDATE_VERSION


def test_a_full_image_tells_of_deletions_that_were_missed(town: Town) -> None:
    town.create("t", [1, 0, 2])
    assert list(town.node(2).partitions.all())
    full = {"base_version": -1, "brokers_included": True}
    answer = push(town, 2, **full)
    assert ErrorCode(answer.error_code) is ErrorCode.NONE
    assert town.node(2).cluster.topics == {}
    assert not list(town.node(2).partitions.all())


def test_a_topic_that_the_controller_can_not_read_is_offline_but_not_deleted(town: Town) -> None:
    town.create("t", [1, 0, 2])
    town.tree.write(None, [SetData("/brokers/topics/t", b"junk")])
    town.kill(0)
    town.run(200)
    assert any("t is offline" in line for line in town.reports)
    assert town.node(1).cluster.topics["t"].partitions == []
    assert [str(p.tp) for p in town.node(1).partitions.all()] == ["t-0"]
    town.create("u", [1, 2])
    assert town.everybody_sees("u", (1, [1, 2]))


# ---- the way out ------------------------------------------------------------------------


def stops(town: Town, *brokers: int, within_ms: float) -> None:
    for broker_id in brokers:
        town.stop(broker_id)
    begun = town.now_ms
    lives = [town.lives[b] for b in brokers]
    town.run_until(lambda: all(life.stopped for life in lives))
    assert town.now_ms - begun <= within_ms
    for life in lives:
        assert life.stopped is not None
        assert not life.stopped.failed


@pytest.mark.scenario(50)
def test_leaderships_move_before_the_broker_goes(town: Town) -> None:
    town.create("t", [1, 0, 2])
    shown = []

    def watch(broker: int, operations: tuple[object, ...]) -> bool:
        if operations[0] == Delete(stored.broker_path(1)):
            shown.append(town.record(0, "t").leader)
        return False

    town.lose_write_reply = watch
    town.stop(1)
    town.run(1_000)
    assert shown == [0]
    assert stored.broker_path(1) not in town.tree.nodes
    assert town.everybody_sees("t", (0, [0, 2]))
    # One election, not two: the broker that left was no member any more.
    assert town.record(0, "t").leader_epoch == 1


def test_a_controller_that_stops_hands_everything_over(town: Town) -> None:
    town.create("t", [0, 1, 2])
    stops(town, 0, within_ms=600)
    town.run(100)
    assert town.controller in (1, 2)
    assert town.everybody_sees("t", (1, [1, 2]))


def test_all_stop_at_once_and_soon(town: Town) -> None:
    town.create("t", [0, 1, 2], [1, 2, 0], [2, 0, 1])
    stops(town, 0, 1, 2, within_ms=3_000)


def test_the_last_broker_stops_although_it_is_the_only_leader(town: Town) -> None:
    town.create("t", [0, 1, 2])
    town.kill(1)
    town.kill(2)
    town.run(100)
    stops(town, 0, within_ms=600)
    town.start(0)
    town.run_until(lambda: town.everybody_sees("t", (0, [0])))


def out_of_sync(town: Town) -> None:
    """Topic t is on brokers 1 and 0; 0 is alive, but can't reach 1."""
    town.create("t", [1, 0])
    town.kill(0)
    town.run_until(lambda: town.record(1, "t").isr == (1,))
    town.refused.add((0, 1))
    town.start(0)
    town.run(200)
    assert town.record(2, "t").isr == (1,)


def test_a_broker_waits_for_a_follower_that_can_take_over(town: Town) -> None:
    out_of_sync(town)
    town.stop(1)
    town.run(500)
    assert town.lives[1].stopped is None
    town.refused.clear()
    town.run_until(lambda: town.lives[1].stopped)
    town.run(100)
    assert town.everybody_sees("t", (0, [0]))


def test_a_broker_does_not_wait_for_ever(town: Town) -> None:
    town.settings = {
        "controlled.shutdown.max.retries": "2",
        "controlled.shutdown.retry.backoff.ms": "500",
    }
    town.kill(1)
    town.start(1)
    out_of_sync(town)
    stops(town, 1, within_ms=2_500)
    assert any("lose their only leader" in line for line in town.reports)


@pytest.mark.parametrize("registered", [True, False])
def test_a_broker_stops_without_a_coordinator(town: Town, registered: bool) -> None:
    if not registered:
        town.expire(1)
        town.run()
    town.coordinator_down = True
    stops(town, 1, within_ms=5_000)


def test_a_broker_stops_without_a_controller(town: Town) -> None:
    town.pause(0)
    stops(town, 1, within_ms=5_000)


@pytest.mark.scenario(45)
def test_a_broker_says_for_how_long_elections_wait(town: Town) -> None:
    life = town.lives[1]

    def away_ms() -> int:
        answer = town.ask(1, DescribeReplicasRequest(topics=[]), DescribeReplicasResponse)
        return answer.coordinator_away_ms

    assert away_ms() == -1
    town.post(life, CoordinatorReach(False))
    town.run(1500)
    assert 1500 <= away_ms() < 1600
    town.post(life, CoordinatorReach(True))
    town.run(10)
    assert away_ms() == -1
