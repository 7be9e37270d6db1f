"""Single changes that each break one rule of replication: what the simulator must be able to find.

They live here alone, as patches on named functions. Nothing in the package can switch them on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from replog.core.controller import changes, election
from replog.core.producer.state import ProducerTable
from replog.core.replica.isr import PendingExpand, PendingShrink
from replog.core.replica.leader import LeaderState
from replog.core.replica.progress import Progress
from replog.log.partition_log import PartitionLog
from replog.model.errors import ErrorCode
from replog.node.handlers import fetch
from replog.node.handlers.fetch import _Fetch
from replog.node.handlers.produce import _Produce
from replog.node.partition import Partition

Patch = tuple[Any, str, Any]  # owner, name, what to put there


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


def _acknowledge_at_once(self: Any, partition: Partition, offset: int, answer: Any) -> None:
    self._settle(answer, ErrorCode.NONE)


def _read_to_the_end(self: Any, partition: Partition) -> int:
    return partition.log_end_offset


def _watermark_on_election(original: Callable[..., None]) -> Callable[..., None]:
    def begin(self: LeaderState, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.high_watermark = self.log_end

    return begin


def _promise_what_was_asked_for(original: Callable[..., Any]) -> Callable[..., Any]:
    """A follower's progress is what it will have, not what it has."""

    def after_fetch(self: Progress, *, leader_end: int, **named: Any) -> Progress:
        progress: Progress = original(self, leader_end=leader_end, **named)
        return progress._replace(log_end_offset=leader_end)

    return after_fetch


MUTANTS: dict[str, tuple[Patch, ...]] = {
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
    "acks=all is answered before the commit": ((_Produce, "_await", _acknowledge_at_once),),
    "consumers read up to the log end": ((_Fetch, "_readable_end", _read_to_the_end),),
    "a new leader takes its log end for committed": (
        (LeaderState, "__init__", _watermark_on_election(LeaderState.__init__)),
    ),
    "followers are believed to have what they are sent": (
        (Progress, "after_fetch", _promise_what_was_asked_for(Progress.after_fetch)),
    ),
    "the controller takes any ISR proposal": (
        (changes, "_refuse_proposer", _accept_any_proposal),
        (changes, "_refuse_members", _accept_any_proposal),
    ),
    "a leader does not look where histories part": ((fetch, "_divergence", _no_divergence),),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """The package with one rule broken, for the time of a test."""
    patches = MUTANTS[name]
    kept = [(owner, attribute, owner.__dict__[attribute]) for owner, attribute, _ in patches]
    for owner, attribute, replacement in patches:
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in kept:
            setattr(owner, attribute, original)
