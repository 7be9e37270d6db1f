"""What a leader knows about one follower, all of it taken from the follower's fetches.

Membership in the ISR is a matter of time, not of distance: a follower is in sync while it has held
everything that the leader had, at some moment of the last `replica.lag.time.max.ms`.
"""

from dataclasses import dataclass

from replog.model.ids import NO_EPOCH, NO_OFFSET

NEVER = float("-inf")


@dataclass(slots=True)
class Progress:
    """One follower in the current leader epoch. It is brought up to date with each fetch."""

    log_end_offset: int = NO_OFFSET  # -1: it has not fetched in this leader epoch
    caught_up_ms: float = NEVER  # last moment at which it had all that the leader had then
    last_fetch_ms: float = NEVER
    leader_end_at_last_fetch: int = NO_OFFSET
    broker_epoch: int = NO_EPOCH  # of the registration that fetched

    def fetched(self, *, offset: int, leader_end: int, broker_epoch: int, now_ms: float) -> None:
        """The follower asked for `offset`: it holds everything below, and said so at `now_ms`.

        When it reaches only what the leader had at the previous fetch, it was caught up at that
        fetch: it took one round trip to copy what was there.
        """
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_at_last_fetch >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = offset
        self.last_fetch_ms = now_ms
        self.leader_end_at_last_fetch = leader_end
        self.broker_epoch = broker_epoch

    def lags(self, *, leader_end: int, now_ms: float, lag_ms_max: int) -> bool:
        """Whether it has not been caught up for more than `lag_ms_max` milliseconds."""
        return self.log_end_offset < leader_end and now_ms - self.caught_up_ms > lag_ms_max
