"""Brokers that the controller is out of touch with: their registrations end (KIP-631, KIP-841).

A broker can be cut off from its peers and go on reaching the coordinator, so that its session
holds. As a leader it would then stall every write with acks=all for as long as the cut lasts:
nobody copies from it, and the controller, whom it can't reach, can't take anybody out of its ISR.

So the controller asks every broker something at short intervals: an image that tells nothing new
(`node.pushes`). An answer shows that both hear each other. Who has not answered for
`FENCE_SILENCES` loses its registration, and with that its leaderships and its places in ISRs; it
finds out through the coordinator, leads nothing (`node.lease`) and registers anew. Until it answers
again it stays FENCED. One that only leads what nobody else can lead is left alone.

Suspicion is not proof. When more brokers are silent than may be fenced (never more than half of
all, the fenced ones among them) it is more likely the controller who is cut off: it resigns, and
stays out of the next race, so that one who hears the others can win it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from replog.core.controller import stored
from replog.core.controller.changes import better_without
from replog.model.cluster import BrokerState
from replog.model.coordination import Delete
from replog.model.inputs import CoordinatorWritten
from replog.model.outputs import Level
from replog.node.timers import Timer

if TYPE_CHECKING:
    from replog.node.node import Node
    from replog.node.pushes import Pushes

# In periods of `replog.session.silence.ms`: between two questions, until a controller that hears
# too few resigns, and until a broker that does not answer is fenced: after 9 s by default, as with
# Kafka's `broker.session.timeout.ms`. The last is longer, so that leaderships are not moved by one
# who is cut off itself. Loops are busy for longer where there are many partitions (`pushes`).
ASK_SILENCES: Final = 0.5
RESIGN_SILENCES: Final = 4.0
FENCE_SILENCES: Final = 6.0


class Fencing:
    """Who answers the controller, during one controllership."""

    def __init__(self, node: Node, pushes: Pushes) -> None:
        self._node = node
        self._pushes = pushes
        self._silence_ms = node.config.replog_session_silence_ms
        self._looked_ms = node.now_ms
        self._timer: Timer | None = None
        # Brokers whose registration was ended here, and who have not answered since.
        self.fenced: set[int] = set()

    def start(self) -> None:
        """Ask, and look who has answered, from now on."""
        self._looked_ms = self._node.now_ms
        self._set_timer()

    def stop(self) -> None:
        """The controllership is over."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        at_ms = self._node.now_ms + ASK_SILENCES * self._silence_ms
        self._timer = self._node.timers.call_at(at_ms, self._look)

    def _look(self) -> None:
        self._set_timer()
        now_ms = self._node.now_ms
        if now_ms - self._looked_ms > self._silence_ms:
            self._pushes.all_heard()  # it was us who heard nobody
        self._looked_ms = now_ms
        silent_ms = {b: now_ms - heard for b, heard in self._pushes.heard_ms().items()}
        self._unfence()
        work_ms = self._pushes.work_ms()
        if too_many(silent_ms, self.fenced, RESIGN_SILENCES * self._silence_ms + work_ms):
            self._node.membership.give_up_controllership(
                "more brokers do not answer than can be cut off", FENCE_SILENCES * self._silence_ms
            )
            return
        self._pushes.ask()
        for broker, silent in silent_ms.items():
            limit_ms = FENCE_SILENCES * self._silence_ms + work_ms
            if silent >= limit_ms and self._may_be_fenced(broker):
                self._fence(broker, silent)

    def _may_be_fenced(self, broker: int) -> bool:
        cluster = self._node.cluster
        known = cluster.brokers.get(broker)
        if known is None or known.state is BrokerState.FENCED:
            return False
        records = (record for _, record in cluster.partitions())
        return better_without(records, broker, cluster.alive())

    def _fence(self, broker: int, silent_ms: float) -> None:
        """End the registration: what follows from that follows as if the broker had died."""
        node = self._node
        fence = node.controlling.fence()
        if fence is None:
            return
        node.report(
            Level.WARNING, f"broker {broker} is fenced: it has not answered for {silent_ms:.0f} ms"
        )
        self.fenced.add(broker)
        gone = Delete(stored.broker_path(broker))
        node.write_coordinator((fence, gone), self._written)

    def _written(self, written: CoordinatorWritten) -> None:
        """What is stored now says what has happened; a later look fences who is still there."""
        self._node.membership.refresh()

    def _unfence(self) -> None:
        """Who knows the image, and has said so, takes part again."""
        for broker in (self._node.broker_id, *self._pushes.in_touch()):
            self.fenced.discard(broker)
            record = self._node.cluster.brokers.get(broker)
            if record is not None and record.state is BrokerState.FENCED:
                self._node.controlling.unfence(broker, record.broker_epoch)


def too_many(silent_ms: Mapping[int, float], fenced: set[int], limit_ms: float) -> bool:
    """Whether more than half of all are silent. `silent_ms`: since when each of the others is,
    `fenced`: brokers that are, registered or not."""
    silent = {broker for broker, ms in silent_ms.items() if ms >= limit_ms} | fenced
    everybody = silent_ms.keys() | fenced
    return 2 * len(silent) > len(everybody) + 1
