"""Retention, DeleteRecords and compaction on real nodes: what goes, when, and who has to agree."""

from collections.abc import Sequence

import pytest
from tests.node.test_altering_configs import alter
from tests.node.town import Town

from replog.log import checkpoints
from replog.log.results import LogRead
from replog.model.config_resources import ResourceType
from replog.model.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.model.messages.fetch import FetchRequest
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.node import deletions
from replog.node.partition import Partition
from replog.records.batch import Producer, Record, build_batch, iterate, read_records

T0 = TopicPartition("t", 0)
REPLICAS = [0, 1, 2]
MIB = 1 << 20
SETTINGS = {
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "2000",
    "log.segment.bytes": str(MIB),
}


def a_town(**settings: str) -> Town:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    town = Town(settings=SETTINGS | named)
    town.start()
    town.run_until(lambda: any(life.node.controlling.active for life in town.lives.values()))
    return town


def create(town: Town, name: str = "t", replicas: Sequence[int] = REPLICAS, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[
            CreatableTopicConfig(name=config.replace("_", "."), value=value)
            for config, value in configs.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
    answer = town.ask(town.controller, request, CreateTopicsResponse)
    assert answer.topics[0].error_code == 0, answer.topics[0]
    place = TopicPartition(name, 0)
    town.run_until(lambda: all(town.node(b).partitions.get(place) for b in replicas))


def produce(
    town: Town,
    *pairs: tuple[bytes | None, bytes | None],
    name: str = "t",
    acks: int = -1,
    time: int | None = None,
) -> int:
    """One batch; returns its base offset."""
    when = town.wall_ms if time is None else time
    records = [Record(0, when, key, value) for key, value in pairs]
    return send(town, build_batch(records), name=name, acks=acks)


def send(town: Town, batch: bytes, *, name: str = "t", acks: int = -1) -> int:
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=name, partition_data=[data])],
    )
    answer = town.ask(0, request, ProduceResponse, version=9)
    result = answer.responses[0].partition_responses[0]
    assert result.error_code == 0, result
    return result.base_offset


def fill(town: Town, segments: int, name: str = "t", **options: int) -> None:
    """Batches of half a segment, so that there are so many sealed ones, and half an active one."""
    for _ in range(2 * segments + 1):
        produce(town, (b"k", b"x" * (MIB // 2 - 200)), name=name, **options)


def partition(town: Town, broker: int, name: str = "t") -> Partition:
    found = town.node(broker).partitions.get(TopicPartition(name, 0))
    assert found is not None
    return found


def starts(town: Town, name: str = "t") -> list[int]:
    return [partition(town, broker, name).log_start_offset for broker in REPLICAS]


def delete(
    town: Town, offset: int, *, at: int = 0, name: str = "t", timeout_ms: int = 5_000
) -> int:
    """The connection on which the answer comes."""
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=[asked])], timeout_ms=timeout_ms
    )
    return town.ask_later(at, request)


def deleted(town: Town, connection: int) -> tuple[int, int]:
    """(error, low watermark)."""
    town.run_until(lambda: town.answered(connection))
    (topic,) = town.answer(connection, DeleteRecordsResponse).topics
    (result,) = topic.partitions
    return result.error_code, result.low_watermark


def files(town: Town, broker: int, ending: str, name: str = "t") -> list[str]:
    return [f for f in town.disks[broker].list(f"{name}-0") if f.endswith(ending)]


# Retention --------------------------------------------------------------------------------------


@pytest.mark.surface(29)
def test_old_segments_leave_every_replica_and_their_files_later() -> None:
    town = a_town()
    create(town, retention_ms="5000", segment_bytes=str(MIB))
    fill(town, 3)
    assert len(files(town, 1, ".log")) == 4
    town.run(4_000)
    assert starts(town) == [0, 0, 0]
    town.run(3_000)
    assert starts(town) == [7, 7, 7], "the active segment goes too, behind a new one"
    for broker in REPLICAS:
        assert files(town, broker, ".log") == [f"{7:020d}.log"]
        assert len(files(town, broker, ".log.deleted")) == 4
    town.run(3_000)
    assert [files(town, broker, ".deleted") for broker in REPLICAS] == [[], [], []]
    assert produce(town, (None, b"next")) == 7


def test_a_log_is_kept_as_large_as_it_should_be() -> None:
    town = a_town()
    create(town, retention_bytes=str(2 * MIB))
    fill(town, 5)
    town.run(2_000)
    assert all(start == 6 for start in starts(town))
    assert all(2 * MIB <= partition(town, b).log.size < 3 * MIB for b in REPLICAS)


@pytest.mark.scenario(55)
def test_what_is_not_committed_stays_however_old_it_is() -> None:
    town = a_town(replica_lag_time_max_ms="500000")
    create(town, retention_ms="1000", retention_bytes="0")
    produce(town, (b"k", b"committed"))
    town.lose_send = lambda source, target, message: (
        isinstance(message, FetchRequest) and source == 2
    )
    fill(town, 2, acks=1)
    town.run(10_000)
    leader = partition(town, 0)
    assert leader.high_watermark < leader.log_end_offset
    assert leader.log_start_offset <= leader.high_watermark
    town.lose_send = lambda *_: False
    town.run_until(lambda: starts(town) == [6, 6, 6], limit_ms=60_000)


def test_a_compacted_topic_is_not_cut_by_age() -> None:
    town = a_town()
    create(town, cleanup_policy="compact", retention_ms="1000", retention_bytes="0")
    fill(town, 1)
    town.run(5_000)
    assert starts(town) == [0, 0, 0]
    create(town, "both", cleanup_policy="compact,delete", retention_ms="1000")
    fill(town, 1, "both")
    town.run(5_000)
    assert starts(town, "both") == [3, 3, 3]


# DeleteRecords ----------------------------------------------------------------------------------


@pytest.mark.surface(27)
def test_all_live_replicas_move_before_the_answer() -> None:
    town = a_town()
    create(town)
    for i in range(4):
        produce(town, (None, b"%d" % i))
    assert deleted(town, delete(town, 2)) == (0, 2)
    assert starts(town) == [2, 2, 2]
    assert deleted(town, delete(town, 1)) == (0, 2), "it never goes back"
    assert deleted(town, delete(town, -1)) == (0, 4)
    assert deleted(town, delete(town, 5)) == (1, -1)
    assert deleted(town, delete(town, -2)) == (1, -1)
    assert deleted(town, delete(town, 4, at=1)) == (6, -1)
    assert deleted(town, delete(town, 0, name="nowhere")) == (3, -1)
    assert deleted(town, delete(town, 0, name=GROUP_OFFSETS_TOPIC)) == (3, -1), "not made yet"


def test_policies_decide_who_may_delete() -> None:
    town = a_town()
    create(town, "compacted", cleanup_policy="compact")
    create(town, "both", cleanup_policy="compact,delete")
    for name, answer in (("compacted", (44, -1)), ("both", (0, 1))):
        produce(town, (b"k", b"v"), name=name)
        assert deleted(town, delete(town, 1, name=name)) == answer


def test_a_follower_that_is_away_is_waited_for_until_it_is_dead() -> None:
    town = a_town()
    create(town)
    produce(town, (None, b"a"))
    town.pause(2)
    asked = delete(town, 1, timeout_ms=60_000)
    town.run(300)
    assert not town.answered(asked)
    assert partition(town, 0).log_start_offset == 1, "on the leader it is done"
    town.kill(2)
    town.expire(2)
    assert deleted(town, asked) == (0, 1)


def test_the_wait_ends_with_its_time() -> None:
    town = a_town()
    create(town)
    produce(town, (None, b"a"))
    town.pause(2)
    begun = town.now_ms
    assert deleted(town, delete(town, 1, timeout_ms=400)) == (7, 0)
    assert 400 <= town.now_ms - begun < 600


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_allows_no_time_does_not_wait_for_followers(timeout_ms: int) -> None:
    town = a_town()
    create(town)
    produce(town, (None, b"a"))
    assert deleted(town, delete(town, 1, timeout_ms=timeout_ms)) == (7, 0)
    assert partition(town, 0).log_start_offset == 1


def test_the_wait_ends_with_the_leadership() -> None:
    town = a_town(replica_lag_time_max_ms="30000")
    create(town)
    produce(town, (None, b"a"))
    town.pause(2)
    asked = delete(town, 1, timeout_ms=60_000)
    town.run(100)
    town.node(0).partitions.get(T0).step_down()  # type: ignore[union-attr]
    town.node(0).upkeep.deletions.check_all()
    assert deleted(town, asked) == (6, -1)


def test_no_more_wait_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "WAITING_MAX", 1)
    town = a_town()
    create(town)
    produce(town, (None, b"a"))
    town.pause(2)
    first = delete(town, 1, timeout_ms=60_000)
    town.run(50)
    assert deleted(town, delete(town, 1)) == (89, -1)
    assert not town.answered(first)
    town.resume(2)
    assert deleted(town, first) == (0, 1)
    assert deleted(town, delete(town, 1)) == (0, 1)


def test_what_was_deleted_stays_so_through_a_kill() -> None:
    town = a_town()
    create(town)
    for i in range(4):
        produce(town, (None, b"%d" % i))
    town.disk_delays_ms = {0: 1_000}
    asked = delete(town, 3)
    town.run(900)
    assert starts(town) == [3, 3, 3] and not town.answered(asked), "the leader's disk is slow"
    assert deleted(town, asked) == (0, 3)
    for broker in REPLICAS:
        town.kill(broker)
        town.disks[broker].crash()
    town.start()
    town.run_until(lambda: all(town.node(b).partitions.get(T0) for b in REPLICAS))
    assert starts(town) == [3, 3, 3]
    assert checkpoints.read(town.disks[0], checkpoints.LOG_STARTS) == ({T0: 3}, None)


def test_a_new_replica_begins_inside_a_batch_as_its_leader_does() -> None:
    """Records are deleted one by one, batches are copied whole."""
    town = a_town()
    create(town)
    for _ in range(3):
        produce(town, *[(b"k", b"v")] * 4)
    asked = delete(town, 6)
    town.run_until(lambda: town.answered(asked))
    town.kill(2)
    town.replace_disk(2)
    town.start(2)
    town.run_until(lambda: partition(town, 2).log_end_offset == 12, limit_ms=20_000)
    produce(town, (b"k", b"w"))
    town.run_until(lambda: partition(town, 2).high_watermark == 13)
    town.run(1_000)
    assert starts(town) == [6, 6, 6]
    assert kept(town, 2) == kept(town, 0)


def test_a_new_topic_of_the_name_begins_at_its_own_start() -> None:
    town = a_town()
    create(town)
    for i in range(4):
        produce(town, (None, b"%d" % i))
    assert deleted(town, delete(town, 3)) == (0, 3)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000)
    assert town.ask(town.controller, request, DeleteTopicsResponse).responses[0].error_code == 0
    town.run(100)
    create(town)
    for i in range(5):
        produce(town, (None, b"%d" % i))
    for broker in REPLICAS:
        town.kill(broker)
        town.disks[broker].crash()
    town.start()
    town.run_until(lambda: all(town.node(b).partitions.get(T0) for b in REPLICAS))
    assert starts(town) == [0, 0, 0]
    assert [partition(town, b).log_end_offset for b in REPLICAS] == [5, 5, 5]


# Compaction -------------------------------------------------------------------------------------


def kept(town: Town, broker: int, name: str = "t") -> list[tuple[int, bytes | None]]:
    """(offset, key) of all records in the log of a replica."""
    log = partition(town, broker, name).log
    found: list[tuple[int, bytes | None]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 30, upto=log.log_end_offset, min_one=True)
        assert isinstance(read, LogRead) and read.range is not None
        data = read.range.read()
        found += [(record.offset, record.key) for record in read_records(data)]
        offset = iterate(data)[-1].next_offset
    return found


def fill_keys(town: Town, name: str = "t") -> None:
    """Three sealed segments; key k0 to k3 over and over."""
    for i in range(14):
        produce(town, (b"k%d" % (i % 4), b"x" * (MIB // 4 - 200)), name=name)


def test_every_replica_compacts_for_itself() -> None:
    town = a_town()
    create(town, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill_keys(town)
    town.run(3_000)
    assert [kept(town, broker) for broker in REPLICAS] == [
        [(o, b"k%d" % (o % 4)) for o in range(8, 14)]
    ] * 3
    for broker in REPLICAS:
        found, _ = checkpoints.read(town.disks[broker], checkpoints.CLEANED)
        assert found == {T0: 12}
    assert any("t-0: compacted to offset 12" in line for line in town.reports)
    town.run(3_000)
    assert [files(town, broker, ".deleted") for broker in REPLICAS] == [[], [], []]


def test_a_new_replica_copies_what_compaction_left() -> None:
    town = a_town()
    create(town, replicas=[0, 1], cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill_keys(town)
    town.run(3_000)
    wanted = kept(town, 0)
    town.kill(1)
    town.expire(1)
    town.disks[1].remove_tree("t-0")
    town.start(1)
    town.run_until(lambda: town.node(1).partitions.get(T0) is not None)
    town.run_until(lambda: partition(town, 1).log_end_offset == 14)
    assert kept(town, 1) == wanted


def test_a_broken_segment_concerns_its_own_partition_alone() -> None:
    town = a_town()
    for name in ("t", "u"):
        create(town, name, [0], cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill_keys(town)
    inode = town.disks[0].inode(f"t-0/{0:020d}.log")
    inode.data[500] ^= 1
    fill_keys(town, "u")
    town.run(5_000)
    assert [line for line in town.reports if "t-0 is not compacted" in line] != []
    assert len([line for line in town.reports if "t-0 is not compacted" in line]) == 1
    assert len(kept(town, 0)) == 14 and len(kept(town, 0, "u")) == 6
    assert produce(town, (b"k", b"goes on")) == 14


def test_the_cleaner_can_be_switched_off() -> None:
    town = a_town(log_cleaner_enable="false")
    create(town, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill_keys(town)
    town.run(5_000)
    assert len(kept(town, 0)) == 14


def test_a_slow_cleaner_takes_its_time() -> None:
    town = a_town(log_cleaner_io_max_bytes_per_second=str(2 * MIB))
    create(town, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill_keys(town)
    town.run(1_500)
    assert len(kept(town, 0)) == 14
    town.run(6_000)
    assert len(kept(town, 0)) == 6


@pytest.mark.parametrize(("threads", "together"), [(1, 1), (2, 2), (3, 3)])
def test_as_many_logs_are_compacted_at_a_time_as_there_are_threads(
    threads: int, together: int
) -> None:
    town = a_town(log_cleaner_threads=str(threads))
    for name in ("t", "u", "v", "w"):
        create(town, name, [0], cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
        fill_keys(town, name)
    town.disk_delays_ms[0] = 200  # of each slice
    cleaning = town.node(0).upkeep.cleaning
    most = 0

    def all_are_done() -> bool:
        nonlocal most
        most = max(most, cleaning.under_way)
        return all(len(kept(town, 0, name)) == 6 for name in ("t", "u", "v", "w"))

    town.run_until(all_are_done, limit_ms=60_000)
    assert most == together


def test_the_number_of_cleaners_changes_while_they_work() -> None:
    """From none, too."""
    town = a_town(log_cleaner_threads="0")
    create(town, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
    fill_keys(town)
    town.run(5_000)
    assert len(kept(town, 0)) == 14
    assert alter(town, ResourceType.BROKER, "0", 0, log__cleaner__threads="1")[0] == 0
    town.run(3_000)
    assert [len(kept(town, broker)) for broker in REPLICAS] == [6, 14, 14]


def test_cleaners_share_the_speed_that_is_allowed() -> None:
    town = a_town(
        log_cleaner_io_max_bytes_per_second=str(2 * MIB),
        log_cleaner_threads="2",
    )
    for name in ("t", "u"):
        create(town, name, [0], cleanup_policy="compact", min_cleanable_dirty_ratio="0.1")
        fill_keys(town, name)
    town.run(4_500)
    assert [len(kept(town, 0, name)) for name in ("t", "u")] == [14, 14], "alone, one would be done"
    town.run(12_000)
    assert [len(kept(town, 0, name)) for name in ("t", "u")] == [6, 6]


# Producers --------------------------------------------------------------------------------------


def test_producers_that_write_nothing_any_more_are_forgotten() -> None:
    town = a_town(producer_id_expiration_ms="5000")
    create(town)
    for producer_id, age in ((7, 0), (8, 6_000)):
        written = Producer(producer_id, 0, 0)
        send(town, build_batch([Record(0, town.wall_ms - age, None, b"v")], producer=written))
    assert set(partition(town, 0).producers.producers) == {7, 8}
    town.run(4_900)
    town.run(200)
    assert set(partition(town, 0).producers.producers) <= {7}
    town.run(6_000)
    assert [set(partition(town, b).producers.producers) for b in REPLICAS] == [set()] * 3
