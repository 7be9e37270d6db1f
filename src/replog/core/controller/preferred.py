"""Leader elections on request (KIP-183, KIP-460), and the balance of leaderships.

A preferred election moves leadership to the first of the assigned replicas, if it is in the ISR and
may lead; where the current leader is that replica, or the preferred one can't take over, nothing
changes. An unclean election gives a partition without a leader to whoever lives, and may lose
committed records: it is never done while somebody leads.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from replog.core.controller.changes import Change
from replog.core.controller.election import elect
from replog.core.controller.eligible import electable, settle
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER, TopicPartition
from replog.model.partition import PartitionRecord


def elect_preferred(
    record: PartitionRecord, eligible: Collection[int], *, controller_epoch: int
) -> Change | Refused:
    """Let the preferred replica lead.

    Refused with ELECTION_NOT_NEEDED when it does, with PREFERRED_LEADER_NOT_AVAILABLE when it is
    out of sync or dead.
    """
    preferred = record.replicas[0]
    if record.leader == preferred:
        return Refused(ErrorCode.ELECTION_NOT_NEEDED, f"broker {preferred} leads already")
    in_sync, _ = electable(record)
    if preferred not in in_sync or preferred not in eligible:
        why = "not in the ISR" if preferred not in in_sync else "not alive"
        return Refused(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"preferred leader {preferred} is {why}"
        )
    return Change(record.merge(controller_epoch=controller_epoch, leader=preferred))


def elect_unclean(
    record: PartitionRecord, eligible: Collection[int], *, controller_epoch: int, min_isr: int
) -> Change | Refused:
    """Give a partition without a leader to somebody, cleanly if that is possible after all.

    Refused with ELECTION_NOT_NEEDED while somebody leads, with ELIGIBLE_LEADERS_NOT_AVAILABLE when
    no replica is alive.
    """
    if record.online:
        return Refused(ErrorCode.ELECTION_NOT_NEEDED, f"broker {record.leader} leads")
    election = elect(record, eligible, unclean=True)
    if election.leader == NO_LEADER:
        return Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive")
    after = record.merge(
        controller_epoch=controller_epoch,
        leader=election.leader,
        isr=election.isr,
        bump_leader_epoch=True,
    )
    if election.unclean:
        return Change(replace(after, elr=(), last_known_elr=()), unclean=True)
    return Change(settle(record, after, min_isr))


def imbalanced(
    partitions: Iterable[tuple[TopicPartition, PartitionRecord]], percentage: int
) -> list[TopicPartition]:
    """Partitions to give back to their preferred leaders.

    They are those not led by their preferred leader, of each broker for which these are more than
    `percentage` percent of all partitions that prefer it.
    """
    preferring: dict[int, int] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for tp, record in partitions:
        preferred = record.replicas[0]
        preferring[preferred] = preferring.get(preferred, 0) + 1
        if record.leader != preferred:
            elsewhere.setdefault(preferred, []).append(tp)
    return [
        tp
        for broker, found in elsewhere.items()
        if len(found) * 100 > percentage * preferring[broker]
        for tp in found
    ]
