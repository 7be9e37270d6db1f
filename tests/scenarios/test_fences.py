"""Leaders, controllers and lives of brokers that are over and do not know it."""

import pytest
from tests.node.moving import T0, begin_produce, create, members, produce, produced, state
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    alike,
    consumed,
    cut_from_peers,
    expire_unheard,
    fetch,
    fetch_later,
    fetched,
    isr,
    nothing,
    reconnect,
    replica,
    send,
    values,
)

from replog.core.controller import stored
from replog.model.coordination import CONTROLLER, CONTROLLER_EPOCH, Check, Delete, Operation
from replog.model.errors import ErrorCode
from replog.model.messages import Message
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.model.messages.produce import ProduceResponse
from replog.model.messages.update_cluster import UpdateClusterRequest, UpdateClusterResponse


@pytest.fixture
def town() -> Town:
    """Broker 0 is the controller."""
    return a_town()


# ---- leaders ------------------------------------------------------------------------------------


@pytest.mark.scenario(7)
def test_a_leader_that_is_cut_off_commits_nothing_and_gives_way(town: Town) -> None:
    """Cut from coordinator and brokers; only clients still reach it."""
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    assert produce(town, b"one") is ErrorCode.NONE
    town.lose_send = cut_from_peers(1)
    expire_unheard(town, 1)
    town.run_until(lambda: members(town)[0] == 2)
    everything = begin_produce(town, b"zombie, all", at=1)
    weakly = begin_produce(town, b"zombie, one", at=1, acks=1)
    town.run_until(lambda: town.answered(everything))
    assert produced(town, everything) is ErrorCode.REQUEST_TIMED_OUT
    assert produced(town, weakly) in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert consumed(town, 1) == [b"one"], "it can't shrink the ISR to itself"
    assert produce(town, b"two") is ErrorCode.NONE
    town.lose_send = nothing
    reconnect(town, 1)
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert values(town, 1) == [b"one", b"two"], "cut back to where both agree"
    assert alike(town, 0, 1, 2)


@pytest.mark.scenario(8)
def test_a_leader_cut_from_the_coordinator_alone_loses_its_followers(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    epoch = state(town)["leader_epoch"]
    expire_unheard(town, 1)
    town.run_until(lambda: members(town)[0] == 2)
    assert state(town)["leader_epoch"] == epoch + 1
    old = begin_produce(town, b"to the old one", at=1)
    assert produce(town, b"two") is ErrorCode.NONE
    town.run_until(lambda: town.answered(old))
    assert produced(town, old) is not ErrorCode.NONE
    reconnect(town, 1)
    town.run_until(lambda: isr(town) == [0, 1, 2])
    refused = begin_produce(town, b"three", at=1)
    town.run_until(lambda: town.answered(refused))
    assert produced(town, refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(town, 1, epoch=epoch).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert values(town, 0) == values(town, 1) == values(town, 2) == [b"one", b"two"]


@pytest.mark.scenario(37)
def test_a_leader_that_was_stopped_answers_nothing_from_its_former_leadership(town: Town) -> None:
    """SIGSTOP beyond the session, SIGCONT with requests in its queue."""
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    assert produce(town, b"one") is ErrorCode.NONE
    town.pause(1)
    queued = begin_produce(town, b"queued", at=1)
    weakly = begin_produce(town, b"for the leader alone", at=1, acks=1)
    read = fetch_later(town, 1)
    expire_unheard(town, 1)
    town.run_until(lambda: members(town)[0] == 2)
    assert produce(town, b"two") is ErrorCode.NONE
    town.run(3_000)
    town.resume(1)
    town.run_until(lambda: town.answered(queued))
    assert produced(town, queued) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced(town, weakly) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "nothing is taken and lost"
    assert fetched(town, read).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    reconnect(town, 1)
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert values(town, 1) == [b"one", b"two"] and alike(town, 0, 1, 2)


@pytest.mark.scenario(37)
def test_a_leader_that_was_stopped_and_not_replaced_goes_on_at_once(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    town.pause(1)
    town.run(1_400)
    queued = begin_produce(town, b"queued", at=1, acks=1)
    town.resume(1)
    town.run()
    assert produced(town, queued) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "it does not know yet"
    assert produce(town, b"one") is ErrorCode.NONE
    assert members(town)[0] == 1 and state(town)["leader_epoch"] == 0


# ---- brokers that the coordinator hears and the others do not -----------------------------------


@pytest.mark.scenario(85)
@pytest.mark.parametrize("leader", [0, 1], ids=["the controller", "another broker"])
@pytest.mark.parametrize("way", ["both ways", "deaf"])
def test_a_leader_cut_from_all_brokers_gives_way_while_the_cut_lasts(
    town: Town, leader: int, way: str
) -> None:
    """Its session holds: the coordinator hears it."""
    create(town, "t", [leader, 2, 1 - leader], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    both = cut_from_peers(leader)

    def lose(source: int, target: int, message: Message) -> bool:
        return both(source, target, message) and (way == "both ways" or target == leader)

    town.lose_send = town.lose_reply = lose
    begun = town.now_ms
    pending = begin_produce(town, b"waits", at=leader)
    town.run_until(lambda: members(town)[0] not in (leader, -1), limit_ms=20_000)
    assert town.now_ms - begun < (18_000 if leader == 0 else 11_000)
    town.run_until(lambda: len(isr(town)) == 2)
    assert produce(town, b"two") is ErrorCode.NONE, "while the cut lasts"
    weakly = begin_produce(town, b"weakly", at=leader, acks=1)
    town.run_until(lambda: town.answered(pending) and town.answered(weakly))
    assert produced(town, pending) not in (None, ErrorCode.NONE)
    assert produced(town, weakly) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "the coordinator told it"
    epoch = state(town)["leader_epoch"]
    town.run(20_000)
    assert state(town)["leader_epoch"] == epoch, "it comes and goes no more"
    assert leader not in isr(town)
    town.lose_send = town.lose_reply = nothing
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert alike(town, 0, 1, 2) and values(town, 0)[-1] == b"two"


@pytest.mark.scenario(85)
def test_a_registration_is_ended_under_the_fence_of_the_controller(town: Town) -> None:
    """Or one who is controller no more, and does not know it, could end those of others."""
    create(town, "t", [1, 2, 0])
    gone = stored.broker_path(1)
    ended: list[Operation] = []

    def watch(broker: int, operations: tuple[Operation, ...]) -> bool:
        if any(isinstance(each, Delete) and each.path == gone for each in operations):
            ended.append(operations[0])
        return False

    town.lose_write_reply = watch
    town.lose_send = cut_from_peers(1)
    town.run_until(lambda: ended)
    assert ended == [Check(CONTROLLER_EPOCH, town.tree.nodes[CONTROLLER_EPOCH].version)]


@pytest.mark.scenario(85)
def test_a_controller_that_hears_nobody_fences_nobody(town: Town) -> None:
    """Suspicion alone never takes more than half."""
    create(town, "t", [1, 2, 0])
    epoch = state(town)["leader_epoch"]
    town.lose_send = cut_from_peers(0)
    town.run_until(lambda: town.tree.nodes[CONTROLLER_EPOCH].data == b"2")
    assert members(town)[0] == 1 and state(town)["leader_epoch"] == epoch
    assert len(town.node(1).cluster.brokers) == 3
    town.run_until(lambda: isr(town) == [1, 2])
    town.lose_send = town.lose_reply = nothing
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert state(town)["leader_epoch"] == epoch


@pytest.mark.scenario(85)
def test_a_leader_that_nobody_can_follow_is_left_alone(town: Town) -> None:
    """It is cut off, and all that could be had by fencing it is a partition without a leader."""
    create(town, "t", [1], min__insync__replicas="1")
    town.lose_send = town.lose_reply = cut_from_peers(1)
    town.run(15_000)
    assert members(town)[0] == 1 and state(town)["leader_epoch"] == 0
    alone = begin_produce(town, b"one", at=1)
    town.run_until(lambda: town.answered(alone))
    assert produced(town, alone) is ErrorCode.NONE


@pytest.mark.scenario(85)
def test_a_broker_that_is_cut_off_from_the_controller_alone_is_fenced_for_good(town: Town) -> None:
    """It could lead, and could not have its ISR changed."""
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    town.lose_send = lambda source, target, message: {source, target} == {0, 1}
    town.run_until(lambda: members(town)[0] == 2)
    town.kill(0)
    town.run_until(lambda: isr(town) == [1, 2])  # the next controller reaches it
    town.lose_send = town.lose_reply = nothing
    town.start(0)
    town.run_until(lambda: isr(town) == [0, 1, 2])


@pytest.mark.scenario(58)
def test_clients_are_told_the_epoch_that_is_stored_and_where_the_leader_is(town: Town) -> None:
    """A leader epoch that a broker remembers and nobody stores would fence clients for ever."""
    create(town, "t", [1, 2, 0])
    for number in range(3):
        leader = members(town)[0]
        town.expire(leader)
        town.begin_session(leader)
        town.run_until(lambda leader=leader: members(town)[0] != leader)
        town.run_until(lambda: isr(town) == [0, 1, 2])
        now, epoch = members(town)[0], state(town)["leader_epoch"]
        for broker in town.brokers:
            request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            answer = town.ask(broker, request, MetadataResponse)
            (partition,) = answer.topics[0].partitions
            assert (partition.leader_id, partition.leader_epoch) == (now, epoch)
        refused = begin_produce(town, b"%d" % number, at=leader)
        town.run_until(lambda refused=refused: town.answered(refused))
        (part,) = town.answer(refused, ProduceResponse).responses[0].partition_responses
        assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        current = part.current_leader  # KIP-951
        assert (current.leader_id, current.leader_epoch) == (now, epoch)
        assert fetch(town, now, epoch=epoch).error_code == ErrorCode.NONE


# ---- lives of brokers ---------------------------------------------------------------------------


@pytest.mark.scenario(15)
def test_a_message_to_a_former_life_makes_nobody_leader(town: Town) -> None:
    """The controller's image of before the restart arrives when the tail is lost already."""
    create(town, "t", [1, 2], min__insync__replicas="1")
    assert produce(town, b"one") is ErrorCode.NONE
    image = next(
        message
        for source, target, message in reversed(town.sent)
        if target == 1 and isinstance(message, UpdateClusterRequest)
    )
    town.kill(1)
    town.replace_disk(1)
    town.lose_send = lambda source, target, message: target == 1
    town.start(1)
    late = send(town, 0, 1, image)
    town.run_until(lambda: town.answered(late))
    answer = town.answer(late, UpdateClusterResponse)
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert town.node(1).partitions.get(T0) is None
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [1, 2])
    assert members(town)[0] == 2 and alike(town, 1, 2)


@pytest.mark.scenario(43)
def test_a_session_that_ends_under_a_living_broker_is_followed_by_another_at_once(
    town: Town,
) -> None:
    create(town, "t", [1, 2, 0])
    before = town.node(1).broker_epoch
    expire_unheard(town, 1)
    town.run(100)
    assert stored.broker_path(1) not in town.tree.nodes
    begun = town.now_ms
    reconnect(town, 1)
    town.run_until(lambda: stored.broker_path(1) in town.tree.nodes)
    assert town.now_ms - begun < 100
    town.run(50)
    node = town.tree.nodes[stored.broker_path(1)]
    assert node.session == town.lives[1].session
    assert town.node(1).broker_epoch == node.created_at > before
    town.run_until(lambda: isr(town) == [0, 1, 2])


# ---- controllers --------------------------------------------------------------------------------


def paths(operations: tuple[Operation, ...]) -> set[str]:
    return {operation.path for operation in operations}


@pytest.mark.scenario(40)
def test_a_controller_that_dies_before_it_has_told_anybody(town: Town) -> None:
    """The new leader is stored, and no broker knows: the next controller reads and sends it all."""
    create(town, "t", [1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    town.lose_send = lambda source, target, message: source == 0
    town.kill(1)
    town.run_until(lambda: members(town)[0] == 2)
    stored_epoch = state(town)["leader_epoch"]
    assert not replica(town, 2).is_leader, "it has not heard"
    town.kill(0)
    town.lose_send = nothing
    town.run_until(lambda: replica(town, 2).is_leader)
    assert town.node(2).cluster.controller_epoch == 2
    assert state(town)["leader_epoch"] == stored_epoch, "the election is not held again"
    assert produce(town, b"two") is ErrorCode.NONE


@pytest.mark.scenario(41)
def test_a_controller_that_was_stopped_writes_and_says_nothing_that_counts(town: Town) -> None:
    create(town, "t", [1, 2])
    images = [
        message
        for source, target, message in town.sent
        if source == 0 and target == 2 and isinstance(message, UpdateClusterRequest)
    ]
    town.pause(0)
    expire_unheard(town, 0)
    town.kill(1)  # the old controller finds that in its queue when it wakes
    town.run_until(lambda: members(town)[0] == 2)
    epoch = town.tree.nodes[CONTROLLER_EPOCH].data
    after = state(town)
    town.cut_from_coordinator.discard(0)
    town.resume(0)
    town.run(1_000)
    assert town.tree.nodes[CONTROLLER_EPOCH].data == epoch
    assert state(town) == after
    images[-1].broker_epoch = town.node(2).broker_epoch
    late = send(town, 0, 2, images[-1])
    town.run_until(lambda: town.answered(late))
    answer = town.answer(late, UpdateClusterResponse)
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert town.node(2).cluster.controller_id == 2


@pytest.mark.scenario(42)
def test_a_controller_whose_claim_was_not_answered_starts_all_the_same() -> None:
    """It finds its own node at `/controller`, and takes over."""
    town = Town()
    lost: list[int] = []

    def lose(broker: int, operations: tuple[Operation, ...]) -> bool:
        if CONTROLLER in paths(operations) and len(lost) < 2:
            lost.append(broker)
            return True
        return False

    town.lose_write_reply = lose
    town.start()
    town.run(500)
    assert len(lost) == 2
    owner = town.tree.nodes[CONTROLLER].session
    assert town.lives[town.controller].session == owner
    create(town, "t", [1, 2, 0])
    assert produce(town, b"one") is ErrorCode.NONE
    epoch = int(town.tree.nodes[CONTROLLER_EPOCH].data)
    assert state(town)["controller_epoch"] == epoch


# ---- partitions of the network ------------------------------------------------------------------


@pytest.mark.scenario(81)
@pytest.mark.parametrize("shape", ["bridge", "ring"])
def test_a_network_in_pieces_that_overlap(shape: str) -> None:
    """Bridge: broker 2 alone sees both halves. Ring: each sees its two neighbours. The coordinator
    sees all, so nobody is dead; what is committed is committed once, and all is well soon after."""
    town = a_town(0, 1, 2, 3, 4)
    create(town, "t", [1, 3, 2], min__insync__replicas="2")
    create(town, "u", [4, 0, 2], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE

    def bridged(source: int, target: int, message: Message) -> bool:
        return 2 not in (source, target) and (source < 2) != (target < 2)

    def ringed(source: int, target: int, message: Message) -> bool:
        return (source - target) % 5 not in (0, 1, 4)

    town.lose_send = bridged if shape == "bridge" else ringed
    sent = [begin_produce(town, b"%d" % number, acks=-1) for number in range(10)]
    town.run(6_000)
    acknowledged = [
        b"%d" % number for number, c in enumerate(sent) if produced(town, c) is ErrorCode.NONE
    ]
    leaders = [broker for broker in (1, 2, 3) if replica(town, broker).is_leader]
    committed = {broker: consumed(town, broker) for broker in leaders}
    longest = max(committed.values(), key=len)
    assert all(longest[: len(part)] == part for part in committed.values())
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [1, 2, 3], limit_ms=5_000)
    town.run(1_000)
    assert alike(town, 1, 2, 3)
    there = values(town, 1)
    assert [value for value in there if value in acknowledged] == acknowledged
    assert there[: len(longest)] == longest
    assert produce(town, b"goes on") is ErrorCode.NONE


@pytest.mark.scenario(81)
def test_one_who_is_isolated_and_comes_back(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    town.lose_send = cut_from_peers(1)
    expire_unheard(town, 1)
    town.run_until(lambda: members(town)[0] == 2)
    assert produce(town, b"two") is ErrorCode.NONE
    town.lose_send = nothing
    reconnect(town, 1)
    town.run_until(lambda: isr(town) == [0, 1, 2], limit_ms=5_000)
    assert alike(town, 0, 1, 2)
