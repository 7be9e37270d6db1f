"""The real world around one node: one thread, one event loop, one `step` after the other.

A *turn* is what happens between two waits of the loop for one socket or timer: inputs are stepped,
outputs carried out, and what is to be sent leaves at the end of it in as few system calls as it
takes. Other threads (the coordinator's) only ever `post`.
"""

import logging
import socket
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from replog.model.errors import InvariantBroken
from replog.model.inputs import (
    ConnectionClosed,
    Input,
    JobDone,
    Received,
    SessionEnded,
    SessionStarted,
    Tick,
)
from replog.model.outputs import (
    CloseConnection,
    CoordinatorWrite,
    Level,
    Output,
    RangeInvalidated,
    ReadCoordinator,
    Reconfigured,
    Reply,
    Report,
    RunJob,
    Send,
    Stopped,
)
from replog.runtime.connection import Connection, Flushable, printable
from replog.runtime.coordination.port import Coordination
from replog.runtime.handshake import Self
from replog.runtime.jobs import Jobs
from replog.runtime.limits import Limits
from replog.runtime.listener import Places
from replog.runtime.peers import Peers

_log = logging.getLogger("replog.node")

HEARTBEAT_S: Final = 0.2  # the coordinator hears that the loop turns
JOB_PATIENCE_S: Final = 5.0  # for jobs that run when the broker ends
EXIT_BROKEN: Final = 70  # of a process whose state can no longer be trusted

_LEVELS: Final = {
    Level.DEBUG: logging.DEBUG,
    Level.INFO: logging.INFO,
    Level.WARNING: logging.WARNING,
    Level.ERROR: logging.ERROR,
}


class Stepper(Protocol):
    """What the loop needs of a node."""

    broker_id: int
    broker_epoch: int

    def step(self, event: Input, now_ms: float, wall_ms: int) -> list[Output]: ...
    def next_deadline_ms(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that a broker belongs to, and how it proves that."""

    cluster_id: str
    secret: bytes


class NodeLoop:
    """Runs one node. It is the `Host` of connections and links."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        node: Stepper,
        coordination: Coordination,
        cluster: Cluster,
        limits: Limits,
    ) -> None:
        self.loop = loop
        loop.set_exception_handler(self._on_loop_error)
        self.limits = limits
        self.request_bytes = 0
        self.requests_waiting = 0
        self.exit_code: int | None = None
        self.places = Places(limits)
        self._node = node
        self._coordination = coordination
        self._cluster = cluster
        self._session: str | None = None
        self._connections: dict[int, Connection] = {}
        self._connection_count = 0
        self._peers = Peers(self)
        self._jobs = Jobs(self.post_threadsafe, limits.job_threads)
        self._request_jobs = Jobs(self._post_request_job, limits.request_threads, name="io")
        self._request_jobs_open = 0  # under way, or waiting for a thread
        self._events: deque[Input] = deque()
        self._dirty: list[Flushable] = []
        self.now_ms = time.monotonic() * 1000
        self._alarm: TimerHandle | None = None
        self._alarm_ms = float("inf")
        self._told: set[tuple[str, str, int]] = set()
        self._next_sweep_ms = self.now_ms
        self._carry_out: dict[type[object], Callable[..., None]] = {
            Reply: self._reply,
            Send: self._peers.send,
            CloseConnection: self._close_connection,
            CoordinatorWrite: self._write_coordinator,
            ReadCoordinator: self._read_coordinator,
            RunJob: self._run_job,
            RangeInvalidated: self._invalidate,
            Report: self._report,
            Reconfigured: self._reconfigure,
            Stopped: self._stopped,
        }

    # ---- life -------------------------------------------------------------------------------

    def start(self, first_outputs: list[Output]) -> None:
        """Carry out what the node wants on its start, and keep the clock from now on."""
        self.begin_turn()
        self._carry(first_outputs)
        self.end_turn()
        self._beat()

    def post_threadsafe(self, event: Input) -> None:
        """Give the node an input, from any thread."""
        try:
            self.loop.call_soon_threadsafe(self.deliver, event)
        except RuntimeError:
            pass  # the loop is closed: there is no node any more

    def deliver(self, event: Input) -> None:
        """A turn for one input."""
        self.begin_turn()
        if isinstance(event, SessionStarted):
            self._session = event.session
        elif isinstance(event, SessionEnded):
            self._session = None
        self.step(event)
        self.end_turn()

    def stop(self, exit_code: int) -> None:
        """Leave `run_forever` after this turn."""
        if self.exit_code is None:
            self.exit_code = exit_code
        self.loop.stop()

    def close(self) -> None:
        """Close all connections; nothing is delivered any more."""
        for connection in list(self._connections.values()):
            connection.flush()
            connection.close()
        self._peers.close()
        self._events.clear()
        for jobs in (self._jobs, self._request_jobs):
            jobs.close(JOB_PATIENCE_S)

    # ---- turns ------------------------------------------------------------------------------

    def begin_turn(self) -> float:
        """Read the clock; monotonic milliseconds."""
        self.now_ms = time.monotonic() * 1000
        return self.now_ms

    def step(self, event: Input) -> None:
        """One step of the node, and its outputs."""
        now = self.now_ms = time.monotonic() * 1000
        try:
            outputs = self._node.step(event, now, int(time.time() * 1000))
        except InvariantBroken:
            _log.critical("an invariant is broken; this broker ends", exc_info=True)
            self.stop(EXIT_BROKEN)
            return
        except Exception as error:  # noqa: BLE001  # the edge: one request must not end a broker
            self._failed(event, error)
            return
        if outputs:
            self._carry(outputs)

    def end_turn(self) -> None:
        """Deliver what this turn has caused and send what it has produced."""
        events = self._events
        while events or self._dirty:
            while events:
                self.step(events.popleft())
            dirty, self._dirty = self._dirty, []
            for item in dirty:
                item.flush()
        deadline = self._node.next_deadline_ms()
        if deadline < self._alarm_ms:
            self._set_alarm(deadline)

    def post(self, event: Input) -> None:
        """Give the node an input before this turn ends, and after the step that is under way."""
        self._events.append(event)

    def mark_dirty(self, item: Flushable) -> None:
        """`item` has something to send at the end of this turn."""
        self._dirty.append(item)

    def _set_alarm(self, deadline_ms: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        delay_s = max(0.0, (deadline_ms - time.monotonic() * 1000) / 1000)
        self._alarm = self.loop.call_later(delay_s, self._on_alarm)

    def _on_alarm(self) -> None:
        """The deadline may have moved later meanwhile: then only the alarm is set anew."""
        self._alarm, self._alarm_ms = None, float("inf")
        if self._node.next_deadline_ms() <= self.begin_turn():
            self.step(Tick())
        self.end_turn()

    def _beat(self) -> None:
        self.loop.call_later(HEARTBEAT_S, self._beat)  # first: whatever fails below
        self._coordination.loop_turned()
        now = self.begin_turn()
        if now >= self._next_sweep_ms:
            self._next_sweep_ms = now + self.limits.sweep_ms
            self._sweep(now)
            self.end_turn()

    def _sweep(self, now: float) -> None:
        """Close what is overdue, let go of memory, and wake who waited for some."""
        for connection in list(self._connections.values()):
            reason = connection.overdue(now)
            if reason is not None:
                connection.close(None if reason == "idle" else reason)
            elif now - connection.touched_ms > 10 * self.limits.sweep_ms:
                connection.shrink()
            connection.resume()

    # ---- outputs ----------------------------------------------------------------------------

    def _carry(self, outputs: list[Output]) -> None:
        carry_out = self._carry_out
        for output in outputs:
            carry_out[output.__class__](output)

    def _reply(self, output: Reply) -> None:
        connection = self._connections.get(output.connection)
        if connection is not None:
            connection.reply(output.token, output.message)

    def _close_connection(self, output: CloseConnection) -> None:
        connection = self._connections.get(output.connection)
        if connection is not None:
            connection.flush()  # earlier answers are on their way
            connection.close(output.reason)

    def _write_coordinator(self, output: CoordinatorWrite) -> None:
        self._coordination.write(output.token, output.operations, self._session)

    def _read_coordinator(self, output: ReadCoordinator) -> None:
        self._coordination.read(output.token, output.roots)

    def _invalidate(self, output: RangeInvalidated) -> None:
        for connection in list(self._connections.values()):
            if connection.outbox.pending and connection.outbox.holds(output.file, output.position):
                connection.close("the log was truncated below records that were to be sent")

    def _reconfigure(self, output: Reconfigured) -> None:
        self.places.reconfigure(output.config)
        self._jobs.resize(output.config.background_threads)
        self._request_jobs.resize(output.config.request_threads)
        self._count_request_jobs(0)

    def _run_job(self, output: RunJob) -> None:
        if output.for_request:
            self._request_jobs.run(output)
            self._count_request_jobs(1)
        else:
            self._jobs.run(output)

    def _post_request_job(self, done: JobDone) -> None:
        """On the thread of a job that was a part of a request."""
        try:
            self.loop.call_soon_threadsafe(self._request_job_done, done)
        except RuntimeError:
            pass  # the loop is closed

    def _request_job_done(self, done: JobDone) -> None:
        self._count_request_jobs(-1)
        self.deliver(done)

    def _count_request_jobs(self, more: int) -> None:
        """Keep `requests_waiting`. Who was not read from goes on when half of the places are free:
        all at once, so not each time that there is one."""
        before = self.requests_waiting
        self._request_jobs_open += more
        waiting = max(0, self._request_jobs_open - self._request_jobs.threads_max)
        self.requests_waiting = waiting
        half = self.limits.requests_waiting // 2
        if waiting <= half < before:
            for connection in list(self._connections.values()):
                connection.resume()

    @staticmethod
    def _report(output: Report) -> None:
        _log.log(_LEVELS[output.level], "%s", printable(output.text))

    def _stopped(self, output: Stopped) -> None:
        level = logging.ERROR if output.failed else logging.INFO
        _log.log(level, "stopped: %s", printable(output.reason))
        self.stop(1 if output.failed else 0)

    def _failed(self, event: Input, error: Exception) -> None:
        """A step has raised: the asker is cut off."""
        self.report_failure(type(event).__name__, error)
        if isinstance(event, Received):
            connection = self._connections.get(event.connection)
            if connection is not None:
                connection.close("the request failed in this broker; see above")

    def report_failure(self, what: str, error: Exception) -> None:
        """Something raised that should not: say so, in full once for each place."""
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        place = (
            type(error).__name__,
            last.tb_frame.f_code.co_filename if last else "",
            last.tb_lineno if last else 0,
        )
        if place in self._told:
            _log.error("%s failed again: %r", what, error)
        else:
            self._told.add(place)
            _log.error("%s failed", what, exc_info=error)

    def _on_loop_error(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback of ours has raised: what it was for may be left undone, the rest goes on."""
        error = context.get("exception")
        if isinstance(error, Exception):
            self.report_failure("a callback", error)
        else:
            _log.error("event loop: %s", context.get("message"))

    # ---- connections ------------------------------------------------------------------------

    def identity(self) -> Self:
        """Who this broker is now."""
        return Self(
            self._node.broker_id,
            self._node.broker_epoch,
            self._cluster.cluster_id,
            self._cluster.secret,
        )

    def own_epoch(self) -> int:
        """Number of this broker's registration now."""
        return self._node.broker_epoch

    def adopt(self, sock: socket.socket, listener: str, *, reserved: bool) -> None:
        """Serve a socket that was accepted. Raises OSError when it is broken already."""
        number = self._connection_count + 1
        connection = Connection(self, number, sock, listener=listener, reserved=reserved)
        self._connection_count = number
        self._connections[number] = connection

    def proved_peer(self, connection: Connection) -> None:
        """A broker's connection takes no client's place."""
        if connection.counted:
            connection.counted = False
            self.places.give_back(connection.client_host, reserved=connection.took_reserved)

    def forget(self, connection: Connection) -> None:
        """`connection` is closed."""
        self._connections.pop(connection.id, None)
        if connection.counted:
            connection.counted = False
            self.places.give_back(connection.client_host, reserved=connection.took_reserved)
        self.post(ConnectionClosed(connection.id))
