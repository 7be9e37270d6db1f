"""Who leads a partition: mission rule 11, and nothing else.

The order is that of the assigned replicas, never that of the ISR. A replica outside ISR and ELR may
lack committed records and is taken only where the topic's owner allowed that, and then the result
says so.
"""

from collections.abc import Collection
from dataclasses import dataclass

from replog.core.controller.eligible import electable, only_suspects
from replog.model.ids import NO_LEADER
from replog.model.partition import PartitionRecord


@dataclass(frozen=True, slots=True)
class Election:
    """The outcome. `isr` is what the ISR becomes; it is never empty."""

    leader: int  # NO_LEADER when nobody may lead
    isr: tuple[int, ...]
    unclean: bool = False  # committed records may be lost: report and count


def elect(record: PartitionRecord, eligible: Collection[int], *, unclean: bool) -> Election:
    """Choose among the assigned replicas those that are `eligible` (alive, and not on their way
    out) and have a log that can be used.

    The ISR keeps its eligible members in their order. When none of them can lead, it stays as it is
    while the partition is offline: whoever returns from it holds every committed record. Who may
    have lost a tail with its host (`last_known_elr`) is no choice, but where nobody else is left
    its claim comes before an unclean election: their logs are going to be compared.
    """
    eligible = frozenset(eligible).difference(record.failed)
    in_sync, others = electable(record)
    members = tuple(broker for broker in in_sync if broker in eligible)
    for broker in record.replicas:
        if broker in members:
            return Election(broker, members)
    for broker in record.replicas:
        if broker in eligible and broker in others:
            return Election(broker, (broker,))
    if unclean and not (only_suspects(record) and eligible.intersection(record.last_known_elr)):
        for broker in record.replicas:
            if broker in eligible:
                return Election(broker, (broker,), unclean=True)
    return Election(NO_LEADER, record.isr)
