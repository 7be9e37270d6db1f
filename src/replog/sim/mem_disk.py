"""The `Disk` port in memory, and the two ways in which a host can end: kill and power cut.

What a real disk promises is kept, and nothing beyond it: bytes of a file are safe after `sync` of
the file, names after `sync_directory` of their folder. A power cut keeps or drops each unsynced
sector on its own (zeros, where there was none before), may leave a file with its old or its new
size or one between, and decides for each unsynced change of a name, of directories as well. All
choices are drawn from the generator that is handed in.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from replog.log.cleaner_writer import CLEANED_SUFFIX
from replog.log.disk import SECTOR_BYTES, Buffer, DiskError, DiskFull
from replog.log.files import LOG_SUFFIX
from replog.sim.mem_file import Directory, Inode

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


class MemFile:
    """One open file of one process. After that process' death it can only be read."""

    __slots__ = ("_closed", "_disk", "_inode", "_life", "path")

    def __init__(self, disk: "MemDisk", inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.lives
        self._closed = False
        self.path = path

    @property
    def rotten(self) -> bool:
        """A byte of it changed by itself at some time."""
        return self._inode.rotten

    def append(self, buffers: Sequence[Buffer]) -> int:
        joined = b"".join(buffers)
        try:
            self._enter("append")
        except (CrashNow, ShortWrite) as fault:
            self._inode.extend(joined[: fault.written])
            raise
        self._inode.extend(joined)
        return len(joined)

    def overwrite(self, data: bytes) -> None:
        if not len(self._inode.data) <= len(data) <= SECTOR_BYTES:
            raise ValueError(f"{self.path}: {len(data)} bytes over {len(self._inode.data)}")
        self._enter("overwrite")
        self._inode.overwrite(data)

    def read(self, position: int, length: int) -> bytes:
        self._disk.reads += 1
        return bytes(self._inode.data[position : position + length])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._enter("truncate")
        self._inode.resize(size)

    def reserve(self, size: int) -> None:
        self._enter("reserve")
        self._inode.reserved = size

    def release(self) -> None:
        if self._inode.reserved:
            self._enter("release")
            self._inode.reserved = 0

    def sync(self) -> None:
        if self._life != self._disk.lives:
            raise DiskError(f"{self.path}: can't sync: the process is gone")
        try:
            self._disk.enter("sync", self.path)  # a closed file keeps its descriptor for a while
        except DiskError:
            self._inode.fail_to_sync()
            raise
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
        self.compacted: set[str] = set()  # directories of logs with a compacted segment
        self.reads = 0  # of open files so far: tests hold to it who should need none
        self._directories: dict[str, Directory] = {"": Directory()}
        self._durable_directories = dict(self._directories)
        self._moved: set[str] = set()  # paths of directories that may differ between the two

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
        self._lose_directories(rng)
        seen: set[int] = set()
        for path in sorted(self._directories):
            directory = self._directories[path]
            directory.lose_power(rng)
            for name in sorted(directory.names):
                inode = directory.names[name]
                if id(inode) not in seen:
                    seen.add(id(inode))
                    inode.lose_power(rng)

    def _lose_directories(self, rng: Random) -> None:
        """A directory that was made, renamed or removed is where it was, or where it is to be."""
        moved, self._moved = sorted(self._moved), set()
        places: dict[Directory, list[str | None]] = {}
        for index, tree in enumerate((self._directories, self._durable_directories)):
            for path in moved:
                if path in tree:
                    places.setdefault(tree[path], [None, None])[index] = path
        for path in moved:
            self._directories.pop(path, None)
        for directory, (present, durable) in places.items():
            place = rng.choice((present, durable))
            if place is not None and place not in self._directories:
                self._directories[place] = directory
        for path in [p for p in self._directories if not self._is_reached(p)]:
            del self._directories[path]
        self._durable_directories = dict(self._directories)

    def _is_reached(self, path: str) -> bool:
        return all(parent in self._directories for parent in _parents(path))

    # The port -------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemFile:
        inode = self._find(path)
        if inode is None:
            if not create:
                raise DiskError(f"{path}: can't open: there is no such file")
            self.enter("open", path)
            inode = Inode()
            self._directory_of("open", path).put(_base(path), inode)
        return MemFile(self, inode, path)

    def space(self) -> tuple[int, int]:
        return -1, -1

    def exists(self, path: str) -> bool:
        return path in self._directories or self._find(path) is not None

    def list(self, path: str) -> list[str]:
        directory = self._directories.get(path)
        if directory is None:
            return []
        inside = [_base(other) for other in self._directories if other and _head(other) == path]
        return sorted([*directory.names, *inside])

    def make_directory(self, path: str) -> None:
        self.enter("make_directory", path)
        for each in (path, *_parents(path)):
            if each not in self._directories:
                self._directories[each] = Directory()
                self._moved.add(each)

    def rename(self, old: str, new: str) -> None:
        self.enter("rename", old)
        inode = self._find(old)
        if inode is not None:
            self._directory_of("rename", new).put(_base(new), inode)
            self._directories[_head(old)].take(_base(old))
            if old.endswith(LOG_SUFFIX + CLEANED_SUFFIX):
                self.compacted.add(_head(new))
        elif old in self._directories:
            for path in list(self._below(old)):
                moved = new + path[len(old) :]
                self._directories[moved] = self._directories.pop(path)
                self._moved.update((path, moved))
        else:
            raise DiskError(f"{old}: can't rename: there is no such file")

    def remove(self, path: str) -> None:
        self.enter("remove", path)
        directory = self._directories.get(_head(path))
        if directory is not None:
            directory.take(_base(path))

    def remove_tree(self, path: str) -> None:
        self.enter("remove_tree", path)
        for each in list(self._below(path)):
            self._directories.pop(each).clear()
            self._moved.add(each)

    def forget_cached(self) -> None:
        self.enter("forget_cached", "")
        for path in self.paths():
            self.inode(path).forget_unwritten()

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory", path)
        directory = self._directories.get(path)
        if directory is None:
            return
        directory.sync()
        for each in [each for each in self._moved if _head(each) == path]:
            self._moved.discard(each)
            if each in self._directories:
                self._durable_directories[each] = self._directories[each]
            else:
                self._durable_directories.pop(each, None)

    def read_file(self, path: str) -> bytes | None:
        inode = self._find(path)
        return None if inode is None else bytes(inode.data)

    def write_file(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append((data,))
        file.sync()
        self.rename(temporary, path)
        self.sync_directory(_head(path))

    # Help -----------------------------------------------------------------------------------------

    def inode(self, path: str) -> Inode:
        """The file behind a name, for whoever wants to spoil it. KeyError when there is none."""
        return self._directories[_head(path)].names[_base(path)]

    def paths(self) -> Iterator[str]:
        """All files, in order."""
        for head in sorted(self._directories):
            front = f"{head}/" if head else ""
            yield from (front + name for name in sorted(self._directories[head].names))

    def _find(self, path: str) -> Inode | None:
        head, _, base = path.rpartition("/")
        directory = self._directories.get(head)
        return None if directory is None else directory.names.get(base)

    def _below(self, path: str) -> Iterator[str]:
        front = f"{path}/"
        return (p for p in self._directories if p == path or p.startswith(front))

    def _directory_of(self, call: str, path: str) -> Directory:
        directory = self._directories.get(_head(path))
        if directory is None:
            raise DiskError(f"{path}: can't {call}: there is no directory {_head(path)}")
        return directory


def _head(path: str) -> str:
    return path.rpartition("/")[0]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _parents(path: str) -> list[str]:
    """The directories above `path`, nearest first."""
    found = []
    parent = _head(path)
    while parent:
        found.append(parent)
        parent = _head(parent)
    return found
