"""The `Disk` port over real files that nothing can be written to: for looking at folders in use."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from replog.log.disk import Buffer, DiskError


class ReadOnlyFile:
    """One open file."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DiskError(f"{path}: can't open: {error.strerror}") from error

    def read(self, position: int, length: int) -> bytes:
        """See `DiskFile`."""
        parts = []
        try:
            while length > 0 and (part := os.pread(self._open, length, position)):
                parts.append(part)
                position += len(part)
                length -= len(part)
        except OSError as error:
            raise DiskError(f"{self.path}: can't read: {error.strerror}") from error
        return b"".join(parts)

    def size(self) -> int:
        """As the file is now: somebody may append to it."""
        return os.fstat(self._open).st_size

    @property
    def _open(self) -> int:
        if self._descriptor is None:
            raise DiskError(f"{self.path}: the file is closed")
        return self._descriptor

    def append(self, buffers: Sequence[Buffer]) -> int:
        _refuse(self.path)

    def overwrite(self, data: bytes) -> None:
        _refuse(self.path)

    def truncate(self, size: int) -> None:
        _refuse(self.path)

    def reserve(self, size: int) -> None:
        _refuse(self.path)

    def release(self) -> None:
        """Nothing was reserved."""

    def sync(self) -> None:
        _refuse(self.path)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __repr__(self) -> str:
        return self.path


class ReadOnlyDisk:
    """One log folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self, path: str, *, create: bool = False) -> ReadOnlyFile:
        """See `Disk`; `create` is not looked at."""
        return ReadOnlyFile(str(self.root / path))

    def space(self) -> tuple[int, int]:
        return -1, -1  # nothing is written

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.root / path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise DiskError(f"{self.root / path}: can't list: {error.strerror}") from error

    def read_file(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DiskError(f"{self.root / path}: can't read: {error.strerror}") from error

    def make_directory(self, path: str) -> None:
        _refuse(path)

    def rename(self, old: str, new: str) -> None:
        _refuse(old)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        _refuse(path)

    def forget_cached(self) -> None:
        """Nothing was written."""

    def sync_directory(self, path: str) -> None:
        _refuse(path)

    def write_file(self, path: str, data: bytes) -> None:
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise DiskError(f"{path}: nothing is written here")
