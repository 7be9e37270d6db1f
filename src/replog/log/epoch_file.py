"""Leader epochs of one log, and where each begins: `leader-epoch-checkpoint` (KIP-101, KIP-279).

The law of the file: epochs and start offsets both rise strictly, and no epoch begins behind the end
of the log. A replica finds by it where its log and a leader's part ways.
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise

from replog.log.disk import SECTOR_BYTES, Disk
from replog.log.files import LEADER_EPOCH_CHECKPOINT, write_unsynced
from replog.model.ids import NO_EPOCH, NO_OFFSET

_VERSION = 0


class EpochFile:
    """Epochs in memory; each change is written, and made durable by `sync`."""

    __slots__ = (
        "_broken",
        "_directory",
        "_disk",
        "_epochs",
        "_path",
        "_size",
        "_starts",
        "_synced",
        "_version",
        "latest_epoch",
    )

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = NO_EPOCH  # -1 when the log has none
        self._version = 0  # of the file's content, counted up with each change
        self._size = -1  # of the file, in bytes; -1 when it can't be built upon
        self._broken = False  # what is on disk says nothing
        self._synced = -1  # the version that is known to be durable

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def load(self) -> bool:
        """Read the file. False when it is missing or makes no sense: the batches know better."""
        data = self._disk.read_file(self._path)
        parsed = None if data is None else parse(data)
        if parsed is None:
            self._broken = True
            return False
        self._size = 0 if data is None else len(data)
        self._hold([epoch for epoch, _ in parsed], [start for _, start in parsed])
        return True

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; False when it, or a later one, is known.

        Epochs that would begin at or behind `start_offset` have no records: they are forgotten.
        Raises DiskError, with nothing changed.
        """
        if epoch <= self.latest_epoch:
            return False
        keep = bisect_left(self._starts, start_offset)
        self._replace([*self._epochs[:keep], epoch], [*self._starts[:keep], start_offset])
        return True

    def epoch_at(self, offset: int) -> int:
        """The epoch of the batch that holds `offset`, -1 before the first known epoch."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, where it ends).

        (-1, -1) for an epoch that is unknown because it is newer than the latest one, or because
        there are none. An epoch older than all known ones ends where the first known one begins.
        """
        if epoch == NO_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return NO_EPOCH, NO_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        found = bisect_right(self._epochs, epoch)
        if found == 0:
            return epoch, self._starts[0]
        return self._epochs[found - 1], self._starts[found]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or behind `end_offset`. Raises DiskError, nothing changed."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            self._replace(self._epochs[:keep], self._starts[:keep])

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before `start_offset`; the epoch that holds it begins there now."""
        first = bisect_right(self._starts, start_offset) - 1
        if first < 0 or (first == 0 and self._starts[0] == start_offset):
            return
        starts = self._starts[first:]
        starts[0] = start_offset
        self._replace(self._epochs[first:], starts)

    def restore(self, entries: list[tuple[int, int]]) -> None:
        """Make these the entries (rising, as the law says). Raises DiskError, nothing changed."""
        if self._broken or entries != self.entries():
            self._replace([epoch for epoch, _ in entries], [start for _, start in entries])

    def clear(self) -> None:
        """Forget all. Raises DiskError, with nothing changed."""
        if self._epochs:
            self._replace([], [])

    def create(self) -> None:
        """Begin with an empty file. Raises DiskError."""
        self._replace([], [])

    def sync(self) -> None:
        """The file is durable when this returns; it may run beside a change. Raises DiskError."""
        version = self._version
        if self._synced == version:
            return
        file = self._disk.open(self._path, create=True)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(self._directory)
        self._synced = version

    def _replace(self, epochs: list[int], starts: list[int]) -> None:
        self._write(render(list(zip(epochs, starts, strict=True))))
        self._hold(epochs, starts)
        self._broken = False
        self._version += 1

    def _write(self, data: bytes) -> None:
        """Over what is there, where nothing can tear that. To make a file anew costs the file
        system a hundred times as much, in a step that may begin thousands of leaderships."""
        if 0 <= self._size <= len(data) <= SECTOR_BYTES:
            file = self._disk.open(self._path)
            try:
                file.overwrite(data)
            finally:
                file.close()
        else:
            write_unsynced(self._disk, self._path, data)
        self._size = len(data)

    def _hold(self, epochs: list[int], starts: list[int]) -> None:
        self._epochs, self._starts = epochs, starts
        self.latest_epoch = epochs[-1] if epochs else NO_EPOCH


def render(entries: list[tuple[int, int]]) -> bytes:
    """Kafka's text: version, number of entries, one `epoch start` a line; empty without entries."""
    if not entries:
        return b""
    lines = [str(_VERSION), str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return "\n".join(lines).encode() + b"\n"


def parse(data: bytes) -> list[tuple[int, int]] | None:
    """The entries, or None when the text is not such a file or breaks its law."""
    if not data:
        return []
    try:
        lines = data.decode("ascii").split("\n")
        if int(lines[0]) != _VERSION or lines[-1] != "":
            return None
        entries = [_entry(line) for line in lines[2:-1]]
        if int(lines[1]) != len(entries):
            return None
    except (ValueError, IndexError):
        return None
    for (epoch, start), (next_epoch, next_start) in pairwise(entries):
        if epoch >= next_epoch or start >= next_start:
            return None
    if entries and (entries[0][0] < 0 or entries[0][1] < 0):
        return None
    return entries


def _entry(line: str) -> tuple[int, int]:
    epoch, start = line.split(" ")
    return int(epoch), int(start)
