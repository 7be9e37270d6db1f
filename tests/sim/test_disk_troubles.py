"""What is wrong with the disks of one host: crashes, no room, calls that fail."""

import pytest

from replog.log import checkpoints
from replog.log.disk import DiskError, DiskFull
from replog.model.ids import TopicPartition
from replog.records.batch import Record, build_batch
from replog.records.header import HEADER_SIZE
from replog.sim.disk_faults import settled_records
from replog.sim.disk_troubles import DiskTroubles
from replog.sim.mem_disk import CrashNow, MemDisk


def a_disk() -> tuple[MemDisk, DiskTroubles]:
    disk = MemDisk()
    return disk, DiskTroubles([MemDisk(), disk])


def test_a_crash_hits_one_call_and_no_other() -> None:
    disk, troubles = a_disk()
    file = disk.open("f", create=True)
    troubles.arm_crash(3, written=2)
    file.append((b"one",))
    file.sync()
    with pytest.raises(CrashNow):
        file.append((b"two",))
    assert disk.read_file("f") == b"onetw"
    file.append((b"three",))


def test_trouble_that_is_put_off_comes_back() -> None:
    disk, troubles = a_disk()
    troubles.arm_crash(2, written=0)
    with troubles.put_off():
        for _ in range(3):
            disk.write_file("f", b"v")
    file = disk.open("f")
    file.overwrite(b"w")
    with pytest.raises(CrashNow):
        file.sync()


def test_a_full_disk_takes_a_part_of_one_write_and_nothing_after_it() -> None:
    disk, troubles = a_disk()
    file = disk.open("f", create=True)
    troubles.fill(2)
    for _ in range(2):
        with pytest.raises(DiskFull):
            file.append((b"abcd",))
    assert disk.read_file("f") == b"ab"
    file.truncate(0)
    file.sync()
    troubles.make_room()
    file.append((b"abcd",))
    assert disk.read_file("f") == b"abcd"


@pytest.mark.parametrize(
    ("way", "appends", "syncs"),
    [("all", False, False), ("write", False, True), ("sync", True, False)],
)
def test_a_failing_disk(way: str, *, appends: bool, syncs: bool) -> None:
    disk, troubles = a_disk()
    file = disk.open("f", create=True)
    troubles.fail(way)
    for call, works in ((lambda: file.append((b"a",)), appends), (file.sync, syncs)):
        if works:
            call()
        else:
            with pytest.raises(DiskError, match="Input/output"):
                call()
    troubles.work_again()
    file.append((b"a",))
    file.sync()


def test_records_that_may_rot_are_looked_for_beside_files_of_zeros() -> None:
    """A power cut leaves such a file where the length of one that grew outlived its bytes."""
    disk = MemDisk()
    batch = build_batch([Record(0, 0, None, b"v")])
    contents = {"a-0": bytes(100), "b-0": batch + bytes(100), "c-0": batch}
    for directory, content in contents.items():
        disk.make_directory(directory)
        disk.write_file(f"{directory}/{0:020d}.log", content)
    points = {TopicPartition(name, 0): 1 for name in "abc"}
    checkpoints.write(disk, checkpoints.RECOVERY_POINTS, points)
    found = sorted(settled_records(disk))
    assert [path[:3] for path, _, _ in found] == ["b-0", "c-0"]
    assert {(start, end) for _, start, end in found} == {(HEADER_SIZE, len(batch))}
