"""The folders in `log.dirs` before there is a node: made, locked, and claimed for this broker.

One that the file system refuses is handed to the node as failed, if there are others; its replicas
are offline. A folder of somebody else, or one in use, always ends the start: that is a mistake in
the configuration, and to go on would hide it.
"""

import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from replog.log.checkpoints import CLEAN_SHUTDOWN, WrongFolder, check_folder, claim_folder
from replog.log.disk import DiskError
from replog.model.ids import topic_id_text
from replog.node.log_folder import FolderSetup
from replog.runtime.errors import StartError
from replog.runtime.os_disk import OsDisk

_log = logging.getLogger("replog.broker")

LOCK_FILE: Final = ".lock"


class LogDirs:
    """Use in this order: `lock_existing`, `lock_all`, `claim`, and `give_back` in the end."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = [Path(path).absolute() for path in paths]
        self.clean = True  # each was left in good order, or is new
        self.folder_id = ""  # names all of them; empty when one can't be read
        self._locks: dict[Path, int] = {}
        self._failed: dict[Path, str] = {}

    @property
    def owner(self) -> str:
        """A name that only one process of this host's run can have at a time, as it stands for a
        lock that is held; empty when there is none. A copy of a folder has another one."""
        descriptor = self._locks.get(self.paths[0])
        if not self.folder_id or descriptor is None:
            return ""
        lock = os.fstat(descriptor)
        return f"{self.folder_id}/{lock.st_dev:x}-{lock.st_ino:x}"

    def lock_existing(self) -> None:
        """Take those that are there already. Raises StartError when another broker has one."""
        self._each(lambda path: self._lock(path) if path.exists() else None)

    def lock_all(self) -> None:
        """Make what is missing, and take it. Raises StartError."""

        def make(path: Path) -> None:
            if path not in self._locks:
                _make_durably(path)
                self._lock(path)

        self._each(make)

    def claim(self, *, cluster_id: str, node_id: int) -> list[FolderSetup]:
        """See that all are this broker's, and say so in them. Raises StartError."""
        ids: list[str] = []
        is_new: dict[Path, bool] = {}

        def check_one(path: Path) -> None:
            disk = OsDisk(str(path))
            is_new[path] = check_folder(disk, cluster_id=cluster_id, node_id=node_id) is None

        def claim_one(path: Path) -> None:
            disk = OsDisk(str(path))
            clean = is_new[path] or disk.exists(CLEAN_SHUTDOWN)
            new_id = topic_id_text(secrets.token_bytes(16))
            ids.append(
                claim_folder(disk, cluster_id=cluster_id, node_id=node_id, directory_id=new_id)
            )
            self.clean = self.clean and clean

        self._each(check_one)  # all of them before anything is written in one
        self._each(claim_one)
        for index, directory_id in enumerate(ids):
            if directory_id and directory_id in ids[:index]:
                raise StartError(f"log.dirs: two folders have directory.id={directory_id}")
        if not self._failed:
            self.folder_id = ",".join(sorted(ids))
        return [
            FolderSetup(str(path), OsDisk(str(path)), self._failed.get(path)) for path in self.paths
        ]

    def give_back(self) -> None:
        """Let go of the locks."""
        for descriptor in self._locks.values():
            os.close(descriptor)
        self._locks.clear()

    def _lock(self, path: Path) -> None:
        self._locks[path] = _take_lock(path)

    def _each(self, action: Callable[[Path], None]) -> None:
        for path in self.paths:
            if path in self._failed:
                continue
            try:
                action(path)
            except WrongFolder as error:
                raise StartError(f"{path}: {error}") from error
            except (OSError, DiskError) as error:
                self._fail(path, error)

    def _fail(self, path: Path, error: OSError | DiskError) -> None:
        reason = error.strerror if isinstance(error, OSError) else None
        self._failed[path] = text = f"log folder {path} can't be used: {reason or error}"
        if len(self._failed) == len(self.paths):
            raise StartError(text) from error
        _log.error("%s", text)


def _make_durably(path: Path) -> None:
    """Make the folder and those above it; a power cut does not take them away again."""
    if not path.is_dir():
        _make_durably(path.parent)
        path.mkdir(exist_ok=True)
        OsDisk(str(path.parent)).sync_directory("")


def lock_folder(folder: Path) -> int:
    """Take the lock of a log folder; returns its descriptor. Raises StartError."""
    try:
        return _take_lock(folder)
    except OSError as error:
        raise StartError(f"log folder {folder} can't be used: {error.strerror}") from error


def _take_lock(folder: Path) -> int:
    """Raises StartError when another process has it, and OSError."""
    path = folder / LOCK_FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StartError(f"log folder {folder} is in use by another broker") from error
    return descriptor
