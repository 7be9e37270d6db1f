"""Faults of disks and of power."""

from collections.abc import Callable, Iterator
from typing import Final

from replog.log import checkpoints
from replog.log.files import LOG_SUFFIX
from replog.records.errors import CorruptBatch
from replog.records.header import HEADER_SIZE, iterate
from replog.sim.fault_kinds import Fault
from replog.sim.host import Host
from replog.sim.mem_disk import MemDisk
from replog.sim.occurrence import Occurrence

ROOM_MAX: Final = 200  # bytes of the first append that still fit on a disk that is full
SLOW_JOB_MS: Final = (20.0, 200.0, 2_500.0)  # mean time of work on a slow disk, half of it waiting
FLIPS_MAX: Final = 3


def _full(it: Occurrence) -> bool:
    """There is no room on a host's disk for a while. Its broker is restarted when there is again:
    it does not look by itself."""
    host = it.host()
    lasts_ms = it.lasts_ms(500.0)
    room = it.stream.randint(0, ROOM_MAX)
    it.note(host, f"its disk is full for {lasts_ms:.0f} ms")
    host.troubles.fill(room)

    def mend() -> None:
        host.troubles.make_room()
        host.restart_if_useless()

    it.mend_after(lasts_ms, mend)
    return True


def _error(it: Occurrence) -> bool:
    """Calls to a host's disk fail for a while: all that change something, or only syncs, or all but
    those. The folder is not trusted any more, as if it had been replaced."""
    host = it.host()
    if not it.scene.doubts.may_hurt(host):
        return False
    way, lasts_ms = it.way("all", "sync", "write"), it.lasts_ms(300.0)
    it.note(host, f"its disk fails ({way}) for {lasts_ms:.0f} ms")
    it.scene.doubts.hurt(host)
    host.troubles.fail(way)
    life = host.life

    def mend() -> None:
        host.troubles.work_again()
        if host.life is not None and host.life is life and not host.useless:
            it.scene.doubts.spare(host)  # nobody has noticed
        host.restart_if_useless()

    it.mend_after(lasts_ms, mend)
    return True


def _slow(it: Occurrence) -> bool:
    """Whatever waits for a host's disk takes long. Nothing else does."""
    host = it.host()
    lasts_ms = it.lasts_ms(1000.0)
    host.job_mean_ms = it.one_of(SLOW_JOB_MS)
    it.note(host, f"jobs on its disk take {2 * host.job_mean_ms:.0f} ms, for {lasts_ms:.0f} ms")
    it.mend_after(lasts_ms, host.speed_up)
    return True


def _flip(it: Occurrence) -> bool:
    """A bit of records that are read for somebody is wrong when they leave."""
    life = it.some_life()
    if life is None:
        return False
    life.flips += it.stream.randint(1, FLIPS_MAX)
    return True


def _power_cut(it: Occurrence) -> bool:
    """A host goes down, and with it what was not on stable storage."""
    host = it.host()
    if not it.scene.doubts.may_hurt(host):
        return False
    _cut_power(it, host)
    return True


def _power_cut_all(it: Occurrence) -> bool:
    """All hosts go down at one instant."""
    for host in it.scene.hosts:
        _cut_power(it, host)
    return True


def _cut_power(it: Occurrence, host: Host) -> None:
    it.keep_down(host)
    if host.life is not None:
        host.life.die("power cut", silently=True)
    host.lose_power(it.stream)
    it.scene.doubts.hurt(host)
    it.note(host, f"the host went down: {host.boot_id} from now on")


def _empty_disk(it: Occurrence) -> bool:
    """A disk is broken for good, and its host gets an empty one."""
    host = it.host()
    if not it.scene.doubts.may_hurt(host):
        return False
    it.keep_down(host)
    if host.life is not None:
        host.life.die("its disk is gone")
    host.replace_disk()
    it.scene.doubts.hurt(host)
    it.note(host, "has an empty disk")
    return True


def _rot(it: Occurrence) -> bool:
    """A bit of records that were on stable storage changes on the medium, below what a start would
    check, and is read wrong for a while. Whoever is sent it can't use it."""
    host = it.host()
    if it.scene.doubts.is_hurt(host) or not it.scene.doubts.may_hurt(host):
        return False
    choices = [(disk, place) for disk in host.disks for place in settled_records(disk)]
    if not choices:
        return False
    disk, (path, start, end) = it.one_of(choices)
    inode, position = disk.inode(path), it.stream.randrange(start, end)
    sound, wrong = inode.data[position], inode.data[position] ^ (1 << it.stream.randrange(8))
    inode.rot(position, wrong)
    it.scene.doubts.hurt(host)
    it.scene.network.flips += 1
    lasts_ms = it.lasts_ms(1_500.0)
    it.note(host, f"a bit of {path} at {position} rots for {lasts_ms:.0f} ms")

    def mend() -> None:
        if len(inode.data) > position and inode.data[position] == wrong:
            inode.rot(position, sound)
        if disk in host.disks:
            it.scene.doubts.has_it_again(host)
            there = disk.exists(path) and disk.inode(path) is inode
            it.scene.doubts.logs_copied_anew += not there

    it.mend_after(lasts_ms, mend)
    return True


def settled_records(disk: MemDisk) -> Iterator[tuple[str, int, int]]:
    """(file, first byte, end) of records below the recovery point that is on `disk`."""
    points, _ = checkpoints.read(disk, checkpoints.RECOVERY_POINTS)
    for path in disk.paths():
        directory, _, name = path.rpartition("/")
        tp = checkpoints.partition_of_directory(directory)
        inode = disk.inode(path)
        if tp is None or not name.endswith(LOG_SUFFIX) or inode.dirty:
            continue
        try:
            batches = iterate(bytes(inode.data), up_to_fault=True)
        except CorruptBatch:
            continue  # nothing but zeros, or a first batch that a power cut took
        for batch in batches:
            if batch.next_offset <= points.get(tp, 0) and batch.length > HEADER_SIZE:
                start = batch.position + HEADER_SIZE
                yield path, start, batch.position + batch.length


DEEDS: Final[dict[Fault, Callable[[Occurrence], bool]]] = {
    Fault.DISK_FULL: _full,
    Fault.DISK_ERROR: _error,
    Fault.SLOW_DISK: _slow,
    Fault.BIT_FLIP: _flip,
    Fault.POWER_CUT: _power_cut,
    Fault.POWER_CUT_ALL: _power_cut_all,
    Fault.EMPTY_DISK: _empty_disk,
    Fault.ROT: _rot,
}
