"""One broker with several folders in `log.dirs`, on disks that fail or are full."""

from collections.abc import Callable

from tests.node.lone import Lone, record

from replog.log.disk import DiskError
from replog.log.results import LogRead
from replog.node.log_folder import FolderState
from replog.records.batch import read_records
from replog.sim.mem_disk import ShortWrite


def fails(*, calls: tuple[str, ...] = (), only: str = "") -> Callable[[str, str], None]:
    """These calls (all, if none is named) of paths with `only` in them fail."""

    def before_call(call: str, path: str) -> None:
        if (not calls or call in calls) and only in path:
            raise DiskError(f"{path}: can't {call}: Input/output error")

    return before_call


def full(call: str, path: str) -> None:
    """There is no room; the first ten bytes of a write found some."""
    if call == "append":
        raise ShortWrite(path, written=10)


def lone(*topics: str, folders: int = 2, **configs: str) -> Lone:
    made = Lone(folders=folders)
    for name in topics:
        made.topic(name, record(1), **configs)
    return made


def folder_of(made: Lone, name: str, index: int = 0) -> int:
    return made.node.partitions.logs.folders.index(made.partition(name, index).folder)


def state(made: Lone, folder: int) -> FolderState:
    return made.node.partitions.logs.folders[folder].state


def values(made: Lone, name: str) -> list[bytes | None]:
    log = made.partition(name).log
    read = log.read(log.log_start_offset, 1 << 20, upto=log.log_end_offset, min_one=True)
    assert isinstance(read, LogRead)
    return [] if read.range is None else [found.value for found in read_records(read.range.read())]
