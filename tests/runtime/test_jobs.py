"""Threads for jobs: how many there are, and that each job is answered once."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from replog.log.disk import DiskError
from replog.model.inputs import JobDone
from replog.model.outputs import RunJob
from replog.runtime.jobs import Jobs

PATIENCE_S = 20.0


class Office:
    """Jobs that hold their thread until they are let go."""

    def __init__(self, threads: int) -> None:
        self.done: list[JobDone] = []
        self.open = threading.Event()
        self._lock = threading.Lock()
        self.busy = 0
        self.jobs = Jobs(self.done.append, threads)

    def work(self) -> None:
        with self._lock:
            self.busy += 1
        assert self.open.wait(PATIENCE_S)
        with self._lock:
            self.busy -= 1

    def post(self, count: int) -> None:
        for token in range(count):
            self.jobs.run(RunJob(token, self.work))


def wait_until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office(3)
    yield made
    made.open.set()
    made.jobs.close(PATIENCE_S)


def test_no_more_jobs_at_once_than_threads_and_all_are_answered(office: Office) -> None:
    office.post(7)
    wait_until(lambda: office.busy == 3)
    time.sleep(0.05)  # for a fourth to show itself, if there is one
    assert office.busy == 3
    office.open.set()
    wait_until(lambda: len(office.done) == 7)
    assert sorted(done.token for done in office.done) == list(range(7))
    assert all(done.error is None for done in office.done)


@pytest.mark.parametrize("threads", [1, 5])
def test_their_number_changes_while_they_work(office: Office, threads: int) -> None:
    office.post(3)
    wait_until(lambda: office.busy == 3)
    office.jobs.resize(threads)
    office.open.set()
    wait_until(lambda: len(office.done) == 3)
    office.open.clear()
    office.post(8)
    wait_until(lambda: office.busy == threads)
    time.sleep(0.05)
    assert office.busy == threads
    office.open.set()
    wait_until(lambda: len(office.done) == 11)


def test_what_goes_wrong_is_told(office: Office) -> None:
    def broken() -> None:
        raise DiskError("no more")

    office.jobs.run(RunJob(1, broken))
    wait_until(lambda: bool(office.done))
    assert office.done == [JobDone(1, "no more")]
