"""Whether this broker may still take itself for the leader that it was told to be.

A leadership can end behind a broker's back. It ends with the registration, which other brokers may
take away, and whoever learns that leads nothing until a controller has told the next registration
what it leads. A broker that was stopped (SIGSTOP, a suspended machine) finds requests in its queue
before it finds the news, so it mistrusts itself first: after a gap between two steps in which
others could have given it up, it asks the coordinator whether its registration holds. Until the
answer is there, clients are told that it leads nothing.

What followers ask is answered meanwhile: their epochs fence it, and what is committed is committed
by them. While the coordinator can't be used by anybody, leaders serve on, also after a gap: nobody
can have been elected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.core.controller import stored
from replog.model.coordination import ANY_VERSION, Check, WriteDone, WriteError, WriteFailed
from replog.model.ids import NO_EPOCH
from replog.model.inputs import CoordinatorWritten
from replog.model.outputs import Level

if TYPE_CHECKING:
    from replog.node.node import Node

# Of `replog.session.silence.ms`: a gap after which others may have given this broker up. They count
# from its last ping, which may be older than the gap.
GAP_SHARE = 2 / 3
# Likewise, between two steps at most, so that a gap is not taken for want of work.
BEAT_SHARE = 1 / 8
RETRY_MS = 100


class Lease:
    """`valid`: what this broker leads, it may answer for."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.valid = True
        self.gap_ms = GAP_SHARE * node.config.replog_session_silence_ms
        self._lost = False  # the registration under which this broker was told what it leads
        self._gaps = 0
        self._doubt = 0  # number of the newest gap, until the registration is known to have held

    def start(self) -> None:
        """From now on there is a step often enough."""
        beat_ms = BEAT_SHARE * self._node.config.replog_session_silence_ms
        self._node.timers.call_at(self._node.now_ms + beat_ms, self.start)

    def overslept(self, gap_ms: float) -> None:
        """Nothing was done for `gap_ms`: others may have done something about it."""
        node = self._node
        if node.broker_epoch == NO_EPOCH or node.membership.coordinator_away_ms >= 0:
            return
        node.report(
            Level.WARNING,
            f"stopped for {gap_ms:.0f} ms: leads nothing until it is known to be registered still",
        )
        self._gaps += 1
        self._doubt = self._gaps
        self._judge()
        self._ask(self._doubt, node.broker_epoch)

    def lost(self) -> None:
        """The registration is gone."""
        self._lost = True
        self._doubt = 0
        self._judge()

    def renewed(self) -> None:
        """A controller has told the registration that holds now what it leads."""
        self._lost = False
        self._judge()

    def _judge(self) -> None:
        self.valid = not self._lost and not self._doubt

    def ask_coordinator(self, on_answer: Callable[[CoordinatorWritten], None]) -> None:
        """Whether this broker is registered: asked by a write, as what is read may be old."""
        check = Check(stored.broker_path(self._node.broker_id), ANY_VERSION)
        self._node.write_coordinator((check,), on_answer)

    def _ask(self, doubt: int, epoch: int) -> None:
        """An answer of before a later gap is none."""
        node = self._node

        def answered(written: CoordinatorWritten) -> None:
            if self._doubt != doubt:
                return
            if isinstance(written.result, WriteDone) and node.broker_epoch == epoch:
                self._doubt = 0
                self._judge()
                return
            if written.result != WriteFailed(WriteError.UNKNOWN):
                node.membership.refresh()  # finds out; or else the end of the session is told
            node.timers.call_at(node.now_ms + RETRY_MS, again)

        def again() -> None:
            if self._doubt == doubt:
                self._ask(doubt, epoch)

        self.ask_coordinator(answered)
