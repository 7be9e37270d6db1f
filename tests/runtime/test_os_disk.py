"""Real files: short writes, descriptors, and errors that name the file and the reason."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replog.log.disk import DiskError
from replog.runtime.os_disk import OsDisk


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("parts", [1, 4])
def test_a_write_that_is_cut_short_fails_and_can_be_taken_back(tmp_path: Path, parts: int) -> None:
    disk = OsDisk(tmp_path)
    file = disk.open("f", create=True)
    file.append((b"0123456789",))
    with files_no_larger_than(60), pytest.raises(DiskError, match=r"f: can't append: File too"):
        file.append([b"x" * 100] * parts)
    assert (tmp_path / "f").stat().st_size == 60
    file.truncate(10)
    assert file.append((b"!",)) == 1
    assert (tmp_path / "f").read_bytes() == b"0123456789!"


def test_descriptors_live_as_long_as_somebody_holds_the_file(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    before = descriptors()
    file = disk.open("f", create=True)
    holder = file
    assert descriptors() == before + 1
    file.close()
    del file
    assert descriptors() == before + 1
    assert os.fstat(holder.fileno()).st_size == 0
    del holder
    assert descriptors() == before


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    file = OsDisk(tmp_path).open("f", create=True)
    assert not os.get_inheritable(file.fileno())


def test_helpers_leave_no_descriptor_behind(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    before = descriptors()
    disk.make_directory("d")
    disk.write_file("d/f", b"1")
    assert disk.read_file("d/f") == b"1"
    disk.sync_directory("d")
    disk.remove_tree("d")
    assert descriptors() == before


def test_errors_name_the_file_and_the_reason(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    disk.make_directory("d")
    disk.write_file("f", b"1")
    for call, expected in (
        (lambda: disk.open("d"), "d: can't open: Is a directory"),
        (lambda: disk.read_file("d"), "d: can't read: Is a directory"),
        (lambda: disk.make_directory("f/x"), "x: can't make directory: Not a directory"),
        (lambda: disk.rename("d", "f"), "d: can't rename to f: Not a directory"),
        (lambda: disk.remove("d"), "d: can't remove: Is a directory"),
        (lambda: disk.remove_tree("f"), "f: can't remove: Not a directory"),
        (lambda: disk.sync_directory("none"), "none: can't sync: No such file"),
        (lambda: disk.open("x" * 300, create=True), "can't open: File name too long"),
    ):
        with pytest.raises(DiskError, match=expected):
            call()


def test_reads_of_more_than_the_file_end_at_its_end(tmp_path: Path) -> None:
    file = OsDisk(tmp_path).open("f", create=True)
    file.append((b"x" * 100_000,))
    assert len(file.read(0, 2**31)) == 100_000
    assert file.read(99_999, 10) == b"x"
