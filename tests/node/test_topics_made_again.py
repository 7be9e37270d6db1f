"""What a log folder's files say of a topic does not hold for a later one of the same name."""

from random import Random

import pytest
from tests.node.lone import Lone, batch, record, topic_id

from replog.log import checkpoints
from replog.model.cluster import TopicRecord
from replog.model.ids import TopicPartition
from replog.sim.mem_disk import MemDisk

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("name", [checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS])
def test_files_forget_the_earlier_topic_before_the_later_one_has_a_record(name: str) -> None:
    """Or a restart would take records for committed that are not, or for flushed, and so not look
    at what a power cut has left of them."""
    lone = Lone()
    lone.topic("t", record(1))
    for _ in range(10):
        assert lone.produce("t", batch(b"old")).error_code == 0
    lone.partition("t").log.flush()
    folder = lone.node.partitions.logs.folders[0]
    folder.write_recovery_points()
    folder.write_high_watermarks()
    lone.tick(1)
    lone.run_jobs()
    assert checkpoints.read(lone.disk, name)[0] == {T0: 10}

    lone.node.cluster.remove_topic("t")
    lone.node.partitions.apply([], [("t", topic_id("t"))])
    lone.node.cluster.put_topic(TopicRecord("t", b"another topic id", [record(1)], {}))
    lone.node.partitions.apply([T0], [])

    assert checkpoints.read(lone.disk, name)[0].get(T0, 0) == 0
    assert lone.produce("t", batch(b"new")).base_offset == 0


@pytest.mark.parametrize("seed", range(60))
def test_no_power_cut_brings_back_what_a_file_said_of_the_earlier_topic(seed: int) -> None:
    """A file that mentions it no more takes its place by another name, which power may undo."""
    lone = Lone()
    lone.topic("t", record(1))
    for _ in range(10):
        assert lone.produce("t", batch(b"old")).error_code == 0
    lone.node.upkeep.move_start(lone.partition("t"), 9)
    lone.node.partitions.logs.folders[0].write_log_starts(lambda error: None)
    lone._take(lone.node._take_outputs())
    lone.run_jobs()
    assert checkpoints.read(lone.disk, checkpoints.LOG_STARTS)[0] == {T0: 9}
    lone.node.cluster.remove_topic("t")
    lone.node.partitions.apply([], [("t", topic_id("t"))])
    folder = lone.node.partitions.logs.folders[0]
    folder.write_recovery_points()
    for write in (folder.write_high_watermarks, folder.write_cleaned):
        write()
        lone._take(lone.node._take_outputs())
        lone.run_jobs()
    folder.write_log_starts()
    lone._take(lone.node._take_outputs())
    while checkpoints.read(lone.disk, checkpoints.LOG_STARTS)[0]:
        lone.run_job()

    lone.node.cluster.put_topic(TopicRecord("t", b"another topic id", [record(2, 1)], {}))
    lone.node.partitions.apply([T0], [])
    lone.disk.power_cut(Random(seed))
    lone.start()
    lone.node.cluster.put_topic(TopicRecord("t", b"another topic id", [record(1)], {}))
    lone.node.partitions.apply([T0], [])
    assert lone.partition("t").log_end_offset == 0


@pytest.mark.parametrize("seed", range(20))
def test_no_power_cut_makes_a_log_of_a_part_of_a_folder_that_is_being_removed(seed: int) -> None:
    """The folder has another name before its files go: if that were lost and they were gone, the
    log would be opened with holes."""
    lone = Lone()
    lone.topic("t", record(1))
    for _ in range(10):
        assert lone.produce("t", batch(b"v")).error_code == 0
    lone.partition("t").log.flush()
    lone.disk.sync_directory("t-0")
    lone.disk.sync_directory("")
    whole = {path for path in lone.disk.paths() if path.startswith("t-0/")}
    assert len(whole) > 3
    lone.node.cluster.remove_topic("t")
    lone.node.partitions.apply([], [("t", topic_id("t"))])
    lone.tick(120_000)
    lone.run_jobs()
    assert not [path for path in lone.disk.paths() if path.startswith("t-0")]

    lone.disk.power_cut(Random(seed))

    assert {path for path in lone.disk.paths() if path.startswith("t-0/")} in (set(), whole)


def test_a_folder_that_a_power_cut_left_without_an_id_begins_at_the_beginning() -> None:
    """Where the earlier topic's log began does not hold for the one that gets its folder."""
    disk = MemDisk()
    checkpoints.write(disk, checkpoints.LOG_STARTS, {T0: 13})
    disk.make_directory("t-0")
    disk.write_file("t-0/00000000000000000012.index", b"")
    lone = Lone(disk)
    lone.topic("t", record(1))
    assert lone.produce("t", batch(b"new")).base_offset == 0


def test_new_topics_rewrite_no_file_that_does_not_know_them() -> None:
    """A file is written for them only if it mentions an earlier life: not for each, and not while
    one that does not is being written."""
    lone = Lone()
    lone.topic("old", record(1))
    folder = lone.node.partitions.logs.folders[0]
    for write in (folder.write_recovery_points, folder.write_high_watermarks):
        write()
        lone.tick(1)
    lone.run_jobs()  # the files are there
    lone.produce("old", batch(b"v"))
    folder.write_high_watermarks()
    lone.tick(1)
    assert lone.jobs, "one is being written again"
    written: list[str] = []
    write_file = lone.disk.write_file

    def noted(path: str, data: bytes) -> None:
        written.append(path)
        write_file(path, data)

    lone.disk.write_file = noted  # type: ignore[method-assign]
    lone.topic("new", *[record(1, 2)] * 5)
    assert not [name for name in written if name.endswith("-checkpoint") and "/" not in name]


@pytest.mark.parametrize("clean", [True, False])
def test_a_topic_that_was_made_again_while_its_broker_was_away_begins_empty(clean: bool) -> None:
    lone = Lone()
    lone.topic("t", record(1))
    lone.produce("t", batch(b"of the earlier topic"))
    lone.restart(clean=clean)
    later = TopicRecord("t", topic_id("later"), [record(1)], {})
    lone.node.cluster.put_topic(later)
    lone.node.partitions.apply([T0], [])
    partition = lone.partition("t")
    assert partition.topic_id == partition.log.topic_id == later.topic_id
    assert (partition.log_end_offset, partition.high_watermark) == (0, 0)
