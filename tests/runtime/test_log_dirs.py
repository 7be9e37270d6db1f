"""The folders of `log.dirs` before there is a node: which of them can be had, and by whom."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.log.checkpoints import CLEAN_SHUTDOWN, META_PROPERTIES
from replog.log.disk import DiskError
from replog.node.log_folder import FolderSetup
from replog.runtime.errors import StartError
from replog.runtime.log_dirs import LogDirs, lock_folder

CLAIMED: dict[int, list[FolderSetup]] = {}


@pytest.fixture
def taken() -> Iterator[list[LogDirs]]:
    """Whatever is put here gives its locks back in the end."""
    made: list[LogDirs] = []
    yield made
    for dirs in made:
        dirs.give_back()


def take(taken: list[LogDirs], *paths: Path, cluster_id: str = "c", node_id: int = 1) -> LogDirs:
    dirs = LogDirs([str(path) for path in paths])
    taken.append(dirs)
    dirs.lock_existing()
    dirs.lock_all()
    CLAIMED[id(dirs)] = dirs.claim(cluster_id=cluster_id, node_id=node_id)
    return dirs


def setups(dirs: LogDirs) -> list[FolderSetup]:
    return CLAIMED[id(dirs)]


def directory_id(path: Path) -> str:
    lines = (path / META_PROPERTIES).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)["directory.id"]


def test_each_is_made_and_named(tmp_path: Path, taken: list[LogDirs]) -> None:
    paths = [tmp_path / "deep" / "down" / "a", tmp_path / "b"]
    dirs = take(taken, *paths)
    assert [setup.path for setup in setups(dirs)] == [str(path) for path in paths]
    assert all(setup.failed is None for setup in setups(dirs))
    ids = [directory_id(path) for path in paths]
    assert len(set(ids)) == 2
    assert dirs.folder_id == ",".join(sorted(ids))
    assert dirs.clean, "new ones were left in good order"
    dirs.give_back()
    again = take(taken, *reversed(paths))
    assert again.folder_id == dirs.folder_id
    assert not again.clean


def test_they_are_clean_when_all_are(tmp_path: Path, taken: list[LogDirs]) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    take(taken, *paths).give_back()
    (paths[0] / CLEAN_SHUTDOWN).write_text("{}")
    dirs = take(taken, *paths)
    assert not dirs.clean
    dirs.give_back()
    (paths[1] / CLEAN_SHUTDOWN).write_text("{}")
    assert take(taken, *paths).clean


def test_one_that_another_broker_has(tmp_path: Path, taken: list[LogDirs]) -> None:
    take(taken, tmp_path / "a")
    with pytest.raises(StartError, match="in use by another broker"):
        take(taken, tmp_path / "b", tmp_path / "a")
    with pytest.raises(StartError, match="in use by another broker"):
        lock_folder(tmp_path / "a")


def test_one_of_another_cluster_or_broker(tmp_path: Path, taken: list[LogDirs]) -> None:
    take(taken, tmp_path / "a").give_back()
    with pytest.raises(StartError, match="belongs to cluster c, not to d"):
        take(taken, tmp_path / "b", tmp_path / "a", cluster_id="d")
    assert not (tmp_path / "b" / META_PROPERTIES).exists(), "nothing is left half made"
    taken[-1].give_back()
    with pytest.raises(StartError, match="belongs to broker 1, not to 2"):
        take(taken, tmp_path / "b2", tmp_path / "a", node_id=2)


def test_a_copy_of_a_folder(tmp_path: Path, taken: list[LogDirs]) -> None:
    take(taken, tmp_path / "a").give_back()
    (tmp_path / "b").mkdir()
    meta = (tmp_path / "a" / META_PROPERTIES).read_text()
    (tmp_path / "b" / META_PROPERTIES).write_text(meta)
    with pytest.raises(StartError, match=r"two folders have directory\.id="):
        take(taken, tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("when", ["there is a file of its name", "its parent is a file"])
def test_one_that_can_not_be_used(tmp_path: Path, taken: list[LogDirs], when: str) -> None:
    (tmp_path / "file").write_text("")
    broken = tmp_path / "file" if when == "there is a file of its name" else tmp_path / "file" / "a"
    dirs = take(taken, broken, tmp_path / "good")
    bad, good = setups(dirs)
    assert bad.failed is not None and str(broken) in bad.failed
    assert good.failed is None
    assert dirs.folder_id == "", "what is in the other one is not known"
    with pytest.raises(DiskError):
        bad.disk.read_file(META_PROPERTIES)
    dirs.give_back()
    with pytest.raises(StartError, match="can't be used"):
        take(taken, broken)


def test_the_owner_has_the_same_name_again_and_that_of_a_copy_another(
    tmp_path: Path, taken: list[LogDirs]
) -> None:
    first = take(taken, tmp_path / "a")
    name = first.owner
    first.give_back()
    assert name and take(taken, tmp_path / "a").owner == name
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    copy = take(taken, tmp_path / "copy")
    assert copy.folder_id == taken[0].folder_id
    assert copy.owner not in ("", name)
    assert LogDirs([str(tmp_path / "none")]).owner == ""
