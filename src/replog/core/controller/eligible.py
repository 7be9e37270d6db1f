"""Eligible leader replicas (KIP-966), and members whose host restarted (mission rule 13).

With m the smaller of `min.insync.replicas` and the number of replicas, the high watermark stands
still while the ISR is smaller than m. So whoever leaves the ISR in a change after which it is
smaller than m holds every committed record, and goes on holding it: it stays eligible to lead, in
`elr`, until the ISR has m members again under a leader.

A host that restarts may have lost what was not yet on stable storage. A member of ISR or ELR that
comes back from that without proof of a clean stop is a *suspect*: it leaves both and is remembered
in `last_known_elr`. When there is nobody but suspects, the last of them stay recorded in the ISR
too (an ISR is never empty), but are not elected by it: their logs are compared, and the greatest
(last epoch, log end offset) leads. The records that only the others' lost tails held are lost,
which is reported.

A replica that lost its disk, or whose disk failed, is a suspect like any other: with its empty log
it loses against all.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from replog.model.cluster import BrokerLife
from replog.model.ids import NO_EPOCH, NO_LEADER
from replog.model.partition import PartitionRecord


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What the configuration of a topic says about its elections."""

    min_isr: int = 1  # `min.insync.replicas`
    unclean: bool = False  # `unclean.leader.election.enable`
    durable: bool = False  # acknowledged records are on stable storage: a power cut loses none


def settle(before: PartitionRecord, after: PartitionRecord, min_isr: int) -> PartitionRecord:
    """`after`, which follows `before`, with the ELR that belongs to it.

    A partition without a leader keeps everybody who may hold all committed records.
    """
    suspects = _kept(after.last_known_elr, after)
    if after.online and len(after.isr) >= min(min_isr, len(after.replicas)):
        return replace(after, elr=(), last_known_elr=())
    if after.online:
        suspects = tuple(broker for broker in suspects if broker not in after.isr)
    held = {*before.elr, *before.isr} - {*after.isr, *suspects, *after.failed}
    return replace(after, elr=_kept(held, after), last_known_elr=suspects)


def has_settled(record: PartitionRecord, min_isr: int) -> bool:
    """Whether the record's ELR is what `settle` would make of it: the configuration may change."""
    return settle(record, record, min_isr) == record


def _kept(brokers: Collection[int], record: PartitionRecord) -> tuple[int, ...]:
    return tuple(broker for broker in record.replicas if broker in brokers)


# ---- hosts that restarted ---------------------------------------------------------------


def may_have_lost(before: BrokerLife | None, now: BrokerLife | None) -> str | None:
    """Why a broker that registers as `now` may lack what it had as `before`; None: it does not.

    "disk": its log folder is another one. "tail": its host restarted, and there is no marker of a
    clean stop that names the very registration that was known last. A process that died on a host
    that stayed up has lost nothing. What is not known counts as unchanged.
    """
    if before is None or now is None:
        return None
    if before.incarnation and before.incarnation == now.incarnation:
        return None  # the same process, under a new session
    if before.folder_id and now.folder_id:
        lost = set(before.folder_id.split(",")) - set(now.folder_id.split(","))
        if lost:
            return "disk"
    if not before.boot_id or not now.boot_id or before.boot_id == now.boot_id:
        return None
    clean = now.stopped_epoch != NO_EPOCH and now.stopped_epoch == before.broker_epoch
    return None if clean else "tail"


def suspect(
    record: PartitionRecord, broker: int, *, controller_epoch: int
) -> PartitionRecord | None:
    """The record after `broker` came back with less than it had; None when that changes nothing.

    The broker leads nothing at this point: it was gone before it came back.
    """
    if broker not in (*record.isr, *record.elr) or broker in record.last_known_elr:
        return None
    suspects = _kept({*record.last_known_elr, broker}, record)
    isr = tuple(member for member in record.isr if member not in suspects)
    if not isr and record.leader == NO_LEADER:
        isr = record.isr
    after = record.merge(controller_epoch=controller_epoch, isr=isr or record.isr)
    elr = tuple(member for member in record.elr if member != broker)
    return replace(after, elr=elr, last_known_elr=suspects)


def electable(record: PartitionRecord) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """ISR and ELR without suspects: who holds every committed record for certain."""
    suspects = record.last_known_elr
    if not suspects:
        return record.isr, record.elr
    return (
        tuple(broker for broker in record.isr if broker not in suspects),
        tuple(broker for broker in record.elr if broker not in suspects),
    )


def only_suspects(record: PartitionRecord) -> bool:
    """Nobody leads, and nobody holds every committed record for certain: logs must be compared."""
    return not record.online and bool(record.last_known_elr) and electable(record) == ((), ())


def best_of(ends: dict[int, tuple[int, int]], record: PartitionRecord) -> int:
    """Of the suspects with these (last epoch, log end offset), the one that leads: the greatest,
    and among equals the first in AR order. `ends` has at least one assigned replica."""
    order = {broker: index for index, broker in enumerate(record.replicas)}
    return max(ends, key=lambda broker: (ends[broker], -order.get(broker, len(order))))


def led_by_suspect(
    record: PartitionRecord, leader: int, *, controller_epoch: int
) -> PartitionRecord:
    """`leader` begins anew with what it has; all others follow it."""
    after = record.merge(
        controller_epoch=controller_epoch, leader=leader, isr=(leader,), bump_leader_epoch=True
    )
    return replace(after, elr=(), last_known_elr=())
