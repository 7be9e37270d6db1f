"""What the backends of the `Coordination` port have in common: a thread that does everything with
the coordinator in order, and what it tells the broker."""

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from replog.model.coordination import Operation
from replog.model.inputs import CoordinatorReach, Input
from replog.runtime.coordination.port import Post, SessionSettings

JOIN_S = 5  # for the worker to end the session in good order

Job = Callable[[], None]

_log = logging.getLogger("replog.coordinator")


class CoordinationWorker(ABC):
    """The thread, its queue of jobs, and the session that it keeps."""

    def __init__(self, name: object) -> None:
        """`name` is the coordinator's, for what is said in the log."""
        self._name = name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._direct = threading.Lock()  # held by whoever asks the coordinator something
        self._stopped = threading.Event()
        self._worker: threading.Thread | None = None
        self._settings: SessionSettings | None = None
        self._post: Post = lambda _: None
        self._session: str | None = None  # under which this broker may write
        self._parked: str | None = None  # ended on suspicion, and kept until we hear the others
        self._reachable = True

    # ---- of the port ------------------------------------------------------------------------

    def start(self, settings: SessionSettings, post: Post) -> None:
        self._settings = settings
        self._post = post
        self._worker = threading.Thread(target=self._run, name="coordinator", daemon=True)
        self._worker.start()

    def write(self, token: int, operations: Sequence[Operation], session: str | None) -> None:
        ops = tuple(operations)
        self._jobs.put(lambda: self._do_write(token, ops, session))

    def read(self, token: int, roots: Sequence[str]) -> None:
        names = tuple(roots)
        self._jobs.put(lambda: self._do_read(token, names))

    def close(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        if self._worker is not None:
            self._jobs.put(None)
            self._worker.join(timeout=JOIN_S)
        self._give_back()

    # ---- of the backend ---------------------------------------------------------------------

    @abstractmethod
    def _run(self) -> None:
        """Do what is in the queue until None comes, and look around from time to time."""

    @abstractmethod
    def _do_write(self, token: int, operations: tuple[Operation, ...], session: str | None) -> None:
        """Carry it out, and emit CoordinatorWritten."""

    @abstractmethod
    def _do_read(self, token: int, roots: tuple[str, ...]) -> None:
        """Read, and emit CoordinatorRead."""

    @abstractmethod
    def _give_back(self) -> None:
        """Close what is open: the worker has ended, or does not end."""

    # ---- what is told -----------------------------------------------------------------------

    def _emit(self, event: Input) -> None:
        if not self._stopped.is_set():
            self._post(event)

    def _lost_touch(self, reason: str) -> None:
        """The coordinator can't be used: said once, and again when it can."""
        if self._reachable and not self._stopped.is_set():
            self._reachable = False
            self._emit(CoordinatorReach(False))
            _log.warning(
                "coordinator %s can't be used (%s): serving on without elections",
                self._name,
                reason,
            )

    def _in_touch(self) -> None:
        if not self._reachable:
            self._reachable = True
            self._emit(CoordinatorReach(True))
            _log.warning("coordinator %s can be used again", self._name)
