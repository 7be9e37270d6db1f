"""The coordinator of one machine when its disk is cut off from power, held, or full."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.coordination.doors import SqliteBackend
from tests.support.mounts import PowerCutDisk, make_room, small_disk

from replog.model.coordination import (
    CONTROLLER_EPOCH,
    Create,
    SetData,
    WriteDone,
    WriteError,
    WriteFailed,
)
from replog.runtime.coordination import store

EPOCHS = """
import sys
from pathlib import Path
from replog.model.coordination import CONTROLLER_EPOCH, Create, SetData
from replog.runtime.coordination import store

connection = store.open_database(Path(sys.argv[1]), create=True, busy_ms=1000)
store.write(connection, None, (Create(CONTROLLER_EPOCH, b"0"),))
epoch = 0
while True:
    epoch += 1
    store.write(connection, None, (SetData(CONTROLLER_EPOCH, b"%d" % epoch),))
    print(epoch, store.last_zxid(connection), flush=True)
"""
WRITES = 40


@pytest.mark.scenario(46)
def test_no_epoch_is_used_again_after_a_power_cut(tmp_path: Path) -> None:
    """What was told to be written is there: with `synchronous=NORMAL` the last epochs would go."""
    with PowerCutDisk(tmp_path).mounted(64) as disk:
        path = disk.folder / "replog.db"
        child = subprocess.Popen(
            [sys.executable, "-c", EPOCHS, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        told = [child.stdout.readline().split() for _ in range(WRITES)]
        child.send_signal(signal.SIGKILL)
        told += [line.split() for line in child.stdout]  # told before it died
        child.wait()
        child.stdout.close()
        disk.cut()
        epoch, zxid = (int(number) for number in told[-1])
        connection = store.open_database(path, create=False, busy_ms=1000)
        try:
            node = store.read(connection, (CONTROLLER_EPOCH,))[CONTROLLER_EPOCH]
            assert int(node.data) >= epoch
            assert store.last_zxid(connection) >= zxid, "broker epochs are made of these"
        finally:
            connection.close()


@pytest.mark.scenario(47)
def test_a_full_disk_stops_writes_and_nothing_else(tmp_path: Path) -> None:
    """Sessions and reads go on, so nobody is taken for dead; with room again writes do, too."""
    folder = tmp_path / "small"
    with small_disk(folder, 2):
        backend = SqliteBackend(folder)
        try:
            door = backend.door(1)
            assert isinstance(door.write(Create("/n", b"before")), WriteDone)
            number = 0
            while isinstance(door.write(Create(f"/fill{number}", bytes(200_000))), WriteDone):
                number += 1
                assert number < 50, "the disk is never full"
            failed = door.write(SetData("/n", bytes(300_000)))
            assert failed == WriteFailed(WriteError.UNKNOWN)
            assert door.read("/n")["/n"].data == b"before"
            assert door.session is not None, "the session lives on"
            make_room(folder, 16)
            assert isinstance(door.write(SetData("/n", b"after")), WriteDone)
            assert door.read("/n")["/n"].data == b"after"
        finally:
            backend.close()
