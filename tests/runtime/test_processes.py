"""Processes are known by pid and start time."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.runtime import processes
from replog.runtime.processes import ProcessRef, ProcessState, read_pid_file, reference

SLEEP = "import time; print('on', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


@pytest.fixture
def sleeper(request: pytest.FixtureRequest) -> Iterator[ProcessRef]:
    script = getattr(request, "param", SLEEP)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    found = reference(child.pid)
    assert found is not None
    yield found
    child.stdout.close()
    child.kill()
    child.wait()


def wait_state(process: ProcessRef, state: ProcessState) -> None:
    deadline = time.monotonic() + 20
    while process.state() is not state and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.state() is state


def test_states_follow_signals(sleeper: ProcessRef) -> None:
    assert sleeper.state() is ProcessState.RUNNING
    sleeper.send(signal.SIGSTOP)
    wait_state(sleeper, ProcessState.PAUSED)
    sleeper.send(signal.SIGCONT)
    wait_state(sleeper, ProcessState.RUNNING)
    os.kill(sleeper.pid, signal.SIGKILL)
    wait_state(sleeper, ProcessState.DEAD)  # a zombie: nobody has waited for it
    assert sleeper.send(signal.SIGTERM) is False


def test_a_pid_that_was_used_again_is_not_hit(sleeper: ProcessRef) -> None:
    earlier = ProcessRef(sleeper.pid, str(int(sleeper.started) - 1))
    assert earlier.state() is ProcessState.DEAD
    assert earlier.send(signal.SIGKILL) is False
    assert earlier.terminate(0.1) is True, "it has ended long ago"
    assert sleeper.state() is ProcessState.RUNNING


def test_terminate_is_kind_first(sleeper: ProcessRef) -> None:
    sleeper.send(signal.SIGSTOP)
    wait_state(sleeper, ProcessState.PAUSED)
    assert sleeper.terminate(20) is True, "a paused process is woken to obey"


@pytest.mark.parametrize("sleeper", [STUBBORN], indirect=True)
def test_terminate_kills_who_does_not_obey(sleeper: ProcessRef) -> None:
    assert sleeper.terminate(0.2) is False
    assert sleeper.state() is ProcessState.DEAD


def test_a_pid_file_is_read_as_written_and_garbage_is_none(tmp_path: Path) -> None:
    path = tmp_path / "broker.pid"
    assert read_pid_file(path) is None
    mine = reference(os.getpid())
    assert mine is not None
    processes.write_pid_file(path, mine)
    assert read_pid_file(path) == mine and mine.state() is ProcessState.RUNNING
    for garbage in ("", "12", "[]", json.dumps({"pid": "x", "started": 1}), "{"):
        path.write_text(garbage)
        assert read_pid_file(path) is None


def test_nobody_has_a_pid_that_is_too_large() -> None:
    assert reference(2**22 + 1) is None
