"""A folder that failed is another one for the controller: after a restart it is in doubt."""

import pytest
from tests.node.folders import fails, full, lone, state, values
from tests.node.lone import batch

from replog.log import checkpoints
from replog.model.inputs import StopRequested
from replog.node.folder_doubt import MARK_RETRY_MS
from replog.node.log_folder import FolderState


def test_a_folder_that_failed_is_another_one_afterwards() -> None:
    """By its id the controller takes it for a replaced one, though its host did not restart."""
    made = lone("a", "b")
    for index, disk in enumerate(made.disks):
        checkpoints.claim_folder(disk, cluster_id="c", node_id=1, directory_id=f"id {index}")
    made.disks[0].before_call = fails(only="a-0")
    made.produce("a", batch(b"v"))
    made.run_jobs()
    one, other = (checkpoints.read_meta(disk) for disk in made.disks)
    assert one is not None and one.directory_id != "id 0" and one.node_id == 1
    assert other is not None and other.directory_id == "id 1"


def test_what_could_not_be_written_is_not_found_after_a_restart() -> None:
    """It is in memory still, as if it had been written, and no later sync writes it."""
    made = lone("a", replog__durability="fsync", folders=2)
    made.produce("a", batch(b"1"))
    made.run_jobs()
    made.send("a", batch(b"2"), acks=-1)
    made.disks[0].before_call = fails(calls=("sync",), only=".log")
    made.run_jobs()
    assert state(made, 0) is FolderState.FAILED
    made.restart("a", clean=False)
    assert values(made, "a") == [b"1"]


def test_a_folder_that_can_not_be_marked_keeps_what_is_in_memory() -> None:
    """With less in it and its old id, it would be trusted after the next start."""
    made = lone("a", replog__durability="fsync", folders=2)
    checkpoints.claim_folder(made.disks[0], cluster_id="c", node_id=1, directory_id="id")
    made.produce("a", batch(b"1"))
    made.run_jobs()
    made.send("a", batch(b"2"), acks=-1)
    made.disks[0].before_call = fails(calls=("sync",))
    made.run_jobs()
    assert state(made, 0) is FolderState.FAILED
    found = checkpoints.read_meta(made.disks[0])
    assert found is not None and found.directory_id == "id"
    made.restart("a", clean=False)
    assert values(made, "a") == [b"1", b"2"]


@pytest.mark.parametrize("stops", [False, True], ids=["tried again", "told to stop"])
def test_a_folder_that_can_not_be_marked_at_once_is_marked_later(*, stops: bool) -> None:
    """A disk that fails takes nothing, not even the mark. When it works again, what it has dropped
    is shown still, and would pass for what is on stable storage."""
    made = lone("a", replog__durability="fsync")
    checkpoints.claim_folder(made.disk, cluster_id="c", node_id=1, directory_id="id")
    made.produce("a", batch(b"1"))
    made.run_jobs()
    made.send("a", batch(b"2"), acks=-1)
    made.disk.before_call = fails(calls=("sync",))
    made.run_jobs()
    assert state(made, 0) is FolderState.FAILED
    made.disk.before_call = None
    if not stops:
        made.tick(MARK_RETRY_MS)
        made.run_jobs()
    made.restart("a", clean=stops)
    found = checkpoints.read_meta(made.disk)
    assert found is not None and found.directory_id != "id"
    assert values(made, "a") == [b"1"]


@pytest.mark.parametrize("marked", [True, False])
def test_a_disk_that_fails_while_the_folder_is_closed(*, marked: bool) -> None:
    """The next process would read what was never written, and take it for flushed."""
    made = lone("a")
    checkpoints.claim_folder(made.disk, cluster_id="c", node_id=1, directory_id="id")
    made.produce("a", batch(b"1"))
    made.disk.before_call = fails(calls=("sync",), only=".log" if marked else "")
    made.step(StopRequested())
    made.disk.before_call = None
    found = checkpoints.read_meta(made.disk)
    assert found is not None and (found.directory_id != "id") is marked
    told = any("replace it before the next start" in text for text in made.reports)
    assert told is not marked
    made.restart("a", clean=False)
    assert values(made, "a") == ([] if marked else [b"1"])


def test_a_full_folder_is_the_same_one_afterwards() -> None:
    made = lone("a", "b")
    checkpoints.claim_folder(made.disks[0], cluster_id="c", node_id=1, directory_id="id")
    made.disks[0].before_call = full
    made.produce("a", batch(b"v"))
    made.run_jobs()
    made.disks[0].before_call = None
    found = checkpoints.read_meta(made.disks[0])
    assert found is not None and found.directory_id == "id"


def test_a_folder_that_can_not_be_marked_is_told_of() -> None:
    made = lone("a", "b")
    checkpoints.claim_folder(made.disks[0], cluster_id="c", node_id=1, directory_id="id")
    made.disks[0].before_call = fails()
    made.produce("a", batch(b"v"))
    made.run_jobs()
    assert any("replace it before the next start" in text for text in made.reports)
