"""The leader of one partition in one leader epoch: who is in sync, and what is committed.

The object lives for one epoch: a new epoch makes a new one, so nothing that followers said under an
earlier epoch can count. It holds numbers only; the log, the clock and the controller are elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from replog.core.replica.isr import Committed, IsrState, Pending, PendingExpand, PendingShrink
from replog.core.replica.progress import Progress
from replog.model.partition import PartitionRecord


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """What the topic and the broker configure."""

    min_isr: int  # `min.insync.replicas`, not more than the replication factor
    lag_ms_max: int  # `replica.lag.time.max.ms`
    durable: bool = False  # only what is on stable storage counts as held, here and on followers


class LeaderState:
    """One leadership. `eligible` maps brokers that may be in an ISR to their broker epochs."""

    __slots__ = (
        "broker_id",
        "eligible",
        "elr",
        "epoch",
        "epoch_start",
        "failed",
        "high_watermark",
        "isr_state",
        "log_end",
        "log_starts",
        "progress",
        "replicas",
        "settings",
        "synced_end",
    )

    def __init__(
        self,
        record: PartitionRecord,
        *,
        log_end: int,
        synced_end: int,
        high_watermark: int,
        settings: LeaderSettings,
        eligible: Mapping[int, int],
        now_ms: float,
    ) -> None:
        self.broker_id = record.leader
        self.epoch = record.leader_epoch
        self.epoch_start = log_end  # the first offset that this leadership writes
        self.log_end = log_end
        self.synced_end = synced_end  # all below is on stable storage
        self.high_watermark = high_watermark
        self.settings = settings
        self.eligible = eligible
        self.replicas = record.replicas
        self.elr = record.elr
        self.failed = record.failed
        self.log_starts: dict[int, int] = {}  # of followers, as they said in this leader epoch
        self.isr_state: IsrState = Committed(record.isr, record.partition_epoch)
        # An ISR member that has not fetched yet gets the whole lag time to show up. Nobody else was
        # caught up: it may be far behind, and would hold the high watermark for all that time.
        self.progress = {
            broker: Progress(caught_up_ms=now_ms, last_fetch_ms=now_ms)
            if broker in record.isr
            else Progress()
            for broker in record.replicas
            if broker != record.leader
        }

    # ---- facts in ---------------------------------------------------------------------

    def on_append(self, log_end: int, now_ms: float) -> bool:
        """The leader's own log grew. True when the high watermark moved.

        A follower that had everything until now was caught up until now: fetches of an idle
        session do not name each partition, so this is where its time begins to run.
        """
        before = self.log_end
        for progress in self.progress.values():
            if progress.log_end_offset >= before:
                progress.caught_up_ms = now_ms
        self.log_end = log_end
        return self.advance(now_ms)

    def on_synced(self, synced_end: int, now_ms: float) -> bool:
        """The leader's own log is on stable storage below `synced_end`. True when the HW moved."""
        self.synced_end = max(self.synced_end, synced_end)
        return self.advance(now_ms)

    def on_follower_fetch(
        self, broker: int, *, offset: int, broker_epoch: int, now_ms: float
    ) -> bool:
        """An authenticated follower of this epoch holds all below `offset`. True when the HW moved.

        That is where it fetches from, or with durability `fsync` what it has on stable storage. The
        caller has fenced the request: same leader epoch, and `offset` lies within the log on the
        same history (no divergence).
        """
        known = self.progress.get(broker)
        if known is None:
            return False
        if broker_epoch == known.broker_epoch and offset < known.log_end_offset:
            # One life of a follower loses nothing in one leader epoch: this is an older request, of
            # a connection that was given up. Counted, it would stay the last word on an idle
            # partition, which a follower does not name again.
            return False
        known.fetched(
            offset=offset, leader_end=self.log_end, broker_epoch=broker_epoch, now_ms=now_ms
        )
        return self.advance(now_ms)

    def on_record(self, record: PartitionRecord, now_ms: float) -> bool:
        """The controller's record at the same leader epoch. True when the high watermark moved.

        A record that is not newer than what is committed here changes nothing.
        """
        if record.partition_epoch > self.isr_state.partition_epoch:
            self.isr_state = Committed(record.isr, record.partition_epoch)
            self.elr = record.elr
            self.failed = record.failed
            if record.replicas != self.replicas:
                self.replicas = record.replicas
                self.progress = {
                    broker: self.progress.get(broker, Progress())
                    for broker in record.replicas
                    if broker != self.broker_id
                }
        return self.advance(now_ms)

    # ---- high watermark ----------------------------------------------------------------

    def advance(self, now_ms: float) -> bool:
        """Move the high watermark to the smallest end of the maximal ISR; it never falls.

        It stands still while the committed ISR is smaller than min ISR (KIP-966), and, should this
        broker and the controller not agree on min ISR, while somebody else counts as eligible to
        lead: they would lack what is committed meanwhile. A follower that
        is about to join also holds it: otherwise, under load, the watermark would run away from it
        just before each fetch, and it would never be admitted.
        """
        if len(self.isr_state.isr) < self.settings.min_isr or self.elr:
            return False
        lowest = self.synced_end if self.settings.durable else self.log_end
        for broker, progress in self.progress.items():
            if progress.log_end_offset >= lowest:
                continue
            if broker in self.isr_state.maximal or self._about_to_join(broker, progress, now_ms):
                lowest = progress.log_end_offset
                if lowest <= self.high_watermark:
                    return False
        if lowest <= self.high_watermark:
            return False
        self.high_watermark = lowest
        return True

    def _about_to_join(self, broker: int, progress: Progress, now_ms: float) -> bool:
        return (
            progress.log_end_offset >= self.high_watermark
            and self._fetched_as_registered(broker, progress)
            and now_ms - progress.caught_up_ms <= self.settings.lag_ms_max
        )

    @property
    def offset_available(self) -> bool:
        """False until everything of earlier epochs is known to be committed (KIP-207)."""
        return self.high_watermark >= self.epoch_start

    @property
    def enough_in_sync(self) -> bool:
        """Whether a write with acks=all may be taken."""
        return len(self.isr_state.isr) >= self.settings.min_isr

    # ---- ISR ---------------------------------------------------------------------------

    def _fetched_as_registered(self, broker: int, progress: Progress) -> bool:
        return (
            progress.broker_epoch >= 0
            and self.eligible.get(broker) == progress.broker_epoch
            and broker not in self.failed  # it fetched, and will not again
        )

    def may_join(self, broker: int) -> bool:
        """Admission: alive, the registered life of the broker, and its log reaches both the high
        watermark and the start of this epoch (KIP-320, KIP-903)."""
        progress = self.progress.get(broker)
        return (
            progress is not None
            and broker not in self.isr_state.maximal
            and progress.log_end_offset >= max(self.high_watermark, self.epoch_start)
            and self._fetched_as_registered(broker, progress)
        )

    def propose_expand(self, broker: int) -> PendingExpand | None:
        """Propose `broker` as a member; None when it may not join or a change is in flight."""
        state = self.isr_state
        if not isinstance(state, Committed) or not self.may_join(broker):
            return None
        self.isr_state = PendingExpand(state, (broker,))
        return self.isr_state

    def propose_shrink(self, now_ms: float) -> PendingShrink | None:
        """Propose to remove the members that lag; None when none does or a change is in flight."""
        state = self.isr_state
        if not isinstance(state, Committed):
            return None
        lag_ms_max = self.settings.lag_ms_max
        lagging = tuple(
            broker
            for broker in state.isr
            if broker != self.broker_id
            and (progress := self.progress.get(broker)) is not None
            and progress.lags(leader_end=self.log_end, now_ms=now_ms, lag_ms_max=lag_ms_max)
        )
        if not lagging:
            return None
        self.isr_state = PendingShrink(state, lagging)
        return self.isr_state

    def on_proposal_refused(self, proposal: Pending, now_ms: float) -> bool:
        """The controller said no for certain: back to what is committed, if still at that.

        True when the high watermark moved: whoever was to join holds it no more.
        """
        if self.isr_state is not proposal:
            return False
        self.isr_state = proposal.committed
        return self.advance(now_ms)

    def broker_epochs(self, members: tuple[int, ...], own_epoch: int) -> tuple[int, ...]:
        """The broker epoch of each member as it is known from its fetches, -1 where it is not."""
        return tuple(
            own_epoch
            if broker == self.broker_id
            else self.progress.get(broker, Progress()).broker_epoch
            for broker in members
        )
