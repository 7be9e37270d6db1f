"""A machine of the simulated world: its disks, its clocks, and the process that runs on it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from replog.node.log_folder import FolderSetup, FolderState
from replog.sim.disk_troubles import DiskTroubles
from replog.sim.mem_disk import MemDisk
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
        self.replace_disk()

    @property
    def boot_id(self) -> str:
        """Another one after each power cut."""
        return f"boot {self._boots} of {self.place}"

    @property
    def folder_id(self) -> str:
        """Another one with other disks."""
        return f"disks {self._disks_ever} of {self.place}"

    def folders(self) -> list[FolderSetup]:
        """What a node is given."""
        return [FolderSetup(f"/data/{index}", disk) for index, disk in enumerate(self.disks)]

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
        self.troubles = DiskTroubles(self.disks)

    # ---- what is mended -------------------------------------------------------------------------

    def speed_up(self) -> None:
        """The disks are quick again."""
        self.job_mean_ms = JOB_MEAN_MS

    def restart_if_useless(self) -> None:
        """An operator sees that a folder is not used any more, and restarts the broker."""
        if self.life is None:
            return
        folders = self.life.node.partitions.logs.folders
        if any(folder.state is not FolderState.ONLINE for folder in folders):
            self.timeline.note(self.life.now_ms, "told to stop, as a log folder is not used")
            self.life.stop()
