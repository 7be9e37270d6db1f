"""Batches that rot below the recovery point: who reads them finds it, who has them mends it."""

import pytest
from tests.node.moving import T0, create, elect, members, move, produce, state
from tests.node.town import Town
from tests.scenarios.stage import (
    a_town,
    alike,
    consumed,
    copies_nothing,
    fetches_of,
    isr,
    nothing,
    replica,
    send,
    values,
)

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from replog.model.messages.describe_replicas import (
    DescribeReplicasRequest,
    DescribeReplicasResponse,
)
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from replog.model.messages.report_offline_replicas import ReportOfflineReplicasRequest
from replog.records.header import crc_ok, iterate

U0 = TopicPartition("u", 0)
VALUES = [b"one", b"two", b"three"]


@pytest.fixture
def town() -> Town:
    """Broker 0 is the controller; 1 leads, and all hold three batches of one record, on disk."""
    made = a_town(replica__fetch__backoff__ms="100")
    create(made, "t", [1, 2, 0], min__insync__replicas="2", file__delete__delay__ms="500")
    for value in VALUES:
        assert produce(made, value) is ErrorCode.NONE
    made.run(100)
    for broker in (0, 1, 2):
        replica(made, broker).log.flush()
        replica(made, broker).folder.write_recovery_points()
    return made


def rot(town: Town, broker: int, offset: int, tp: TopicPartition = T0, *, at: int = -1) -> None:
    """A bit of a batch flips on a broker's disk: in its last byte, or in byte `at` of it."""
    inode = town.disks[broker].inode(f"{tp}/{0:020d}.log")
    batch = next(b for b in iterate(bytes(inode.data)) if b.base_offset == offset)
    inode.data[batch.position + (at % batch.length)] ^= 4
    inode.durable = bytes(inode.data)


def lose_disk(town: Town, broker: int) -> None:
    """A broker comes back with an empty disk, and copies everything."""
    town.kill(broker)
    town.run_until(lambda: broker not in isr(town))
    town.replace_disk(broker)
    town.start(broker)


def damaged(town: Town, broker: int) -> list[str]:
    """What a broker tells of its logs."""
    told = town.ask(broker, DescribeReplicasRequest(topics=[]), DescribeReplicasResponse)
    return [f"{log.topic}-{log.index}" for log in told.damaged_logs if log.reason]


def asides(town: Town, broker: int) -> list[str]:
    """Folders that are kept beside those in use."""
    return [name for name in town.disks[broker].list("") if name.endswith("-stray")]


def whole(town: Town) -> bool:
    return isr(town) == [0, 1, 2] and values(town, 1)[:3] == VALUES and alike(town, 0, 1, 2)


def in_session(town: Town, broker: int, offset: int, tp: TopicPartition = T0) -> int:
    """A consumer with a fetch session asks twice for the same; returns what the second told."""
    topic = FetchTopic(
        topic_id=replica(town, broker, tp).topic_id,
        partitions=[
            FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20),
        ],
    )
    first = FetchRequest(max_bytes=1 << 20, session_epoch=0, topics=[topic])
    session = town.ask(broker, first, FetchResponse).session_id
    again = FetchRequest(max_bytes=1 << 20, session_id=session, session_epoch=1, topics=[])
    return town.ask(broker, again, FetchResponse).responses[0].partitions[0].error_code


@pytest.mark.scenario(21)
@pytest.mark.parametrize("at", [-1, 16, 22])  # of the payload, of the magic, of the attributes
def test_a_leader_whose_batch_has_rotted_gives_way_and_is_mended(town: Town, at: int) -> None:
    """A follower can't take it, and says so: another one leads, and the first copies from there."""
    rot(town, 1, 1, at=at)
    begun = town.now_ms
    lose_disk(town, 0)
    town.run_until(lambda: members(town)[0] == 2)
    town.run_until(lambda: whole(town))
    assert town.now_ms - begun < 3_000
    assert state(town)["leader"] == 2, "leadership does not move back by itself"
    assert produce(town, b"four") is ErrorCode.NONE
    town.run(1_000)
    assert consumed(town, 2) == [*VALUES, b"four"]
    assert whole(town) and not asides(town, 1), "what was damaged is gone now"
    assert replica(town, 1).damage is None


@pytest.mark.scenario(21)
def test_what_is_damaged_is_kept_until_all_of_it_is_there_again(town: Town) -> None:
    """It has sound records too: should the copy fail, nobody else may have them."""
    rot(town, 1, 1)
    town.lose_send = fetches_of(1)
    lose_disk(town, 0)
    town.run_until(lambda: members(town)[0] == 2)
    town.run(3_000)
    assert isr(town) == [0, 2]
    (aside,) = asides(town, 1)
    kept = town.disks[1].read_file(f"{aside}/{0:020d}.log") or b""
    assert len(iterate(kept)) == 3
    town.lose_send = nothing
    town.run_until(lambda: whole(town))
    town.run(1_000)
    assert not asides(town, 1)


@pytest.mark.scenario(21)
def test_the_only_one_in_sync_leads_on_with_what_is_sound(town: Town) -> None:
    """It is never cut, and it gives way as soon as anybody has all that it has."""
    create(town, "u", [1, 2, 0], min__insync__replicas="1")
    for value in VALUES:
        assert produce(town, value, U0) is ErrorCode.NONE
    copies_nothing(town, 0, 2)
    assert produce(town, b"four", U0, acks=1) is ErrorCode.NONE
    town.run_until(lambda: isr(town, U0) == [1])
    rot(town, 1, 1, U0)
    town.kill(0)
    town.replace_disk(0)
    town.lose_send = fetches_of(2)
    town.start(0)
    town.run_until(lambda: damaged(town, 1) == ["u-0"])
    town.run(3_000)
    assert members(town, U0) == (1, [1], [])
    assert produce(town, b"five", U0) is ErrorCode.NONE
    assert consumed(town, 1, 2, U0) == [b"three", b"four", b"five"]
    town.lose_send = nothing  # 2 has the batch already, and catches up
    town.run_until(lambda: members(town, U0)[0] == 2)
    town.run_until(lambda: isr(town, U0) == [0, 1, 2] and alike(town, 0, 1, 2, tp=U0))
    assert values(town, 1, U0) == [*VALUES, b"four", b"five"]


@pytest.mark.scenario(89)
def test_a_log_that_was_taken_away_does_not_have_the_others_cut_theirs(town: Town) -> None:
    """Its broker was stopped last, in good order: an empty log of its own would lead."""
    create(town, "u", [1, 2], min__insync__replicas="1")
    for value in VALUES:
        assert produce(town, value, U0) is ErrorCode.NONE
    town.run_until(lambda: isr(town, U0) == [1, 2])
    for broker in (2, 1):
        town.stop(broker)
        town.run_until(lambda gone=broker: gone not in members(town, U0)[1][1:])
    assert members(town, U0) == (-1, [1], [])
    town.disks[1].remove_tree(str(U0))
    town.start(1, 2)
    town.run_until(lambda: "u" in town.node(2).cluster.topics)
    town.run(3_000)
    assert members(town, U0) == (-1, [1], []), "it is brought back, or somebody decides"
    assert damaged(town, 1) == ["u-0"] and not damaged(town, 2), "and somebody is told"
    assert values(town, 2, U0) == VALUES
    assert elect(town, 0, kind=1, topic="u") == [ErrorCode.NONE]
    town.run_until(lambda: isr(town, U0) == [1, 2] and alike(town, 1, 2, tp=U0))
    assert consumed(town, 2, 0, U0) == VALUES and not damaged(town, 1)


@pytest.mark.scenario(21)
def test_a_consumer_that_asks_again_for_what_it_was_sent_leads_to_the_damage(town: Town) -> None:
    rot(town, 1, 1)
    assert in_session(town, 1, 0) == ErrorCode.NONE
    town.run(500)
    assert members(town)[0] == 1, "the first batch is sound"
    in_session(town, 1, 1)
    town.run_until(lambda: members(town)[0] == 2)
    town.run_until(lambda: whole(town))


@pytest.mark.scenario(21)
def test_a_follower_that_finds_its_own_log_damaged_copies_it_anew(town: Town) -> None:
    """The leader stays, and does not take what the follower had for what it has now: it begins
    another epoch."""
    epoch = state(town)["leader_epoch"]
    rot(town, 2, 1)
    replica(town, 2).log.segments[0].forget()
    fault = replica(town, 2).log.fault_at(1)
    assert fault is not None
    town.node(2).partitions.damaged.found(replica(town, 2), fault)
    town.run_until(lambda: replica(town, 2).damage is None)
    town.run_until(lambda: whole(town))
    found = state(town)
    assert (found["leader"], found["leader_epoch"]) == (1, epoch + 1)


@pytest.mark.scenario(21)
def test_two_damaged_logs_are_mended_one_from_the_other(town: Town) -> None:
    """1 copies from 2, meets what has rotted there, and goes on with what 0 has."""
    rot(town, 1, 1)
    rot(town, 2, 2)
    in_session(town, 1, 1)
    town.run_until(lambda: members(town)[0] == 0)
    town.run_until(lambda: whole(town))


@pytest.mark.scenario(21)
def test_where_all_copies_are_damaged_nothing_is_thrown_away(town: Town) -> None:
    """What either has may be put together by hand."""
    create(town, "u", [1, 2], min__insync__replicas="1")
    for value in VALUES:
        assert produce(town, value, U0) is ErrorCode.NONE
    town.run(100)
    rot(town, 1, 1, U0)
    rot(town, 2, 2, U0)
    in_session(town, 1, 1, U0)
    town.run_until(lambda: members(town, U0)[0] == 2)
    town.run_until(lambda: damaged(town, 2))
    town.run(3_000)
    assert members(town, U0)[:2] == (2, [2])
    (aside,) = asides(town, 1)
    kept = town.disks[1].read_file(f"{aside}/{0:020d}.log") or b""
    assert [b.base_offset for b in iterate(kept) if crc_ok(kept, b)] == [0, 2]


@pytest.mark.scenario(21)
def test_a_log_that_cannot_be_opened_is_copied_anew_without_anybodys_help(town: Town) -> None:
    town.kill(2)
    rot(town, 2, 1, at=16)
    town.start(2)
    town.run_until(lambda: any("can't be opened" in line for line in town.reports))
    town.run_until(lambda: whole(town))
    town.run(1_000)
    assert not asides(town, 2)
    assert members(town)[0] == 1


def kill_the_only_one(town: Town) -> None:
    """Broker 2, who alone has the topic u: what it has is flushed."""
    create(town, "u", [2], min__insync__replicas="1")
    assert produce(town, b"one", U0) is ErrorCode.NONE
    assert produce(town, b"two", U0) is ErrorCode.NONE
    replica(town, 2, U0).log.flush()
    replica(town, 2, U0).folder.write_recovery_points()
    town.kill(2)


@pytest.mark.scenario(21)
def test_the_only_log_is_not_thrown_away_because_it_cannot_be_opened(town: Town) -> None:
    kill_the_only_one(town)
    rot(town, 2, 0, U0, at=16)
    before = bytes(town.disks[2].inode(f"{U0}/{0:020d}.log").data)
    town.start(2)
    town.run(3_000)
    assert members(town, U0)[:2] == (-1, [2])
    assert bytes(town.disks[2].inode(f"{U0}/{0:020d}.log").data) == before


@pytest.mark.scenario(21)
def test_the_only_log_leads_again_without_a_restart_when_it_can_be_opened_after_all(
    town: Town,
) -> None:
    kill_the_only_one(town)
    inode = town.disks[2].inode(f"{U0}/{0:020d}.log")
    sound = bytes(inode.data)
    rot(town, 2, 0, U0, at=16)
    town.start(2)
    town.run(1_000)
    assert members(town, U0)[:2] == (-1, [2])
    inode.data[:], inode.durable = sound, sound
    assert move(town, [2, 1], U0) is ErrorCode.NONE  # the broker looks at it once more
    town.run_until(lambda: members(town, U0)[0] == 2)
    town.run_until(lambda: set(members(town, U0)[1]) == {1, 2})
    assert produce(town, b"three", U0) is ErrorCode.NONE


@pytest.mark.scenario(21)
def test_what_a_log_had_that_is_thrown_away_counts_for_no_other_log(town: Town) -> None:
    """A follower with a damaged log leaves the ISR by another way, and its leader still knows how
    far it was in this epoch. An empty log in its place would be taken for in sync."""
    town.lose_send = lambda source, target, message: isinstance(
        message, ReportOfflineReplicasRequest
    )
    town.node(2).partitions.damaged.found(replica(town, 2), "what a test says")
    now = state(town)
    shrunk = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=now["leader_epoch"],
        partition_epoch=now["partition_epoch"],
        new_isr_with_epochs=[
            BrokerState(broker_id=broker, broker_epoch=town.node(broker).broker_epoch)
            for broker in (1, 0)
        ],
    )
    leader = town.node(1)
    message = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=leader.broker_epoch,
        topics=[
            AlterPartitionRequestTopicData(topic_id=replica(town, 1).topic_id, partitions=[shrunk])
        ],
    )
    send(town, 1, 0, message)
    town.lose_reply = lambda source, target, message: (source, target) == (1, 2)
    for _ in range(500):
        town.run(1)
        held_by_all = min(replica(town, broker).log_end_offset for broker in isr(town))
        assert held_by_all == len(VALUES), "whoever is in the ISR has all that is committed"
    town.lose_send = town.lose_reply = nothing
    town.run_until(lambda: whole(town))
