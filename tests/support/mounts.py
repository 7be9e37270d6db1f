"""File systems of a test's own, for power cuts and full disks. Needs the right to mount."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=60)


def _skip(what: str, error: Exception) -> None:
    detail = (
        error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else ""
    )
    pytest.skip(
        f"NOT TESTED HERE: {what} needs loop devices and the right to mount (root, or a container "
        f"with CAP_SYS_ADMIN and /dev/loop*): {detail or error}"
    )


@contextmanager
def _unmounting(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], capture_output=True, timeout=60)
        if folder.is_mount():
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, timeout=60)


class PowerCutDisk:
    """An ext4 file system in a file, which hardly writes anything before it is told to.

    What is in the file at any moment is what a power cut at that moment would leave: all else is in
    the page cache of the mounted file system.
    """

    def __init__(self, work: Path) -> None:
        self.folder = work / "disk"
        self._image = work / "image"
        self._work = work
        self._cuts = 0

    @contextmanager
    def mounted(self, megabytes: int = 512) -> Iterator["PowerCutDisk"]:
        """Make and mount it; skips the test where that is not allowed."""
        if not sys.platform.startswith("linux"):
            pytest.skip("NOT TESTED HERE: a power cut of an ext4 file system needs Linux")
        self.folder.mkdir()
        with open(self._image, "wb") as file:
            file.truncate(megabytes << 20)
        with _unmounting(self.folder):
            try:
                _run("mkfs.ext4", "-q", "-F", self._image)
                self._mount()
            except (OSError, subprocess.SubprocessError) as error:
                _skip("a power cut", error)
            yield self

    def settle(self) -> None:
        """Everything so far is on stable storage, as if it had been there for long."""
        _run("sync", "-f", self.folder)

    def cut(self) -> None:
        """The power goes, and comes back: whoever used the disk must have been killed before."""
        self._cuts += 1
        left = self._work / f"image-{self._cuts}"
        _run("cp", "--sparse=always", self._image, left)
        _run("umount", self.folder)  # what this writes goes to the old file, which nobody reads
        self._image.unlink()
        self._image = left
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop,commit=600", self._image, self.folder)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system in memory with room for so much; skips the test where that is not allowed."""
    if shutil.which("mount") is None or not sys.platform.startswith("linux"):
        pytest.skip("NOT TESTED HERE: a full disk needs Linux and `mount`")
    folder.mkdir()
    with _unmounting(folder):
        try:
            _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder)
        except (OSError, subprocess.SubprocessError) as error:
            _skip("a full disk", error)
        yield


def make_room(folder: Path, megabytes: int) -> None:
    """The small disk has room for so much from now on."""
    _run("mount", "-o", f"remount,size={megabytes}m", folder)
