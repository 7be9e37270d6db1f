"""Files and directories of the simulated disk: what they are, and what survives a power cut.

A file is what it is whatever its names; a directory holds names, whatever its own is.
"""

from random import Random

from replog.log.disk import SECTOR_BYTES


class Inode:
    """The bytes of one file."""

    __slots__ = ("_unwritten", "data", "dirty", "durable", "reserved", "rotten", "size_min")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.dirty = False
        self.size_min = 0  # since the last sync
        self.reserved = 0  # bytes that have room, from the beginning of the file on
        self._unwritten = (0, 0)  # bytes that a failed sync has dropped
        self.rotten = False  # a byte changed by itself at some time

    def extend(self, data: bytes) -> None:
        """Bytes more at the end."""
        self.data += data
        self.dirty = True

    def overwrite(self, data: bytes) -> None:
        """Other bytes, as many or more."""
        self.data[:] = data
        self.dirty = True

    def resize(self, size: int) -> None:
        """Cut, or grow by zeros."""
        data = self.data
        if size < len(data):
            self.reserved = 0
            del data[size:]
            self.size_min = min(self.size_min, size)
            start, end = self._unwritten
            self._unwritten = (start, min(end, size))  # what comes in their place is written
        else:
            data += bytes(size - len(data))
        self.dirty = True

    def rot(self, position: int, byte: int) -> None:
        """A byte that was written is another one by itself, in memory and on the medium."""
        self.rotten = True
        self.data[position] = byte
        if position < len(self.durable):
            self.durable = self.durable[:position] + bytes((byte,)) + self.durable[position + 1 :]

    def sync(self) -> None:
        """What is there survives from now on."""
        if self.dirty:
            self.durable = self._on_medium()
            self.size_min = len(self.data)
            self.dirty = False

    def fail_to_sync(self) -> None:
        """The kernel takes the pages for clean all the same: what the file shows is not what it
        will be after a power cut, and no later sync writes it."""
        if self.dirty:
            self._unwritten = (min(len(self.durable), self.size_min), len(self.data))

    def _on_medium(self) -> bytes:
        """The present bytes, but for those that no sync will ever write."""
        start, end = self._unwritten
        if start >= end:
            return bytes(self.data)
        end = min(end, len(self.data))
        return b"".join((self.data[:start], bytes(max(0, end - start)), self.data[end:]))

    def forget_unwritten(self) -> None:
        """The kernel lets go of its pages: what no sync will ever write is not read any more."""
        self.data = bytearray(self._on_medium())
        self._unwritten = (0, 0)

    def lose_power(self, rng: Random) -> None:
        """Whatever was not synced is kept or dropped, sector by sector, and the size apart."""
        if not self.dirty:
            self.data = bytearray(self.durable)
            self._unwritten = (0, 0)
            return
        old, new = self.durable, self._on_medium()
        if self.size_min < len(old):
            # It was cut, which happens at once or not at all, and before what was written since.
            if rng.random() < 0.5:
                self.data = bytearray(old)
                self.sync()
                return
            old = old[: self.size_min]
        size = rng.choice((len(old), len(new), rng.randint(len(old), len(new))))
        after = bytearray(size)
        for start in range(0, size, SECTOR_BYTES):
            end = min(start + SECTOR_BYTES, size)
            before, wanted = old[start:end], new[start:end]
            # A sector is written whole or not at all; where a file has grown over nothing, zeros.
            kept = wanted if before == wanted else rng.choice((before, wanted))
            after[start : start + len(kept)] = kept
        self.data = after
        self._unwritten = (0, 0)
        self.sync()


class Directory:
    """The names in one directory: as they are, and as a power cut would leave them."""

    __slots__ = ("changed", "durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.changed: set[str] = set()  # names that may differ between the two

    def put(self, name: str, inode: Inode) -> None:
        """A file gets this name."""
        self.names[name] = inode
        self.changed.add(name)

    def take(self, name: str) -> Inode | None:
        """The name goes; returns the file that had it."""
        self.changed.add(name)
        return self.names.pop(name, None)

    def clear(self) -> None:
        """All names go."""
        self.changed.update(self.names)
        self.names.clear()

    def sync(self) -> None:
        """Names are safe as they are now."""
        for name in self.changed:
            if name in self.names:
                self.durable[name] = self.names[name]
            else:
                self.durable.pop(name, None)
        self.changed.clear()

    def lose_power(self, rng: Random) -> None:
        """Each name that was not synced is as it was, or as it is."""
        for name in sorted(self.changed):
            if self.names.get(name) is self.durable.get(name):
                continue
            inode = rng.choice((self.names, self.durable)).get(name)
            if inode is None:
                self.names.pop(name, None)
            else:
                self.names[name] = inode
        self.durable = dict(self.names)
        self.changed.clear()
