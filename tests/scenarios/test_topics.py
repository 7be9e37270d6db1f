"""Topics that are moved, deleted and made again, and elections, while brokers fail."""

import pytest
from tests.node.moving import (
    T0,
    assigned,
    begin_move,
    create,
    elect,
    held,
    members,
    move,
    produce,
    state,
)
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    alike,
    consumed,
    copies_nothing,
    fetch,
    fetches_of,
    isr,
    nothing,
    replica,
    values,
)

from replog.model.errors import ErrorCode
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

UNCLEAN = 1
DELETE_DELAY_MS = 60_000  # `file.delete.delay.ms`


@pytest.fixture
def town() -> Town:
    """Broker 0 is the controller."""
    return a_town()


def delete(town: Town, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5_000)
    answer = town.ask(town.controller, request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE


# ---- elections ----------------------------------------------------------------------------------


@pytest.mark.scenario(51)
@pytest.mark.parametrize("unclean", [False, True])
def test_only_a_replica_out_of_sync_is_left(town: Town, unclean: bool) -> None:
    """Nobody leads, unless the topic says that loss is better; then it is told to everybody."""
    create(
        town,
        "t",
        [1, 2],
        min__insync__replicas="1",
        unclean__leader__election__enable=str(unclean).lower(),
    )
    assert produce(town, b"both") is ErrorCode.NONE
    copies_nothing(town, 2)
    assert produce(town, b"one only") is ErrorCode.NONE
    assert members(town) == (1, [1], [])
    read_in = state(town)["leader_epoch"]
    town.kill(1)
    town.run(2_000)
    if not unclean:
        assert members(town) == (-1, [1], []), "the last member stays recorded"
        town.start(1)
        town.run_until(lambda: members(town)[0] == 1)
        assert consumed(town, 1) == [b"both", b"one only"]
        return
    assert members(town) == (2, [2], [])
    assert any("UNCLEAN" in line for line in town.reports)
    assert produce(town, b"instead", acks=1) is ErrorCode.NONE
    # A consumer that has read what is lost asks on from there, and is told where histories part.
    asked = FetchPartition(
        partition=0, fetch_offset=2, last_fetched_epoch=read_in, partition_max_bytes=1 << 20
    )
    topic_id = town.node(2).cluster.topics["t"].topic_id
    request = FetchRequest(
        max_bytes=1 << 20, topics=[FetchTopic(topic_id=topic_id, partitions=[asked])]
    )
    part = town.ask(2, request, FetchResponse).responses[0].partitions[0]
    assert part.diverging_epoch.end_offset == 1
    town.lose_send = nothing
    town.start(1)
    town.run_until(lambda: isr(town) == [1, 2])
    assert values(town, 1) == values(town, 2) == [b"both", b"instead"]


@pytest.mark.scenario(77)
def test_a_preferred_leader_is_elected_only_when_it_has_it_all(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="1")
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(1)
    town.run_until(lambda: members(town)[0] == 2)
    assert produce(town, b"two") is ErrorCode.NONE
    town.lose_send = fetches_of(1)
    town.start(1)
    town.run(300)
    before = state(town)
    assert elect(town, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert state(town) == before, "a leader that is in order stays, in its epoch"
    town.lose_send = nothing
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert elect(town, 0) == [ErrorCode.NONE]
    assert members(town)[0] == 1 and consumed(town, 1) == [b"one", b"two"]
    assert elect(town, 0) == [ErrorCode.ELECTION_NOT_NEEDED]


# ---- followers that serve consumers -------------------------------------------------------------


@pytest.mark.scenario(78)
def test_a_follower_serves_what_it_knows_to_be_committed_and_nothing_else(town: Town) -> None:
    create(town, "t", [1, 2, 0], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    town.run(300)
    assert consumed(town, 2) == [b"one"]
    town.lose_send = fetches_of(0)
    town.run(300)
    assert produce(town, b"two", acks=1) is ErrorCode.NONE
    town.run(100)
    follower = replica(town, 2)
    assert (follower.log_end_offset, follower.high_watermark) == (2, 1)
    assert consumed(town, 2) == [b"one"], "it has more, and shows what is committed"
    beyond = fetch(town, 2, offset=2)
    assert beyond.error_code == ErrorCode.NONE and not beyond.records, "to be asked for again"
    town.lose_send = nothing
    town.run_until(lambda: follower.high_watermark == 2)
    assert consumed(town, 2, offset=1) == [b"two"]


# ---- moves --------------------------------------------------------------------------------------


@pytest.mark.scenario(56)
def test_the_leader_dies_while_the_last_target_is_let_in() -> None:
    """Old replicas stay until all new ones are in the ISR, whoever leads meanwhile."""
    town = a_town(0, 1, 2, 3, 4)
    create(town, "t", [1, 2], min__insync__replicas="1")
    for number in range(5):
        assert produce(town, b"%d" % number) is ErrorCode.NONE
    epoch = state(town)["leader_epoch"]
    copies_nothing(town, 4)
    begin_move(town, [3, 4])
    town.run_until(lambda: 3 in isr(town))
    assert set(isr(town)) <= set(assigned(town)[0]), "the ISR is a part of who is assigned"
    town.kill(1)
    town.run_until(lambda: members(town)[0] in (2, 3))
    assert values(town, 2) == [b"%d" % number for number in range(5)], "nothing is deleted yet"
    town.lose_send = nothing
    town.run_until(lambda: assigned(town) == ([3, 4], [], []))
    town.run_until(lambda: isr(town) == [3, 4])
    assert alike(town, 3, 4) and len(values(town, 3)) == 5
    assert state(town)["leader_epoch"] > epoch
    town.start(1)
    town.run(1_000)
    assert held(town, 1) is None and held(town, 2) is None


@pytest.mark.scenario(84)
def test_a_broker_is_emptied_before_it_is_taken_away_and_not_while_that_would_be_too_few() -> None:
    town = a_town(0, 1, 2, 3)
    create(town, "t", [1, 2, 3], min__insync__replicas="2")
    assert produce(town, b"one") is ErrorCode.NONE
    town.lose_send = fetches_of(0)
    begin_move(town, [0, 2, 3])
    town.run(3_000)
    found, adding, removing = assigned(town)
    assert (adding, removing) == ([0], [1]) and 1 in found, "the new one has nothing yet"
    assert 1 in isr(town) and values(town, 1) == [b"one"]
    town.lose_send = nothing
    town.run_until(lambda: assigned(town) == ([0, 2, 3], [], []))
    town.run_until(lambda: isr(town) == [0, 2, 3])
    assert held(town, 1) is None
    town.stop(1)
    town.run_until(lambda: not town.lives[1].alive)
    assert isr(town) == [0, 2, 3], "its leaving concerns nobody"
    assert produce(town, b"two") is ErrorCode.NONE


@pytest.mark.scenario(84)
def test_brokers_join_under_load_and_take_their_part() -> None:
    town = a_town(0, 1, 2, 3)
    town.kill(3)
    town.run(100)
    create(town, "t", [0, 1, 2], min__insync__replicas="2")
    for number in range(5):
        assert produce(town, b"%d" % number) is ErrorCode.NONE
    town.start(3)
    assert move(town, [3, 1, 2]) is ErrorCode.NONE
    for number in range(5, 10):
        assert produce(town, b"%d" % number) is ErrorCode.NONE
    town.run_until(lambda: assigned(town) == ([3, 1, 2], [], []))
    town.run_until(lambda: alike(town, 1, 2, 3))
    assert values(town, 3) == [b"%d" % number for number in range(10)]
    assert held(town, 0) is None


# ---- topics that are deleted --------------------------------------------------------------------


@pytest.mark.scenario(59)
def test_a_topic_is_deleted_while_it_is_copied_and_one_replica_is_down(town: Town) -> None:
    create(town, "t", [1, 2, 0])
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(2)
    town.run_until(lambda: isr(town) == [0, 1])
    assert produce(town, b"two") is ErrorCode.NONE
    delete(town, "t")
    town.run(100)
    for broker in (0, 1):
        assert town.node(broker).partitions.get(T0) is None
        assert held(town, broker) is None, "the folder has another name at once"
    assert held(town, 2) is not None
    town.start(2)
    town.run(500)
    assert town.node(2).partitions.get(T0) is None
    assert held(town, 2) is None, "what is left of it is out of the way"
    assert any("t-0 in" in line and "belongs to no topic" in line for line in town.reports)
    town.run(DELETE_DELAY_MS + 1_000)
    for broker in (0, 1):
        assert not [name for name in town.disks[broker].list("") if name.startswith("t-0")]
    assert all(life.alive for life in town.lives.values())


@pytest.mark.scenario(60)
def test_a_topic_is_made_again_under_its_name_while_a_broker_is_down(town: Town) -> None:
    """Nothing of the old one shows up in the new one: offsets, epochs, records, or clients' ids."""
    create(town, "t", [1, 2, 0])
    for number in range(5):
        assert produce(town, b"old %d" % number) is ErrorCode.NONE
    old_id = town.node(1).cluster.topics["t"].topic_id
    town.kill(2)
    town.run_until(lambda: isr(town) == [0, 1])
    delete(town, "t")
    create(town, "t", [1, 0])
    assert produce(town, b"new") is ErrorCode.NONE
    assert b"old 0" in (held(town, 2) or b"")
    town.start(2)
    town.run(500)
    assert held(town, 2) is None
    assert move(town, [1, 0, 2]) is ErrorCode.NONE
    town.run_until(lambda: isr(town) == [0, 1, 2])
    assert values(town, 0) == values(town, 1) == values(town, 2) == [b"new"]
    assert alike(town, 0, 1, 2)
    cached = FetchTopic(
        topic_id=old_id, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    )
    leader = members(town)[0]
    answer = town.ask(leader, FetchRequest(max_bytes=1 << 20, topics=[cached]), FetchResponse)
    error = answer.error_code or answer.responses[0].partitions[0].error_code
    assert error in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


@pytest.mark.scenario(60)
def test_what_belongs_to_no_topic_is_set_aside_when_all_topics_are_known_and_never_deleted(
    town: Town,
) -> None:
    """A broker that has heard nothing yet touches nothing. A coordinator that has lost what it knew
    costs no record either."""
    create(town, "t", [1, 2])
    assert produce(town, b"one") is ErrorCode.NONE
    town.kill(2)
    town.run(100)
    delete(town, "t")
    town.lose_send = lambda source, target, message: target == 2
    town.start(2)
    town.run(3_000)
    assert values(town, 2) == [b"one"]
    town.lose_send = nothing
    town.run_until(lambda: held(town, 2) is None)
    town.run(2 * DELETE_DELAY_MS)
    (stray,) = [name for name in town.disks[2].list("") if name.startswith("t-0.")]
    assert stray.endswith("-stray")
    assert b"one" in (town.disks[2].read_file(f"{stray}/00000000000000000000.log") or b"")
