"""Leaving in good order: hand leaderships over, unregister, close the logs.

Each stage is bounded in time, so that a broker also stops when nobody is left to answer it:
`controlled.shutdown.max.retries` times `controlled.shutdown.retry.backoff.ms` for followers to
catch up that could take a leadership over, and one second each for a controller that answers
nothing and for the coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replog.core.controller import stored
from replog.model.coordination import CONTROLLER, Delete, Operation
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH
from replog.model.inputs import CoordinatorWritten, PeerFailed, PeerReplied
from replog.model.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from replog.model.outputs import Level, Stopped
from replog.node.handlers import controlled_shutdown

if TYPE_CHECKING:
    from replog.node.node import Node

ASK_AGAIN_MS = 100
# A cluster that is stopped as a whole soon has no controller: do not wait for one.
CONTROLLER_WAIT_MS = 1_000
COORDINATOR_WAIT_MS = 1_000


class Departure:
    """One stop, from the request to the end. Stages: wanted, leaving, finished; none goes back."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.wanted = False
        self.leaving = False
        self.finished = False
        self._catch_up_until_ms = 0.0
        self._controller_until_ms = 0.0

    def request(self) -> None:
        """Somebody asked this broker to stop."""
        if self.wanted:
            return
        self.wanted = True
        self._node.report(Level.INFO, "stopping")
        if self._node.broker_epoch == NO_EPOCH:
            self._finish()
        else:
            self.begin()

    def begin(self) -> None:
        """Registered: ask the controller to move the leaderships away."""
        config = self._node.config
        now_ms = self._node.now_ms
        limit_ms = (
            config.controlled_shutdown_max_retries * config.controlled_shutdown_retry_backoff_ms
        )
        self._catch_up_until_ms = now_ms + limit_ms
        self._controller_until_ms = now_ms + CONTROLLER_WAIT_MS
        if config.controlled_shutdown_enable:
            self._ask()
        else:
            self._leave()

    def _ask(self) -> None:
        node = self._node
        if self.leaving or self.finished:
            return
        message = ControlledShutdownRequest(
            broker_id=node.broker_id, broker_epoch=node.broker_epoch
        )
        controller = node.membership.controller()
        if node.controlling.active:
            controlled_shutdown.execute(node, message, self._on_answer)
        elif controller is None or controller.broker_id == node.broker_id:
            self._unanswered()
        else:
            node.send(controller, message, self._on_reply, timeout_ms=CONTROLLER_WAIT_MS)

    def _on_reply(self, answer: PeerReplied | PeerFailed) -> None:
        if isinstance(answer, PeerReplied):
            self._on_answer(answer.message)
        else:
            self._unanswered()

    def _on_answer(self, answer: object) -> None:
        if self.leaving or self.finished:
            return
        if not isinstance(answer, ControlledShutdownResponse):
            self._unanswered()
        elif answer.error_code == ErrorCode.NONE and answer.partitions_remaining > 0:
            self._controller_until_ms = self._node.now_ms + CONTROLLER_WAIT_MS
            if self._node.now_ms < self._catch_up_until_ms:
                self._ask_again()
            else:
                remaining = answer.partitions_remaining
                self._node.report(Level.WARNING, f"{remaining} partitions lose their only leader")
                self._leave()
        elif answer.error_code in (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH):
            self._leave()
        else:
            self._unanswered()

    def _unanswered(self) -> None:
        if self._node.now_ms < self._controller_until_ms:
            self._ask_again()
        else:
            self._node.report(Level.WARNING, "stopping without a controller's leave")
            self._leave()

    def _ask_again(self) -> None:
        self._node.timers.call_at(self._node.now_ms + ASK_AGAIN_MS, self._ask)

    def _leave(self) -> None:
        """Take the registration away, and the controllership with it."""
        node = self._node
        if self.leaving or self.finished:
            return
        self.leaving = True
        operations: list[Operation] = []
        fence = node.controlling.fence()
        if fence is not None:
            operations = [fence, Delete(CONTROLLER)]
            node.controlling.resign("this broker stops")
        operations.append(Delete(stored.broker_path(node.broker_id)))
        node.write_coordinator(tuple(operations), self._on_left)
        node.timers.call_at(node.now_ms + COORDINATOR_WAIT_MS, self._finish)

    def _on_left(self, written: CoordinatorWritten) -> None:
        # What could not be removed goes with the session, which ends with the process.
        self._finish()

    def on_session_ended(self) -> None:
        """The registration is gone anyway."""
        if self.wanted:
            self._finish()

    def _finish(self) -> None:
        if self.finished:
            return
        self.leaving = self.finished = True
        node = self._node
        node.broker_epoch = NO_EPOCH
        node.partitions.close()
        node.outputs.append(Stopped("stopped"))
