"""What a leader knows about one follower, all of it taken from the follower's fetches.

Membership in the ISR is a matter of time, not of distance: a follower is in sync while it has held
everything that the leader had, at some moment of the last `replica.lag.time.max.ms`.
"""

from typing import NamedTuple

from replog.model.ids import NO_EPOCH, NO_OFFSET

NEVER = float("-inf")


class Progress(NamedTuple):
    """One follower in the current leader epoch. A tuple, as one is made for each fetch."""

    log_end_offset: int = NO_OFFSET  # -1: it has not fetched in this leader epoch
    caught_up_ms: float = NEVER  # last moment at which it had all that the leader had then
    last_fetch_ms: float = NEVER
    leader_end_at_last_fetch: int = NO_OFFSET
    broker_epoch: int = NO_EPOCH  # of the registration that fetched

    def after_fetch(
        self, *, offset: int, leader_end: int, broker_epoch: int, now_ms: float
    ) -> "Progress":
        """The follower asked for `offset`: it holds everything below, and said so at `now_ms`.

        When it reaches only what the leader had at the previous fetch, it was caught up at that
        fetch: it took one round trip to copy what was there.
        """
        if offset >= leader_end:
            caught_up = now_ms
        elif offset >= self.leader_end_at_last_fetch >= 0:
            caught_up = max(self.caught_up_ms, self.last_fetch_ms)
        else:
            caught_up = self.caught_up_ms
        return Progress(offset, caught_up, now_ms, leader_end, broker_epoch)

    def until(self, now_ms: float) -> "Progress":
        """It was caught up until now."""
        return Progress(
            self.log_end_offset,
            now_ms,
            self.last_fetch_ms,
            self.leader_end_at_last_fetch,
            self.broker_epoch,
        )

    def lags(self, *, leader_end: int, now_ms: float, lag_ms_max: int) -> bool:
        """Whether it has not been caught up for more than `lag_ms_max` milliseconds."""
        return self.log_end_offset < leader_end and now_ms - self.caught_up_ms > lag_ms_max
