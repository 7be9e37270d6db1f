"""The committed image on its way from the controller to every registered broker.

One UpdateCluster is on its way to a broker at a time. What changes meanwhile adds up and leaves as
one delta; its contents are read from the image when it is sent. Who did not answer is sent the same
again, with what came since. A broker that has just registered, or that refused a delta, since it
knew it already or lacks what was before, gets the full image.

Who is up to date is asked again from time to time, so that it is known who answers
(`node.fencing`).

A broker that is taken for dead gets one image more, in case that it lives and is cut off from the
coordinator alone: it leads nothing any more, and must tell the clients that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from replog.core.controller.state import Delta
from replog.model.cluster import BrokerRecord, ClusterState
from replog.model.errors import ErrorCode
from replog.model.inputs import PeerFailed, PeerReplied
from replog.model.messages.update_cluster import UpdateClusterResponse
from replog.model.outputs import Level
from replog.node.cluster_image import delta_image, full_image
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node

# An answer takes milliseconds, and more where much has changed: a broker on a busy machine that
# has to do with so many partitions. Who is silent for longer is stopped or cut off.
TIMEOUT_MS = 2_000
WORK_MS_PER_PARTITION = 3
# The first retry comes soon, since a broker that has just registered may not be listening yet.
BACKOFF_FIRST_MS = 20
BACKOFF_MAX_MS = 1_000

# How often a broker that was taken for dead is told so. Its process may be busy, or cut off.
FAREWELLS = 5

NOTHING_ACKNOWLEDGED = -1


class _Receiver:
    """One registration that is kept up to date."""

    __slots__ = (
        "acknowledged",
        "broker",
        "delta",
        "failures",
        "heard_ms",
        "in_flight",
        "retry",
        "sent",
    )

    def __init__(self, broker: BrokerRecord, now_ms: float) -> None:
        self.broker = broker
        self.heard_ms = now_ms  # when it last answered
        self.acknowledged = NOTHING_ACKNOWLEDGED  # version; what a full image is needed for
        self.delta = Delta()  # since `acknowledged`, or since what is in flight
        self.sent = Delta()  # what is in flight
        self.in_flight = False
        self.failures = 0  # in a row
        self.retry: Timer | None = None


class _Wait:
    """Something to do once brokers know of a version."""

    __slots__ = ("action", "brokers", "timer", "version")

    def __init__(self, version: int, brokers: set[int], action: Callable[[], None]) -> None:
        self.version = version
        self.brokers = brokers
        self.action = action
        self.timer: Timer | None = None


class Pushes:
    """All receivers of one controllership."""

    def __init__(self, node: Node, cluster: ClusterState) -> None:
        self._node = node
        self._cluster = cluster
        self._receivers: dict[int, _Receiver] = {}
        self._waits: list[_Wait] = []
        self.begun = False
        self._stopped = False

    def begin(self) -> None:
        """Send the full image to everybody, this broker included."""
        self.begun = True
        known = dict(self._node.cluster.brokers)  # as the controller before has told
        self._node.membership.apply_image(full_image(self._cluster, self._node.broker_epoch))
        self._follow(self._cluster.brokers)
        for broker_id in known.keys() - self._cluster.brokers.keys():
            self._bid_farewell(known[broker_id])

    def committed(self, delta: Delta) -> None:
        """The image has changed by `delta`: apply it here, and send it to the others."""
        node = self._node
        message = delta_image(
            self._cluster,
            delta,
            broker_epoch=node.broker_epoch,
            base_version=self._cluster.version - 1,
        )
        if not node.membership.apply_image(message):
            # What this broker knew was not the version before: begin anew.
            node.membership.apply_image(full_image(self._cluster, node.broker_epoch))
        for receiver in self._receivers.values():
            receiver.delta.merge(delta)
        self._follow(self._cluster.brokers)

    def when(
        self,
        version: int,
        brokers: Collection[int],
        deadline_ms: float,
        action: Callable[[], None],
    ) -> None:
        """Run `action` once each of `brokers` knows `version` or is gone, or time is up."""
        wait = _Wait(version, set(brokers), action)

        def expired() -> None:
            if wait in self._waits:
                self._waits.remove(wait)
                action()

        wait.timer = self._node.timers.call_at(deadline_ms, expired)
        self._waits.append(wait)
        self._wake()

    def work_ms(self) -> int:
        """How long a broker may be busy with an image before it can answer."""
        partitions = sum(len(topic.partitions) for topic in self._cluster.topics.values())
        return WORK_MS_PER_PARTITION * partitions

    # ---- who answers ---------------------------------------------------------------------------

    def ask(self) -> None:
        """Send everybody something, if only what it knows already."""
        for receiver in list(self._receivers.values()):
            self._send(receiver, again=True)

    def heard_ms(self) -> dict[int, float]:
        """When each broker last answered; at first, when it was first sent to."""
        return {broker: receiver.heard_ms for broker, receiver in self._receivers.items()}

    def all_heard(self) -> None:
        """Let everybody's time begin to run anew."""
        for receiver in self._receivers.values():
            receiver.heard_ms = self._node.now_ms

    def in_touch(self) -> list[int]:
        """Brokers that know the image of this controllership, or did lately."""
        return [
            broker
            for broker, receiver in self._receivers.items()
            if receiver.acknowledged != NOTHING_ACKNOWLEDGED and not receiver.failures
        ]

    # ---- sending -------------------------------------------------------------------------------

    def stop(self) -> None:
        """The controllership is over. Whoever waits is let go: what it waits for is committed."""
        self._stopped = True
        self._receivers.clear()
        self._wake()

    def _follow(self, brokers: Mapping[int, BrokerRecord]) -> None:
        """Send to exactly these, under their registrations."""
        if self._stopped:
            return
        for broker_id, receiver in list(self._receivers.items()):
            now = brokers.get(broker_id)
            if now is None or now.broker_epoch != receiver.broker.broker_epoch:
                del self._receivers[broker_id]
            if now is None:
                self._bid_farewell(receiver.broker)
        for broker_id, broker in brokers.items():
            if broker_id != self._node.broker_id and broker_id not in self._receivers:
                self._receivers[broker_id] = _Receiver(broker, self._node.now_ms)
        for receiver in list(self._receivers.values()):
            self._send(receiver)
        self._wake()

    def _send(self, receiver: _Receiver, *, again: bool = False) -> None:
        """Send what the receiver lacks, unless it is up to date (`again`: then, too) or an answer
        is awaited."""
        version = self._cluster.version
        if receiver.in_flight or receiver.retry is not None:
            return
        if receiver.acknowledged == version and not again:
            return
        broker = receiver.broker
        full = receiver.acknowledged == NOTHING_ACKNOWLEDGED
        if full:
            message = full_image(self._cluster, broker.broker_epoch)
        else:
            message = delta_image(
                self._cluster,
                receiver.delta,
                broker_epoch=broker.broker_epoch,
                base_version=receiver.acknowledged,
            )
        receiver.sent, receiver.delta = receiver.delta, Delta()
        receiver.in_flight = True

        def answered(answer: PeerReplied | PeerFailed) -> None:
            if self._receivers.get(broker.broker_id) is receiver:
                receiver.in_flight = False
                self._on_answer(receiver, version, answer)

        timeout_ms = min(
            TIMEOUT_MS + self.work_ms(), self._node.config.controller_socket_timeout_ms
        )
        self._node.send(broker, message, answered, timeout_ms=timeout_ms)

    def _bid_farewell(self, broker: BrokerRecord, attempts: int = FAREWELLS) -> None:
        """A dead broker refuses the connection; one that does not answer may do so later."""

        def again() -> None:
            if not self._stopped and broker.broker_id not in self._cluster.brokers:
                self._bid_farewell(broker, attempts - 1)

        def answered(answer: PeerReplied | PeerFailed) -> None:
            if isinstance(answer, PeerFailed) and attempts > 1:
                self._node.timers.call_at(self._node.now_ms + BACKOFF_MAX_MS, again)

        message = full_image(self._cluster, broker.broker_epoch)
        self._node.send(broker, message, answered, timeout_ms=TIMEOUT_MS)

    def _on_answer(
        self, receiver: _Receiver, version: int, answer: PeerReplied | PeerFailed
    ) -> None:
        error = ErrorCode.NETWORK_EXCEPTION
        if isinstance(answer, PeerReplied):
            receiver.heard_ms = self._node.now_ms
        if isinstance(answer, PeerReplied) and isinstance(answer.message, UpdateClusterResponse):
            error = ErrorCode(answer.message.error_code)
        if error is ErrorCode.NONE:
            receiver.acknowledged = version
            receiver.failures = 0
            self._wake()
            self._send(receiver)
            return
        receiver.failures += 1
        if error is ErrorCode.NETWORK_EXCEPTION:  # it may have come all the same
            receiver.sent.merge(receiver.delta)
            receiver.delta = receiver.sent
        else:
            receiver.acknowledged = NOTHING_ACKNOWLEDGED
        if error in (ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH):
            # Somebody else is controller, or the broker registered anew: the coordinator knows.
            self._node.membership.refresh()
        elif error is not ErrorCode.NETWORK_EXCEPTION and receiver.failures > 1:
            self._node.report(
                Level.WARNING, f"broker {receiver.broker.broker_id} refused an image: {error.name}"
            )
        self._retry_later(receiver)

    def _retry_later(self, receiver: _Receiver) -> None:
        delay = min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS << min(receiver.failures - 1, 16))

        def due() -> None:
            receiver.retry = None
            if self._receivers.get(receiver.broker.broker_id) is receiver:
                self._send(receiver)

        receiver.retry = self._node.timers.call_at(self._node.now_ms + delay, due)

    def _wake(self) -> None:
        """Let go whoever waits for nothing any more."""
        for wait in self._waits:
            wait.brokers = {b for b in wait.brokers if self._is_behind(b, wait.version)}
        ready = [wait for wait in self._waits if not wait.brokers]
        self._waits = [wait for wait in self._waits if wait.brokers]
        for wait in ready:  # they may wait anew
            if wait.timer is not None:
                wait.timer.cancel()
            wait.action()

    def _is_behind(self, broker: int, version: int) -> bool:
        receiver = self._receivers.get(broker)
        return receiver is not None and receiver.acknowledged < version
