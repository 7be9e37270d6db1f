"""What is wrong with the disks of one host: crashes, no room, calls that fail."""

import pytest

from replog.log.disk import DiskError, DiskFull
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
