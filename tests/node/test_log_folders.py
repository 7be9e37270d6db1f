"""Several folders in `log.dirs`, one broker: where partitions go, and what one failing disk takes
with it."""

from dataclasses import replace
from typing import Any

import pytest
from tests.node.folders import fails, folder_of, full, lone, state, values
from tests.node.lone import Lone, batch, record

from replog.log import checkpoints
from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.partition_log import PartitionLog
from replog.model.errors import ErrorCode
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.inputs import StopRequested
from replog.model.messages.describe_replicas import DescribeReplicasRequest
from replog.model.outputs import RangeInvalidated
from replog.node.folder_doubt import MARK_RETRY_MS, MARK_TRIES
from replog.node.handlers import describe_replicas
from replog.node.log_folder import FolderState
from replog.records.batch import iterate
from replog.sim.mem_disk import MemDisk

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


# ---- where partitions go -----------------------------------------------------------------------


def test_a_new_partition_goes_where_there_are_fewest() -> None:
    made = lone("a", "b", "c", "d", folders=3)
    assert [folder_of(made, name) for name in "abcd"] == [0, 1, 2, 0]
    made.node.cluster.remove_topic("b")
    made.node.partitions.apply([], [("b", made.partition("b").topic_id)])
    made.topic("e", record(1))
    assert folder_of(made, "e") == 1


@pytest.mark.parametrize("clean", [True, False])
def test_each_folder_has_files_of_its_own(clean: bool) -> None:
    made = lone("a", "b", "c")
    for name in "abc":
        assert made.produce(name, batch(name.encode())).error_code == 0
    made.restart("c", "b", "a", clean=clean)
    assert [folder_of(made, name) for name in "abc"] == [0, 1, 0]
    assert [values(made, name) for name in "abc"] == [[b"a"], [b"b"], [b"c"]]
    if clean:
        for disk, names in zip(made.disks, ("ac", "b"), strict=True):
            for file in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS):
                found, reason = checkpoints.read(disk, file)
                assert reason is None
                assert found == {TopicPartition(name, 0): 1 for name in names}


@pytest.mark.parametrize("unclean", [None, 0, 1])
def test_only_when_all_were_closed_was_the_stop_a_clean_one(unclean: int | None) -> None:
    made = lone("a", "b")
    for name in "ab":
        made.produce(name, batch(b"v"))
    made.node.last_broker_epoch = 5
    made.step(StopRequested())
    if unclean is not None:
        assert checkpoints.take_clean_shutdown(made.disks[unclean]) is not None
    made.restart("a", "b", clean=False)
    assert made.node.partitions.logs.stopped_epoch == (5 if unclean is None else -1)
    for index, name in enumerate("ab"):
        scanned = made.partition(name).log.recovery.batches_scanned
        assert scanned == (1 if index == unclean else 0), "only what was not closed is looked at"
        assert values(made, name) == [b"v"]


# ---- a disk fails ------------------------------------------------------------------------------


def test_a_failed_write_ends_the_use_of_that_folder_alone() -> None:
    made = lone("a", "b", "c")
    made.produce("a", batch(b"1"))
    made.disks[0].before_call = fails()
    answer = made.produce("a", batch(b"2"))
    assert (answer.error_code, answer.base_offset) == (STORAGE, -1)
    assert state(made, 0) is FolderState.FAILED
    assert made.produce("b", batch(b"1")).error_code == ErrorCode.NONE
    made.disks[0].before_call = None
    for name in ("a", "c"):
        assert made.produce(name, batch(b"3")).error_code == STORAGE, "not before a restart"
        assert made.partition(name).offline_reason
        assert not made.partition(name).is_leader
    assert not made.stopped
    assert sum("is not used any more" in text for text in made.reports) == 1
    made.topic("new", record(1))
    assert folder_of(made, "new") == 1
    made.restart("a", "b")
    assert values(made, "a") == [b"1"]
    assert made.produce("a", batch(b"4")).base_offset == 1


def test_a_failed_fsync_ends_the_use_of_the_folder() -> None:
    made = lone("a", "b", replog__durability="fsync")
    tokens = [made.send(name, batch(b"v"), acks=-1) for name in "ab"]
    made.disks[1].before_call = fails(calls=("sync",))
    made.run_jobs()
    assert made.answer(tokens[0]).error_code == ErrorCode.NONE
    assert made.answer(tokens[1]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state(made, 0) is FolderState.ONLINE
    assert state(made, 1) is FolderState.FAILED
    assert made.produce("b", batch(b"w")).error_code == STORAGE


def test_syncs_of_other_folders_that_were_under_way_count() -> None:
    made = lone("a", "b", replog__durability="fsync")
    made.disks[0].before_call = fails(calls=("sync",))
    tokens = [made.send(name, batch(b"v"), acks=-1) for name in "ba"]
    made.run_jobs()
    assert made.answer(tokens[0]).error_code == ErrorCode.NONE
    assert made.answer(tokens[1]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state(made, 1) is FolderState.ONLINE


def test_a_checkpoint_that_can_not_be_written_ends_it_too() -> None:
    made = lone("a", "b")
    made.produce("b", batch(b"v"))
    made.disks[1].before_call = fails(only=checkpoints.HIGH_WATERMARKS)
    made.tick(10_000)
    made.run_jobs()
    assert [state(made, index) for index in (0, 1)] == [FolderState.ONLINE, FolderState.FAILED]


def test_the_last_folder_takes_the_broker_with_it() -> None:
    made = lone("a", "b")
    for index, name in enumerate("ab"):
        assert not made.stopped
        made.disks[index].before_call = fails()
        made.produce(name, batch(b"v"))
    made.run_jobs()
    for _ in range(MARK_TRIES - 1):
        assert not made.stopped, "first it is tried to have this known after a restart"
        made.tick(MARK_RETRY_MS)
        made.run_jobs()
    (stopped,) = made.stopped
    assert stopped.failed and "no log folder is left" in stopped.reason


def test_a_follower_of_a_failed_folder_copies_no_more() -> None:
    made = Lone(folders=2)
    made.topic("a", record(2, 1))
    made.disks[0].before_call = fails()
    assert not made.node.partitions.copy(made.partition("a"), batch(b"v"))
    assert made.partition("a").offline_reason
    made.topic("a", record(2, 1, epoch=3))
    assert made.partition("a").leader_epoch == 3, "it knows who leads, all the same"
    assert made.partition("a").log_end_offset == 0


def test_a_broken_log_concerns_its_partition_alone() -> None:
    made = lone("a", "b", "c")
    for name in "abc":
        made.produce(name, batch(name.encode()))
    made.restart()
    file = made.disks[0].open(f"a-0/{0:020d}.log")
    file.truncate(0)
    file.append((b"not a batch, but long enough to be taken for one" * 2,))
    made.disks[0].write_file(checkpoints.RECOVERY_POINTS, b"0\n2\na 0 1\nc 0 1\n")
    made.restart("a", "b", "c", clean=False)
    assert made.produce("a", batch(b"w")).error_code == STORAGE
    assert made.node.partitions.offline.reason(TopicPartition("a", 0))
    for name in "bc":
        assert made.produce(name, batch(b"w")).error_code == ErrorCode.NONE
    assert all(state(made, index) is FolderState.ONLINE for index in (0, 1))


# ---- a disk is full ----------------------------------------------------------------------------


def test_a_full_disk_undoes_the_append_and_goes_on_reading() -> None:
    made = lone("a", "b")
    made.produce("a", batch(b"1"))
    size = made.partition("a").log.size
    made.disks[0].before_call = full
    answer = made.produce("a", batch(b"2"))
    assert (answer.error_code, answer.base_offset) == (STORAGE, -1)
    assert state(made, 0) is FolderState.FULL
    assert made.partition("a").is_leader, "until the controller has another one"
    assert made.partition("a").log.size == size
    assert values(made, "a") == [b"1"]
    calls: list[str] = []
    made.disks[0].before_call = lambda call, path: calls.append(call)
    assert made.produce("a", batch(b"3")).error_code == STORAGE
    assert calls == [], "nothing is tried before a restart"
    assert made.produce("b", batch(b"1")).error_code == ErrorCode.NONE
    made.topic("new", record(1))
    assert folder_of(made, "new") == 1
    made.restart("a", "b")
    assert values(made, "a") == [b"1"]
    assert made.produce("a", batch(b"4")).base_offset == 1


def test_the_only_disk_is_full_and_the_broker_stays() -> None:
    made = lone("a", folders=1)
    made.produce("a", batch(b"1"))
    made.disks[0].before_call = full
    assert made.produce("a", batch(b"2")).error_code == STORAGE
    assert not made.stopped
    assert values(made, "a") == [b"1"]


def test_a_follower_on_a_full_disk_copies_no_more() -> None:
    made = Lone()
    made.topic("a", record(2, 1))
    made.disks[0].before_call = full
    assert not made.node.partitions.copy(made.partition("a"), batch(b"v"))
    made.topic("a", record(2, 1, epoch=3))
    assert not made.node.partitions.copy(made.partition("a"), batch(b"v"))
    assert made.partition("a").offline_reason is None


def test_leadership_on_a_full_disk_is_for_reading() -> None:
    made = lone("a")
    made.produce("a", batch(b"1"))
    made.disks[0].before_call = full
    made.produce("a", batch(b"2"))
    made.topic("a", record(1, 2, leader=2, epoch=1))
    made.topic("a", record(1, epoch=2))
    assert made.partition("a").is_leader
    assert made.partition("a").high_watermark == 1
    assert made.produce("a", batch(b"3")).error_code == STORAGE


def test_a_log_that_could_not_be_recovered_is_neither_made_anew_nor_closed_in_good_order() -> None:
    """The disk was full then: the next start has to do it. Elected, it would lead with nothing."""
    made = lone("a")
    assert made.produce("a", batch(b"1")).error_code == 0
    disk = made.disks[0]
    log = disk.inode("a-0/00000000000000000000.log")
    size = len(log.data)
    assert made.produce("a", batch(b"2")).error_code == 0
    made.topic("a", record(1, epoch=1))
    log.resize(size)  # a power cut took the last record, and left the epoch that begins behind it
    disk.before_call = full
    disk.crash()
    made.start()
    assert state(made, 0) is FolderState.FULL
    made.topic("a", record(1, epoch=1))
    assert made.node.partitions.get(TopicPartition("a", 0)) is None
    assert not made.disks[1].exists("a-0")
    disk.before_call = None
    made.step(StopRequested())
    assert made.stopped
    assert not disk.exists(checkpoints.CLEAN_SHUTDOWN)
    made.restart("a", clean=False)
    assert values(made, "a") == [b"1"]
    assert made.partition("a").log.epoch_entries() == [(0, 0), (1, 1)]


def test_a_full_disk_may_still_fail() -> None:
    made = lone("a", "b")
    made.disks[0].before_call = full
    made.produce("a", batch(b"2"))
    made.disks[0].before_call = fails()
    made.node.partitions.disk_failed(made.partition("a"), DiskError("broken"))
    assert state(made, 0) is FolderState.FAILED
    assert made.partition("a").offline_reason


# ---- a folder that can't be used from the start --------------------------------------------------


def test_replicas_of_a_folder_that_failed_before_are_offline_not_empty() -> None:
    made = lone("a", "b")
    made.produce("a", batch(b"v"))
    made.failed[0] = "Input/output error"
    made.restart("a", "b")
    assert made.produce("a", batch(b"w")).error_code == STORAGE
    assert made.produce("b", batch(b"w")).error_code == ErrorCode.NONE
    assert not made.disks[1].exists("a-0")
    made.topic("new", record(1))
    assert folder_of(made, "new") == 1


@pytest.mark.parametrize("relied_on", [{"elr": (1,)}, {"last_known_elr": (1,)}])
def test_a_replica_that_may_be_elected_is_not_made_anew_beside_a_failed_folder(
    relied_on: dict[str, tuple[int, ...]],
) -> None:
    """It left the ISR as its broker was away, and may lead for what it has, which is in there."""
    made = lone("a", "b")
    made.failed[0] = "Input/output error"
    made.restart("b")
    made.topic("a", replace(record(2, leader=2, epoch=4), replicas=(1, 2), **relied_on))
    assert made.node.partitions.get(TopicPartition("a", 0)) is None
    assert not made.disks[1].exists("a-0")


def test_a_replica_out_of_sync_is_copied_anew_into_another_folder() -> None:
    made = lone("a", "b")
    made.failed[0] = "Input/output error"
    made.restart("b")
    away = record(2, leader=2, epoch=4)
    made.topic("a", away.merge(controller_epoch=0, replicas=(1, 2)))
    assert folder_of(made, "a") == 1


def told(made: Lone) -> list[tuple[str, str, int, list[str]]]:
    """What the broker says of its log folders that are not in order."""
    answer = describe_replicas.describe(made.node, DescribeReplicasRequest(topics=[]))
    return [(f.path, f.state, f.replicas, f.strays) for f in answer.log_folders]


def test_folders_that_are_not_in_order_are_told_of() -> None:
    made = lone("a", "b", "c", folders=2)
    assert told(made) == []
    made.disks[0].before_call = full
    made.produce("a", batch(b"v"))
    assert told(made) == [("/logs/0", "full", 2, [])]
    made.disks[1].before_call = fails()
    made.produce("b", batch(b"v"))
    assert told(made) == [("/logs/0", "full", 2, []), ("/logs/1", "failed", 1, [])]


def test_what_belongs_to_no_topic_is_told_of_and_kept() -> None:
    made = lone("a", "b", folders=1)
    for name in "ab":
        made.produce(name, batch(b"v"))
    made.restart()
    made.node.partitions.logs.rename_strays({})
    ((_, state, replicas, strays),) = told(made)
    assert (state, replicas) == ("online", 0)
    assert [name.split(".")[0] for name in strays] == ["a-0", "b-0"]
    for name in ("c-0.0123456789abcdef-future", "lost+found", "d-7"):
        made.disk.make_directory(name)
        made.disk.open(f"{name}/file", create=True).close()
    made.restart(clean=False)
    assert told(made)[0][3] == sorted(strays)
    assert all(made.disk.exists(name) for name in strays)
    warned = [text for text in made.reports if "left alone" in text]
    assert any(all(name in text for name in strays) for text in warned)
    assert any("c-0.0123456789abcdef-future, d-7, lost+found" in text for text in warned)


def test_all_folders_failed_before() -> None:
    made = lone("a", folders=1)
    made.failed[0] = "Input/output error"
    made.restart()
    assert made.stopped[-1].failed


def write(disk: MemDisk, *, epoch: int, records: int) -> None:
    """A log of topic `a`, as another process left it."""
    log = PartitionLog.open(
        disk, "a-0", LogConfig(), topic_id=b"a".ljust(16, b"."), recovery_point=0, clean=False
    )
    log.assign_epoch(epoch, 0)
    for _ in range(records):
        data = batch(b"%d" % epoch)
        log.append_as_leader(data, iterate(data), epoch, 0)
    log.close()


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [((1, 2), (1, 3), 1), ((1, 3), (1, 2), 0), ((1, 9), (2, 1), 1), ((2, 1), (2, 1), 0)],
)
def test_a_partition_that_is_in_two_folders(
    first: tuple[int, int], second: tuple[int, int], used: int
) -> None:
    """The one that goes further is used; the other is kept under another name."""
    disks = [MemDisk(), MemDisk()]
    made = Lone(disks[0], folders=2)
    for disk, (epoch, records) in zip(made.disks, (first, second), strict=True):
        write(disk, epoch=epoch, records=records)
    made.restart("a", clean=False)
    assert folder_of(made, "a") == used
    assert values(made, "a") == [b"%d" % max(first, second)[0]] * max(first, second)[1]
    (stray,) = [name for name in made.disks[1 - used].list("") if name.startswith("a-0")]
    assert stray.endswith("-stray")
    made.restart("a")
    assert folder_of(made, "a") == used


def test_a_cut_below_the_high_watermark_lowers_the_mark_that_a_restart_finds() -> None:
    """Only an election that lost records leads to one. What comes instead is not committed yet."""
    made = lone("a", "b")
    for value in (b"1", b"2", b"3"):
        made.produce("a", batch(value))
    folder = made.partition("a").folder
    folder.write_high_watermarks()
    made._take(made.node._take_outputs())
    made.run_jobs()
    tp = TopicPartition("a", 0)
    assert checkpoints.read(made.disk, checkpoints.HIGH_WATERMARKS)[0][tp] == 3
    made.topic("a", record(2, 1, epoch=1))
    made.node.partitions.truncate(made.partition("a"), 1)
    assert checkpoints.read(made.disk, checkpoints.HIGH_WATERMARKS)[0][tp] == 1


def test_a_cut_below_what_was_flushed_is_known_to_a_restart_before_anything_else_happens() -> None:
    made = lone("a")
    for value in (b"1", b"2", b"3"):
        made.produce("a", batch(value))
    partition = made.partition("a")
    flush = partition.log.begin_flush(to_end=True)
    flush()
    partition.log.flushed(flush)
    partition.folder.write_recovery_points()
    made.topic("a", record(2, 1, epoch=1))
    made.node.partitions.truncate(partition, 1)
    tp = TopicPartition("a", 0)
    assert checkpoints.read(made.disk, checkpoints.RECOVERY_POINTS)[0][tp] == 1


def test_whoever_sends_from_a_file_is_told_what_was_cut_off() -> None:
    made = lone("a")
    sizes = [len(batch(value)) for value in (b"1", b"2", b"3")]
    for value in (b"1", b"2", b"3"):
        made.produce("a", batch(value))
    partition = made.partition("a")
    made.topic("a", record(2, 1, epoch=1))
    made.node.partitions.truncate(partition, 1)
    told = [o for o in made.node._take_outputs() if isinstance(o, RangeInvalidated)]
    assert told == [RangeInvalidated(partition.log.segments[0].file, sizes[0])]


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"isr": (2, 1)}, False),
        ({"elr": (1,)}, False),
        ({"failed": (1,)}, False),
        ({"leader": NO_LEADER}, False),
        ({"leader": 1, "isr": (1,)}, False),
        ({"leader_epoch": 4}, False),  # in which it may have been acknowledged still
    ],
)
def test_a_damaged_log_is_kept_while_anybody_relies_on_it(changes: Any, may: bool) -> None:
    made = lone("a")
    known = replace(record(2, 1), isr=(2,), leader_epoch=5)
    damaged = made.node.partitions.damaged
    assert damaged.may_begin_anew(replace(known, **changes), damaged_epoch=4) is may


def test_a_full_disk_in_the_middle_of_beginning_anew_leaves_no_log_to_read() -> None:
    made = lone("a", "b")
    made.produce("a", batch(b"1"))
    partition = made.partition("a")
    made.topic("a", record(2, 1, epoch=1))
    made.disks[0].before_call = full
    made.node.partitions.begin_anew(partition, 5)
    assert state(made, 0) is FolderState.FULL
    assert partition.offline_reason is not None
    made.node.upkeep._check_retention()
