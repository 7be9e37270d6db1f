"""Preferred and unclean elections by request, and leaderships that go back unasked."""

import pytest
from tests.node.moving import T0, create, elect, members, produce, state
from tests.node.town import Town

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from replog.model.messages.fetch import FetchRequest

T1 = TopicPartition("t", 1)
UNCLEAN = 1


@pytest.fixture
def town() -> Town:
    town = Town(settings={"auto.leader.rebalance.enable": "false"})
    town.start()
    town.run(100)
    return town


def away_from_preferred(town: Town) -> None:
    """Partition 0 prefers broker 1, and 2 leads it; partition 1 prefers 0, which leads it."""
    create(town, "t", [1, 2, 0], [0, 2, 1])
    town.kill(1)
    town.run_until(lambda: members(town)[0] == 2)


def wait_in_sync(town: Town) -> None:
    town.run_until(lambda: len(state(town)["isr"]) == len(state(town, T1)["isr"]) == 3)


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_the_preferred_leader_leads_again_whoever_is_asked(town: Town, asked: int) -> None:
    away_from_preferred(town)
    town.start(1)
    wait_in_sync(town)
    assert members(town)[0] == 2
    epoch = state(town)["leader_epoch"]
    assert elect(town, 0, at=asked) == [ErrorCode.NONE]
    assert members(town)[0] == 1
    assert state(town)["leader_epoch"] == epoch + 1
    # Who is asked, and the new leader, know before the answer.
    assert town.record(asked, "t").leader == town.record(1, "t").leader == 1
    assert produce(town, b"one") is ErrorCode.NONE


def test_what_can_not_be_done_is_refused_for_each_partition(town: Town) -> None:
    away_from_preferred(town)
    assert elect(town, 0, 1, 7) == [
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert elect(town, 0, topic="nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.scenario(77)
def test_a_preferred_leader_out_of_sync_is_not_elected(town: Town) -> None:
    away_from_preferred(town)
    produce(town, b"one")
    town.lose_send = lambda source, target, message: (
        source == 1 and isinstance(message, FetchRequest)
    )
    town.start(1)
    town.run(300)
    before = state(town)
    assert elect(town, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert state(town) == before


def test_a_topic_is_answered_as_often_as_it_is_named_and_named_without_elections(
    town: Town,
) -> None:
    create(town, "t", [0, 1], [0, 2])
    named = [TopicPartitions(topic="t", partitions=indexes) for indexes in ([0], [0, 1])]
    request = ElectLeadersRequest(topic_partitions=named, timeout_ms=5_000)
    results = town.ask(0, request, ElectLeadersResponse).replica_election_results
    assert [(r.topic, len(r.partition_result)) for r in results] == [("t", 1), ("t", 2)]
    everything = ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000)
    results = town.ask(0, everything, ElectLeadersResponse).replica_election_results
    assert [(r.topic, len(r.partition_result)) for r in results] == [("t", 0)]


def test_without_partitions_all_that_can_be_is_elected(town: Town) -> None:
    away_from_preferred(town)
    town.start(1)
    wait_in_sync(town)
    message = ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000)
    answer = town.ask(0, message, ElectLeadersResponse)
    done = {
        (result.topic, partition.partition_id): partition.error_code
        for result in answer.replica_election_results
        for partition in result.partition_result
    }
    assert done == {("t", 0): ErrorCode.NONE}
    assert members(town)[0] == 1


@pytest.mark.parametrize("kind", [-1, 2])
def test_kinds_that_there_are_not(town: Town, kind: int) -> None:
    message = ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=5_000)
    answer = town.ask(0, message, ElectLeadersResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("kind", "timeout_ms"), [(0, 0), (2, 5_000)])
def test_to_elect_nobody_always_succeeds(town: Town, kind: int, timeout_ms: int) -> None:
    message = ElectLeadersRequest(election_type=kind, topic_partitions=[], timeout_ms=timeout_ms)
    assert town.ask(0, message, ElectLeadersResponse).error_code == ErrorCode.NONE


def test_an_unclean_election_by_request(town: Town) -> None:
    create(town, "t", [1, 2])
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.ELECTION_NOT_NEEDED]
    town.kill(2)
    town.run_until(lambda: members(town)[1] == [1])
    produce(town, b"lost")
    town.kill(1)
    town.run(100)
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    town.start(2)
    town.run(500)
    assert members(town)[0] == -1
    assert elect(town, 0, kind=UNCLEAN) == [ErrorCode.NONE]
    assert members(town) == (2, [2], [])
    assert any("UNCLEAN" in line for line in town.reports)


def test_an_election_survives_the_controller(town: Town) -> None:
    away_from_preferred(town)
    town.start(1)
    wait_in_sync(town)
    controller = town.controller
    town.lose_write_reply = lambda broker, operations: any(
        op.path.endswith("/state") for op in operations
    )
    message = ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    asked = next(broker for broker in town.brokers if broker != controller)
    connection = town.ask_later(asked, message)
    town.run(20)
    town.kill(controller)
    town.lose_write_reply = lambda broker, operations: False
    town.run_until(lambda: town.answered(connection))
    assert members(town)[0] == 1


# ---- brokers that are leaving -----------------------------------------------------------


@pytest.mark.scenario(50)
def test_a_broker_that_leaves_is_in_no_isr_and_not_waited_for(town: Town) -> None:
    """It cannot go yet: it leads partition 1, which nobody else has."""
    create(town, "t", [1, 0], [1, 2])
    town.kill(2)
    town.run_until(lambda: members(town, T1)[:2] == (1, [1]))
    assert produce(town, b"one", T1) is ErrorCode.NONE
    town.lose_send = lambda source, target, message: (
        source == 2 and isinstance(message, FetchRequest)
    )
    town.start(2)
    town.run(100)
    town.stop(1)
    town.run_until(lambda: members(town)[0] == 0)
    town.run(1_500)
    assert town.lives[1].alive
    assert members(town, T1)[0] == 1
    assert 1 not in state(town)["isr"]  # although it has all that the leader has, and fetches
    assert elect(town, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    begun = town.now_ms
    assert produce(town, b"two") is ErrorCode.NONE
    assert town.now_ms - begun < 100
    assert 1 not in state(town)["isr"]


@pytest.mark.scenario(50)
def test_a_broker_that_leaves_hands_over_as_soon_as_somebody_has_caught_up(town: Town) -> None:
    create(town, "t", [1, 2])
    town.kill(2)
    town.run_until(lambda: members(town) == (1, [1], []))
    assert produce(town, b"one") is ErrorCode.NONE
    town.lose_send = lambda source, target, message: source == 2 and target == 1
    town.start(2)
    town.run(100)
    town.stop(1)
    town.run(300)
    assert members(town) == (1, [1], [])
    town.lose_send = lambda source, target, message: False
    town.expire(2)  # it asks anew, under another registration
    town.begin_session(2)
    town.run(500)
    assert members(town)[:2] == (2, [2])
    assert not town.lives[1].alive


# ---- unasked ----------------------------------------------------------------------------


def balanced(**settings: str) -> Town:
    given = {
        "leader.imbalance.check.interval.seconds": "5",
        "leader.imbalance.per.broker.percentage": "10",
    }
    town = Town(settings=given | {name.replace("__", "."): v for name, v in settings.items()})
    town.start()
    town.run(100)
    return town


def test_leaderships_go_back_after_a_while() -> None:
    town = balanced()
    away_from_preferred(town)
    town.start(1)
    wait_in_sync(town)
    assert members(town)[0] == 2
    town.run(5_000)
    assert members(town)[0] == 1
    assert any("back to their preferred leaders" in line for line in town.reports)


def test_not_while_the_preferred_leader_is_away() -> None:
    town = balanced()
    away_from_preferred(town)
    town.run(12_000)
    assert members(town)[0] == 2


def test_not_where_it_is_switched_off(town: Town) -> None:
    away_from_preferred(town)
    town.start(1)
    town.run(301_000)
    assert members(town)[0] == 2


def test_not_while_the_imbalance_is_small() -> None:
    town = balanced(leader__imbalance__per__broker__percentage="50")
    create(town, "t", [1, 2], [1, 0], [0, 1])
    town.kill(1)
    town.run_until(lambda: members(town)[0] == 2)
    town.start(1)
    town.run_until(lambda: len(state(town)["isr"]) == len(state(town, T1)["isr"]) == 2)
    assert elect(town, 1) == [ErrorCode.NONE]
    town.run(12_000)
    assert members(town)[0] == 2  # one of the two that prefer broker 1: not more than half
    assert members(town, T0)[0] == 2


def test_the_next_controller_goes_on() -> None:
    town = balanced()
    away_from_preferred(town)
    town.start(1)
    wait_in_sync(town)
    town.run(3_000)
    town.kill(town.controller)
    town.run(4_000)
    assert members(town)[0] == 2
    town.run(2_000)
    assert members(town)[0] == 1


@pytest.mark.parametrize("allowed", [True, False])
def test_who_was_left_out_gets_an_unclean_leader_at_the_next_look(*, allowed: bool) -> None:
    """It was allowed, and nothing told the controller: at an interval it looks by itself."""
    town = Town(settings={"unclean.leader.election.interval.ms": "5000"})
    town.start()
    town.run(100)
    create(town, "t", [1, 2])
    town.kill(2)
    town.run_until(lambda: state(town)["isr"] == [1])
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(1)
    town.start(2)
    town.run_until(lambda: members(town)[0] == -1)
    image = town.node(town.controller).controlling.image
    assert image is not None
    image.cluster.topics["t"].configs["unclean.leader.election.enable"] = str(allowed).lower()
    town.run(4_000)
    assert members(town)[0] == -1
    town.run(2_000)
    assert members(town)[0] == (2 if allowed else -1)
