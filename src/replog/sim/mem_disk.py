"""The `Disk` port in memory, and the two ways in which a host can end: kill and power cut.

What a real disk promises is kept, and nothing beyond it: bytes of a file are safe after `sync` of
the file, names after `sync_directory` of their folder. A power cut keeps or drops each unsynced
sector on its own (zeros, where there was none before), may leave a file with its old or its new
size or one between, and decides for each unsynced change of a name. All choices are drawn from the
generator that is handed in.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from replog.log.disk import Buffer, DiskError, DiskFull

SECTOR_BYTES: Final = 512

BeforeCall = Callable[[str, str], None]


class CrashNow(BaseException):
    """The process dies inside a disk call. No code of a node may catch it: hence no `Exception`.

    `written` bytes of the append that it dies in reach the file.
    """

    def __init__(self, where: str = "", *, written: int = 0) -> None:
        super().__init__(where)
        self.written = written


class ShortWrite(DiskFull):
    """An append fails after `written` bytes, as on a full disk."""

    def __init__(self, where: str = "", *, written: int = 0) -> None:
        super().__init__(f"{where}: no space left")
        self.written = written


class _Inode:
    """What a file is, whatever its names: present bytes, and those that survive a power cut."""

    __slots__ = ("data", "dirty", "durable", "size_min")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.dirty = False
        self.size_min = 0  # since the last sync

    def sync(self) -> None:
        if self.dirty:
            self.durable = bytes(self.data)
            self.size_min = len(self.data)
            self.dirty = False

    def lose_power(self, rng: Random) -> None:
        """Whatever was not synced is kept or dropped, sector by sector, and the size apart."""
        if not self.dirty:
            return
        old, new = self.durable, bytes(self.data)
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
        self.sync()


class MemFile:
    """One open file of one process. After that process' death it can only be read."""

    __slots__ = ("_closed", "_disk", "_inode", "_life", "path")

    def __init__(self, disk: "MemDisk", inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.lives
        self._closed = False
        self.path = path

    def append(self, buffers: Sequence[Buffer]) -> int:
        joined = b"".join(buffers)
        try:
            self._enter("append")
        except (CrashNow, ShortWrite) as fault:
            self._extend(joined[: fault.written])
            raise
        self._extend(joined)
        return len(joined)

    def _extend(self, data: bytes) -> None:
        self._inode.data += data
        self._inode.dirty = True

    def read(self, position: int, length: int) -> bytes:
        self._disk.reads += 1
        return bytes(self._inode.data[position : position + length])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._enter("truncate")
        data = self._inode.data
        if size < len(data):
            del data[size:]
            self._inode.size_min = min(self._inode.size_min, size)
        else:
            data += bytes(size - len(data))
        self._inode.dirty = True

    def sync(self) -> None:
        if self._life != self._disk.lives:
            raise DiskError(f"{self.path}: can't sync: the process is gone")
        self._disk.enter("sync", self.path)  # a closed file keeps its descriptor for a while
        self._inode.sync()

    def close(self) -> None:
        self._closed = True

    def _enter(self, call: str) -> None:
        if self._closed or self._life != self._disk.lives:
            raise DiskError(f"{self.path}: can't {call}: the file is closed")
        self._disk.enter(call, self.path)

    def __repr__(self) -> str:
        return self.path


class MemDisk:
    """One log folder. `before_call` sees (call, path) of each call that changes something.

    It may raise DiskError, and the call fails, or CrashNow, and the process ends inside the step:
    whoever catches that calls `crash`, or `power_cut`, before the folder is used again.
    """

    def __init__(self) -> None:
        self.lives = 0  # processes that have ended: files that they opened are stale
        self.before_call: BeforeCall | None = None
        self.reads = 0  # of open files so far: tests hold to it who should need none
        self._names: dict[str, _Inode] = {}
        self._directories: set[str] = set()
        # Names as they would be found after a power cut. Only files have them: an empty directory
        # that comes or goes makes no difference to anybody.
        self._durable: dict[str, _Inode] = {}

    def enter(self, call: str, path: str) -> None:
        """Every changing call begins here: the place for faults."""
        if self.before_call is not None:
            self.before_call(call, path)

    # Ends -----------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process was killed, the host stays up: whatever was written is there."""
        self.lives += 1

    def power_cut(self, rng: Random) -> None:
        """The host went down: unsynced names and bytes are kept, dropped or torn as `rng` says."""
        self.lives += 1
        changed = sorted(
            name
            for name in self._names.keys() | self._durable.keys()
            if self._names.get(name) is not self._durable.get(name)
        )
        for name in changed:
            inode = rng.choice((self._names, self._durable)).get(name)
            if inode is None:
                self._names.pop(name, None)
            else:
                self._names[name] = inode
        self._durable = dict(self._names)
        seen: set[int] = set()
        for name in sorted(self._names):
            inode = self._names[name]
            if id(inode) not in seen:
                seen.add(id(inode))
                inode.lose_power(rng)
        self._directories |= {parent for name in self._names for parent in _parents(name) if parent}

    # The port -------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemFile:
        inode = self._names.get(path)
        if inode is None:
            if not create:
                raise DiskError(f"{path}: can't open: there is no such file")
            self.enter("open", path)
            self._need_directory("open", path)
            inode = self._names[path] = _Inode()
        return MemFile(self, inode, path)

    def space(self) -> tuple[int, int]:
        return -1, -1

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def list(self, path: str) -> list[str]:
        front = f"{path}/" if path else ""
        inside = (
            name[len(front) :].split("/", 1)[0]
            for name in self._all_names()
            if name.startswith(front)
        )
        return sorted(set(inside))

    def make_directory(self, path: str) -> None:
        self.enter("make_directory", path)
        self._directories.update((path, *(parent for parent in _parents(path) if parent)))

    def rename(self, old: str, new: str) -> None:
        self.enter("rename", old)
        if old in self._names:
            self._need_directory("rename", new)
            self._names[new] = self._names.pop(old)
        elif old in self._directories:
            self._rename_directory(old, new)
        else:
            raise DiskError(f"{old}: can't rename: there is no such file")

    def remove(self, path: str) -> None:
        self.enter("remove", path)
        self._names.pop(path, None)

    def remove_tree(self, path: str) -> None:
        self.enter("remove_tree", path)
        for name in [name for name in self._names if name.startswith(f"{path}/")]:
            del self._names[name]
        self._directories = {
            name for name in self._directories if name != path and not name.startswith(f"{path}/")
        }

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory", path)
        for name in self._names.keys() | self._durable.keys():
            if name.rpartition("/")[0] != path:
                continue
            if name in self._names:
                self._durable[name] = self._names[name]
            else:
                del self._durable[name]

    def read_file(self, path: str) -> bytes | None:
        inode = self._names.get(path)
        return None if inode is None else bytes(inode.data)

    def write_file(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append((data,))
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0])

    # Help -----------------------------------------------------------------------------------------

    def _all_names(self) -> Iterable[str]:
        yield from self._names
        yield from self._directories

    def _need_directory(self, call: str, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and parent not in self._directories:
            raise DiskError(f"{path}: can't {call}: there is no directory {parent}")

    def _rename_directory(self, old: str, new: str) -> None:
        # A directory keeps its durable names when it is renamed: they are of the directory, not of
        # its own name. That the new name itself may be lost is not modelled.
        for names in (self._names, self._durable):
            for name in [name for name in names if name.startswith(f"{old}/")]:
                names[new + name[len(old) :]] = names.pop(name)
        for name in [n for n in self._directories if n == old or n.startswith(f"{old}/")]:
            self._directories.remove(name)
            self._directories.add(new + name[len(old) :])


def _parents(path: str) -> list[str]:
    """The directories above `path`, nearest first."""
    found = []
    parent = path.rpartition("/")[0]
    while parent:
        found.append(parent)
        parent = parent.rpartition("/")[0]
    return found
