"""Opening logs: over several steps where they are many, and without what a power cut took."""

from random import Random

import pytest
from tests.node.lone import WALL_MS, Lone, batch, record, topic_id

from replog.log import checkpoints
from replog.log.disk import DiskFull
from replog.log.files import PARTITION_METADATA
from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.inputs import StopRequested
from replog.node.partitions import OPENED_PER_STEP, OPENING_PAUSE_MS


def opened(lone: Lone) -> int:
    return len(lone.node.partitions.all())


def go_on(lone: Lone) -> None:
    """The loop turns, and again after a while."""
    lone.tick(1)
    lone.tick(OPENING_PAUSE_MS)


def test_as_many_as_one_step_opens_are_there_at_once() -> None:
    lone = Lone()
    lone.topic("many", *[record(1)] * OPENED_PER_STEP)
    assert opened(lone) == OPENED_PER_STEP


def test_one_more_is_opened_soon_and_a_client_tries_again_until_then() -> None:
    lone = Lone()
    lone.topic("many", *[record(1)] * (OPENED_PER_STEP + 1))
    last = TopicPartition("many", OPENED_PER_STEP)
    assert opened(lone) == OPENED_PER_STEP
    assert lone.node.partitions.find(last) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert lone.node.next_deadline_ms() <= lone.now_ms + 1
    go_on(lone)
    assert lone.partition("many", OPENED_PER_STEP).is_leader


@pytest.mark.scenario(83)
def test_each_step_opens_so_many_and_the_newest_record_holds() -> None:
    lone = Lone()
    lone.topic("many", *[record(1, 2)] * (3 * OPENED_PER_STEP))
    go_on(lone)
    assert opened(lone) == 2 * OPENED_PER_STEP
    lone.topic("many", *[record(1, 2, leader=2, epoch=1)] * (3 * OPENED_PER_STEP))
    assert opened(lone) == 3 * OPENED_PER_STEP
    go_on(lone)
    assert not any(p.is_leader or p.record.leader_epoch != 1 for p in lone.node.partitions.all())


def test_a_topic_that_is_deleted_meanwhile_is_not_opened() -> None:
    lone = Lone()
    lone.topic("many", *[record(1)] * (2 * OPENED_PER_STEP))
    lone.node.cluster.remove_topic("many")
    lone.node.partitions.apply([], [("many", topic_id("many"))])
    go_on(lone)
    assert opened(lone) == 0
    assert not [
        name
        for name in lone.disk.list("")
        if name.startswith("many-1") and not name.endswith("-delete")
    ]


def test_partitions_of_other_brokers_take_no_place() -> None:
    lone = Lone()
    lone.topic("many", *[record(2)] * OPENED_PER_STEP, *[record(1)] * OPENED_PER_STEP)
    assert opened(lone) == OPENED_PER_STEP


def test_many_steps_in_one_turn_do_not_open_logs_in_each() -> None:
    lone = Lone()
    lone.topic("many", *[record(1)] * (5 * OPENED_PER_STEP))
    lone.tick(600)  # what the last step took
    for _ in range(5):
        lone.tick(0.1)
    assert opened(lone) == OPENED_PER_STEP
    lone.tick(OPENING_PAUSE_MS)
    assert opened(lone) == 2 * OPENED_PER_STEP


def test_a_high_watermark_over_what_a_power_cut_took_is_forgotten_at_once() -> None:
    """What is written there next is not committed, and a kill may come before the file is written
    again."""
    lone = Lone()
    lone.topic("t", record(1))
    for _ in range(3):
        lone.produce("t", batch(b"v"))
    lone.partition("t").folder.lower_high_watermarks()
    tp = lone.partition("t").tp
    assert checkpoints.read(lone.disk, checkpoints.HIGH_WATERMARKS)[0][tp] == 3
    log = lone.disk.inode(f"{tp}/{0:020d}.log")
    del log.data[-1:]
    lone.restart(clean=False)
    assert checkpoints.read(lone.disk, checkpoints.HIGH_WATERMARKS)[0][tp] == 2


@pytest.mark.parametrize("what", ["folder", "id"])
def test_a_log_that_somebody_took_away_does_not_begin_empty(what: str) -> None:
    made = Lone()
    for name in "ab":
        made.topic(name, record(1))
        made.produce(name, batch(b"v"))
    made.step(StopRequested())
    for name in made.disk.list("a-0") if what == "folder" else [PARTITION_METADATA]:
        made.disk.remove(f"a-0/{name}")
    for clean in (False, True):  # once it was known, a start after that knows it, too
        made.restart("a", "b", clean=clean)
        assert made.node.partitions.get(TopicPartition("a", 0)) is None
        assert any("a-0 can't be opened: it was closed" in text for text in made.reports)
        assert made.partition("b").log_end_offset == 1


def test_a_log_of_a_topic_that_was_deleted_is_not_missed() -> None:
    made = Lone()
    for name in "ab":
        made.topic(name, record(1))
        made.produce(name, batch(b"v"))
    made.partition("a").folder.lower_high_watermarks()
    made.node.cluster.remove_topic("a")
    made.node.partitions.apply([], [("a", made.partition("a").topic_id)])
    made.restart("a", "b")
    assert made.partition("a").log_end_offset == 0


def test_a_log_that_has_rotted_is_left_alone_by_every_later_start() -> None:
    """It was flushed: what is behind the damage may be committed, and is never cut off."""
    made = Lone()
    made.topic("a", record(1))
    for value in b"1", b"2", b"3":
        assert made.produce("a", batch(value)).error_code == ErrorCode.NONE
    made.restart("a")
    log = made.disks[0].inode("a-0/00000000000000000000.log")
    log.data[100] ^= 1
    size = len(log.data)
    for clean in False, True, False:
        made.restart("a", clean=clean)
        assert made.node.partitions.get(TopicPartition("a", 0)) is None
        assert len(log.data) == size
        assert "a-0 can't be used and is left alone" in "".join(made.reports)
        made.reports.clear()
    log.data[100] ^= 1
    made.restart("a", clean=False)
    assert made.partition("a").log_end_offset == 3


@pytest.mark.parametrize("restarts_before", [0, 1])
@pytest.mark.parametrize("power", [True, False], ids=["power cut", "kill"])
@pytest.mark.parametrize("written", [3, 9], ids=["below the old start", "beyond it"])
def test_a_log_that_was_begun_anew_below_its_start_keeps_what_came_since(
    written: int, *, power: bool, restarts_before: int
) -> None:
    """Its leader lost all in a power cut of everybody, and begins at 0 again."""
    lone = Lone()
    lone.topic("a", record(1), replog__durability="fsync")
    for _ in range(8):
        lone.send("a", batch(b"old"))
        lone.run_jobs()
    lone.node.upkeep.move_start(lone.partition("a"), 6)
    lone._take(lone.node._take_outputs())
    lone.run_jobs()
    for _ in range(restarts_before):
        lone.restart("a", clean=False)
    assert lone.partition("a").log_start_offset == 6
    lone.topic("a", record(2, 1, epoch=2))
    lone.node.partitions.begin_anew(lone.partition("a"), 0)
    lone.topic("a", record(1, epoch=3), replog__durability="fsync")
    for _ in range(written):
        lone.send("a", batch(b"new"), acks=-1)
        lone.run_jobs()
    assert lone.partition("a").high_watermark == written
    if power:
        lone.disk.power_cut(Random(1))
    lone.restart(clean=False)
    lone.topic("a", record(1, epoch=4))
    log = lone.partition("a").log
    assert (log.log_start_offset, log.log_end_offset) == (0, written)


@pytest.mark.parametrize("anew", [True, False], ids=["begun anew", "cut"])
def test_what_is_known_of_a_log_that_ends_elsewhere_holds_where_no_file_finds_room(
    *, anew: bool
) -> None:
    def full(call: str, path: str) -> None:
        if path.endswith(".tmp") and "/" not in path:
            raise DiskFull(f"{path}: no space left")

    lone = Lone()
    lone.topic("a", record(1))
    for _ in range(3):
        lone.produce("a", batch(b"v"))
    lone.topic("a", record(2, 1, epoch=1))
    partition = lone.partition("a")
    flush = partition.log.begin_flush(to_end=True)
    flush()
    partition.log.flushed(flush)
    lone.disk.before_call = full
    if anew:
        lone.node.partitions.begin_anew(partition, 60)
    else:
        lone.node.partitions.truncate(partition, 1)
    end = partition.log_end_offset
    assert not partition.folder.online
    assert (end, partition.high_watermark) == ((60, 60) if anew else (1, 1))
    assert partition.log_start_offset <= partition.last_stable_offset <= end


@pytest.mark.parametrize("anew", [True, False], ids=["begun anew", "cut"])
def test_a_log_is_whole_after_a_cut_that_found_no_room_at_any_call(*, anew: bool) -> None:
    """Such a log is not used until a restart, which does not trust it though all was closed."""
    call = 0
    while _cut_without_room_from(call, anew=anew):
        call += 1
    assert call > 5


def _cut_without_room_from(number: int, *, anew: bool) -> bool:
    """Whether the cut made so many calls. From this one on there is no room in it."""
    calls = 0

    def full(call: str, path: str) -> None:
        nonlocal calls
        calls += 1
        if calls > number and call in ("append", "overwrite", "open"):
            raise DiskFull(f"{path}: no space left")

    lone = Lone()
    for epoch in range(4):
        lone.topic("a", record(1, epoch=epoch), segment__bytes="300")
        for _ in range(3):
            lone.produce("a", batch(b"v" * 50, producer=(7, 0, lone.partition("a").log_end_offset)))
    lone.run_jobs()
    lone.topic("a", record(2, 1, epoch=4))
    partition = lone.partition("a")
    assert partition.high_watermark == 12
    lone.disk.before_call = full
    if anew:
        lone.node.partitions.begin_anew(partition, 5)
    else:
        lone.node.partitions.truncate(partition, 5)
    lone._take(lone.node._take_outputs())
    assert partition.log_start_offset <= partition.high_watermark <= partition.log_end_offset
    lone.disk.before_call = None
    lone.run_jobs()
    lone.restart()
    lone.topic("a", record(2, 1, epoch=5))
    log = lone.partition("a").log
    assert all(start <= log.log_end_offset for _, start in log.epoch_entries())
    assert [h.next_offset for h in log.headers_from(0)][-1:] in ([log.log_end_offset], [])
    assert lone.partition("a").high_watermark <= log.log_end_offset
    lone.topic("a", record(1, epoch=6))
    assert lone.produce("a", batch(b"new")).error_code == ErrorCode.NONE
    return calls > number


def test_segments_leave_up_to_the_start_that_is_on_disk_and_not_up_to_a_later_one() -> None:
    """Or a power cut finds the earlier start, and a log with holes behind it."""
    lone = Lone()
    lone.topic("a", record(1), **{"segment.ms": "25"})
    for number in range(20):
        lone.produce("a", batch(b"v", timestamp=WALL_MS + 10 * number))
    lone.run_jobs()
    log = lone.partition("a").log
    bases = list(log.base_offsets)
    assert len(bases) > 5
    lone.node.upkeep.move_start(lone.partition("a"), bases[2])
    lone.tick(1)
    lone.node.upkeep.move_start(lone.partition("a"), bases[4])
    seen = set()
    while log.base_offsets[0] < bases[4]:
        on_disk = checkpoints.read(lone.disk, checkpoints.LOG_STARTS)[0].get(
            TopicPartition("a", 0), 0
        )
        assert log.base_offsets[0] <= on_disk
        seen.add(log.base_offsets[0])
        if lone.jobs:
            lone.run_job()
        else:
            lone.tick(1)
    assert seen == {bases[0], bases[2]}
