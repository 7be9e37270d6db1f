"""What a log may ask of a disk: both worlds answer alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.log.disk import Disk, DiskError
from replog.runtime.os_disk import OsDisk
from replog.sim.mem_disk import MemDisk


@pytest.fixture(params=["real", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    yield OsDisk(tmp_path) if request.param == "real" else MemDisk()


def test_append_read_truncate(disk: Disk) -> None:
    file = disk.open("a", create=True)
    assert file.size() == 0
    assert file.append((b"hello", memoryview(b" "), bytearray(b"world"))) == 11
    assert file.append((memoryview(b"...!")[3:],)) == 1
    assert file.append((b"",)) == 0
    assert file.size() == 12
    assert file.read(0, 100) == b"hello world!"
    assert file.read(6, 5) == b"world"
    assert file.read(12, 5) == b""
    assert file.read(50, 5) == b""
    file.truncate(5)
    assert (file.size(), file.read(0, 100)) == (5, b"hello")
    file.append((b"!",))
    file.truncate(8)
    assert file.read(0, 100) == b"hello!\0\0"
    file.sync()


def test_room_that_is_reserved_is_no_part_of_the_file(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.reserve(4 << 20)
    assert (file.size(), file.read(0, 10)) == (0, b"")
    file.append((b"hello",))
    assert (file.size(), file.read(0, 10)) == (5, b"hello")
    again = disk.open("a")
    assert again.size() == 5
    again.release()
    again.release()
    again.append((b"!",))
    assert (again.size(), again.read(0, 10)) == (6, b"hello!")


def test_overwriting(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.overwrite(b"old")
    assert (file.size(), file.read(0, 10)) == (3, b"old")
    disk.open("a").overwrite(b"newer")
    again = disk.open("a")
    assert (again.size(), again.read(0, 10)) == (5, b"newer")
    again.append((b"!",))
    assert again.read(0, 10) == b"newer!"


def test_many_buffers_in_one_append(disk: Disk) -> None:
    file = disk.open("a", create=True)
    parts = [bytes([number % 256]) * (number % 7) for number in range(3_000)]
    assert file.append(parts) == sum(map(len, parts))
    assert file.read(0, 100_000) == b"".join(parts)


def test_two_handles_see_one_file(disk: Disk) -> None:
    one = disk.open("a", create=True)
    one.append((b"abc",))
    two = disk.open("a")
    assert two.size() == 3
    assert two.read(0, 3) == b"abc"


def test_missing_files(disk: Disk) -> None:
    with pytest.raises(DiskError, match="nothing"):
        disk.open("nothing")
    with pytest.raises(DiskError, match="no/where"):
        disk.open("no/where", create=True)
    with pytest.raises(DiskError, match="nothing"):
        disk.rename("nothing", "something")
    assert disk.read_file("nothing") is None
    assert disk.list("nothing") == []
    assert not disk.exists("nothing")
    disk.open("file", create=True).close()
    assert disk.list("file") == [], "a file is no directory"
    disk.remove("nothing")
    disk.remove_tree("nothing")


def test_names(disk: Disk) -> None:
    disk.make_directory("t-0")
    disk.make_directory("t-0")
    disk.make_directory("x/y/z")
    for name in ("t-0/b", "t-0/a", "c"):
        disk.open(name, create=True)
    assert disk.list("") == ["c", "t-0", "x"]
    assert disk.list("t-0") == ["a", "b"]
    assert disk.list("x") == ["y"]
    assert disk.exists("t-0")
    assert disk.exists("t-0/a")
    disk.remove("t-0/a")
    assert disk.list("t-0") == ["b"]
    disk.remove_tree("x")
    assert disk.list("") == ["c", "t-0"]
    disk.sync_directory("t-0")
    disk.sync_directory("")


def test_rename_replaces(disk: Disk) -> None:
    disk.write_file("old", b"old")
    disk.write_file("new", b"new")
    disk.rename("new", "old")
    assert disk.read_file("old") == b"new"
    assert disk.list("") == ["old"]


def test_a_directory_is_renamed_with_all_in_it(disk: Disk) -> None:
    disk.make_directory("t-0")
    disk.write_file("t-0/a", b"1")
    disk.rename("t-0", "t-0.x-delete")
    assert disk.list("") == ["t-0.x-delete"]
    assert disk.read_file("t-0.x-delete/a") == b"1"
    disk.make_directory("t-0")
    assert disk.list("t-0") == []
    disk.remove_tree("t-0.x-delete")
    assert disk.list("") == ["t-0"]


def test_small_files(disk: Disk) -> None:
    disk.write_file("f", b"one")
    disk.write_file("f", b"the second")
    assert disk.read_file("f") == b"the second"
    assert disk.list("") == ["f"], "nothing temporary is left"


def test_bytes_outlive_their_name(disk: Disk) -> None:
    disk.make_directory("d")
    file = disk.open("d/f", create=True)
    file.append((b"bytes",))
    disk.rename("d", "e")
    assert file.read(0, 5) == b"bytes"
    disk.remove_tree("e")
    assert file.read(0, 5) == b"bytes"
    disk.make_directory("d")
    other = disk.open("d/f", create=True)
    assert other.size() == 0
    assert file.read(0, 5) == b"bytes"


def test_what_was_written_is_still_there_when_the_cache_is_forgotten(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append((b"synced",))
    file.sync()
    file.append((b" and not",))
    disk.forget_cached()
    assert file.read(0, 100) == b"synced and not"
    file.close()


def test_a_closed_file_is_read_but_not_written(disk: Disk) -> None:
    file = disk.open("f", create=True)
    file.append((b"bytes",))
    file.close()
    file.close()
    assert file.read(0, 5) == b"bytes"
    with pytest.raises(DiskError, match="closed"):
        file.append((b"more",))
    assert disk.read_file("f") == b"bytes"
