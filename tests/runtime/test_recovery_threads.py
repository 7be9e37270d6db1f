"""num.recovery.threads.per.data.dir: logs that are opened, or closed, at once."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from replog.log import checkpoints
from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.model.config import BrokerConfig
from replog.model.inputs import StopRequested
from replog.node.log_folder import FolderSetup
from replog.node.node import Node
from replog.runtime.broker import BrokerProcess
from replog.runtime.jobs import run_tasks
from replog.runtime.loop import Cluster
from replog.runtime.os_disk import OsDisk

PATIENCE_S = 20.0
FOLDERS, LOGS = 2, 3


class Meeting:
    """Everybody waits for the others; `missed` when not all come together."""

    def __init__(self, parties: int) -> None:
        self.missed = False
        self.held = 0
        self._barrier = threading.Barrier(parties, self._count)

    def _count(self) -> None:
        self.held += 1

    def wait(self) -> None:
        try:
            self._barrier.wait(PATIENCE_S)
        except threading.BrokenBarrierError:
            self.missed = True


class MeetingDisk(OsDisk):
    """Its logs are opened, and synced, only when as many are at it as the meeting takes."""

    meeting: Meeting | None = None

    def list(self, path: str) -> list[str]:
        if path and self.meeting is not None:
            self.meeting.wait()
        return super().list(path)

    def sync_directory(self, path: str) -> None:
        if path and self.meeting is not None:
            self.meeting.wait()
        super().sync_directory(path)


def open_log(disk: OsDisk, name: str) -> None:
    """As a process leaves it that is killed."""
    opened = PartitionLog.open(
        disk, name, LogConfig(), topic_id=b"t" * 16, recovery_point=0, clean=False
    )
    opened.abandon()


def made_node(path: Path, threads: int) -> tuple[Node, list[MeetingDisk]]:
    """A node as a process makes it, on folders with logs that were never closed."""
    folders = []
    for index in range(FOLDERS):
        folder = path / f"data-{index}"
        folder.mkdir()
        disk = MeetingDisk(folder)
        for number in range(LOGS):
            name = f"t-{index * LOGS + number}"
            disk.make_directory(name)
            open_log(disk, name)
        folders.append(FolderSetup(str(folder), disk))
    given = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": ",".join(folder.path for folder in folders),
        "num.recovery.threads.per.data.dir": str(threads),
    }
    process = BrokerProcess(BrokerConfig(given))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process._sockets = [listener]
        node = process._make_node(Cluster("c", b"s"), folders)
    disks = [folder.disk for folder in folders if isinstance(folder.disk, MeetingDisk)]
    return node, disks


def test_a_broker_opens_and_closes_so_many_logs_of_each_folder_at_once(tmp_path: Path) -> None:
    node, disks = made_node(tmp_path, threads=LOGS)
    meeting = MeetingDisk.meeting = Meeting(FOLDERS * LOGS)
    try:
        node.start()
        assert meeting.held and not meeting.missed
        assert [len(f.unclaimed) for f in node.partitions.logs.folders] == [LOGS] * FOLDERS
        opened = meeting.held
        node.step(StopRequested(), 1.0, 1)
        assert meeting.held > opened and not meeting.missed
    finally:
        MeetingDisk.meeting = None
    assert all(checkpoints.take_clean_shutdown(disk) is not None for disk in disks)


@pytest.mark.parametrize("at_once", [1, 2])
def test_no_more_at_once_than_are_allowed(at_once: int) -> None:
    lock, busy, most, done = threading.Lock(), [0, 0], [0, 0], [0]

    def task(group: int) -> Callable[[], None]:
        def work() -> None:
            with lock:
                busy[group] += 1
                most[group] = max(most[group], busy[group])
            threading.Event().wait(0.02)
            with lock:
                busy[group] -= 1
                done[0] += 1

        return work

    run_tasks([[task(0) for _ in range(6)], [task(1) for _ in range(6)], []], at_once)
    assert done == [12], "all have ended when it returns"
    assert most == [at_once, at_once]


def test_what_a_task_raises_is_raised_when_all_have_ended() -> None:
    done: list[int] = []

    def broken() -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        run_tasks([[broken, lambda: done.append(1), lambda: done.append(2)]], 1)
    assert done == [1, 2]
