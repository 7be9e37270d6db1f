"""What is wrong with the disks of one host at the moment."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from replog.log.disk import DiskError
from replog.sim.mem_disk import CrashNow, MemDisk, ShortWrite


class DiskTroubles:
    """Sees every call that changes something, and lets some of them fail. None at first."""

    def __init__(self, disks: Sequence[MemDisk]) -> None:
        self._disks = disks
        self._calls_until_crash: int | None = None
        self._written = 0
        self._room: int | None = None  # bytes that still fit; None: enough
        self._failing = ""

    def arm_crash(self, calls: int, written: int) -> None:
        """The process dies inside the `calls`-th call from now on. Of an append, `written` bytes
        reach the file."""
        self._calls_until_crash, self._written = calls, written
        self._watch()

    def disarm(self) -> None:
        """No crash is wanted any more."""
        self._calls_until_crash = None
        self._watch()

    def fill(self, room: int) -> None:
        """The next append is cut after `room` bytes, and none fits after it."""
        self._room = room
        self._watch()

    def make_room(self) -> None:
        """There is room again."""
        self._room = None
        self._watch()

    def fail(self, way: str) -> None:
        """Calls raise DiskError: "all", all but "sync" ("write"), or "sync" alone."""
        self._failing = way
        self._watch()

    def work_again(self) -> None:
        """Calls succeed again."""
        self._failing = ""
        self._watch()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Nothing fails meanwhile: it is not the broker that calls."""
        kept = [disk.before_call for disk in self._disks]
        for disk in self._disks:
            disk.before_call = None
        try:
            yield
        finally:
            for disk, before_call in zip(self._disks, kept, strict=True):
                disk.before_call = before_call

    def _watch(self) -> None:
        troubled = self._calls_until_crash is not None or self._room is not None or self._failing
        for disk in self._disks:
            disk.before_call = self._before_call if troubled else None

    def _before_call(self, call: str, path: str) -> None:
        if self._calls_until_crash is not None:
            self._calls_until_crash -= 1
            if self._calls_until_crash <= 0:
                written = self._written
                self.disarm()
                raise CrashNow(f"{call} {path}", written=written)
        syncs = call.startswith("sync")
        if self._failing == "all" or self._failing == ("sync" if syncs else "write"):
            raise DiskError(f"{path}: can't {call}: Input/output error")
        if self._room is not None and call == "append":
            written, self._room = self._room, 0
            raise ShortWrite(path, written=written)
        if self._room is not None and call in ("reserve", "overwrite"):
            raise ShortWrite(path)  # what is left is less than a segment, or than a block
