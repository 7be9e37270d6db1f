"""Threads for what waits for a device: fsync, recovery, big reads. Results come back as inputs."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence

from replog.log.disk import DiskError
from replog.model.inputs import JobDone
from replog.model.outputs import RunJob

_log = logging.getLogger("replog.node")


class Jobs:
    """A few threads that take jobs in their order. There are several, so that long jobs
    (compaction, recompression) do not hold up a short one (fsync)."""

    def __init__(
        self, post: Callable[[JobDone], None], threads_max: int, *, name: str = "job"
    ) -> None:
        """`post` is called on a thread of ours when a job is done. Threads are started as jobs
        come, `threads_max` of them at most."""
        self.threads_max = threads_max
        self._post = post
        self._name = name
        self._queue: queue.SimpleQueue[RunJob | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, job: RunJob) -> None:
        """Exactly one JobDone with the job's token follows."""
        self._queue.put(job)
        self._start(1)

    def resize(self, threads_max: int) -> None:
        """From now on there are so many threads at most: jobs that wait get those that are new,
        and surplus ones end behind the jobs that are there."""
        self.threads_max = threads_max
        self._start(self._queue.qsize())
        for _ in self._threads[threads_max:]:
            self._queue.put(None)
        # Which of them end is the queue's affair: what is kept here are as many as stay.
        del self._threads[threads_max:]

    def _start(self, jobs: int) -> None:
        """Have a thread more for each of so many jobs, as long as there may be more."""
        for _ in range(min(jobs, self.threads_max - len(self._threads))):
            name = f"{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self, timeout_s: float) -> None:
        """Take no more jobs, and give those under way some time."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            error: str | None = None
            try:
                job.work()
            except DiskError as failure:
                error = str(failure)
            except Exception as failure:  # noqa: BLE001  # the edge: the node must get its answer
                _log.error("a job failed", exc_info=failure)
                error = f"{type(failure).__name__}: {failure}"
            self._post(JobDone(job.token, error))


def run_tasks(groups: Sequence[Sequence[Callable[[], None]]], at_once: int) -> None:
    """Run all tasks of all groups, up to `at_once` of each group at a time, and wait for them.

    Raises what a task has raised, when all have ended.
    """
    raised: list[BaseException] = []

    def serve(tasks: deque[Callable[[], None]]) -> None:
        while tasks:
            try:
                task = tasks.popleft()
            except IndexError:
                return  # another thread was quicker
            try:
                task()
            except BaseException as error:  # noqa: BLE001  # whoever waits for us must get it
                raised.append(error)

    threads = [
        threading.Thread(target=serve, args=(tasks,), name=f"logs-{index}-{number}", daemon=True)
        for index, tasks in enumerate(map(deque, groups))
        for number in range(min(at_once, len(tasks)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
