"""The epoch file: its law, its text, and the answers about where epochs end (KIP-101, KIP-279)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.log.disk import DiskError
from replog.log.epoch_file import EpochFile, parse, render
from replog.sim.mem_disk import MemDisk


def make(*entries: tuple[int, int]) -> EpochFile:
    disk = MemDisk()
    disk.make_directory("t-0")
    epochs = EpochFile(disk, "t-0")
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


THREE = ((2, 10), (5, 20), (6, 35))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all: ends where the first known one begins
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (2, 20)),
        (5, (5, 35)),
        (6, (6, 50)),  # the latest ends at the end of the log
        (7, (-1, -1)),
    ],
)
def test_where_an_epoch_ends(asked: int, answer: tuple[int, int]) -> None:
    assert make(*THREE).end_offset_for(asked, 50) == answer


def test_without_epochs_nothing_is_known() -> None:
    epochs = make()
    assert (epochs.latest_epoch, epochs.entries()) == (-1, [])
    assert epochs.end_offset_for(0, 50) == (-1, -1)
    assert epochs.epoch_at(0) == -1


@pytest.mark.parametrize(
    ("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 5), (34, 5), (35, 6), (99, 6)]
)
def test_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert make(*THREE).epoch_at(offset) == epoch


def test_an_epoch_is_noted_once() -> None:
    epochs = make(*THREE)
    assert not epochs.assign(6, 40)
    assert not epochs.assign(4, 40)
    assert epochs.entries() == list(THREE)
    assert epochs.assign(7, 40)
    assert epochs.latest_epoch == 7


def test_an_epoch_without_records_gives_way() -> None:
    epochs = make(*THREE)
    assert epochs.assign(9, 35)
    assert epochs.entries() == [(2, 10), (5, 20), (9, 35)]


@pytest.mark.parametrize(
    ("end", "left"),
    [(50, 3), (36, 3), (35, 2), (34, 2), (20, 1), (11, 1), (10, 0), (0, 0)],
)
def test_truncate_from_end(end: int, left: int) -> None:
    epochs = make(*THREE)
    epochs.truncate_from_end(end)
    assert epochs.entries() == list(THREE[:left])


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (0, [(2, 10), (5, 20), (6, 35)]),
        (10, [(2, 10), (5, 20), (6, 35)]),
        (15, [(2, 15), (5, 20), (6, 35)]),
        (20, [(5, 20), (6, 35)]),
        (34, [(5, 34), (6, 35)]),
        (90, [(6, 90)]),
    ],
)
def test_truncate_from_start(start: int, entries: list[tuple[int, int]]) -> None:
    epochs = make(*THREE)
    epochs.truncate_from_start(start)
    assert epochs.entries() == entries


def test_the_text_is_kafkas() -> None:
    assert render([]) == b""
    assert render([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"


@pytest.mark.parametrize(
    "text",
    [
        "1\n1\n0 0\n",
        "0\n2\n0 0\n",
        "0\n1\n0 0",
        "0\n1\n0 0 0\n",
        "0\n1\n0\n",
        "0\n1\nzero 0\n",
        "0\n1\n-1 0\n",
        "0\n1\n0 -1\n",
        "0\n2\n1 0\n1 5\n",
        "0\n2\n1 5\n2 5\n",
        "0\n2\n2 0\n1 5\n",
        "0\n",
        "\0" * 8,
        "0\n1\n0 0\n\0\0\0",
        "nonsense",
    ],
)
def test_what_breaks_the_law_is_not_believed(text: str) -> None:
    assert parse(text.encode()) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_not_believed(data: bytes) -> None:
    parsed = parse(data)
    if parsed:
        assert parse(render(parsed)) == parsed


def test_what_was_noted_is_on_disk_at_once_and_durable_after_sync() -> None:
    disk = MemDisk()
    disk.make_directory("t-0")
    epochs = EpochFile(disk, "t-0")
    epochs.assign(4, 0)
    again = EpochFile(disk, "t-0")
    assert again.load()
    assert again.entries() == [(4, 0)]
    synced: list[str] = []
    disk.before_call = lambda call, path: synced.append(call) if "sync" in call else None
    epochs.sync()
    assert synced == ["sync", "sync_directory"]
    epochs.sync()
    assert len(synced) == 2, "nothing changed, nothing to do"


def test_a_failed_change_changes_nothing() -> None:
    disk = MemDisk()
    disk.make_directory("t-0")
    epochs = EpochFile(disk, "t-0")
    epochs.assign(1, 0)

    def fail(call: str, path: str) -> None:
        raise DiskError(f"{call} {path}")

    disk.before_call = fail
    for change in (
        lambda: epochs.assign(2, 5),
        lambda: epochs.truncate_from_end(0),
        lambda: epochs.truncate_from_start(3),
        epochs.clear,
    ):
        with pytest.raises(DiskError):
            change()
    assert epochs.entries() == [(1, 0)]


def test_an_epoch_more_makes_no_file() -> None:
    """It takes a file system milliseconds, and a leader may begin in thousands of partitions."""
    disk = MemDisk()
    disk.make_directory("t-0")
    epochs = EpochFile(disk, "t-0")
    epochs.create()
    calls: list[str] = []
    disk.before_call = lambda call, path: calls.append(call)
    epochs.assign(0, 0)
    epochs.assign(3, 7)
    again = EpochFile(disk, "t-0")
    assert again.load()
    again.assign(4, 9)
    assert calls == ["overwrite"] * 3
    epochs = EpochFile(disk, "t-0")
    assert epochs.load() and epochs.entries() == [(0, 0), (3, 7), (4, 9)]


def test_a_file_that_is_cut_or_longer_than_a_sector_is_replaced() -> None:
    disk = MemDisk()
    disk.make_directory("t-0")
    epochs = EpochFile(disk, "t-0")
    epochs.create()
    for epoch in range(200):
        epochs.assign(epoch, 10 * epoch)
    renames: list[str] = []
    disk.before_call = lambda call, path: renames.append(call) if call == "rename" else None
    epochs.assign(200, 2_000)
    epochs.truncate_from_end(15)
    assert renames == ["rename", "rename"]
    again = EpochFile(disk, "t-0")
    assert again.load() and again.entries() == epochs.entries() == [(0, 0), (1, 10)]
    epochs.clear()
    assert again.load() and again.entries() == []


def test_power_that_goes_while_an_epoch_is_noted_leaves_the_old_ones_or_nothing_to_trust() -> None:
    for seed in range(50):
        disk = MemDisk()
        disk.make_directory("t-0")
        epochs = EpochFile(disk, "t-0")
        epochs.create()
        epochs.assign(5, 0)
        epochs.sync()
        disk.sync_directory("")
        epochs.assign(12, 100)
        disk.power_cut(Random(seed))
        again = EpochFile(disk, "t-0")
        if again.load():
            assert again.entries() in ([(5, 0)], [(5, 0), (12, 100)])
