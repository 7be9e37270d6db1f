"""Processes by pid and start time, so that a pid that was used again is never hit."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.01


class ProcessState(StrEnum):
    """What the operating system says of a process."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """One process for ever: no other will have both."""

    pid: int
    started: str  # as the operating system counts it

    def state(self) -> ProcessState:
        """What the process is doing; a zombie is dead."""
        looked = _look(self.pid)
        if looked is None or looked[0] != self.started or looked[1] in "ZX":
            return ProcessState.DEAD
        return ProcessState.PAUSED if looked[1] in "Tt" else ProcessState.RUNNING

    def send(self, number: int) -> bool:
        """Send a signal; False when the process is dead."""
        if self.state() is ProcessState.DEAD:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_dead(self, timeout_s: float) -> bool:
        """Whether the process ends in time. Reaps it when it is a child of ours."""
        deadline = time.monotonic() + timeout_s
        while True:
            reap(self.pid)
            if self.state() is ProcessState.DEAD:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)

    def terminate(self, timeout_s: float) -> bool:
        """SIGTERM, and SIGKILL to who is there after `timeout_s`; False if it came to that."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused process could not obey
        if self.wait_dead(timeout_s):
            return True
        self.send(signal.SIGKILL)
        self.wait_dead(timeout_s)
        return False


def reap(pid: int) -> None:
    """Forget a child that has ended; does nothing for processes that are no children."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def reference(pid: int) -> ProcessRef | None:
    """The process that has this pid now."""
    looked = _look(pid)
    return None if looked is None else ProcessRef(pid, looked[0])


def write_pid_file(path: Path, process: ProcessRef) -> None:
    """Remember a process, atomically."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps({"pid": process.pid, "started": process.started}) + "\n")
    draft.replace(path)


def read_pid_file(path: Path) -> ProcessRef | None:
    """The process that was remembered; None without a file that makes sense."""
    try:
        found = json.loads(path.read_text())
        return ProcessRef(int(found["pid"]), str(found["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _look(pid: int) -> tuple[str, str] | None:
    """(start time, one letter of state) of a pid; None when nobody has it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _look_with_ps(pid)
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may hold anything
    state, threads, started = fields[0], int(fields[17]), fields[19]
    if state == "Z" and threads > 1:
        state = "R"  # its first thread has ended; others still hold its sockets and locks
    return started, state


def _look_with_ps(pid: int) -> tuple[str, str] | None:
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return (" ".join(found[1:]), found[0][0]) if len(found) > 1 else None
