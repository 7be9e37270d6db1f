"""Images on their way from the controller to every broker."""

import pytest
from tests.node.town import Town

from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.update_cluster import UpdateClusterRequest, UpdateClusterResponse


@pytest.fixture
def town() -> Town:
    town = Town()
    town.start()
    town.run(100)
    return town


def pushes(town: Town, target: int) -> list[UpdateClusterRequest]:
    return [
        message
        for _, sent_to, message in town.sent
        if sent_to == target and isinstance(message, UpdateClusterRequest)
    ]


def first_of(kind: type[Message], message: Message, found: list[Message]) -> bool:
    """Whether it is the first one of its kind, which `found` gets."""
    if found or not isinstance(message, kind):
        return False
    found.append(message)
    return True


def test_a_paused_broker_holds_nobody_up_and_catches_up_with_few_messages(town: Town) -> None:
    town.pause(2)
    town.sent.clear()
    for number in range(10):
        town.create(f"t{number}", [1, 0])
    assert town.now_ms < 10_000
    town.resume(2)
    town.run_until(lambda: town.node(2).cluster.version == town.node(0).cluster.version)
    assert set(town.node(2).cluster.topics) == {f"t{n}" for n in range(10)}
    assert len(pushes(town, 2)) < 10


def test_a_lost_push_is_sent_again_with_what_came_since(town: Town) -> None:
    known = town.node(2).cluster.version
    lost: list[Message] = []
    town.lose_send = lambda source, target, message: (
        target == 2 and first_of(UpdateClusterRequest, message, lost)
    )
    town.create("t", [1, 0])
    town.create("u", [1, 0])
    town.sent.clear()
    town.run_until(lambda: town.node(2).cluster.version == town.node(0).cluster.version)
    assert [message.base_version for message in pushes(town, 2)] == [known]
    assert set(town.node(2).cluster.topics) == {"t", "u"}


@pytest.mark.parametrize("more", [False, True])
def test_a_push_of_which_the_answer_is_lost_comes_twice(town: Town, more: bool) -> None:
    """The second is known already; with what came since it fits no more, and all is sent."""
    known = town.node(2).cluster.version
    lost: list[Message] = []
    town.lose_reply = lambda source, target, message: (
        source == 2 and first_of(UpdateClusterResponse, message, lost)
    )
    town.sent.clear()
    town.create("t", [1, 0])
    if more:
        town.create("u", [1, 0])
    town.run(5_000)
    assert lost
    bases = [message.base_version for message in pushes(town, 2)]
    assert bases[: 3 if more else 2] == ([known, known, -1] if more else [known, known])
    assert -1 not in bases[3:]
    assert town.node(2).cluster.version == town.node(0).cluster.version
    assert set(town.node(2).cluster.topics) == ({"t", "u"} if more else {"t"})


def test_a_gap_is_filled_by_a_full_image(town: Town) -> None:
    town.node(2).cluster.version -= 1
    town.sent.clear()
    town.create("t", [1, 0])
    town.run(500)
    assert [message.base_version == -1 for message in pushes(town, 2)] == [False, True]
    assert town.node(2).cluster.version == town.node(0).cluster.version


def test_a_change_travels_alone(town: Town) -> None:
    town.create("t", [1, 0, 2], [1, 0, 2])
    town.create("u", [1, 0, 2])
    town.sent.clear()
    town.kill(2)
    town.run(50)
    town.start(2)
    town.run_until(lambda: town.everybody_sees("u", (1, [1, 0, 2])))
    last = pushes(town, 1)[-1]
    assert not last.brokers_included
    assert last.base_version == last.version - 1
    assert 1 <= sum(len(topic.partitions) for topic in last.topics) <= 3


@pytest.mark.parametrize("late", [1, 2])
def test_a_client_is_answered_when_the_leader_and_the_broker_asked_know(
    town: Town, late: int
) -> None:
    """Broker 2 leads, broker 1 is asked; the first push to one of them is lost."""
    lost: list[Message] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if target == late and isinstance(message, UpdateClusterRequest) and not lost:
            lost.append(message)
            return True
        return False

    town.lose_send = lose
    begun = town.now_ms
    town.create("t", [2], at=1)
    assert town.now_ms - begun >= 1_000
    assert all(town.record(broker, "t") is not None for broker in town.brokers)


def test_a_client_does_not_wait_long_for_brokers_that_it_has_nothing_to_do_with(
    town: Town,
) -> None:
    town.pause(2)
    begun = town.now_ms
    town.create("t", [0], at=1)
    assert town.now_ms - begun <= 300


@pytest.mark.parametrize("victim", [0, 1], ids=["controller", "other"])
def test_who_is_cut_off_from_the_coordinator_alone_hears_that_it_leads_no_more(
    town: Town, victim: int
) -> None:
    others = [broker for broker in (0, 1, 2) if broker != victim]
    town.create("t", [victim, *others])
    assert town.controller == 0
    session = town.lives[victim].session
    town.cut_from_coordinator.add(victim)
    assert session is not None
    lost: list[Message] = []

    def lose(source: int, target: int, message: Message) -> bool:
        if target == victim and isinstance(message, UpdateClusterRequest) and not lost:
            lost.append(message)  # it is told once more
            return True
        return False

    town.lose_send = lose
    town._hint(town.tree.end_session(session))  # it can't be told
    town.run(4_000)
    assert lost
    record = town.node(victim).cluster.partition(TopicPartition("t", 0))
    assert record is not None
    assert record.leader == others[0]
    assert victim not in record.isr
