"""The file below an index: entries of one size, appended to and cut, never rewritten in place.

Entries are kept in memory and written a few at a time, since each batch of a busy log may add one.
What a crash leaves out is made anew from the log: an index is a cache. No descriptor stays open.
"""

from contextlib import suppress

from replog.log.disk import Disk, DiskError

# One write for so many bytes of entries: a lost tail of this size costs a moment at recovery.
PENDING_BYTES_MAX = 1024


class IndexFile:
    """Entries of `entry_size` bytes. `size` counts what was appended, written or not."""

    __slots__ = ("_disk", "_entry_size", "_pending", "_written", "path")

    def __init__(self, disk: Disk, path: str, entry_size: int) -> None:
        self._disk = disk
        self._entry_size = entry_size
        self._pending = bytearray()
        self._written = 0
        self.path = path

    @property
    def size(self) -> int:
        return self._written + len(self._pending)

    def create(self) -> None:
        """Make the file empty, whatever was there."""
        self._pending.clear()
        self._written = 0
        file = self._disk.open(self.path, create=True)
        if file.size():
            file.truncate(0)
        file.close()

    def load(self) -> bytes | None:
        """The entries in the file, or None when there is no file. A torn last one is cut off."""
        data = self._disk.read_file(self.path)
        if data is None:
            return None
        whole = len(data) - len(data) % self._entry_size
        self._pending.clear()
        self._written = len(data)
        if whole < len(data):
            self.truncate(whole)
        return data[:whole]

    def append(self, entry: bytes) -> None:
        """Add one entry, and write the pending ones when there are enough.

        A write that fails is tried again with the next: a cache must not fail an append that the
        log itself has taken.
        """
        self._pending += entry
        if len(self._pending) >= PENDING_BYTES_MAX:
            with suppress(DiskError):
                self.write_pending()

    def write_pending(self) -> None:
        """Everything appended is in the file afterwards. Raises DiskError."""
        if not self._pending:
            return
        file = self._disk.open(self.path, create=True)
        try:
            if file.size() != self._written:
                file.truncate(self._written)  # left by a write that failed half way
            file.append((self._pending,))
        finally:
            file.close()
        self._written += len(self._pending)
        self._pending = bytearray()

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes of entries. Raises DiskError."""
        if size >= self._written:
            del self._pending[size - self._written :]
            return
        self._pending.clear()
        file = self._disk.open(self.path, create=True)
        file.truncate(size)
        file.close()
        self._written = size

    def sync(self) -> None:
        """Write and make durable. Raises DiskError."""
        self.write_pending()
        file = self._disk.open(self.path, create=True)
        try:
            file.sync()
        finally:
            file.close()
