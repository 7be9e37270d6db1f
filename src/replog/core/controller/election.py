"""Who leads a partition: mission rule 11, and nothing else.

The order is that of the assigned replicas, never that of the ISR. A replica outside ISR and ELR may
lack committed records and is taken only where the topic's owner allowed that, and then the result
says so.
"""

from collections.abc import Collection
from dataclasses import dataclass

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
    out).

    The ISR keeps its eligible members in their order. When none of them can lead, it stays as it is
    while the partition is offline: whoever returns from it holds every committed record.
    """
    members = tuple(broker for broker in record.isr if broker in eligible)
    for broker in record.replicas:
        if broker in members:
            return Election(broker, members)
    for broker in record.replicas:
        if broker in eligible and broker in record.elr:
            return Election(broker, (broker,))
    if unclean:
        for broker in record.replicas:
            if broker in eligible:
                return Election(broker, (broker,), unclean=True)
    return Election(NO_LEADER, record.isr)
