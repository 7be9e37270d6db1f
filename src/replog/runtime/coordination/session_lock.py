"""A session as a file lock: the operating system drops it when the process ends, however it ends.

Each session has a file of its own, locked after any fork and closed on exec, so that no child
keeps a dead broker's session alive. Whoever gets a shared lock on that file has proof of death.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

SUFFIX: Final = ".lock"


class SessionLock:
    """The lock of our own session."""

    def __init__(self, folder: Path, session: str) -> None:
        """Raises OSError when the file can't be made."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / (session + SUFFIX)
        draft = folder / (session + ".new")  # under its name, a file is locked from the first
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(draft, flags, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(self.path)

    def release(self) -> None:
        """Remove the file and let go. Whoever waits for the lock learns it at once."""
        if self._descriptor >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1


def is_free(folder: Path, session: str) -> bool:
    """Whether the process of `session` is gone for certain."""
    try:
        descriptor = os.open(folder / (session + SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def remove_file(folder: Path, session: str) -> None:
    """Remove what a dead session left behind. Those who wait for its lock have it open."""
    (folder / (session + SUFFIX)).unlink(missing_ok=True)


def sweep(folder: Path, known: set[str]) -> None:
    """Remove files of processes that died before they had entered their session."""
    if folder.is_dir():
        for path in folder.glob("*" + SUFFIX):
            if path.stem not in known and is_free(folder, path.stem):
                path.unlink(missing_ok=True)


def watch(folder: Path, session: str, on_free: Callable[[str], None]) -> None:
    """Call `on_free(session)`, on a thread of its own, as soon as the lock of `session` is free.

    The thread sits in the kernel until then and can't be called off; what it reports late is for
    the receiver to ignore.
    """

    def wait() -> None:
        try:
            descriptor = os.open(folder / (session + SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            on_free(session)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
        on_free(session)

    threading.Thread(target=wait, name=f"session-watch-{session[:6]}", daemon=True).start()
