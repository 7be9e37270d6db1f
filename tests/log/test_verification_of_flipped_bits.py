"""One bit of a folder is wrong: `verify` finds it, or nobody who uses the log can notice.

What cannot be found in a partition's folder alone is told by whoever opens it: that it belongs to
another topic.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.log import transactions
from tests.log.batches import DIRECTORY, append, batch, everything, open_log

from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.errors import LogCorrupt, TopicIdMismatch
from replog.log.verification import verify
from replog.node.partition import replay_producers
from replog.records.errors import CorruptBatch
from replog.sim.mem_disk import MemDisk

# More than one bit of each byte would take minutes.
FLIPS = 700
CONFIG = LogConfig(segment_bytes=1_500, index_interval_bytes=150)


def folder() -> MemDisk:
    """Several segments, codecs, epochs, producers and transactions, closed in good order."""
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    for turn in range(8):
        first, second = 10 + turn % 3, 20
        for data in (
            batch(3, size=30, time=5_000 + 7 * turn),
            transactions.data(first, turn * 4, b"a", b"b", compression=turn % 5),
            transactions.data(second, turn, b"c"),
            transactions.marker(first, committed=turn % 2 == 0),
            transactions.data(first, turn * 4 + 2, b"d", b"e", compression=4),
            transactions.marker(second, committed=turn % 3 == 0),
            transactions.marker(first, committed=turn % 3 != 0),
        ):
            append(log, data, epoch=turn // 3)
    producers = replay_producers(log, [])
    end_offset = log.close()
    log.snapshots.add_unsynced(end_offset, producers.entries())
    return disk


class Seen(NamedTuple):
    """What users of a log get from it."""

    batches: object
    epochs: object
    times: object
    aborted: object
    producers: object


def seen(disk: MemDisk, *, clean: bool) -> Seen:
    """Raises what opening or reading raises."""
    log = open_log(disk, CONFIG, clean=clean)
    producers = replay_producers(log, [])
    batches = everything(log)
    return Seen(
        batches,
        [log.end_offset_for_epoch(epoch) for epoch in range(5)],
        [log.offset_for_latest_time(), *map(log.offset_for_time, times())],
        # A stable offset that is too low makes readers look further, and no more.
        [
            [entry[:3] for entry in log.aborted.within(first, end)]
            for each in batches
            for first, end in ((each.base_offset, log.log_end_offset), (0, each.next_offset))
        ],
        sorted(producers.entries()),
    )


def times() -> Iterator[int]:
    """Around all that the log has."""
    yield from (0, 5_000, 5_003, 5_008, 5_020, 5_040, 5_060, transactions.TIME)


@contextmanager
def flipped(disk: MemDisk, path: str, position: int, bit: int) -> Iterator[None]:
    data = disk.inode(path).data
    data[position] ^= 1 << bit
    try:
        yield
    finally:
        data[position] ^= 1 << bit


def copy_of(disk: MemDisk) -> MemDisk:
    copied = MemDisk()
    copied.make_directory(DIRECTORY)
    for path in disk.paths():
        copied.open(path, create=True).append((disk.inode(path).data,))
    return copied


def test_a_flipped_bit_is_found_or_does_not_matter() -> None:
    disk = folder()
    assert verify(disk, DIRECTORY).faults == []
    paths = list(disk.paths())
    kinds = {path.rpartition(".")[2] for path in paths}
    assert kinds >= {"log", "index", "timeindex", "snapshot", "txnindex", "metadata"}
    sound = seen(copy_of(disk), clean=True)
    assert sound == seen(copy_of(disk), clean=False)
    places = [(path, at) for path in paths for at in range(len(disk.inode(path).data))]
    rng = random.Random(4)
    missed = []
    found = 0
    for path, at in rng.sample(places, FLIPS):
        bit = rng.randrange(8)
        with flipped(disk, path, at, bit):
            if verify(disk, DIRECTORY).faults:
                found += 1
                continue
            for clean in (True, False):
                if (what := noticed(copy_of(disk), sound, clean=clean)) is not None:
                    missed.append(f"bit {bit} of {path} at {at}, clean={clean}: {what}")
    assert not missed, "\n".join(missed)
    assert found > 0.9 * FLIPS


def noticed(disk: MemDisk, sound: Seen, *, clean: bool) -> str | None:
    """What a user of the log would notice that nobody tells."""
    try:
        return next(
            (
                f"{name}: {ours} became {theirs}"
                for name, ours, theirs in zip(
                    Seen._fields, sound, seen(disk, clean=clean), strict=True
                )
                if ours != theirs
            ),
            None,
        )
    except TopicIdMismatch:
        return None
    except (LogCorrupt, CorruptBatch, DiskError) as error:
        return repr(error)
