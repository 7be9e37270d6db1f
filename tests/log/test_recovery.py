"""What opening a log makes of files that a crash, a power cut or a bad disk left."""

import struct
import zlib
from collections.abc import Callable
from random import Random

import pytest
from tests.log.batches import DIRECTORY, append, batch, everything, fetch, offsets, open_log, split

from replog.log.config import LogConfig
from replog.log.errors import LogCorrupt
from replog.records.batch import build_batch, records_of
from replog.records.header import BatchHeader, stamp
from replog.sim.mem_disk import MemDisk

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=200, segment_ms=10**12)
SIZE = len(batch())


def path(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def content(disk: MemDisk, name: str) -> bytes:
    data = disk.read_file(name)
    assert data is not None, name
    return data


def filled(count: int = 5, config: LogConfig = CONFIG) -> MemDisk:
    """The disk after `count` batches of one record and a kill."""
    disk = MemDisk()
    log = open_log(disk, config)
    for number in range(count):
        append(log, batch(time=1_000 + number), epoch=number // 4)
    disk.crash()
    return disk


def next_batch(offset: int, epoch: int = 1) -> bytes:
    data = batch(time=9_000)
    stamp(data, 0, offset, epoch)
    return bytes(data)


def zeroed(data: bytes, start: int) -> bytes:
    return data[:start] + bytes(len(data) - start)


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + struct.pack(">i", length) + data[12:]


TAILS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("one byte", lambda b: b[:1]),
    ("a length and no more", lambda b: b[:12]),
    ("a header less a byte", lambda b: b[:60]),
    ("a header", lambda b: b[:61]),
    ("all but a byte", lambda b: b[:-1]),
    ("zeros", lambda b: bytes(512)),
    ("few zeros", lambda b: bytes(7)),
    ("a header and zeros", lambda b: zeroed(b, 61)),
    ("half and zeros", lambda b: zeroed(b, len(b) // 2)),
    ("length beyond the end", lambda b: with_length(b, 5_000)),
    ("length beyond all bounds", lambda b: with_length(b, 2**31 - 1)),
    ("negative length", lambda b: with_length(b, -1)),
    ("another format's magic", lambda b: b[:16] + b"\1" + b[17:]),
    ("a wrong CRC", lambda b: b[:17] + b"\0\0\0\0" + b[21:]),
    ("a flipped bit", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
    ("an offset that was there", lambda b: next_batch(3) + b),
    ("an epoch that is over", lambda b: next_batch(5, epoch=0) + b),
    ("a negative offset delta", lambda b: b[:23] + b"\xff" * 4 + b[27:]),
    ("garbage", lambda b: bytes(range(7, 250))),
]


@pytest.mark.parametrize("torn", [torn for _, torn in TAILS], ids=[name for name, _ in TAILS])
def test_torn_tails_are_cut_off(torn: Callable[[bytes], bytes]) -> None:
    disk = filled()
    whole = content(disk, path(0))
    tail = torn(next_batch(5))
    disk.open(path(0)).append((tail,))
    log = open_log(disk, CONFIG)
    assert content(disk, path(0)) == whole
    assert offsets(everything(log)) == [0, 1, 2, 3, 4]
    assert log.recovery.bytes_truncated == len(tail)
    assert log.recovery.batches_scanned == 5
    assert len(log.recovery.reasons) == 1
    assert log.recovery.lost_anything
    assert append(log, epoch=2).first_offset == 5
    assert log.epoch_entries() == [(0, 0), (1, 4), (2, 5)]


def test_a_sound_tail_stays() -> None:
    disk = filled()
    disk.open(path(0)).append((next_batch(5), next_batch(6, epoch=7)))
    log = open_log(disk, CONFIG)
    assert offsets(everything(log)) == list(range(7))
    assert log.epoch_entries() == [(0, 0), (1, 4), (7, 6)]
    assert not log.recovery.lost_anything
    assert log.recovery.reasons == []


@pytest.mark.parametrize("size", range(0, 3 * SIZE + 1, 7))
def test_cut_anywhere_a_prefix_of_whole_batches_is_left(size: int) -> None:
    disk = filled(3)
    disk.open(path(0)).truncate(size)
    assert offsets(everything(open_log(disk, CONFIG))) == list(range(size // SIZE))


def test_a_batch_larger_than_what_is_read_at_once() -> None:
    disk = MemDisk()
    log = open_log(disk)
    append(log)
    append(log, batch(size=5_000_000))
    append(log)
    disk.crash()
    again = open_log(disk)
    assert again.log_end_offset == 3
    assert again.recovery.bytes_truncated == 0
    disk.crash()
    file = disk.open(path(0))
    data = bytearray(file.read(0, file.size()))
    data[4_900_000] ^= 1
    file.truncate(0)
    file.append((data,))
    assert open_log(disk).log_end_offset == 1


def test_what_is_behind_a_broken_batch_goes_with_it() -> None:
    disk = filled(40)
    segments = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    assert len(segments) >= 4
    second = int(segments[1][:20])
    data = content(disk, path(second))
    disk.write_file(path(second), data[:SIZE] + b"\0" + data[SIZE + 1 :][:-1] + b"\0")
    disk.write_file(path(second), data[: SIZE + 70] + b"\xee" + data[SIZE + 71 :])
    log = open_log(disk, CONFIG)
    assert log.log_end_offset == second + 1
    assert log.recovery.segments_removed == len(segments) - 2
    left = [name for name in disk.list(DIRECTORY) if name[:20].isdigit()]
    assert sorted({name[:20] for name in left}) == [segments[0][:20], segments[1][:20]]
    assert log.latest_epoch == second // 4


def test_a_hole_between_unflushed_segments_ends_the_log() -> None:
    disk = filled(40)
    segments = [int(name[:20]) for name in disk.list(DIRECTORY) if name.endswith(".log")]
    disk.open(path(segments[1])).truncate(2 * SIZE)
    log = open_log(disk, CONFIG)
    assert log.log_end_offset == segments[1] + 2
    assert log.recovery.segments_removed == len(segments) - 2


def test_a_hole_between_flushed_segments_is_compactions() -> None:
    disk = filled(40)
    segments = [int(name[:20]) for name in disk.list(DIRECTORY) if name.endswith(".log")]
    disk.open(path(segments[1])).truncate(2 * SIZE)
    log = open_log(disk, CONFIG, recovery_point=40)
    assert log.log_end_offset == 40
    hole = split(fetch(log, segments[1] + 3))
    assert hole[0].base_offset == segments[2]


def test_only_what_was_not_flushed_is_looked_at() -> None:
    disk = filled(40)
    log = open_log(disk, CONFIG, recovery_point=38)
    assert log.log_end_offset == 40
    assert 2 <= log.recovery.batches_scanned <= 2 + 200 // SIZE + 2
    assert log.recovery_point == 38
    assert offsets(everything(log)) == list(range(40))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_lags_behind_is_filled_up(suffix: str) -> None:
    disk = filled(8)
    whole = open_log(disk, CONFIG)
    whole.close()
    wanted = content(disk, path(0, suffix))
    entry = 8 if suffix == ".index" else 12
    assert len(wanted) >= 2 * entry
    for kept in range(0, len(wanted), entry):
        disk.crash()
        disk.write_file(path(0, suffix), wanted[:kept])
        log = open_log(disk, CONFIG, recovery_point=8)
        log.close()
        assert content(disk, path(0, suffix)) == wanted


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_of_a_flushed_segment_that_lags_behind_is_filled_up(suffix: str) -> None:
    """Its bytes were flushed up to where the next one began: nobody had flushed its indexes."""
    disk = MemDisk()
    log = open_log(disk, CONFIG)
    while len(log.segments) < 2:
        flushed = log.flush()
        append(log, batch(time=1_000 - log.log_end_offset))  # the first one is the latest
    assert log.base_offsets == [0, flushed]
    wanted = content(disk, path(0, suffix))
    for kept in range(0, len(wanted), 8 if suffix == ".index" else 12):
        disk.crash()
        disk.write_file(path(0, suffix), wanted[:kept])
        log = open_log(disk, CONFIG, recovery_point=flushed)
        assert log.recovery.batches_scanned == 1, "of flushed records no CRC is looked at"
        found = log.offset_for_time(1_000)
        assert found is not None and found.offset == 0
        assert content(disk, path(0, suffix)) == wanted
        log.flush()
        disk.power_cut(Random(kept))
        assert content(disk, path(0, suffix)) == wanted


def test_the_last_time_of_a_recovered_segment_is_known_after_a_clean_stop() -> None:
    config = LogConfig(segment_bytes=5 * SIZE, index_interval_bytes=3 * SIZE - 1)
    disk = filled(6, config)
    recovered = open_log(disk, config)
    assert recovered.base_offsets == [0, 5]
    flushed = recovered.close()
    disk.crash()
    log = open_log(disk, config, recovery_point=flushed, clean=True)
    found = log.offset_for_time(1_004)
    assert found is not None and found.offset == 4


def test_what_was_flushed_is_never_cut_off() -> None:
    disk = filled()
    data = content(disk, path(0))
    disk.write_file(path(0), data[: 4 * SIZE] + b"\0" * SIZE)
    with pytest.raises(LogCorrupt, match="flushed up to offset 5"):
        open_log(disk, CONFIG, recovery_point=5)
    assert content(disk, path(0)) == data[: 4 * SIZE] + b"\0" * SIZE
    assert open_log(disk, CONFIG, recovery_point=4).log_end_offset == 4


def test_a_checkpoint_that_is_ahead_of_a_sound_log() -> None:
    # The log was cut, and the process died before the checkpoint was written.
    log = open_log(filled(), CONFIG, recovery_point=1_000)
    assert (log.log_end_offset, log.recovery_point) == (5, 5)
    assert not log.recovery.lost_anything


def test_a_clean_stop_is_believed() -> None:
    disk = filled(40)
    log = open_log(disk, CONFIG)
    recovery_point = log.close()
    disk.crash()
    reads = disk.reads
    again = open_log(disk, CONFIG, recovery_point=recovery_point, clean=True)
    assert disk.reads - reads <= 3, "the end of the newest segment, and its first header"
    assert again.recovery.batches_scanned == 0
    assert offsets(everything(again)) == list(range(40))
    assert again.epoch_entries() == [(number, 4 * number) for number in range(10)]


def test_a_clean_stop_that_was_none() -> None:
    disk = filled()
    disk.open(path(0)).append((b"\0" * 100,))
    log = open_log(disk, CONFIG, recovery_point=5, clean=True)
    assert log.log_end_offset == 5
    assert log.recovery.bytes_truncated == 100
    assert len(log.recovery.reasons) >= 1


# Indexes and epochs -----------------------------------------------------------------------------


BROKEN_FILES = [None, b"", b"\0" * 96, b"\xff" * 40, b"garbage"]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("data", BROKEN_FILES)
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_broken_indexes_are_made_anew(suffix: str, data: bytes | None, clean: bool) -> None:
    disk = filled(40)
    recovery_point = open_log(disk, CONFIG).close()
    disk.crash()
    bases = [int(name[:20]) for name in disk.list(DIRECTORY) if name.endswith(".log")]
    wanted = {base: content(disk, path(base, ".index")) for base in bases}
    for base in bases:
        if data is None:
            disk.remove(path(base, suffix))
        else:
            disk.write_file(path(base, suffix), data)
    log = open_log(disk, CONFIG, recovery_point=recovery_point, clean=clean)
    assert offsets(everything(log)) == list(range(40))
    for offset in range(40):
        assert split(fetch(log, offset, 0))[0].base_offset == offset
        found = log.offset_for_time(1_000 + offset)
        assert found is not None
        assert found.offset == offset
    log.close()
    assert content(disk, path(bases[-1], ".index")) == wanted[bases[-1]]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("text", [None, b"", b"0\n1\n0 0", b"\0" * 20, b"0\n1\n9 9 9\n"])
def test_a_broken_epoch_file_is_made_anew(text: bytes | None, clean: bool) -> None:
    disk = filled(40)
    recovery_point = open_log(disk, CONFIG).close()
    name = f"{DIRECTORY}/leader-epoch-checkpoint"
    wanted = content(disk, name)
    if text is None:
        disk.remove(name)
    else:
        disk.write_file(name, text)
    disk.crash()
    log = open_log(disk, CONFIG, recovery_point=recovery_point, clean=clean)
    assert log.recovery.epochs_rebuilt
    assert content(disk, name) == wanted
    disk.crash()
    assert not open_log(disk, CONFIG, recovery_point=40, clean=True).recovery.epochs_rebuilt


def test_a_broken_epoch_file_of_a_log_without_records() -> None:
    disk = filled(0)
    disk.write_file(f"{DIRECTORY}/leader-epoch-checkpoint", b"garbage")
    assert open_log(disk, CONFIG).recovery.epochs_rebuilt
    assert content(disk, f"{DIRECTORY}/leader-epoch-checkpoint") == b""
    disk.crash()
    assert not open_log(disk, CONFIG).recovery.epochs_rebuilt


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param([(0, 0), (1, 4)], [(0, 0), (1, 4)], id="right"),
        pytest.param([(0, 0)], [(0, 0), (1, 4)], id="one is missing"),
        pytest.param([(0, 0), (1, 4), (2, 5)], [(0, 0), (1, 4)], id="one without records"),
        pytest.param([(0, 0), (1, 4), (2, 9)], [(0, 0), (1, 4)], id="one behind the end"),
        pytest.param([(0, 0), (3, 2)], [(0, 0), (1, 4)], id="one that the records deny"),
    ],
)
def test_epochs_follow_the_records(
    stored: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    disk = filled()
    lines = "".join(f"{epoch} {start}\n" for epoch, start in stored)
    disk.write_file(f"{DIRECTORY}/leader-epoch-checkpoint", f"0\n{len(stored)}\n{lines}".encode())
    assert open_log(disk, CONFIG).epoch_entries() == expected


def test_epochs_of_the_flushed_part_are_kept() -> None:
    disk = filled(40)
    log = open_log(disk, CONFIG, recovery_point=30)
    assert log.epoch_entries() == [(number, 4 * number) for number in range(10)]


# Other files -------------------------------------------------------------------------------------


def test_left_over_files_go_and_others_stay() -> None:
    disk = filled()
    left_over = ["00000000000000000003.log.deleted", "leader-epoch-checkpoint.tmp"]
    orphans = ["00000000000000000077.index", "00000000000000000077.timeindex"]
    others = ["00000000000000000003.snapshot", "notes.txt", "0000.log"]
    for name in left_over + orphans + others:
        disk.write_file(f"{DIRECTORY}/{name}", b"x")
    log = open_log(disk, CONFIG)
    names = set(disk.list(DIRECTORY))
    assert names.isdisjoint(left_over + orphans)
    assert names.issuperset(others)
    assert log.log_end_offset == 5


def old_message(magic: int) -> bytes:
    body = struct.pack(">bb", magic, 0) + struct.pack(">q", 5) * magic
    body += struct.pack(">i", -1) + struct.pack(">i", 20) + b"v" * 20
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_an_older_format_are_not_taken_for_garbage(magic: int) -> None:
    disk = filled(0)
    disk.write_file(path(0), old_message(magic))
    with pytest.raises(LogCorrupt, match=f"format {magic}"):
        open_log(disk, CONFIG)
    assert content(disk, path(0)) == old_message(magic)
    disk.write_file(path(0), old_message(magic)[:-1] + b"?")
    assert open_log(disk, CONFIG).recovery.bytes_truncated == len(old_message(magic))


def test_a_log_without_its_first_segments_begins_where_it_begins() -> None:
    disk = filled(40)
    second = [int(name[:20]) for name in disk.list(DIRECTORY) if name.endswith(".log")][1]
    disk.remove(path(0))
    log = open_log(disk, CONFIG, recovery_point=40)
    assert (log.log_start_offset, log.log_end_offset) == (second, 40)
    assert offsets(everything(log)) == list(range(second, 40))


def test_a_log_start_inside_a_segment() -> None:
    disk = filled()
    log = open_log(disk, CONFIG, log_start_offset=3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)
    assert log.epoch_entries() == [(0, 3), (1, 4)]
    first = log.offset_for_time(0)
    assert first is not None
    assert first.offset == 3
    disk.crash()
    clean = open_log(disk, CONFIG, log_start_offset=99, clean=True, recovery_point=5)
    assert (clean.log_start_offset, clean.log_end_offset) == (5, 5)
    disk.crash()
    behind = open_log(disk, CONFIG, log_start_offset=99)
    assert (behind.log_start_offset, behind.log_end_offset) == (99, 99)


def test_a_folder_without_segments_begins_where_it_is_told() -> None:
    disk = filled(0)
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(path(0, suffix))
    log = open_log(disk, CONFIG, log_start_offset=12)
    assert (log.log_start_offset, log.log_end_offset) == (12, 12)
    assert append(log).first_offset == 12


def test_helpers_of_these_tests() -> None:
    data = next_batch(5)
    header = BatchHeader(data, 0)
    assert [record.offset for record in records_of(data, header)] == [5]
    assert len(build_batch([next(records_of(data, header))])) == SIZE
