"""Threads for what waits for a device: fsync, recovery, big reads. Results come back as inputs."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

from replog.log.disk import DiskError
from replog.model.inputs import JobDone
from replog.model.outputs import RunJob

_log = logging.getLogger("replog.node")

# Long jobs (compaction, recompression) must not hold up a short one (fsync).
JOB_THREADS: Final = 4


class Jobs:
    """A few threads that take jobs in their order."""

    def __init__(self, post: Callable[[JobDone], None]) -> None:
        """`post` is called on a thread of ours when a job is done."""
        self._post = post
        self._queue: queue.SimpleQueue[RunJob | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, job: RunJob) -> None:
        """Exactly one JobDone with the job's token follows."""
        if len(self._threads) < JOB_THREADS:
            name = f"job-{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(job)

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
