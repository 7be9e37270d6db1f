"""Moving a partition to other brokers (KIP-455).

    at rest --begin--> under way --all targets in the ISR--> at rest, on the targets
                       under way --cancel--> at rest, where it was

While it is under way the assigned replicas are the target, followed by those that are to go: the
first of the target is the preferred leader. `adding` and `removing` say which are new and which
are to go. Another target begins anew from where the partition was. A partition leaves a replica
only in a change after which the ISR has every target replica, and the leader epoch rises with it,
so that nobody goes on under the old epoch with a replica that is gone.

A cancelled move puts back the replicas, but those that were to stay come first: the order that the
others had among them is kept, the order across both is not known any more.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from replog.core.controller.eligible import electable, settle
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_LEADER
from replog.model.partition import PartitionRecord


def under_way(record: PartitionRecord) -> bool:
    """Whether the partition is being moved."""
    return bool(record.adding or record.removing)


def target_of(record: PartitionRecord) -> tuple[int, ...]:
    """Where the partition is going to be, or is."""
    return tuple(broker for broker in record.replicas if broker not in record.removing)


def origin_of(record: PartitionRecord) -> tuple[int, ...]:
    """Where the partition was before it began to move, or is."""
    return tuple(broker for broker in record.replicas if broker not in record.adding)


def check_target(
    record: PartitionRecord,
    target: Sequence[int],
    registered: Collection[int],
    *,
    may_change_factor: bool,
) -> Refused | None:
    """Refused with INVALID_REPLICA_ASSIGNMENT for no, repeated or unregistered brokers, with
    INVALID_REPLICATION_FACTOR for another number of them where that is not wanted."""
    problem = None
    if not target:
        problem = "a partition has at least one replica"
    elif len(set(target)) < len(target):
        problem = "a broker is named more than once"
    else:
        unknown = [broker for broker in target if broker not in registered]
        if unknown:
            problem = f"broker {unknown[0]} is not registered"
    if problem is not None:
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    if not may_change_factor and len(target) != len(target_of(record)):
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor is {len(target_of(record))}, not {len(target)}",
        )
    return None


def begin(
    record: PartitionRecord,
    target: Sequence[int],
    eligible: Collection[int],
    *,
    controller_epoch: int,
    min_isr: int,
) -> PartitionRecord | Refused | None:
    """Move the partition to `target`, which was checked. None when it is there, or on its way.

    What was under way to somewhere else is given up. The move is over at once when nothing has to
    be copied. Refused with INVALID_REPLICA_ASSIGNMENT when nobody who is in sync
    would be left.
    """
    wanted = tuple(target)
    if wanted == target_of(record):
        return None
    origin = origin_of(record)
    removing = tuple(broker for broker in origin if broker not in wanted)
    adding = tuple(broker for broker in wanted if broker not in origin)
    moved = _with_replicas(
        record, wanted + removing, eligible, controller_epoch=controller_epoch, min_isr=min_isr
    )
    if isinstance(moved, Refused):
        return moved
    moved = replace(moved, adding=adding, removing=removing)
    return complete(moved, eligible, controller_epoch=controller_epoch, min_isr=min_isr) or moved


def cancel(
    record: PartitionRecord, eligible: Collection[int], *, controller_epoch: int, min_isr: int
) -> PartitionRecord | Refused:
    """Leave the partition where it was. Refused with NO_REASSIGNMENT_IN_PROGRESS, or as `begin`."""
    if not under_way(record):
        return Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not being moved")
    moved = _with_replicas(
        record, origin_of(record), eligible, controller_epoch=controller_epoch, min_isr=min_isr
    )
    return moved if isinstance(moved, Refused) else replace(moved, adding=(), removing=())


def complete(
    record: PartitionRecord, eligible: Collection[int], *, controller_epoch: int, min_isr: int
) -> PartitionRecord | None:
    """The record once all is copied; None while that is not so, or nothing is being moved.

    It waits for every target replica to be in the ISR, and for one of them to be able to lead.
    """
    if not under_way(record):
        return None
    target = target_of(record)
    in_sync, _ = electable(record)
    if not set(target) <= set(in_sync):
        return None
    if not any(broker in eligible for broker in target) and record.leader not in target:
        return None
    moved = _with_replicas(
        record, target, eligible, controller_epoch=controller_epoch, min_isr=min_isr
    )
    return None if isinstance(moved, Refused) else replace(moved, adding=(), removing=())


def _with_replicas(
    record: PartitionRecord,
    replicas: tuple[int, ...],
    eligible: Collection[int],
    *,
    controller_epoch: int,
    min_isr: int,
) -> PartitionRecord | Refused:
    """The record on `replicas`: ISR and ELR lose who is not assigned any more, and so does the
    leadership."""
    isr = tuple(broker for broker in record.isr if broker in replicas)
    if not isr:
        return Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the in-sync replicas {list(record.isr)} would be left",
        )
    shrinks = not set(record.replicas) <= set(replicas)
    leader = record.leader
    if leader not in isr:
        in_sync, _ = electable(record)
        able = [broker for broker in replicas if broker in in_sync and broker in eligible]
        leader = able[0] if able else NO_LEADER
    if leader == NO_LEADER and record.online:
        return Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the in-sync replicas {list(isr)} that would be left can lead",
        )
    after = record.merge(
        controller_epoch=controller_epoch,
        leader=leader,
        isr=isr,
        replicas=replicas,
        bump_leader_epoch=shrinks,
    )
    return settle(record, after, min_isr)
