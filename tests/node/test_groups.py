"""Groups on a broker: what is stored before it is said, and what a new coordinator knows."""

import pytest
from tests.node.group_broker import OFFSETS, GroupBroker
from tests.node.handlers.one_broker import record, topic_id

from replog.core.group.hashing import partition_for
from replog.log.disk import DiskError
from replog.model.errors import ErrorCode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from replog.node import group_partition, led_log, log_replay
from replog.records.batch import Record, build_batch, read_records

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
WITH_FOLLOWER = record(1, 2)


def led_by_another(epoch: int) -> object:
    return record(1, 2, leader=2, epoch=epoch)


# ---- whose group it is ---------------------------------------------------------------------


def test_a_group_lives_where_java_would_put_it() -> None:
    b = GroupBroker(None)
    count = 7
    b.topic(GROUP_OFFSETS_TOPIC, *[record(1)] * count)
    assert b.node.groups.partition_of("äö") == TopicPartition(
        GROUP_OFFSETS_TOPIC, partition_for("äö", count)
    )


def test_without_the_leadership_every_request_is_sent_away() -> None:
    b = GroupBroker(record(1, 2, leader=2))
    assert b.joined(b.join()).error_code == NOT_COORDINATOR
    assert b.synced(b.sync("m")).error_code == NOT_COORDINATOR
    assert b.heartbeat("m") == NOT_COORDINATOR
    assert b.committed(b.commit(1)) == [NOT_COORDINATOR]
    assert b.fetch() == NOT_COORDINATOR


# ---- commits -------------------------------------------------------------------------------


def test_an_offset_is_seen_when_it_is_committed_and_not_before() -> None:
    b = GroupBroker(WITH_FOLLOWER)
    token = b.commit(5)
    assert b.waits(token)
    assert b.fetch() == [-1], "a failover could still take it back"
    b.follower_has_all()
    assert b.committed(token) == [0]
    assert b.fetch() == [5]


def test_all_offsets_of_a_request_are_one_batch() -> None:
    b = GroupBroker()
    before = b.partition().log_end_offset
    assert b.committed(b.commit(5, partitions=(2, 0, 1))) == [0, 0, 0]
    assert b.partition().log_end_offset - before == 3
    assert len(list(b.partition().log.headers_from(before))) == 1
    assert b.fetch(partitions=(0, 1, 2)) == [5, 5, 5]


def test_a_commit_that_times_out_takes_effect_when_it_is_committed_after_all() -> None:
    b = GroupBroker(WITH_FOLLOWER, offsets__commit__timeout__ms="5000")
    token = b.commit(5)
    b.wait(4_999)
    assert b.waits(token)
    b.wait(1)
    assert b.committed(token) == [NOT_AVAILABLE]
    assert b.fetch() == [-1]
    b.follower_has_all()
    assert b.fetch() == [5], "as it would after a failover"


def test_too_few_replicas_store_nothing() -> None:
    b = GroupBroker(None)
    b.topic(GROUP_OFFSETS_TOPIC, record(1), min__insync__replicas="1")
    b.wait(0)
    assert b.committed(b.commit(5)) == [0]
    in_sync_alone = record(1, 2)
    b = GroupBroker(None)
    b.topic(GROUP_OFFSETS_TOPIC, in_sync_alone, min__insync__replicas="2")
    b.wait(0)
    shrunk = in_sync_alone.merge(controller_epoch=0, isr=(1,))
    b.topic(GROUP_OFFSETS_TOPIC, shrunk, min__insync__replicas="2")
    end = b.partition().log_end_offset
    assert b.committed(b.commit(6)) == [NOT_AVAILABLE]
    assert b.partition().log_end_offset == end
    assert b.fetch() == [-1]


@pytest.mark.parametrize(
    ("length", "error"), [(4096, 0), (4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)]
)
def test_metadata_at_and_past_the_limit(length: int, error: int) -> None:
    b = GroupBroker()
    assert b.committed(b.commit(5, metadata="x" * length)) == [error]
    assert b.fetch() == [-1 if error else 5]


def test_a_batch_that_is_too_large_is_refused_as_such() -> None:
    b = GroupBroker(None)
    b.topic(GROUP_OFFSETS_TOPIC, record(1), max__message__bytes="2000")
    b.wait(0)
    assert b.committed(b.commit(5, metadata="x" * 3000)) == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


@pytest.mark.parametrize(
    ("version", "error"),
    [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_a_group_that_is_not_there(version: int, error: ErrorCode) -> None:
    b = GroupBroker()
    assert b.committed(b.commit(5, member_id="m", generation=3, version=version)) == [error]


@pytest.mark.scenario(70)
def test_a_member_of_an_earlier_generation_is_fenced() -> None:
    b = GroupBroker()
    member = b.member()
    late = b.join()
    assert b.joined(b.join(member)).generation_id == 2
    assert b.joined(late).generation_id == 2
    assert b.committed(b.commit(5, member_id=member, generation=1)) == [
        ErrorCode.ILLEGAL_GENERATION
    ]


def test_writes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(led_log, "WRITES_MAX", 3)
    b = GroupBroker(WITH_FOLLOWER)
    waiting = [b.commit(n) for n in range(3)]
    assert b.committed(b.commit(3)) == [NOT_AVAILABLE]
    b.follower_has_all()
    assert [b.committed(token) for token in waiting] == [[0]] * 3
    assert b.waits(b.commit(4))


def test_groups_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_partition, "GROUPS_MAX", 2)
    b = GroupBroker()
    assert b.committed(b.commit(5, group="a")) == [0]
    assert b.committed(b.commit(5, group="b")) == [0]
    assert b.committed(b.commit(5, group="c")) == [NOT_AVAILABLE]
    assert b.joined(b.join(group="d")).error_code == NOT_AVAILABLE
    assert b.committed(b.commit(6, group="a")) == [0]


# ---- the assignment is stored first ------------------------------------------------------------


def test_nobody_gets_an_assignment_that_a_failover_could_lose() -> None:
    b = GroupBroker(WITH_FOLLOWER)
    member = b.joined(b.join()).member_id
    token = b.sync(member, {member: b"x"})
    assert b.waits(token)
    b.follower_has_all()
    assert b.synced(token).assignment == b"x"


def test_when_it_can_not_be_stored_the_members_join_again() -> None:
    b = GroupBroker(WITH_FOLLOWER)
    member = b.joined(b.join(session_ms=60_000)).member_id
    token = b.sync(member, {member: b"x"})
    b.wait(5_000)
    assert b.synced(token).error_code == NOT_AVAILABLE
    assert b.heartbeat(member) == ErrorCode.REBALANCE_IN_PROGRESS


# ---- a new coordinator ---------------------------------------------------------------------


@pytest.mark.scenario(68)
def test_a_new_coordinator_knows_members_and_offsets() -> None:
    b = GroupBroker()
    member = b.member()
    assert b.committed(b.commit(5, member_id=member, generation=1)) == [0]
    b.restart(record(1, epoch=1))
    assert b.heartbeat(member) == 0, "the member notices nothing"
    assert b.synced(b.sync(member)).assignment == b"x"
    assert b.fetch() == [5]
    assert b.committed(b.commit(6, member_id=member, generation=1)) == [0]
    assert b.fetch() == [6]


def test_a_restored_member_that_is_gone_is_found_out() -> None:
    b = GroupBroker()
    member = b.member()
    b.restart(record(1, epoch=1))
    b.wait(10_000)
    assert b.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.scenario(68)
def test_it_answers_nothing_before_all_that_may_be_committed_is() -> None:
    b = GroupBroker(WITH_FOLLOWER)
    b.commit(5)
    b.restart(record(1, 2, epoch=1))
    assert b.fetch() == LOADING, "the commit is in the log, and its fate is open"
    assert b.joined(b.join()).error_code == LOADING
    assert b.heartbeat("m") == LOADING
    assert b.committed(b.commit(6)) == [LOADING]
    b.follower_has_all()
    assert b.fetch() == [5]


def test_a_long_log_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GroupBroker()
    for number in range(50):
        b.commit(number, group=f"g{number}")
    monkeypatch.setattr(log_replay, "SLICE_BYTES", 300)
    b.topic(GROUP_OFFSETS_TOPIC, record(1, epoch=1))
    assert b.fetch("g49") == LOADING
    b.wait(0)
    assert [b.fetch(f"g{number}") for number in range(50)] == [[n] for n in range(50)]


@pytest.mark.scenario(69)
def test_losing_the_leadership_sends_everybody_away() -> None:
    b = GroupBroker(WITH_FOLLOWER)
    member = b.joined(b.join()).member_id
    syncing = b.sync(member, {member: b"x"})
    committing = b.commit(5, group="other")
    b.lead(led_by_another(1))
    assert b.synced(syncing).error_code == NOT_COORDINATOR
    assert b.committed(committing) == [NOT_COORDINATOR]
    assert b.fetch() == NOT_COORDINATOR


@pytest.mark.scenario(69)
def test_leading_again_in_a_later_epoch_begins_with_the_log() -> None:
    b = GroupBroker(WITH_FOLLOWER)
    token = b.commit(5)
    b.follower_has_all()
    assert b.committed(token) == [0]
    open_commit = b.commit(6)
    b.topic(GROUP_OFFSETS_TOPIC, record(1, 2, epoch=1))
    assert b.fetch() == LOADING
    b.wait(0)
    assert b.committed(open_commit) == [NOT_COORDINATOR], "its fate is open"
    b.follower_has_all()
    assert b.fetch() == [6], "it was in the log, and is committed now"


def test_poison_is_passed_over_and_told_once() -> None:
    b = GroupBroker()
    b.commit(5)
    poison = [
        Record(0, 1, b"\x00", b"x"),
        Record(0, 1, None, b"x"),
        Record(0, 1, b"\x00\x01\x00\x50short", b"x"),
        Record(0, 1, b"\x00\x63unknown kind", b"x"),
    ]
    batch = bytearray(build_batch(poison))
    b.node.partitions.append(b.partition(), batch, lambda error, offset: None, 1000)
    b.commit(6, group="h")
    b.restart(record(1, epoch=1))
    assert (b.fetch(), b.fetch("h")) == ([5], [6])
    told = [text for text in b.reports if "passed over" in text]
    assert len(told) == 1
    assert "3 records" in told[0]


@pytest.mark.scenario(69)
def test_whoever_stopped_leading_without_being_told_coordinates_nothing() -> None:
    """A disk that fails ends the leadership at once, in the middle of a step."""
    b = GroupBroker()
    member = b.member()
    b.node.partitions.disk_failed(b.partition(), DiskError("broken"))
    assert b.heartbeat(member) == NOT_COORDINATOR
    assert b.committed(b.commit(5)) == [NOT_COORDINATOR]
    assert b.fetch() == NOT_COORDINATOR


def test_the_earliest_deadline_of_a_group_counts() -> None:
    b = GroupBroker()
    member = b.joined(b.join(session_ms=30_000)).member_id
    b.sync(member, {member: b"x"})
    b.join(version=4, session_ms=6_000)  # gets an id and never comes back with it
    waiting = b.join(member, session_ms=30_000)
    b.wait(5_999)
    assert b.waits(waiting)
    b.wait(1)
    assert b.joined(waiting).generation_id == 2


# ---- forgetting ----------------------------------------------------------------------------

SHORT = {"offsets__retention__minutes": "1", "offsets__retention__check__interval__ms": "1000"}


def test_offsets_of_a_simple_consumer_expire() -> None:
    b = GroupBroker(None, **SHORT)
    b.lead(record(1))
    b.commit(5)
    b.commit(7, partitions=(1,))
    b.wait(30_000)
    b.commit(8, partitions=(1,))
    b.wait(31_000)
    assert b.fetch(partitions=(0, 1)) == [-1, 8]
    b.restart(record(1, epoch=1))
    assert b.fetch(partitions=(0, 1)) == [-1, 8], "tombstones say so in the log"


def test_nothing_is_taken_back_that_was_committed_meanwhile() -> None:
    b = GroupBroker(None, **SHORT)
    b.lead(WITH_FOLLOWER)
    b.commit(5)
    b.follower_has_all()
    b.wait(58_500)
    token = b.commit(6)
    b.wait(4_000)
    b.follower_has_all()
    assert b.committed(token) == [0]
    b.follower_has_all()
    assert b.fetch() == [6], "a tombstone of the old one would stand behind it in the log"


def test_an_emptied_group_is_forgotten_with_its_offsets() -> None:
    b = GroupBroker(None, **SHORT)
    b.lead(record(1))
    member = b.member()
    b.commit(5, member_id=member, generation=1)
    b.wait(10_000)
    assert b.fetch() == [5]
    b.wait(62_000)
    assert b.fetch() == [-1]
    home = b.node.groups.home_of("g")
    assert not isinstance(home, ErrorCode)
    assert not home.groups
    last = list(_records(b))[-2:]
    assert [record.value for record in last] == [None, None]


def test_a_group_that_never_was_leaves_nothing_behind() -> None:
    b = GroupBroker(None, offsets__retention__check__interval__ms="20000")
    b.lead(record(1))
    end = b.partition().log_end_offset
    token = b.join(version=9)
    assert b.joined(token).error_code == ErrorCode.MEMBER_ID_REQUIRED
    home = b.node.groups.home_of("g")
    assert not isinstance(home, ErrorCode)
    b.wait(19_000)
    assert "g" in home.groups, "until the next search for what is over"
    b.wait(1_000)
    assert "g" not in home.groups
    assert b.partition().log_end_offset == end


def test_a_topic_made_again_has_no_offsets() -> None:
    b = GroupBroker(None, **SHORT)
    b.lead(record(1))
    b.member("other")
    b.commit(5)
    cluster = b.node.cluster
    former = cluster.topics["t"]
    cluster.remove_topic("t")
    assert b.fetch() == [-1], "the topic is gone"
    former.topic_id = topic_id("t again")
    cluster.put_topic(former)
    assert b.fetch() == [-1]
    b.wait(1_000)
    assert list(_records(b))[-1].value is None
    assert b.committed(b.commit(6)) == [0]
    assert b.fetch() == [6]


def _records(b: GroupBroker) -> list[Record]:
    partition = b.node.partitions.get(OFFSETS)
    assert partition is not None
    read = partition.log.read(0, 2**30, upto=2**30, min_one=True)
    return list(read_records(read.range.read()))
