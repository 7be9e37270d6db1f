"""The controller's work, while this broker is the controller: one writer, one multi at a time.

    idle -> loading -> active -> idle (resigned)
                       active -> suspended -> loading (the outcome of a write is not known)

Whatever changes the cluster is an intent in a queue. Intents are planned when they leave the queue,
against the committed image and each other, and travel together as one multi that begins with a
check of `/controller_epoch`: it fails as a whole once there is another controller. Only what is
durable is applied to the image, pushed to brokers and answered.

A registered broker counts as active at once, before it has acknowledged an image. That is safe: it
can lead only by an image, which it takes only under its own registration, and leaders admit nobody
to an ISR who does not follow them under the registered epoch. Waiting for an acknowledgement would
only make a cluster that starts slower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from replog.core.controller.eligible import TopicRules
from replog.core.controller.loading import ROOTS, load_image
from replog.core.controller.registrations import take_registrations
from replog.core.controller.state import ControllerImage, Draft, Losses
from replog.model.cluster import BrokerRecord, BrokerState
from replog.model.config_values import Value
from replog.model.coordination import (
    CONTROLLER_EPOCH,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    StoredNode,
    WriteDone,
    WriteError,
    WriteFailed,
    WriteResult,
)
from replog.model.errors import ErrorCode
from replog.model.inputs import CoordinatorRead, CoordinatorWritten
from replog.model.outputs import Level
from replog.model.topic_config import topic_value
from replog.node.admin_nodes import AdminNodes
from replog.node.draft_report import report_draft
from replog.node.dynamic_config import keep_min_isr
from replog.node.fencing import Fencing
from replog.node.power_cuts import PowerCuts
from replog.node.pushes import Pushes
from replog.node.rebalancing import Rebalancing
from replog.node.unclean_elections import UncleanElections

if TYPE_CHECKING:
    from replog.node.node import Node

# Operations after which a multi takes no further intent: keeps one write, and the step that plans
# it, to a few milliseconds. An intent that needs more travels alone.
OPERATIONS_MAX = 1_000
# Intents that may wait, each a request of a client or a broker. Further ones are refused.
INTENTS_MAX = 10_000
# How often an intent is planned anew because the coordinator was not as the image said.
ATTEMPTS_MAX = 3
RETRY_MS = 100

# Plans a change, and returns what to do when it is durable. It runs at least once; it must not act.
Plan = Callable[[Draft], Callable[[], None]]
Failed = Callable[[ErrorCode], None]


@dataclass(slots=True)
class _Intent:
    plan: Plan
    on_failed: Failed
    attempts: int = 0
    alone: bool = False  # together with others it was more than the coordinator takes


@dataclass(slots=True)
class _Batch:
    """One multi on its way."""

    draft: Draft
    operations: list[Operation]
    intents: list[_Intent]
    answers: list[Callable[[], None]]


@dataclass(slots=True)
class _Term:
    """One controllership: from one raise of the epoch to the next."""

    epoch: int
    epoch_version: int  # of the node `/controller_epoch`


class Controlling:
    """The controller's pipeline; does nothing while another broker is controller."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._term: _Term | None = None
        self._image: ControllerImage | None = None
        self._pushes: Pushes | None = None
        self._fencing: Fencing | None = None
        self._queue: deque[_Intent] = deque()
        self._in_flight: _Batch | None = None
        self._in_doubt: _Batch | None = None
        self._registered: dict[int, BrokerRecord] = {}
        self._registered_token = -1  # of the read that showed it: answers may overtake each other
        self._broker_change_queued = False
        self._pumping = False
        self._power_cuts = PowerCuts(node)
        self._looks = (Rebalancing(node), UncleanElections(node))
        self._admin_nodes = AdminNodes(node)

    # ---- what others ask -------------------------------------------------------------------

    @property
    def engaged(self) -> bool:
        """This broker holds the controllership, loaded or not."""
        return self._term is not None

    @property
    def active(self) -> bool:
        """This broker is the controller, has loaded the state and takes intents."""
        return self._pushes is not None

    @property
    def image(self) -> ControllerImage | None:
        """The committed image; None unless active. Nobody but this class may change it."""
        return self._image if self.active else None

    @property
    def losses(self) -> Losses | None:
        """Elections that may have lost committed records, since the cluster began; None unless
        active."""
        return None if self._image is None or not self.active else self._image.losses

    def fence(self) -> Check | None:
        """The check that every write of this controllership begins with."""
        if self._term is None:
            return None
        return Check(CONTROLLER_EPOCH, self._term.epoch_version)

    def submit(self, plan: Plan, on_failed: Failed) -> None:
        """Queue an intent. Exactly one of `on_failed` and what `plan` returned last will run."""
        if not self.active:
            on_failed(ErrorCode.NOT_CONTROLLER)
        elif len(self._queue) >= INTENTS_MAX:
            on_failed(ErrorCode.REQUEST_TIMED_OUT)
        else:
            self._queue.append(_Intent(plan, on_failed))
            self._pump()

    def auto_create(self, names: Sequence[str]) -> None:
        """Have topics made, on whichever broker is the controller; nothing is waited for."""
        self._node.forwarding.auto_create(names)

    def look_for_requests(self) -> None:
        """Somebody may have left one in the coordinator."""
        self._admin_nodes.look()

    def when_known(self, brokers: set[int], deadline_ms: float, action: Callable[[], None]) -> None:
        """Run `action` once `brokers` know all that is committed now, at the latest in time."""
        if self._pushes is None or self._image is None:
            action()
        else:
            self._pushes.when(self._image.cluster.version, brokers, deadline_ms, action)

    # ---- beginning and end -----------------------------------------------------------------

    def start(self, epoch: int, epoch_version: int) -> None:
        """This broker has won `epoch`: load what the coordinator holds, and take over."""
        self._stop_pushes()
        self._term = _Term(epoch, epoch_version)
        self._node.report(Level.INFO, f"controller in epoch {epoch}")
        self._load()

    def resign(self, reason: str) -> None:
        """Control nothing any more; whatever is under way has failed, as far as can be known."""
        batch, doubtful = self._in_flight, self._in_doubt
        abandoned = [*(batch.intents if batch else ()), *(doubtful.intents if doubtful else ())]
        abandoned += self._queue
        if self._term is not None:
            self._node.report(Level.INFO, f"controller no more: {reason}")
        self._term = None
        self._in_flight = self._in_doubt = None
        self._queue.clear()
        self._broker_change_queued = False
        self._stop_pushes()
        self._image = None
        for intent in abandoned:
            intent.on_failed(ErrorCode.NOT_CONTROLLER)

    def _suspend(self, reason: str) -> None:
        """Image and coordinator may differ: raise the epoch, load again, go on with the queue."""
        self._node.report(Level.WARNING, f"controller loads its state again: {reason}")
        self._term = None
        self._in_flight = None
        self._stop_pushes()
        self._node.timers.call_at(self._node.now_ms + RETRY_MS, self._node.membership.refresh)

    def _stop_pushes(self) -> None:
        pushes, self._pushes = self._pushes, None
        fencing, self._fencing = self._fencing, None
        self._power_cuts.stop()
        for look in self._looks:
            look.stop()
        self._admin_nodes.forget()
        if pushes is not None:
            pushes.stop()
        if fencing is not None:
            fencing.stop()

    def _load(self) -> None:
        term = self._term

        def loaded(read: CoordinatorRead) -> None:
            if self._term is not term:
                return
            if read.nodes is None:
                self._node.timers.call_at(self._node.now_ms + RETRY_MS, retry)
            else:
                self._on_loaded(read.nodes, read.token)

        def retry() -> None:
            if self._term is term:
                self._load()

        self._node.read_coordinator((*ROOTS, CONTROLLER_EPOCH), loaded)

    def _on_loaded(self, nodes: dict[str, StoredNode], token: int) -> None:
        node, term = self._node, self._term
        if term is None:
            return
        epoch_node = nodes.get(CONTROLLER_EPOCH)
        if epoch_node is None or epoch_node.version != term.epoch_version:
            self.resign("another controller has raised the epoch")
            node.membership.refresh()
            return
        loaded = load_image(
            nodes,
            cluster_id=node.setup.cluster_id,
            controller_id=node.broker_id,
            epoch=term.epoch,
        )
        for text in loaded.reports:
            node.report(Level.ERROR, text)
        self._image = loaded.image
        self._settle_doubt(nodes)
        self._registered, self._registered_token = loaded.registered, token
        self._pushes = Pushes(node, loaded.image.cluster)
        self._fencing = Fencing(node, self._pushes)
        # First of all, what happened to brokers and partitions while nobody looked.
        self._change_brokers(self._plan_takeover)

    def _settle_doubt(self, nodes: Mapping[str, StoredNode]) -> None:
        """A write with no answer: was it carried out?

        The epoch was raised since, so what the nodes show now is final.
        """
        batch, self._in_doubt = self._in_doubt, None
        if batch is None:
            return
        if was_done(batch.operations, nodes):
            for answer in batch.answers:
                answer()
        else:
            self._queue.extendleft(reversed(batch.intents))

    # ---- brokers come and go ---------------------------------------------------------------

    def on_registrations(self, registered: Mapping[int, BrokerRecord], token: int) -> None:
        """Who is registered, by the read of the coordinator that was asked for as `token`."""
        image = self.image
        if image is None or token < self._registered_token:
            return
        self._registered, self._registered_token = dict(registered), token
        if self._broker_change_queued:
            return
        if _epochs(image.cluster.brokers) != _epochs(registered) or self._in_flight is not None:
            self._change_brokers(self._plan_broker_change)

    def _plan_broker_change(self, draft: Draft) -> Callable[[], None]:
        self._broker_change_queued = False
        done = take_registrations(draft, self._registered, fenced=self._fenced())
        return _nothing if done else partial(self._change_brokers, self._plan_broker_change)

    def _plan_takeover(self, draft: Draft) -> Callable[[], None]:
        self._broker_change_queued = False
        keep_min_isr(draft, self._node.config)
        if not take_registrations(draft, self._registered, fenced=self._fenced()):
            return partial(self._change_brokers, self._plan_takeover)
        draft.reconcile()
        return _nothing

    def _fenced(self) -> set[int]:
        return set() if self._fencing is None else self._fencing.fenced

    def unfence(self, broker: int, broker_epoch: int) -> None:
        """The registration of that epoch answers: it takes part again."""

        def plan(draft: Draft) -> Callable[[], None]:
            known = draft.brokers.get(broker)
            if (
                known is not None
                and known.broker_epoch == broker_epoch
                and known.state is BrokerState.FENCED
            ):
                draft.set_broker_state(broker, BrokerState.ACTIVE)
            return _nothing

        self.submit(plan, _ignore)

    def _change_brokers(self, plan: Plan) -> None:
        """Ahead of everything else: elections wait for nothing."""
        self._broker_change_queued = True
        self._queue.appendleft(_Intent(plan, self._broker_change_failed))
        self._pump()

    def _broker_change_failed(self, error: ErrorCode) -> None:
        self._broker_change_queued = False

    # ---- the pipeline ----------------------------------------------------------------------

    def _pump(self) -> None:
        """Plan and write until a write is under way or nothing is left to do."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._queue and self._in_flight is None and self.active:
                self._next_batch()
        finally:
            self._pumping = False

    def _next_batch(self) -> None:
        image, fence = self.image, self.fence()
        if image is None or fence is None:
            return
        draft = Draft(image, rules=self._rules)
        intents: list[_Intent] = []
        answers: list[Callable[[], None]] = []
        while self._queue and draft.size < OPERATIONS_MAX:
            if intents and (intents[-1].alone or self._queue[0].alone):
                break
            intent = self._queue.popleft()
            intents.append(intent)
            answers.append(intent.plan(draft))
        operations = draft.operations()
        batch = _Batch(draft, [fence, *operations], intents, answers)
        if not operations:
            self._begin_pushes()
            _run(answers)
            return
        self._in_flight = batch
        term = self._term

        def done(written: CoordinatorWritten) -> None:
            if self._term is not term or self._in_flight is not batch:
                return
            self._in_flight = None
            self._pumping = True  # what is submitted meanwhile waits until all is told
            try:
                self._on_written(batch, written.result)
            finally:
                self._pumping = False
            self._pump()

        self._node.write_coordinator(tuple(batch.operations), done)

    def _rules(self, overrides: Mapping[str, str]) -> TopicRules:
        config = self._node.config

        def value(name: str) -> Value:
            return topic_value(config, name, overrides)

        return TopicRules(
            min_isr=int(str(value("min.insync.replicas"))),
            unclean=bool(value("unclean.leader.election.enable")),
            durable=value("replog.durability") == "fsync",
        )

    def _on_written(self, batch: _Batch, result: WriteResult) -> None:
        image = self._image
        if image is None:
            return
        if isinstance(result, WriteDone):
            report_draft(self._node, image.cluster, batch.draft)
            delta = image.apply(batch.draft)
            if not self._begin_pushes() and self._pushes is not None:
                self._pushes.committed(delta)
            self._power_cuts.consider(batch.draft.changed)
            _run(batch.answers)
        else:
            self._on_write_failed(batch, result)

    def _on_write_failed(self, batch: _Batch, result: WriteFailed) -> None:
        fenced = result.index == 0 and result.error in (WriteError.BAD_VERSION, WriteError.NO_NODE)
        if fenced or result.error is WriteError.SESSION_EXPIRED:
            self._in_flight = batch
            self.resign("another controller has raised the epoch" if fenced else "session expired")
            self._node.membership.refresh()
            return
        if result.error is WriteError.REFUSED:
            self._on_refused(batch)
            return
        if result.error is WriteError.UNKNOWN:
            self._in_doubt = batch
        else:
            for intent in reversed(batch.intents):
                intent.attempts += 1
                if intent.attempts < ATTEMPTS_MAX:
                    self._queue.appendleft(intent)
                else:
                    intent.on_failed(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._suspend(f"a write failed: {result.error.value}")

    def _on_refused(self, batch: _Batch) -> None:
        """More than the coordinator takes at once: each intent alone may be less."""
        if len(batch.intents) == 1:
            self._node.report(
                Level.ERROR, f"the coordinator refuses a change of {len(batch.operations)} nodes"
            )
            batch.intents[0].on_failed(ErrorCode.POLICY_VIOLATION)
            return
        for intent in reversed(batch.intents):
            intent.alone = True
            self._queue.appendleft(intent)

    def _begin_pushes(self) -> bool:
        """After the first batch of a term: tell everybody. False when that was done before."""
        if self._pushes is None or self._pushes.begun:
            return False
        self._pushes.begin()
        if self._fencing is not None:
            self._fencing.start()
        for look in self._looks:
            look.start()
        self._admin_nodes.look()
        if self._image is not None:
            self._power_cuts.consider([tp for tp, _ in self._image.cluster.partitions()])
        return True


def was_done(operations: list[Operation], nodes: Mapping[str, StoredNode]) -> bool:
    """Whether a multi with an unknown outcome was carried out, by what a later read shows.

    All or nothing was; the first operation that leaves a trace tells.
    """
    made_again = {operation.path for operation in operations if isinstance(operation, Create)}
    for operation in operations:
        node = nodes.get(operation.path)
        match operation:
            case Create() | SetData():
                return node is not None and node.data == operation.data
            case Delete() if operation.path not in made_again:
                return node is None
            case _:
                continue
    return False


def _epochs(brokers: Mapping[int, BrokerRecord]) -> dict[int, int]:
    return {broker: record.broker_epoch for broker, record in brokers.items()}


def _run(answers: list[Callable[[], None]]) -> None:
    for answer in answers:
        answer()


def _ignore(error: ErrorCode) -> None:
    """What failed is tried again by who looks again."""


def _nothing() -> None:
    """The answer of an intent that nobody waits for."""
