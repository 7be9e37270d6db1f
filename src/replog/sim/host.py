"""A machine of the simulated world: its disks, its clocks, and the process that runs on it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, cast

from replog.log.checkpoints import META_PROPERTIES, claim_folder, read_meta
from replog.log.disk import DiskError
from replog.node.log_folder import FolderSetup, FolderState
from replog.sim.disk_troubles import DiskTroubles
from replog.sim.mem_disk import MemDisk
from replog.sim.mem_file import Inode
from replog.sim.timeline import Timeline

if TYPE_CHECKING:
    from replog.sim.broker import Life

JOB_MEAN_MS: Final = 2.0  # until a job begins, and until its end is heard of


class Host:
    """One machine. `disks` are its log folders."""

    def __init__(self, broker_id: int, folders: int, *, clock_ms: float, wall_skew_ms: int) -> None:
        self.broker_id = broker_id
        self.place = f"b{broker_id}"
        self.clock_ms = clock_ms  # what its monotonic clock is ahead of the world's time
        self.wall_skew_ms = wall_skew_ms
        self.job_mean_ms = JOB_MEAN_MS
        self.incarnations = 0
        self.life: Life | None = None
        self.timeline = Timeline(self.place)
        self._boots = 1
        self._disks_ever = 0
        self._folders = folders
        self.disks: list[MemDisk] = []
        self._ids: dict[MemDisk, tuple[Inode | None, str]] = {}
        self.replace_disk()

    @property
    def boot_id(self) -> str:
        """Another one after each power cut."""
        return f"boot {self._boots} of {self.place}"

    @property
    def folder_id(self) -> str:
        """What the log folders call themselves now: others than before, when they are others, or
        are not trusted any more."""
        return ",".join(sorted(self._id_of(disk) for disk in self.disks))

    def _id_of(self, disk: MemDisk) -> str:
        path = META_PROPERTIES
        inode = disk.inode(path) if disk.exists(path) else None
        known = self._ids.get(disk)
        if known is None or known[0] is not inode:  # the file is replaced, never changed
            meta = None if inode is None else read_meta(disk)
            known = self._ids[disk] = inode, "" if meta is None else meta.directory_id
        return known[1]

    def claim(self, cluster_id: str) -> list[FolderSetup]:
        """What a node is given, as `runtime.log_dirs` has it. CrashNow may come out of it."""
        setups = []
        for index, disk in enumerate(self.disks):
            # No commas: they part the ids of folders from each other.
            fresh = f"folder {index} of {self.place}; disks {self._disks_ever}"
            failed = None
            try:
                claim_folder(
                    disk, cluster_id=cluster_id, node_id=self.broker_id, directory_id=fresh
                )
            except DiskError as error:
                failed = str(error)
            setups.append(FolderSetup(f"/data/{index}", disk, failed))
        return setups

    # ---- what is done to it, while no process runs ----------------------------------------------

    def crash(self) -> None:
        """The process is gone."""
        for disk in self.disks:
            disk.crash()

    def lose_power(self, rng: Random) -> None:
        """The machine goes down and comes up again."""
        self._boots += 1
        for disk in self.disks:
            disk.power_cut(rng)

    def replace_disk(self) -> None:
        """Empty disks from now on, without any trouble."""
        self._disks_ever += 1
        self.disks = [MemDisk() for _ in range(self._folders)]
        self._ids.clear()
        self.troubles = DiskTroubles(self.disks)

    def replace_unmarked(self, life: Life) -> None:
        """The operator does what the broker asked for: a folder that failed, and that a next
        process would trust, is an empty one."""
        for folder in life.node.partitions.logs.folders:
            if folder.doubt.unmarked:
                self._disks_ever += 1
                self.disks[self.disks.index(cast(MemDisk, folder.disk))] = MemDisk()
                self.timeline.note(life.now_ms, f"{folder.path} is replaced by an empty folder")

    # ---- what is mended -------------------------------------------------------------------------

    def speed_up(self) -> None:
        """The disks are quick again."""
        self.job_mean_ms = JOB_MEAN_MS

    @property
    def useless(self) -> bool:
        """A process runs that does not use one of its folders, or not fully."""
        if self.life is None:
            return False
        folders = self.life.node.partitions.logs.folders
        return any(folder.state is not FolderState.ONLINE for folder in folders)

    def restart_if_useless(self) -> None:
        """An operator sees that a folder is not used any more, and restarts the broker."""
        if self.life is not None and self.useless:
            self.timeline.note(self.life.now_ms, "told to stop, as a log folder is not used")
            self.life.stop()
