"""Logs are put on stable storage when their topic's configuration says so, and not before."""

import pytest
from tests.node.lone import Lone, batch, record

from replog.log.files import LOG_SUFFIX
from replog.node.syncs import UNHURRIED_MAX


class Watched(Lone):
    """A broker whose syncs of logs are counted, by partition's folder."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.synced: list[str] = []
        self.watch()

    def watch(self) -> None:
        self.disk.before_call = self._note

    def _note(self, call: str, path: str) -> None:
        if call == "sync" and path.endswith(LOG_SUFFIX):
            self.synced.append(path.split("/")[0])

    def send_one(self, name: str) -> None:
        assert self.produce(name, batch(b"v")).error_code == 0
        self.run_jobs()


@pytest.mark.parametrize("where", ["topic", "broker"])
def test_every_so_many_records(where: str) -> None:
    by_broker = {"log__flush__interval__messages": "3"} if where == "broker" else {}
    watched = Watched(**by_broker)
    watched.topic("t", record(1), **({"flush.messages": "3"} if where == "topic" else {}))
    watched.topic("never", record(1), **{"flush.messages": "1000"})
    for sent in range(1, 10):
        watched.send_one("t")
        watched.send_one("never")
        assert watched.synced == ["t-0"] * (sent // 3), sent
    assert watched.partition("t").log.recovery_point == 9
    assert watched.produce("t", batch(*[b"v"] * 7)).error_code == 0
    watched.run_jobs()
    assert watched.synced == ["t-0"] * 4, "a batch counts with all its records"


@pytest.mark.parametrize(
    ("broker", "topic"),
    [
        ({}, {"flush.ms": "500"}),
        ({"log__flush__interval__ms": "500"}, {}),
        ({"log__flush__scheduler__interval__ms": "500"}, {}),
        ({"log__flush__interval__ms": "500", "log__flush__scheduler__interval__ms": "9"}, {}),
    ],
)
def test_so_long_after_a_record(broker: dict[str, str], topic: dict[str, str]) -> None:
    watched = Watched(**broker)
    watched.topic("t", record(1), **topic)
    watched.send_one("t")
    watched.tick(400)
    watched.send_one("t")
    watched.run_jobs()
    assert not watched.synced
    watched.tick(100)
    watched.run_jobs()
    assert watched.synced == ["t-0"], "so long after the first that was not synced"
    assert watched.partition("t").log.recovery_point == 2
    watched.tick(10_000)
    watched.run_jobs()
    assert watched.synced == ["t-0"], "nothing is new"
    watched.send_one("t")
    watched.tick(500)
    watched.run_jobs()
    assert watched.synced == ["t-0"] * 2


def test_nothing_is_synced_unless_it_is_asked_for() -> None:
    watched = Watched()
    watched.topic("t", record(1))
    for _ in range(20):
        watched.send_one("t")
        watched.tick(1_000)
    watched.run_jobs()
    assert not watched.synced


def test_one_sync_for_all_that_came_while_another_was_under_way() -> None:
    watched = Watched()
    watched.topic("t", record(1), replog__durability="fsync")
    tokens = [watched.send("t", batch(b"v"), acks=-1) for _ in range(10)]
    watched.run_job()
    assert [len(watched.replies(token)) for token in tokens] == [1] + [0] * 9
    watched.run_jobs()
    assert all(watched.answer(token).error_code == 0 for token in tokens)
    assert len(watched.synced) == 2


@pytest.mark.parametrize("cut_before", [True, False])
def test_a_log_that_was_cut_while_it_was_synced_is_synced_again(cut_before: bool) -> None:
    """It may never grow again by itself: with a leader alone in its ISR, which takes nothing until
    this follower is known to have all of it on stable storage, nobody would ever go on."""
    watched = Watched()
    watched.topic("t", record(1))
    for _ in range(5):
        watched.produce("t", batch(b"v"))
    partition = watched.partition("t")
    watched.topic("t", record(1, 2, leader=2, epoch=1), replog__durability="fsync")
    (job,) = watched.jobs
    if not cut_before:
        job.work()
    watched.node.partitions.truncate(partition, 3)
    watched.run_jobs()
    assert partition.log.recovery_point == partition.log_end_offset == 3


def test_a_new_leader_syncs_what_it_has() -> None:
    """Its own part of the high watermark is what is synced."""
    watched = Watched()
    watched.topic("t", record(1))
    watched.produce("t", batch(b"v"))
    watched.topic("t", record(1, epoch=1), replog__durability="fsync")
    watched.run_jobs()
    assert watched.synced == ["t-0"]
    assert watched.leader("t").synced_end == 1


def test_a_topic_whose_durability_changes_goes_on() -> None:
    watched = Watched()
    watched.topic("t", record(1))
    watched.produce("t", batch(b"v"))
    watched.topic("t", record(1), replog__durability="fsync")
    watched.run_jobs()
    assert watched.synced == ["t-0"]
    assert watched.leader("t").high_watermark == 1


def test_after_a_kill_every_log_is_synced_soon_and_writers_wait_for_few_of_them() -> None:
    """What the last process had cut off may come back until then, so no high watermark beyond the
    recovery point is written down."""
    watched = Watched()
    names = [f"t{number}" for number in range(UNHURRIED_MAX + 5)]
    for name in names:
        watched.topic(name, record(1))
        watched.produce(name, batch(b"v"))
    watched.run_jobs()
    assert not watched.synced
    watched.restart(clean=False)
    watched.watch()
    for name in names:
        watched.topic(name, record(1, epoch=1))
    watched.run_job()
    assert watched.partition("t9").log.certain_end == 0
    watched.topic("durable", record(1), replog__durability="fsync")
    token = watched.send("durable", batch(b"v"), acks=-1)
    while not watched.replies(token):
        watched.run_job()
    assert len(watched.synced) == 1 + UNHURRIED_MAX + 1
    watched.run_jobs()
    assert sorted(watched.synced) == sorted([f"{name}-0" for name in names] + ["durable-0"])
    assert all(watched.partition(name).log.certain_end == 1 for name in names)
    watched.produce("t9", batch(b"v"))
    watched.run_jobs()
    assert watched.synced.count("t9-0") == 1, "and not again"
