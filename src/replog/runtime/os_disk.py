"""The `Disk` port over real files: page cache in the step, descriptors that outlive their names.

A file's end is tracked here, so an append is one `pwrite` (or `pwritev`) and asks the kernel
nothing. Nobody else may write to a log folder; the lock that sees to it is the broker's, not ours.
"""

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from replog.log.disk import Buffer, DiskError, DiskFull

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
_BUFFERS_MAX: Final = 512  # of one gathered write; every system takes at least 1024


_NO_SPACE: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


def _refuse(what: str, path: str, error: OSError) -> NoReturn:
    kind = DiskFull if error.errno in _NO_SPACE else DiskError
    raise kind(f"{path}: can't {what}: {error.strerror or error}") from error


class OsFile:
    """One open file. The descriptor is given back when the last reference goes.

    So a `FileRange` that waits to be sent keeps its bytes, whatever becomes of the file's name.
    """

    __slots__ = ("_closed", "_descriptor", "_size", "path")

    def __init__(self, descriptor: int, path: str, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._closed = False
        self.path = path

    def fileno(self) -> int:
        """The descriptor, valid while this object lives."""
        return self._descriptor

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self._closed:
            raise DiskError(f"{self.path}: can't append: the file is closed")
        try:
            if len(buffers) == 1:
                length = len(buffers[0])
                written = os.pwrite(self._descriptor, buffers[0], self._size)
            else:
                length = sum(map(len, buffers))
                written = os.pwritev(self._descriptor, buffers[:_BUFFERS_MAX], self._size)
            if written != length:
                self._append_rest(b"".join(buffers), written)
        except OSError as error:
            _refuse("append", self.path, error)
        self._size += length
        return length

    def _append_rest(self, data: bytes, written: int) -> None:
        """A write was cut short (a full disk, most likely: then this one says so)."""
        view = memoryview(data)
        while written < len(data):
            count = os.pwrite(self._descriptor, view[written:], self._size + written)
            if count == 0:
                raise OSError("nothing was written")
            written += count

    def read(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            if len(data) < length and position + len(data) < self._size:
                data = self._read_rest(data, position, length)
        except OSError as error:
            _refuse("read", self.path, error)
        return data

    def _read_rest(self, data: bytes, position: int, length: int) -> bytes:
        """One call gives at most 2 GiB, and less when a signal comes."""
        parts = [data]
        done = len(data)
        while done < length:
            part = os.pread(self._descriptor, length - done, position + done)
            if not part:
                break
            parts.append(part)
            done += len(part)
        return b"".join(parts)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            _refuse("truncate", self.path, error)
        self._size = size

    def sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            _refuse("sync", self.path, error)

    def close(self) -> None:
        self._closed = True

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Held as a default: at the end of the interpreter the module's names may go first.
        close(self._descriptor)

    def __repr__(self) -> str:
        return self.path


def _forget_cached(path: str) -> None:
    if not hasattr(os, "posix_fadvise"):
        return  # macOS has no such call
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return  # it left just now
    except OSError as error:
        _refuse("forget", path, error)


class OsDisk:
    """One log folder of the real file system."""

    def __init__(self, root: str | Path) -> None:
        """`root` must exist."""
        self.root = str(root)

    def _path(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def open(self, path: str, *, create: bool = False) -> OsFile:
        full = self._path(path)
        flags = _OPEN_FLAGS | os.O_CREAT if create else _OPEN_FLAGS
        try:
            descriptor = os.open(full, flags, _FILE_MODE)
        except OSError as error:
            _refuse("open", full, error)
        try:
            size = os.fstat(descriptor).st_size
        except OSError as error:
            os.close(descriptor)
            _refuse("open", full, error)
        return OsFile(descriptor, full, size)

    def space(self) -> tuple[int, int]:
        try:
            found = os.statvfs(self.root)
        except OSError as error:
            _refuse("look at", self.root, error)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._path(path))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            _refuse("list", self._path(path), error)

    def make_directory(self, path: str) -> None:
        try:
            os.makedirs(self._path(path), _DIRECTORY_MODE, exist_ok=True)
        except OSError as error:
            _refuse("make directory", self._path(path), error)

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(self._path(old), self._path(new))
        except OSError as error:
            _refuse(f"rename to {new}", self._path(old), error)

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._path(path))
        except FileNotFoundError:
            return
        except OSError as error:
            _refuse("remove", self._path(path), error)

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(self._path(path))
        except FileNotFoundError:
            return
        except OSError as error:
            _refuse("remove", self._path(path), error)

    def forget_cached(self) -> None:
        for folder, _, names in os.walk(self.root):
            for name in names:
                _forget_cached(os.path.join(folder, name))

    def sync_directory(self, path: str) -> None:
        full = self._path(path)
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            _refuse("sync", full, error)

    def read_file(self, path: str) -> bytes | None:
        full = self._path(path)
        try:
            with open(full, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            _refuse("read", full, error)

    def write_file(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append((data,))
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))
