"""Both indexes: Kafka's bytes, lookups against a plain list, and files that can't be right."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.log.disk import DiskError
from replog.log.index_file import PENDING_BYTES_MAX
from replog.log.offset_index import OffsetIndex
from replog.log.time_index import TimeIndex
from replog.sim.mem_disk import MemDisk

BASE = 1_000
RISING = st.lists(st.integers(1, 50), max_size=30).map(
    lambda steps: [sum(steps[: i + 1]) for i in range(len(steps))]
)


def offset_index(disk: MemDisk, entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex(disk, "s", BASE)
    index.create()
    for offset, position in entries:
        index.append(offset, position, offset)
    return index


def time_index(disk: MemDisk, entries: list[tuple[int, int]]) -> TimeIndex:
    index = TimeIndex(disk, "s", BASE)
    index.create()
    for timestamp, offset in entries:
        index.append_if_later(timestamp, offset)
    return index


def test_bytes_of_the_offset_index() -> None:
    disk = MemDisk()
    index = offset_index(disk, [(BASE + 53, 5_000), (BASE + 106, 9_225)])
    index.write_pending()
    assert disk.read_file("s.index") == struct.pack(">iiii", 53, 5_000, 106, 9_225)
    again = OffsetIndex(disk, "s", BASE)
    assert again.load(9_226)
    assert (again.size, again.last_position, again.offset_at(5_000)) == (16, 9_225, BASE + 53)


def test_bytes_of_the_time_index() -> None:
    disk = MemDisk()
    index = time_index(disk, [(1_700_000_000_000, BASE + 2), (1_700_000_000_000, BASE + 3)])
    index.append_if_later(-1, BASE + 4)
    index.write_pending()
    assert disk.read_file("s.timeindex") == struct.pack(">qi", 1_700_000_000_000, 2)
    again = TimeIndex(disk, "s", BASE)
    assert again.load()
    assert again.last == (1_700_000_000_000, BASE + 2)


@given(RISING, st.integers(-5, 1_600))
def test_offset_lookups(steps: list[int], wanted: int) -> None:
    entries = [(BASE + step, 3 * step) for step in steps]
    disk = MemDisk()
    index = offset_index(disk, entries)
    before = [p for o, p in entries if o <= BASE + wanted]
    assert index.position_before(BASE + wanted) == (before[-1] if before else 0)
    below = [(p, o) for o, p in entries if p <= wanted]
    entry = (*below[-1], below[-1][1]) if below else (0, 0, -1)
    assert index.entry_at_most(wanted) == entry
    index.write_pending()
    again = OffsetIndex(disk, "s", BASE)
    if again.load(1_000_000):  # an entry at position 0 is none
        assert again.entry_at_most(wanted) == (*entry[:2], -1)
        if below:
            again.learn_base(entry[0], BASE + 7)
            assert again.entry_at_most(wanted) == (*entry[:2], BASE + 7)
    exact = [o for o, p in entries if p == wanted]
    assert index.offset_at(wanted) == (exact[0] if exact else None)


@given(RISING, RISING, st.integers(-5, 1_600))
def test_time_lookups(times: list[int], steps: list[int], wanted: int) -> None:
    entries = [(t, BASE + step) for t, step in zip(times, steps, strict=False)]
    index = time_index(MemDisk(), entries)
    before = [o for t, o in entries if t <= wanted]
    assert index.offset_before(wanted) == (before[-1] if before else BASE)
    assert index.last == (entries[-1] if entries else None)


@given(RISING, st.integers(0, 1_600), st.booleans())
def test_cut_indexes_are_short_in_memory_and_on_disk(
    steps: list[int], cut: int, written: bool
) -> None:
    disk = MemDisk()
    index = offset_index(disk, [(BASE + step, step) for step in steps])
    times = time_index(disk, [(step, BASE + step) for step in steps])
    if written:
        index.write_pending()
        times.write_pending()
    index.truncate(cut)
    times.truncate(BASE + cut)
    index.append(BASE + 5_000, 5_000, BASE + 5_000)
    times.append_if_later(5_000, BASE + 5_000)
    index.write_pending()
    times.write_pending()
    left = [step for step in steps if step < cut] + [5_000]
    data = disk.read_file("s.index")
    assert data is not None
    assert list(struct.iter_unpack(">ii", data)) == [(step, step) for step in left]
    data = disk.read_file("s.timeindex")
    assert data is not None
    assert list(struct.iter_unpack(">qi", data)) == [(step, step) for step in left]


GOOD = struct.pack(">iiii", 5, 100, 9, 200)


@pytest.mark.parametrize(
    ("data", "usable"),
    [
        pytest.param(b"", True, id="empty"),
        pytest.param(GOOD, True, id="good"),
        pytest.param(GOOD + b"\0\0\0", True, id="a torn entry"),
        pytest.param(GOOD + bytes(80), False, id="zeros, as Kafka allocates"),
        pytest.param(GOOD + GOOD, False, id="not rising"),
        pytest.param(struct.pack(">iiii", 5, 200, 9, 100), False, id="positions fall"),
        pytest.param(struct.pack(">iiii", 9, 100, 5, 200), False, id="offsets fall"),
        pytest.param(struct.pack(">ii", 5, 1_000), False, id="at the end of the log"),
        pytest.param(struct.pack(">ii", 5, 0), False, id="the first batch has none"),
        pytest.param(b"\xff" * 16, False, id="garbage"),
        pytest.param(None, False, id="missing"),
    ],
)
def test_offset_indexes_that_can_not_be_right(data: bytes | None, usable: bool) -> None:
    disk = MemDisk()
    if data is not None:
        disk.write_file("s.index", data)
    index = OffsetIndex(disk, "s", BASE)
    assert index.load(1_000) is usable
    if data is not None and usable:
        assert len(disk.read_file("s.index") or b"") % 8 == 0


@pytest.mark.parametrize(
    ("data", "usable"),
    [
        (b"", True),
        (struct.pack(">qiqi", 5, 1, 6, 1), True),
        (struct.pack(">qiqi", 5, 1, 5, 2), False),
        (struct.pack(">qiqi", 5, 2, 6, 1), False),
        (struct.pack(">qi", 5, 1) + b"\0" * 5, True),
        (struct.pack(">qi", 5, 1) + bytes(12), False),
        (None, False),
    ],
)
def test_time_indexes_that_can_not_be_right(data: bytes | None, usable: bool) -> None:
    disk = MemDisk()
    if data is not None:
        disk.write_file("s.timeindex", data)
    assert TimeIndex(disk, "s", BASE).load() is usable


def test_entries_are_written_many_at_a_time() -> None:
    disk = MemDisk()
    writes: list[str] = []
    disk.before_call = lambda call, path: writes.append(call) if call == "append" else None
    index = offset_index(disk, [])
    at_once = PENDING_BYTES_MAX // 8
    for number in range(1, at_once):
        index.append(BASE + number, number, BASE + number)
    assert not writes
    index.append(BASE + at_once, at_once, BASE + at_once)
    assert writes == ["append"]
    assert len(disk.read_file("s.index") or b"") == PENDING_BYTES_MAX


def test_a_write_that_fails_half_way_is_made_good() -> None:
    disk = MemDisk()
    index = offset_index(disk, [(BASE + 1, 10)])
    index.write_pending()
    file = disk.open("s.index")
    file.append((b"half",))
    index.append(BASE + 2, 20, BASE + 2)
    index.write_pending()
    assert disk.read_file("s.index") == struct.pack(">iiii", 1, 10, 2, 20)


def test_a_full_disk_does_not_fail_an_append_but_is_heard_of_when_sealing() -> None:
    disk = MemDisk()
    index = offset_index(disk, [])

    def full(call: str, path: str) -> None:
        if call == "append":
            raise DiskError("no space")

    disk.before_call = full
    for number in range(1, PENDING_BYTES_MAX // 4):
        index.append(BASE + number, number, BASE + number)
    with pytest.raises(DiskError):
        index.write_pending()
    disk.before_call = None
    index.write_pending()
    assert len(disk.read_file("s.index") or b"") == index.size
