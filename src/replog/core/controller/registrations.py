"""What becomes of the broker table and of partitions when brokers come and go.

A registration with another epoch is a restart: the broker went down, and came up again. A broker
that is known keeps its state until it is gone.

A broker may hold more partitions than one write to the coordinator can carry. Then the change is
made in parts, over several drafts that are committed one after the other: partitions first, and the
broker table with the last of them. Whoever is interrupted in between, or takes over, begins with
the old table again and finds what is left to do: going and coming change nothing a second time, as
long as they are not mixed. So they are parted, too, when it is many.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from replog.core.controller.changes import replicas_returned
from replog.core.controller.eligible import may_have_lost, suspect
from replog.core.controller.state import Draft
from replog.model.cluster import BrokerRecord, BrokerState

# Partitions that change in one draft: with long names and many replicas, half of what fits into the
# 1 MiB of ZooKeeper's `jute.maxbuffer`.
PARTITIONS_MAX: Final = 1_000


def take_registrations(
    draft: Draft,
    registered: Mapping[int, BrokerRecord],
    *,
    fenced: Collection[int] = (),
    most: int = PARTITIONS_MAX,
) -> bool:
    """Bring the draft into line with who is registered. False: commit it, and do so again.

    The draft must be new, or the change small. Of `fenced` brokers it is not known that they hear
    the controller: they take part in nothing yet.
    """
    gone = {
        broker
        for broker, record in draft.brokers.items()
        if broker not in registered or registered[broker].broker_epoch != record.broker_epoch
    }
    if gone:
        draft.brokers = {b: r for b, r in draft.brokers.items() if b not in gone}
        draft.brokers_changed = True
        draft.reconcile()
        if draft.postpone(most):
            return False
    came = {
        broker: replace(record, state=BrokerState.FENCED) if broker in fenced else record
        for broker, record in registered.items()
        if broker not in draft.brokers
    }
    if gone and came and len(draft.changed) > most // 2:
        return False
    if came:
        draft.brokers.update(came)
        draft.brokers_changed = True
        _believe_again(draft, came)
        _judge_lives(draft, came)
        draft.reconcile()
        return not draft.postpone(most)
    return True


def _believe_again(draft: Draft, came: Collection[int]) -> None:
    """Brokers that came up have not said yet that a log of theirs can't be used."""
    for tp, record in list(draft.partitions()):
        returned = replicas_returned(record, came, controller_epoch=draft.epoch)
        if returned is not None:
            draft.put_partition(tp, returned)


def _judge_lives(draft: Draft, came: Mapping[int, BrokerRecord]) -> None:
    """Brokers that came up may have lost what ISR and ELR say that they have."""
    for broker, record in came.items():
        if record.life is None:
            continue
        lost = may_have_lost(draft.former_life(broker), record.life)
        draft.lives[broker] = record.life
        if lost is not None:
            draft.suspects[broker] = lost
    if not draft.suspects:
        return
    for tp, partition in list(draft.partitions()):
        durable = draft.rules(tp.topic).durable
        for broker, lost in draft.suspects.items():
            # With durability `fsync` a tail that was lost was committed nowhere.
            if broker in came and not (durable and lost == "tail"):
                known = draft.partition(tp) or partition
                after = suspect(known, broker, controller_epoch=draft.epoch)
                if after is not None:
                    draft.put_partition(tp, after)
