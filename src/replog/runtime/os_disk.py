"""The `Disk` port over real files: page cache in the step, descriptors that outlive their names.

A file's end is tracked here, so an append is one `pwrite` (or `pwritev`) and asks the kernel
nothing. Nobody else may write to a log folder; the lock that sees to it is the broker's, not ours.
"""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from replog.log.disk import Buffer, DiskError, DiskFull

_OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
_FILE_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
_BUFFERS_MAX: Final = 512  # of one gathered write; every system takes at least 1024


# Of `struct stat`: the unit of st_blocks, whatever the file system's own block is.
_STAT_BLOCK_BYTES: Final = 512
# What a file system itself holds beyond the end of a file is less, or none of our business.
_RESERVED_BYTES_MIN: Final = 1024 * 1024
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE: room behind the end of the file
_CAN_NOT_RESERVE: Final = frozenset((errno.EOPNOTSUPP, errno.ENOSYS))
_NO_SPACE: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


def _refuse(what: str, path: str, error: OSError) -> NoReturn:
    kind = DiskFull if error.errno in _NO_SPACE else DiskError
    raise kind(f"{path}: can't {what}: {error.strerror or error}") from error


class OsFile:
    """One open file. The descriptor is given back when the last reference goes.

    So a `FileRange` that waits to be sent keeps its bytes, whatever becomes of the file's name.
    """

    __slots__ = ("_closed", "_descriptor", "_reserved", "_size", "path")

    def __init__(self, descriptor: int, path: str, size: int, allocated: int) -> None:
        """`allocated`: bytes that the file has room for already."""
        self._descriptor = descriptor
        self._size = size
        self._reserved = allocated - size >= _RESERVED_BYTES_MIN
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

    def overwrite(self, data: bytes) -> None:
        try:
            os.pwrite(self._descriptor, data, 0)
        except OSError as error:
            _refuse("overwrite", self.path, error)
        self._size = len(data)

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

    def reserve(self, size: int) -> None:
        try:
            self._reserved = _allocate(self._descriptor, size)
        except OSError as error:
            self._reserved = True  # a part may have been
            self.release()
            _refuse("reserve room", self.path, error)

    def release(self) -> None:
        if self._reserved:
            self._reserved = False
            self.truncate(self._size)  # to its own size: what is allocated behind it goes

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


def _allocate(descriptor: int, size: int) -> bool:
    """Room for `size` bytes without a change of the file's size, which only Linux has, and not for
    every file system: whether it was reserved. Raises OSError."""
    if sys.platform != "linux":
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "fallocate64", None) or libc.fallocate
    long = ctypes.c_int64
    while call(descriptor, _KEEP_SIZE, long(0), long(size)):
        code = ctypes.get_errno()
        if code in _CAN_NOT_RESERVE:
            return False
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    return True


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
            found = os.fstat(descriptor)
        except OSError as error:
            os.close(descriptor)
            _refuse("open", full, error)
        return OsFile(descriptor, full, found.st_size, found.st_blocks * _STAT_BLOCK_BYTES)

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
