"""This broker's place in the cluster: its registration, who is controller, and the cluster's image.

Legal states of the registration:

    none -> registering -> registered -> none (the session ended, or somebody removed the node)

A registration belongs to one coordinator session, and its broker epoch is the number of the write
that made it. What is known of the cluster outlives a registration, and is obeyed by followers; but
who has lost the one under which it was told that it leads leads nothing until it is told so under
the next (`node.lease`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from replog.core.controller import stored
from replog.core.controller.loading import load_registrations
from replog.model.cluster import BrokerRecord
from replog.model.coordination import (
    ADMIN,
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    Create,
    Delete,
    Operation,
    SetData,
    StoredNode,
    WriteDone,
    WriteError,
    WriteResult,
)
from replog.model.errors import ErrorCode
from replog.model.ids import NO_EPOCH, TopicPartition
from replog.model.inputs import CoordinatorRead, CoordinatorWritten, Received
from replog.model.messages.update_cluster import UpdateClusterRequest, UpdateClusterResponse
from replog.model.outputs import Level, Stopped
from replog.model.partition import PartitionRecord
from replog.node.cluster_image import NO_BASE, apply_image
from replog.node.departure import Departure
from replog.node.former_brokers import FormerBrokers
from replog.node.isr_proposals import IsrProposals
from replog.version import INTER_BROKER_VERSION

if TYPE_CHECKING:
    from replog.node.node import Node

# How long a failed read or write of the coordinator waits before it is tried again.
RETRY_MS = 100
# Hints may be lost: the coordinator is read again after this time anyway.
REFRESH_MS = 3_000
# A registration left behind by a dead process goes with its session. One that is still there after
# this many silence periods belongs to somebody who lives.
DUPLICATE_PATIENCE = 3


class Standing(Enum):
    """State of the registration."""

    NONE = "none"
    REGISTERING = "registering"
    REGISTERED = "registered"


class Membership:
    """Registration, controller race and image of one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.session: str | None = None
        self.standing = Standing.NONE
        self.image_received = False  # since the registration that holds now
        self._coordinator_away_since_ms: float | None = None
        self.departure = Departure(node)
        self.former_brokers = FormerBrokers()
        self._proposals = IsrProposals(node)
        self._incarnation = f"{node.rng.getrandbits(64):016x}"
        self._controller: BrokerRecord | None = None
        self._epoch_seen = NO_EPOCH  # highest controller epoch that this process knows of
        self._reading = False
        self._read_again = False
        self._register_until_ms = 0.0
        self._race_from_ms = 0.0  # who has just resigned stays out of the race until then
        self._refresh_timer_set = False
        self._retry_timer_set = False

    # ---- what others ask -----------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Registered, with an image that a controller sent to this registration."""
        return self.standing is Standing.REGISTERED and self.image_received

    @property
    def coordinator_away_ms(self) -> int:
        """How long the coordinator can't be used, and so elections wait; -1: it can."""
        since = self._coordinator_away_since_ms
        return -1 if since is None else int(self._node.now_ms - since)

    def controller(self) -> BrokerRecord | None:
        """The broker that is controller as far as is known, or None."""
        return self._controller

    def alter_partition(
        self,
        tp: TopicPartition,
        proposed_isr: Sequence[tuple[int, int]],
        leader_epoch: int,
        partition_epoch: int,
        on_answer: Callable[[ErrorCode, PartitionRecord | None], None],
    ) -> None:
        """Propose an ISR to the controller, as (broker id, broker epoch) in order of admission.

        `on_answer` runs exactly once, in this step or a later one: NONE with the committed record,
        the controller's refusal, or NETWORK_EXCEPTION when the outcome is not known.
        """
        self._proposals.propose(tp, proposed_isr, leader_epoch, partition_epoch, on_answer)

    # ---- sessions and registration -------------------------------------------------------

    def on_session_started(self, session: str, patience_ms: float) -> None:
        """Register under the new session; what a dead process has left is gone in `patience_ms`."""
        if self.session is not None:
            self.on_session_ended("replaced by a new one")
        self.session = session
        self._reading = self._read_again = False  # what was asked under the old session is dropped
        if self.departure.wanted:
            return
        patience = DUPLICATE_PATIENCE * self._node.config.replog_session_silence_ms
        self._register_until_ms = self._node.now_ms + max(patience, patience_ms)
        self._register()
        self._start_refreshing()

    def on_session_ended(self, reason: str) -> None:
        """Nothing that hangs on the session holds any more."""
        node = self._node
        self.session = None
        self._controller = None
        node.controlling.resign(f"session ended: {reason}")
        self.departure.on_session_ended()
        if self.standing is not Standing.NONE:
            node.report(Level.WARNING, f"coordinator session ended: {reason}")
        self._unregistered()

    def _unregistered(self) -> None:
        self.standing = Standing.NONE
        self.image_received = False
        self._node.broker_epoch = NO_EPOCH
        self._node.lease.lost()

    def _register(self) -> None:
        """Create the own node; the session must hold."""
        self.standing = Standing.REGISTERING
        path = stored.broker_path(self._node.broker_id)
        self._write((Create(path, self._registration(), ephemeral=True),), self._on_registered)

    def _registration(self) -> bytes:
        node = self._node
        setup = node.setup
        return stored.encode_registration(
            stored.Registration(
                broker_id=node.broker_id,
                endpoints=setup.endpoints,
                rack=node.config.rack,
                boot_id=setup.boot_id,
                folder_id=setup.folder_id,
                stopped_epoch=node.partitions.logs.stopped_epoch,
                clean_start=setup.clean_start,
                incarnation=self._incarnation,
                timestamp_ms=node.wall_ms,
                inter_broker_version=INTER_BROKER_VERSION,
            )
        )

    def _on_registered(self, result: WriteResult) -> None:
        if self.standing is not Standing.REGISTERING or self.departure.wanted:
            return
        if isinstance(result, WriteDone):
            self._registered(result.zxid)
        elif result.error is not WriteError.SESSION_EXPIRED:
            # The id is taken, or the reply was lost and the node may be ours.
            self._read((BROKER_IDS,), self._on_occupant)

    def _on_occupant(self, read: CoordinatorRead) -> None:
        """Who holds the own id, after a registration failed?"""
        node = self._node
        if self.standing is not Standing.REGISTERING or self.departure.wanted:
            return
        path = stored.broker_path(node.broker_id)
        occupant = None if read.nodes is None else read.nodes.get(path)
        if read.nodes is None:
            self._again(self._register)
        elif occupant is None:
            self._register()
        elif occupant.session == self.session:
            self._registered(occupant.created_at)
        elif self._is_own(occupant):
            self._write(
                (
                    Delete(path, occupant.version),
                    Create(path, self._registration(), ephemeral=True),
                ),
                self._on_registered,
            )
        elif node.now_ms < self._register_until_ms:
            self._again(self._register)
        else:
            self._unregistered()
            reason = f"broker id {node.broker_id} is already registered by a live broker"
            node.outputs.append(Stopped(reason, failed=True))

    def _is_own(self, occupant: StoredNode) -> bool:
        """Whether an earlier session of this very process left the node behind."""
        try:
            registration = stored.decode_registration(self._node.broker_id, occupant.data)
        except stored.BadNode:
            return False
        return registration.incarnation == self._incarnation

    def _registered(self, broker_epoch: int) -> None:
        node = self._node
        self.standing = Standing.REGISTERED
        node.broker_epoch = node.last_broker_epoch = broker_epoch
        node.report(Level.INFO, f"registered as broker {node.broker_id}, epoch {broker_epoch}")
        self.refresh()
        node.producer_ids.stock_up()

    # ---- who is controller -----------------------------------------------------------------

    def on_reach(self, reachable: bool) -> None:
        """The coordinator can be used, or not."""
        self._coordinator_away_since_ms = None if reachable else self._node.now_ms

    def on_changed(self, paths: frozenset[str]) -> None:
        """A hint: read again what decides about brokers and controller, and what it is asked."""
        if any(path.startswith(ADMIN) or path == "/" for path in paths):
            self._node.controlling.look_for_requests()
        if any(
            path in (CONTROLLER, CONTROLLER_EPOCH) or path.startswith(BROKER_IDS) for path in paths
        ):
            self.refresh()

    def refresh(self) -> None:
        """Read who is registered and who is controller; one read at a time."""
        if self.session is None:
            return
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        epoch = self._node.broker_epoch

        def done(read: CoordinatorRead) -> None:
            again = self._read_again
            self._reading = self._read_again = False
            if read.nodes is None:
                self._refresh_again()
            else:
                # A read that is older than the registration can't say that it is gone.
                if epoch != NO_EPOCH and epoch == self._node.broker_epoch:
                    self._check_registration(read.nodes)
                self._on_refreshed(read.nodes, read.token)
            if again:
                self.refresh()

        self._read((CONTROLLER, CONTROLLER_EPOCH, BROKER_IDS), done)

    def _start_refreshing(self) -> None:
        if not self._refresh_timer_set:
            self._refresh_timer_set = True
            self._node.timers.call_at(self._node.now_ms + REFRESH_MS, self._refresh_in_time)

    def _refresh_again(self) -> None:
        """The coordinator could not be asked: try again soon. One such try is due at a time."""
        if self._retry_timer_set:
            return
        self._retry_timer_set = True

        def due() -> None:
            self._retry_timer_set = False
            self.refresh()

        self._node.timers.call_at(self._node.now_ms + RETRY_MS, due)

    def _refresh_in_time(self) -> None:
        self._refresh_timer_set = False
        if self.session is not None:
            self.refresh()
            self._start_refreshing()

    def _check_registration(self, nodes: dict[str, StoredNode]) -> None:
        """Register anew when somebody took the own node away."""
        node = self._node
        own = nodes.get(stored.broker_path(node.broker_id))
        taken = own is None or own.created_at != node.broker_epoch
        if taken and not self.departure.leaving:
            node.report(Level.WARNING, "the registration is gone from the coordinator")
            self._unregistered()
            self._register()

    def _on_refreshed(self, nodes: dict[str, StoredNode], token: int) -> None:
        node = self._node
        epoch_node = nodes.get(CONTROLLER_EPOCH)
        epoch = self._stored_epoch(epoch_node)
        self._epoch_seen = max(self._epoch_seen, epoch)
        holder = nodes.get(CONTROLLER)
        if holder is None:
            self._controller = None
            node.controlling.resign("the controller node is gone")
            self._race(epoch_node, epoch)
            return
        registered, _ = load_registrations(nodes)
        if holder.session == self.session:
            self._controller = registered.get(node.broker_id)
            if not node.controlling.engaged:
                self._take_over_again(epoch_node, epoch)
        else:
            node.controlling.resign("another broker is controller")
            try:
                self._controller = registered.get(stored.decode_controller(holder.data))
            except stored.BadNode:
                self._controller = None
        node.controlling.on_registrations(registered, token)
        self._proposals.on_controller()

    def _stored_epoch(self, epoch_node: StoredNode | None) -> int:
        """The number in the epoch's node; one that can't be read counts as the highest known."""
        if epoch_node is None:
            return 0
        try:
            return stored.decode_controller_epoch(epoch_node.data)
        except stored.BadNode:
            return max(self._epoch_seen, 0)

    def _race(self, epoch_node: StoredNode | None, epoch: int) -> None:
        """Claim the controllership: the node and the next epoch in one multi, or nothing."""
        node = self._node
        if self.standing is not Standing.REGISTERED or self.departure.wanted:
            return
        if node.now_ms < self._race_from_ms:
            return
        # Epochs never fall, even if the coordinator lost the newest: it was told of them by nobody
        # else.
        claimed = max(epoch, self._epoch_seen, node.cluster.controller_epoch) + 1
        claim = Create(
            CONTROLLER, stored.encode_controller(node.broker_id, node.wall_ms), ephemeral=True
        )
        self._claim((claim, self._raise_epoch(epoch_node, claimed)), epoch_node, claimed)

    def give_up_controllership(self, reason: str, pause_ms: float) -> None:
        """Let others race for it; this broker takes part again after `pause_ms`."""
        node = self._node
        fence = node.controlling.fence()
        if fence is None:
            return
        self._race_from_ms = node.now_ms + pause_ms
        node.timers.call_at(self._race_from_ms, self.refresh)
        node.controlling.resign(reason)
        self._write((fence, Delete(CONTROLLER)), lambda _: self.refresh())

    def _take_over_again(self, epoch_node: StoredNode | None, epoch: int) -> None:
        """The controller's node is ours, but the reply that said so was lost, or that of a write.

        Raising the epoch once more also fences a write of ours that may still be on its way.
        """
        if self.departure.wanted:
            self._node.controlling.resign("this broker stops")
            return
        if self._node.now_ms < self._race_from_ms:
            return  # what was to remove the node is on its way, or has failed
        claimed = max(epoch, self._epoch_seen, self._node.cluster.controller_epoch) + 1
        self._claim((self._raise_epoch(epoch_node, claimed),), epoch_node, claimed)

    def _raise_epoch(self, epoch_node: StoredNode | None, claimed: int) -> Operation:
        data = str(claimed).encode()
        if epoch_node is None:
            return Create(CONTROLLER_EPOCH, data)
        return SetData(CONTROLLER_EPOCH, data, epoch_node.version)

    def _claim(
        self, operations: tuple[Operation, ...], epoch_node: StoredNode | None, claimed: int
    ) -> None:
        epoch_version = 0 if epoch_node is None else epoch_node.version + 1
        # Until the outcome is known no second claim is made: reads wait behind it.
        self._reading = True

        def done(result: WriteResult) -> None:
            self._reading = self._read_again = False
            if isinstance(result, WriteDone):
                self._epoch_seen = max(self._epoch_seen, claimed)
                self._node.controlling.start(claimed, epoch_version)
                self.refresh()
            elif result.error is WriteError.UNKNOWN:
                self._refresh_again()
            elif result.error is not WriteError.SESSION_EXPIRED:
                self.refresh()

        self._write(operations, done)

    # ---- the image -------------------------------------------------------------------------

    def update_cluster(
        self, request: Received, message: UpdateClusterRequest
    ) -> UpdateClusterResponse:
        """An image from a controller: taken when it is newer than ours, and meant for us."""
        node = self._node
        known = node.cluster
        error = ErrorCode.NONE
        sender = None if request.peer is None else request.peer.broker_id
        if sender != message.controller_id:
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        elif message.broker_epoch != node.broker_epoch or node.broker_epoch == NO_EPOCH:
            error = ErrorCode.STALE_BROKER_EPOCH
        elif message.controller_epoch < max(self._epoch_seen, known.controller_epoch):
            error = ErrorCode.STALE_CONTROLLER_EPOCH
        elif not self._is_old(message):
            if message.controller_id != node.broker_id:
                node.controlling.resign(f"broker {message.controller_id} is controller")
            if not self.apply_image(message):
                error = ErrorCode.INVALID_UPDATE_VERSION
        return UpdateClusterResponse(
            error_code=error,
            controller_epoch=max(self._epoch_seen, node.cluster.controller_epoch),
            version=node.cluster.version,
        )

    def _is_old(self, message: UpdateClusterRequest) -> bool:
        """Whether the image is known already: a message that was overtaken."""
        known = self._node.cluster
        if message.controller_epoch != known.controller_epoch:
            return False
        if message.base_version == NO_BASE:
            return message.version < known.version
        return message.version <= known.version

    def apply_image(self, message: UpdateClusterRequest) -> bool:
        """Take an image over; False when it is a delta that doesn't fit."""
        node = self._node
        brokers = node.cluster.brokers
        applied = apply_image(node.cluster, message)
        if applied is None:
            return False
        node.cluster = applied.cluster
        self.former_brokers.changed(brokers, node.cluster.brokers, node.now_ms)
        self._epoch_seen = max(self._epoch_seen, message.controller_epoch)
        self._controller = node.cluster.brokers.get(message.controller_id, self._controller)
        self.image_received = True
        node.lease.renewed()
        changed: Iterable[TopicPartition] = applied.changed
        if node.dynamic_config.apply():
            changed = [tp for tp, _ in node.cluster.partitions()]  # their topics fall back to it
        node.partitions.apply(changed, applied.deleted)
        if message.base_version == NO_BASE:
            node.partitions.logs.rename_strays(node.cluster.topics)
        node.early_requests.told()
        return True

    # ---- the way out -----------------------------------------------------------------------

    def on_stop_requested(self) -> None:
        """Leave in good order: see `Departure`."""
        self.departure.request()

    # ---- the coordinator ---------------------------------------------------------------------

    def _write(
        self, operations: tuple[Operation, ...], on_done: Callable[[WriteResult], None]
    ) -> None:
        """One multi under the session that holds now; an answer after its end is dropped."""
        session = self.session

        def done(written: CoordinatorWritten) -> None:
            if session == self.session:
                on_done(written.result)

        self._node.write_coordinator(operations, done)

    def _read(self, roots: tuple[str, ...], on_done: Callable[[CoordinatorRead], None]) -> None:
        session = self.session

        def done(read: CoordinatorRead) -> None:
            if session == self.session:
                on_done(read)

        self._node.read_coordinator(roots, done)

    def _again(self, action: Callable[[], None]) -> None:
        """Try again after a short while, if the session still holds then."""
        session = self.session

        def due() -> None:
            if session is not None and session == self.session:
                action()

        self._node.timers.call_at(self._node.now_ms + RETRY_MS, due)
