"""The simulated disk: what survives a kill, what a power cut may take, and faults at any call."""

from collections.abc import Callable
from random import Random

import pytest

from replog.log.disk import SECTOR_BYTES, DiskError
from replog.sim.mem_disk import CrashNow, MemDisk, ShortWrite

SEEDS = range(60)


def content(disk: MemDisk, name: str) -> bytes | None:
    return disk.read_file(name)


def outcomes(prepare: Callable[[MemDisk], None], name: str = "f") -> set[bytes | None]:
    """What may be in the file after a power cut."""
    found = set()
    for seed in SEEDS:
        disk = MemDisk()
        prepare(disk)
        disk.power_cut(Random(seed))
        found.add(content(disk, name))
    return found


def test_a_kill_takes_nothing_but_the_handles() -> None:
    disk = MemDisk()
    file = disk.open("f", create=True)
    file.append((b"bytes",))
    disk.crash()
    assert content(disk, "f") == b"bytes"
    assert file.read(0, 5) == b"bytes", "a reply that is under way may still be read"
    for write in (lambda: file.append((b"x",)), lambda: file.truncate(0), file.sync):
        with pytest.raises(DiskError):
            write()
    disk.open("f").append((b"!",))
    assert content(disk, "f") == b"bytes!"


def test_synced_bytes_under_a_synced_name_are_safe() -> None:
    def prepare(disk: MemDisk) -> None:
        file = disk.open("f", create=True)
        file.append((b"safe",))
        file.sync()
        disk.sync_directory("")

    assert outcomes(prepare) == {b"safe"}


def test_a_name_that_was_not_synced_may_be_lost() -> None:
    def prepare(disk: MemDisk) -> None:
        file = disk.open("f", create=True)
        file.append((b"safe",))
        file.sync()

    assert outcomes(prepare) == {b"safe", None}


def test_unsynced_bytes_are_kept_dropped_or_cut() -> None:
    def prepare(disk: MemDisk) -> None:
        disk.write_file("f", b"safe")
        disk.open("f").append((b"-tail",))

    found = outcomes(prepare)
    assert {b"safe", b"safe-tail"} < found
    assert all(data is not None and data.startswith(b"safe") for data in found)
    assert any(data is not None and data.endswith(b"\0") for data in found), "a size without bytes"


def test_sectors_go_one_by_one() -> None:
    def prepare(disk: MemDisk) -> None:
        disk.write_file("f", b"")
        disk.open("f").append((b"a" * SECTOR_BYTES * 3,))

    whole = {data for data in outcomes(prepare) if data is not None and len(data) == 1536}
    assert any(data[:512] == bytes(512) and data[1024:] == b"a" * 512 for data in whole)


def test_what_is_overwritten_is_the_old_or_the_new_and_may_end_where_the_old_did() -> None:
    def prepare(disk: MemDisk) -> None:
        disk.write_file("f", b"old")
        disk.open("f").overwrite(b"newer")

    assert outcomes(prepare) == {b"old", b"old\0", b"old\0\0", b"new", b"newe", b"newer"}


def test_a_truncation_that_was_not_synced_may_come_undone() -> None:
    def prepare(disk: MemDisk) -> None:
        disk.write_file("f", b"0123456789")
        disk.open("f").truncate(4)

    found = outcomes(prepare)
    assert {b"0123", b"0123456789"} <= found


def test_renames_and_removals_that_were_not_synced() -> None:
    def rename(disk: MemDisk) -> None:
        disk.write_file("old", b"o")
        disk.write_file("new", b"n")
        disk.rename("new", "old")

    assert outcomes(rename, "old") == {b"o", b"n"}
    assert outcomes(rename, "new") == {b"n", None}

    def remove(disk: MemDisk) -> None:
        disk.write_file("f", b"f")
        disk.remove("f")

    assert outcomes(remove) == {b"f", None}

    def remove_for_good(disk: MemDisk) -> None:
        remove(disk)
        disk.sync_directory("")

    assert outcomes(remove_for_good) == {None}


def test_a_directory_is_synced_alone() -> None:
    def prepare(disk: MemDisk) -> None:
        disk.make_directory("d")
        disk.open("d/f", create=True)
        disk.open("f", create=True)
        disk.sync_directory("")

    assert outcomes(prepare, "f") == {b""}
    assert outcomes(prepare, "d/f") == {b"", None}


def test_a_directory_is_lost_with_all_that_is_in_it() -> None:
    def prepare(disk: MemDisk) -> None:
        disk.make_directory("d")
        disk.open("d/f", create=True).append((b"f",))
        disk.open("d/f").sync()
        disk.sync_directory("d")

    assert outcomes(prepare, "d/f") == {b"f", None}

    def prepare_safely(disk: MemDisk) -> None:
        prepare(disk)
        disk.sync_directory("")

    assert outcomes(prepare_safely, "d/f") == {b"f"}

    def rename(disk: MemDisk) -> None:
        prepare_safely(disk)
        disk.rename("d", "e")

    found = [outcomes(rename, "d/f"), outcomes(rename, "e/f")]
    assert found == [{b"f", None}, {b"f", None}]
    for seed in SEEDS:
        disk = MemDisk()
        rename(disk)
        disk.power_cut(Random(seed))
        assert len(disk.list("")) == 1, "one name or the other, never both or none"

    def remove(disk: MemDisk) -> None:
        prepare_safely(disk)
        disk.remove_tree("d")

    assert outcomes(remove, "d/f") == {b"f", None}


def test_pages_that_a_sync_could_not_write_are_lost_although_the_next_one_succeeds() -> None:
    def fail(call: str, path: str) -> None:
        raise DiskError(f"{path}: can't {call}")

    def prepare(disk: MemDisk) -> None:
        disk.write_file("f", b"safe")
        file = disk.open("f")
        file.append((b"-lost",))
        disk.before_call = fail
        with pytest.raises(DiskError):
            file.sync()
        disk.before_call = None
        file.append((b"-more",))
        file.sync()
        assert content(disk, "f") == b"safe-lost-more", "until then nobody sees it"

    assert outcomes(prepare) == {b"safe" + bytes(5) + b"-more"}


def test_what_is_written_in_place_of_pages_that_a_sync_could_not_write_is_safe() -> None:
    def fail(call: str, path: str) -> None:
        if call == "sync":
            raise DiskError(f"{path}: can't {call}")

    def prepare(disk: MemDisk) -> None:
        disk.before_call = fail
        with pytest.raises(DiskError):
            disk.write_file("f", b"lost")
        disk.before_call = None
        disk.write_file("f", b"written anew")

    assert outcomes(prepare) == {b"written anew"}


def test_the_same_seed_does_the_same() -> None:
    def disk_after(seed: int) -> dict[str, bytes | None]:
        disk = MemDisk()
        for number in range(20):
            disk.open(f"f{number}", create=True).append((bytes([number]) * 1_000,))
            if number % 3 == 0:
                disk.open(f"f{number}").sync()
        disk.power_cut(Random(seed))
        return {name: content(disk, name) for name in disk.list("")}

    assert disk_after(5) == disk_after(5)
    assert any(disk_after(5) != disk_after(seed) for seed in range(6, 12))


def test_nothing_is_unsynced_after_a_power_cut() -> None:
    disk = MemDisk()
    disk.open("f", create=True).append((b"x" * 5_000,))
    disk.power_cut(Random(1))
    first = {name: content(disk, name) for name in disk.list("")}
    disk.power_cut(Random(2))
    assert {name: content(disk, name) for name in disk.list("")} == first


def test_every_changing_call_can_fail_or_kill() -> None:
    disk = MemDisk()
    disk.make_directory("d")
    file = disk.open("d/f", create=True)
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: file.append((b"x",)),
        "overwrite": lambda: file.overwrite(b"x"),
        "truncate": lambda: file.truncate(0),
        "sync": file.sync,
        "open": lambda: disk.open("d/new", create=True),
        "rename": lambda: disk.rename("d/f", "d/g"),
        "remove": lambda: disk.remove("d/f"),
        "remove_tree": lambda: disk.remove_tree("d"),
        "make_directory": lambda: disk.make_directory("e"),
        "sync_directory": lambda: disk.sync_directory("d"),
    }
    for name, call in calls.items():
        for fault in (DiskError, CrashNow):

            def before_call(
                called: str, path: str, fault: type[BaseException] = fault, name: str = name
            ) -> None:
                assert called == name
                assert path
                raise fault(f"{called} {path}")

            disk.before_call = before_call
            with pytest.raises(fault, match=name):
                call()
    disk.before_call = None
    assert disk.list("") == ["d"]
    assert disk.list("d") == ["f"]
    assert file.size() == 0


def test_a_write_can_be_cut_short_by_death_or_a_full_disk() -> None:
    for fault in (CrashNow, ShortWrite):
        disk = MemDisk()
        file = disk.open("f", create=True)

        def before_call(
            call: str, path: str, fault: type[CrashNow] | type[ShortWrite] = fault
        ) -> None:
            raise fault(path, written=4)

        disk.before_call = before_call
        with pytest.raises(fault):
            file.append((b"abc", b"defg"))
        assert content(disk, "f") == b"abcd"


def test_no_code_of_a_node_catches_its_death() -> None:
    assert not issubclass(CrashNow, Exception)
    assert issubclass(ShortWrite, DiskError)


def test_a_disk_knows_the_logs_that_were_compacted() -> None:
    disk = MemDisk()
    disk.make_directory("t-0")
    disk.open("t-0/0.index.cleaned", create=True)
    disk.open("t-0/0.log.cleaned", create=True)
    disk.rename("t-0/0.index.cleaned", "t-0/0.index")
    assert disk.compacted == set()
    disk.rename("t-0/0.log.cleaned", "t-0/0.log")
    assert disk.compacted == {"t-0"}
