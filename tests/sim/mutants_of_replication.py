"""Rules of replication, each broken by a patch: high watermark, ISR, truncation, fences."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.sim.patches import Patch

from replog.core.controller import changes, election
from replog.core.producer.state import ProducerTable
from replog.core.replica.isr import PendingExpand, PendingShrink
from replog.core.replica.leader import LeaderState
from replog.core.replica.progress import Progress
from replog.log.partition_log import PartitionLog
from replog.model.errors import ErrorCode
from replog.model.messages.fetch import PartitionData
from replog.model.partition import PartitionRecord
from replog.node.fetchers import Fetcher, Followed
from replog.node.handlers import fetch
from replog.node.handlers.fetch import _Fetch
from replog.node.handlers.produce import _Produce
from replog.node.isr_changes import IsrChanges
from replog.node.lease import Lease
from replog.node.led_log import LedLog
from replog.node.partition import Partition
from replog.node.partitions import Partitions
from replog.node.waits import Waits


def _watermark_is_the_leaders_end(self: LeaderState, now_ms: float) -> bool:
    moved = self.log_end > self.high_watermark
    self.high_watermark = self.log_end
    return moved


def _elect_anyone(record: Any, eligible: Any, *, unclean: bool) -> election.Election:
    for broker in record.replicas:
        if broker in eligible:
            return election.Election(broker, (broker,))
    return election.Election(-1, record.isr)


def _truncate_nothing(self: PartitionLog, offset: int) -> None:
    return None


def _join_without_epoch_start(self: LeaderState, broker: int) -> bool:
    progress = self.progress.get(broker)
    return (
        progress is not None
        and broker not in self.isr_state.maximal
        and progress.log_end_offset >= self.high_watermark
        and self._fetched_as_registered(broker, progress)
    )


def _join_at_once(self: LeaderState, broker: int) -> bool:
    progress = self.progress.get(broker)
    return (
        progress is not None
        and broker not in self.isr_state.maximal
        and self._fetched_as_registered(broker, progress)
    )


def _no_duplicates(self: ProducerTable, *batch: int) -> None:
    return None


def _any_epoch(self: Partition, current_leader_epoch: int) -> ErrorCode:
    return ErrorCode.NONE


def _progress_of_any_epoch(self: Any, partition: Partition, item: Any) -> None:
    follower = self.context.follower
    if item.fresh and follower is not None and partition.leader is not None:
        self.node.partitions.follower_fetched(partition, follower, item.fetch_offset)
    item.fresh = False


def _no_divergence(partition: Partition, item: Any) -> None:
    return None


def _commit_below_min_isr(original: Callable[..., bool]) -> Callable[..., bool]:
    def advance(self: LeaderState, now_ms: float) -> bool:
        self.settings = replace(self.settings, min_isr=1)
        self.elr = ()
        return original(self, now_ms)

    return advance


def _accept_any_proposal(*arguments: Any, **named: Any) -> None:
    return None


def _wait_for_nobody(self: Any, partition: Partition, offset: int, answer: Any) -> None:
    return None


def _read_to_the_end(self: Any, partition: Partition) -> int:
    return partition.log_end_offset


def _watermark_on_election(original: Callable[..., None]) -> Callable[..., None]:
    def begin(self: LeaderState, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.high_watermark = self.log_end

    return begin


def _promise_what_was_asked_for(original: Callable[..., Any]) -> Callable[..., Any]:
    """A follower's progress is what it will have, not what it has."""

    def fetched(self: Progress, *, leader_end: int, **named: Any) -> None:
        original(self, leader_end=leader_end, **named)
        self.log_end_offset = leader_end

    return fetched


def _diverged_to_watermark(self: Fetcher, partition: Partition, *leaders: Any) -> None:
    self._node.partitions.truncate(partition, partition.high_watermark)


def _follow_from_watermark(original: Callable[..., None]) -> Callable[..., None]:
    """Whoever follows a new leader first cuts its log at its own high watermark."""

    def follow(self: Partitions, partition: Partition, record: PartitionRecord) -> None:
        anew = record.leader_epoch > partition.record.leader_epoch
        original(self, partition, record)
        if anew and partition.high_watermark < partition.log_end_offset:
            self.truncate(partition, partition.high_watermark)

    return follow


def _watermark_before_the_cut(original: Callable[..., None]) -> Callable[..., None]:
    """The high watermark of a diverging answer is taken, and the log is cut a little later."""

    def take(self: Fetcher, followed: Followed, data: PartitionData) -> None:
        diverging = data.diverging_epoch
        partition = followed.partition
        told = followed.told
        current = told is not None and told[0] == partition.log_end_offset
        if diverging is None or diverging.epoch < 0 or not current or data.error_code:
            original(self, followed, data)
            return
        partition.follow_high_watermark(data.high_watermark)
        self._node.timers.call_at(self._node.now_ms + 5, lambda: original(self, followed, data))

    return take


def _watermark_of_the_leader(self: Partition, leaders: int) -> bool:
    moved = leaders > self._follower_high_watermark
    self._follower_high_watermark = max(leaders, self._follower_high_watermark)
    return moved


def _any_registration(self: LeaderState, broker: int, progress: Progress) -> bool:
    return progress.broker_epoch >= 0 and broker in self.eligible


def _members_of_any_registration(*arguments: Any, **named: Any) -> None:
    return None


def _unknown_is_refused(original: Callable[..., None]) -> Callable[..., None]:
    """A proposal whose outcome is not known is taken back."""

    def propose(self: IsrChanges, partition: Partition, proposal: Any) -> None:
        original(self, partition, proposal)
        leader = partition.leader
        if leader is not None:
            self._node.timers.call_at(
                self._node.now_ms + 20,
                lambda: leader.on_proposal_refused(proposal, self._node.now_ms),
            )

    return propose


def _one_batch_kept(original: Callable[..., None]) -> Callable[..., None]:
    def apply(self: ProducerTable, batch: Any) -> None:
        original(self, batch)
        known = self.producers[batch.producer_id]
        self.producers[batch.producer_id] = replace(known, batches=known.batches[-1:])

    return apply


def _producers_stay(self: Partition) -> bool:
    before = self._follower_high_watermark
    self._follower_high_watermark = max(
        self.log.log_start_offset, min(before, self.log.log_end_offset)
    )
    return self._follower_high_watermark < before


def _consumers_sleep_on(original: Callable[[Waits, Partition], None]) -> Any:
    def wake(self: Waits, partition: Partition) -> None:
        ready = dict(self._ready)
        original(self, partition)
        self._ready = ready

    return wake


def _writers_sleep_on(original: Callable[[Waits, Partition], None]) -> Any:
    def change(self: Waits, partition: Partition) -> None:
        waiting = self._commits.pop(partition.tp, None)
        original(self, partition)
        if waiting is not None:
            self._commits[partition.tp] = waiting

    return change


def _settle_what_is_written(self: LedLog[Any, Any]) -> None:
    while self.current and self._unsettled:
        _, owner, changes = self._unsettled.popleft()
        owner.unsettled -= 1
        for change in changes:
            self._apply(owner, change)


REPLICATION: dict[str, tuple[Patch, ...]] = {
    "the high watermark is the leader's log end": (
        (LeaderState, "advance", _watermark_is_the_leaders_end),
    ),
    "the first live replica is elected, in the ISR or not": ((changes, "elect", _elect_anyone),),
    "nothing is truncated": ((PartitionLog, "truncate_to", _truncate_nothing),),
    "a follower joins without the start of the epoch": (
        (LeaderState, "may_join", _join_without_epoch_start),
    ),
    "a follower joins wherever its log ends": ((LeaderState, "may_join", _join_at_once),),
    "retries of producers are not recognised": ((ProducerTable, "check", _no_duplicates),),
    "any leader epoch is taken in a fetch": (
        (Partition, "fence", _any_epoch),
        (_Fetch, "_note_progress", _progress_of_any_epoch),
    ),
    "a proposed addition does not hold the high watermark": (
        (PendingExpand, "maximal", property(lambda self: self.committed.isr)),
        (PendingExpand, "proposed", property(lambda self: self.committed.isr + self.added)),
        (LeaderState, "_about_to_join", lambda self, *of: False),
    ),
    "a proposed removal frees the high watermark": (
        (PendingShrink, "maximal", property(lambda self: self.proposed)),
    ),
    "an ISR that is too small commits": (
        (LeaderState, "advance", _commit_below_min_isr(LeaderState.advance)),
    ),
    "acks=all is answered before the commit": ((_Produce, "_await", _wait_for_nobody),),
    "consumers read up to the log end": ((_Fetch, "_readable_end", _read_to_the_end),),
    "a new leader takes its log end for committed": (
        (LeaderState, "__init__", _watermark_on_election(LeaderState.__init__)),
    ),
    "followers are believed to have what they are sent": (
        (Progress, "fetched", _promise_what_was_asked_for(Progress.fetched)),
    ),
    "the controller takes any ISR proposal": (
        (changes, "_refuse_proposer", _accept_any_proposal),
        (changes, "_refuse_members", _accept_any_proposal),
    ),
    "a leader does not look where histories part": ((fetch, "_divergence", _no_divergence),),
    "a follower cuts its log at its own high watermark": (
        (Partitions, "_follow", _follow_from_watermark(Partitions._follow)),
    ),
    "where histories part, a follower goes back to its high watermark": (
        (Fetcher, "_diverged", _diverged_to_watermark),
        (PartitionLog, "assign_epoch", lambda self, epoch, start_offset: None),
    ),
    "a follower takes the high watermark before it cuts its log": (
        (Fetcher, "_take", _watermark_before_the_cut(Fetcher._take)),
    ),
    "a follower takes over a high watermark that it does not reach": (
        (Partition, "follow_high_watermark", _watermark_of_the_leader),
    ),
    "a fetch of an earlier registration counts": (
        (LeaderState, "_fetched_as_registered", _any_registration),
        (changes, "_refuse_members", _members_of_any_registration),
    ),
    "an ISR proposal without an answer is taken back": (
        (IsrChanges, "_propose", _unknown_is_refused(IsrChanges._propose)),
        (LeaderState, "_about_to_join", lambda self, *of: False),
    ),
    "one batch of each producer is remembered": (
        (ProducerTable, "apply", _one_batch_kept(ProducerTable.apply)),
    ),
    "a leader that was asleep answers before it asks": (
        (Lease, "overslept", lambda self, gap_ms: None),
    ),
    "a leader that lost its registration goes on": ((Lease, "lost", lambda self: None),),
    "a write goes on waiting when its leader leads no more": (
        (Waits, "role_changed", _writers_sleep_on(Waits.role_changed)),
    ),
    "a group coordinator tells what is not committed": (
        (LedLog, "settle", _settle_what_is_written),
    ),
    "a consumer that waits is not told of what is committed": (
        (Waits, "_wake_committed", _consumers_sleep_on(Waits._wake_committed)),
    ),
    "producers are remembered from records that were cut off": (
        (Partition, "after_truncation", _producers_stay),
    ),
}
