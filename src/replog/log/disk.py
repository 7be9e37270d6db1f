"""The `Disk` port: all that a log may ask of a file system.

Every call is synchronous and meant for the page cache (microseconds); only `sync` and
`sync_directory` wait for the device. Two worlds implement it: real files (`runtime.os_disk`) and
memory with seeded faults (`sim.mem_disk`). Paths are relative to the log folder and use "/".

What is intentionally not here: file descriptors (a `DiskFile` of the real world has `fileno()` for
`sendfile`, which only `runtime` knows), memory maps (indexes are read whole and appended to),
locks and permissions.

Errors: `DiskError` for whatever the file system refuses (I/O error, missing file), `DiskFull` when
there is no space. After either from `append`, the file may hold a part of the bytes: the caller
truncates back.
"""

from collections.abc import Sequence
from typing import Final, Protocol


class DiskError(Exception):
    """A file system call failed; the text names the file and the reason."""


class DiskFull(DiskError):
    """There is no room for what was to be written. What is there can still be read."""


# What any device writes as a whole, or not at all.
SECTOR_BYTES: Final = 512

Buffer = bytes | bytearray | memoryview


class DiskFile(Protocol):
    """One open file. Appends go to its end; reads are positional."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all `buffers` at the end with one gathered write; returns the bytes written."""
        ...

    def overwrite(self, data: bytes) -> None:
        """Write `data` over all that is there, which is not longer. It fits into `SECTOR_BYTES`: a
        killed process has done it or not, and after a power cut the old bytes are there or the new
        ones, which may end where the old ones did."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position` on; fewer only at the end of the file."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def reserve(self, size: int) -> None:
        """Set room for `size` bytes in all aside for the file, which gets no longer by that: there
        is nothing to be read behind its end. Does nothing where the file system can't."""
        ...

    def release(self) -> None:
        """Give back what is reserved behind the end of the file, by an earlier process too."""
        ...

    def sync(self) -> None:
        """The bytes (not the file's name) are on stable storage when this returns."""
        ...

    def close(self) -> None:
        """Give the descriptor back once no `FileRange` holds this file. May be called twice."""
        ...


class Disk(Protocol):
    """One log folder."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and appending; `create` makes an empty file when there is none."""
        ...

    def exists(self, path: str) -> bool: ...

    def space(self) -> tuple[int, int]:
        """Bytes of the file system, and those that are free for us; -1 where nobody knows."""
        ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when there is no such directory."""
        ...

    def make_directory(self, path: str) -> None:
        """Make the directory and its parents; does nothing when it is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces a file at `new`. Durable after `sync_directory` of the parent."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; does nothing when it is not there."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it."""
        ...

    def sync_directory(self, path: str) -> None:
        """Names made, renamed or removed in `path` are on stable storage when this returns."""
        ...

    def forget_cached(self) -> None:
        """What is read next comes from the device, apart from what is still to be written to it.

        For a folder on which a write failed: what it was to write may be in memory as if it had
        been written, and would be taken for that after a restart. Raises DiskError.
        """
        ...

    def read_file(self, path: str) -> bytes | None:
        """The whole of a small file, or None when there is none."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace a small file atomically and durably: temporary file, syncs, rename."""
        ...
