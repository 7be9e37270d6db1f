"""`verify` finds every kind of damage, says where it is, and finds nothing in a sound folder."""

from collections.abc import Callable

import pytest
from crc32c import crc32c
from tests.log.batches import DIRECTORY, append, batch, open_log, records
from tests.log.compaction import compact, keyed, seal

from replog.log.config import LogConfig
from replog.log.results import Fault
from replog.log.verification import Verified, verify
from replog.records.batch import build_batch
from replog.records.header import BatchHeader, stamp, stamp_timestamp
from replog.sim.mem_disk import MemDisk

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, cleanup_policy=("compact",))
FIRST = f"{DIRECTORY}/{0:020d}"


def sound_folder() -> MemDisk:
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    for i in range(20):
        append(log, batch(2, size=20, time=1_000 + i), epoch=i // 8)
    log.close()
    return disk


def data_of(disk: MemDisk, path: str) -> bytearray:
    return disk.inode(path).data


def faults(disk: MemDisk, **options: bool) -> list[Fault]:
    return verify(disk, DIRECTORY, **options).faults


def test_a_sound_folder_has_no_fault_and_is_counted() -> None:
    disk = sound_folder()
    verified = verify(disk, DIRECTORY)
    assert verified.faults == []
    assert (verified.batches, verified.records, verified.end_offset) == (20, 40, 40)
    names = disk.list(DIRECTORY)
    assert verified.segments == sum(name.endswith(".log") for name in names) > 2
    assert verified.bytes == sum(
        len(data_of(disk, f"{DIRECTORY}/{name}")) for name in names if name.endswith(".log")
    )


@pytest.mark.parametrize("codec", range(5))
def test_a_count_that_is_not_that_of_the_records_is_found(codec: int) -> None:
    """The checksum is right: whoever made the batch made it so."""
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    data = bytearray(build_batch(records(3), compression=codec))
    data[60] -= 1  # of the count, and of the last offset's distance
    data[26] -= 1
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    append(log, data)
    log.close()
    (fault,) = faults(disk)
    assert fault.path == FIRST + ".log" and fault.position == 80, fault
    assert "its records can't be read" in fault.what


def test_an_empty_log_is_sound() -> None:
    disk = MemDisk()
    open_log(disk, CONFIG).close()
    assert faults(disk) == []


BATCH = 119  # bytes of one
INDEX, TIMES, EPOCHS = (
    FIRST + ".index",
    FIRST + ".timeindex",
    f"{DIRECTORY}/leader-epoch-checkpoint",
)


def flip(path: str, at: int) -> Callable[[MemDisk], None]:
    def damage(disk: MemDisk) -> None:
        data_of(disk, path)[at] ^= 0x55

    return damage


def restamp(number: int, *, offset: int, epoch: int) -> Callable[[MemDisk], None]:
    """Another offset and epoch for a batch of the first segment: its CRC does not tell."""

    def damage(disk: MemDisk) -> None:
        stamp(data_of(disk, FIRST + ".log"), number * BATCH, offset, epoch)

    return damage


def put(path: str, data: bytes) -> Callable[[MemDisk], None]:
    return lambda disk: disk.write_file(path, data)


def remove(path: str) -> Callable[[MemDisk], None]:
    return lambda disk: disk.remove(path)


def cut(path: str, by: int) -> Callable[[MemDisk], None]:
    def damage(disk: MemDisk) -> None:
        del data_of(disk, path)[-by:]

    return damage


def later(disk: MemDisk) -> None:
    """A batch that is younger than the time index says."""
    data = data_of(disk, FIRST + ".log")
    stamp_timestamp(data, BatchHeader(data, 0), max_timestamp=9_999, log_append_time=False)


@pytest.mark.parametrize(
    ("damage", "path", "position", "what"),
    [
        (flip(FIRST + ".log", 3 * BATCH + 100), ".log", 3 * BATCH, "the CRC does not match"),
        (flip(FIRST + ".log", 2 * BATCH + 16), ".log", 2 * BATCH, "has no batch"),
        (cut(FIRST + ".log", 5), ".log", 4 * BATCH, "ends inside the batch"),
        (cut(FIRST + ".log", BATCH - 9), ".log", 4 * BATCH, "ends inside the header"),
        (restamp(2, offset=5, epoch=0), ".log", 2 * BATCH, "offsets 4 to 4 are missing"),
        (restamp(2, offset=3, epoch=0), ".log", 2 * BATCH, "offset 3 comes after 3"),
        (restamp(4, offset=9, epoch=0), ".log", 4 * BATCH, "offset 10 is in the next segment"),
        (restamp(1, offset=2, epoch=2), ".log", 2 * BATCH, "epoch 0 comes after 2"),
        (put(INDEX, b"\0\0\0\3\0\0\0\x78"), ".index", 0, "points to 120, where no batch begins"),
        (
            put(INDEX, b"\0\0\0\1\0\0\0\xee"),
            ".index",
            0,
            "offset 1 is said to be the last of the batch at 238",
        ),
        (put(INDEX, b"\0\0\0\5\0\0\0\xee" * 2), ".index", 8, "its offsets do not rise"),
        (put(INDEX, b"\0\0\0\5\0\0\0"), ".index", 7, "its size is no multiple of 8"),
        (remove(INDEX), ".index", None, "it is missing"),
        (later, ".timeindex", 0, "the latest time is said to be"),
        (put(TIMES, (b"\0" * 6 + b"\4\0" + b"\0\0\0\3") * 2), ".timeindex", 12, "do not rise"),
        (remove(TIMES), ".timeindex", None, "it is missing"),
        (put(EPOCHS, b"0\n1\n0 0\n"), EPOCHS, None, "offset 16 has epoch 1, the file tells of"),
        (put(EPOCHS, b"0\n4\n0 0\n1 16\n2 32\n3 99\n"), EPOCHS, None, "the log ends at 40"),
        (put(EPOCHS, b"0\n2\n0 0\n"), EPOCHS, None, "it can't be read"),
        (remove(EPOCHS), EPOCHS, None, "it is missing"),
        (put(f"{DIRECTORY}/partition.metadata", b"?"), ".metadata", None, "tells no topic id"),
        (remove(f"{DIRECTORY}/partition.metadata"), ".metadata", None, "it is missing"),
        (remove(f"{DIRECTORY}/{10:020d}.log"), f"{20:020d}.log", 0, "offsets 10 to 19 are missing"),
    ],
)
def test_damage_is_found_where_it_is(
    damage: Callable[[MemDisk], None], path: str, position: int | None, what: str
) -> None:
    disk = sound_folder()
    assert len(data_of(disk, FIRST + ".log")) == 5 * BATCH
    damage(disk)
    found = faults(disk)
    assert [
        f for f in found if f.path.endswith(path) and f.position == position and what in f.what
    ], found


def test_what_compaction_took_is_no_fault_where_it_is_expected() -> None:
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    for i in range(30):
        append(log, keyed((f"k{i % 4}", "v" * 20), ("x", str(i))))
    seal(log)
    compact(disk, log)
    log.close()
    assert faults(disk, gaps_allowed=True) == []
    assert any("missing" in fault.what for fault in faults(disk))


def test_a_start_inside_the_log_shortens_the_epochs() -> None:
    disk = sound_folder()
    log = open_log(disk, CONFIG, clean=True, log_start_offset=20)
    log.close()
    assert verify(disk, DIRECTORY, log_start_offset=20).faults == []
    assert verify(disk, DIRECTORY).faults != []


@pytest.mark.parametrize("later_epoch", [None, 9])
def test_a_log_of_which_all_is_deleted_is_sound(later_epoch: int | None) -> None:
    """Its segment stays, and nothing tells of the epochs in it any more."""
    disk = sound_folder()
    log = open_log(disk, CONFIG, clean=True, log_start_offset=40)
    if later_epoch is not None:
        log.assign_epoch(later_epoch, 40)
    log.close()
    assert verify(disk, DIRECTORY, log_start_offset=40).faults == []
    put(EPOCHS, b"")(disk)
    assert verify(disk, DIRECTORY, log_start_offset=40).faults == []
    assert verify(disk, DIRECTORY, log_start_offset=39).faults != []


def test_room_at_the_end_of_an_index_in_use_is_no_fault() -> None:
    disk = sound_folder()
    data_of(disk, INDEX).extend(bytes(800))
    data_of(disk, TIMES).extend(bytes(1200))
    assert faults(disk) == []


def test_zeros_at_the_end_of_a_log_are_called_so() -> None:
    disk = sound_folder()
    last = max(path for path in disk.paths() if path.endswith(".log"))
    size = len(data_of(disk, last))
    data_of(disk, last).extend(bytes(200_000))
    (fault,) = faults(disk)
    assert (fault.path, fault.position) == (last, size)
    assert "only zeros" in fault.what
    data_of(disk, last)[-1] = 1
    (fault,) = faults(disk)
    assert "no batch" in fault.what


def test_a_log_that_grows_meanwhile_is_no_fault() -> None:
    class Growing(MemDisk):
        """Appends whenever a file is read."""

        def read_file(self, path: str) -> bytes | None:
            data = super().read_file(path)
            if growing and len(grown) < 12:
                grown.append(1)
                append(log, batch(2, size=20, time=2_000 + len(grown)), epoch=3 + len(grown))
            return data

    growing, grown = False, []
    disk = Growing()
    log = open_log(disk, CONFIG)
    for i in range(8):
        append(log, batch(2, size=20, time=1_000 + i), epoch=i // 8)
    growing = True
    verified: Verified = verify(disk, DIRECTORY)
    assert verified.faults == [] and len(grown) > 5
