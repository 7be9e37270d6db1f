"""Which brokers hold the replicas of a new topic.

Goals: every broker gets about as many replicas as any other; leaders (first replicas) are spread
evenly; the replicas of one broker's partitions are spread over all other brokers, so that its work
is shared out evenly when it dies; and, where brokers have racks, one partition is on as many racks
as can be.

Method: the first replica goes round robin over the brokers from `start_index` on. The others follow
it at a distance that begins at `shift` + 1 and grows by one each time all brokers have been first
once. With racks, the brokers are put into an order in which neighbours are on different racks, and
a broker is passed over while its rack already has a replica and another rack has none.

Example, brokers 0, 1, 2, three replicas, start index 1, shift 1: [1, 0, 2], [2, 1, 0], [0, 2, 1].

Start index and shift are drawn by the caller: nothing here is random.
"""

from collections.abc import Collection, Mapping, Sequence

from replog.model.errors import ErrorCode, Refused


def assign_replicas(
    brokers: Mapping[int, str | None],
    *,
    partitions: int,
    replication_factor: int,
    start_index: int,
    shift: int,
) -> list[tuple[int, ...]] | Refused:
    """The replicas of partitions 0 to `partitions` - 1, preferred leader first.

    `brokers` gives the rack of each candidate. Racks count only when every candidate has one.
    Refused with INVALID_REPLICATION_FACTOR when there are fewer candidates than replicas, with
    INVALID_PARTITIONS or INVALID_REPLICATION_FACTOR when a number is not positive.
    """
    if partitions <= 0:
        return Refused(ErrorCode.INVALID_PARTITIONS, "a topic has at least one partition")
    if replication_factor <= 0:
        return Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "a partition has at least one replica")
    if replication_factor > len(brokers):
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs {replication_factor} live brokers, "
            f"but there are {len(brokers)}",
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if len(racks) < len(brokers):
        order, racks = sorted(brokers), {}
    else:
        order = _alternate_racks(racks)
    rack_count = len(set(racks.values()))
    assignment = []
    for partition in range(partitions):
        distance = shift + partition // len(order)
        first = (partition + start_index) % len(order)
        if rack_count > 1:
            replicas = _over_racks(order, racks, first, distance, replication_factor)
        else:
            replicas = [order[first]]
            for position in range(replication_factor - 1):
                replicas.append(order[_follower_index(first, distance + position, len(order))])
        assignment.append(tuple(replicas))
    return assignment


def _follower_index(first: int, distance: int, count: int) -> int:
    """Index of a further replica; never `first` itself."""
    return (first + 1 + distance % (count - 1)) % count


def _alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """All brokers, one of each rack in turn; racks by name, brokers of a rack by id."""
    queues: dict[str, list[int]] = {}
    for broker in sorted(racks):
        queues.setdefault(racks[broker], []).append(broker)
    order: list[int] = []
    depth = 0
    while len(order) < len(racks):
        for rack in sorted(queues):
            if depth < len(queues[rack]):
                order.append(queues[rack][depth])
        depth += 1
    return order


def _over_racks(
    order: Sequence[int], racks: Mapping[int, str], first: int, distance: int, count: int
) -> list[int]:
    """Replicas of one partition, on as many racks as `count` allows."""
    rack_total = len(set(racks.values()))
    chosen = [order[first]]
    candidates = [
        order[_follower_index(first, distance + position, len(order))]
        for position in range(len(order) - 1)
    ]
    while len(chosen) < count:
        used = {racks[broker] for broker in chosen}
        chosen.append(
            next(
                broker
                for broker in candidates
                if broker not in chosen and (racks[broker] not in used or len(used) == rack_total)
            )
        )
    return chosen


def check_assignment(
    given: Sequence[tuple[int, Sequence[int]]],
    *,
    registered: Collection[int],
    eligible: Collection[int],
) -> list[tuple[int, ...]] | Refused:
    """A client's own assignment, as (partition, brokers), put into the order of partitions.

    Refused with INVALID_REPLICA_ASSIGNMENT when a partition is named twice, ids have a gap, a
    broker is unknown or named twice, replica counts differ, or no replica of a partition could
    lead.
    """
    by_partition: dict[int, tuple[int, ...]] = {}
    replica_count = 0
    for partition, brokers in given:
        replicas = tuple(brokers)
        problem = _replicas_problem(partition, replicas, registered, eligible)
        if problem is None and partition in by_partition:
            problem = f"partition {partition} is assigned more than once"
        if problem is None and by_partition and len(replicas) != replica_count:
            problem = f"partition {partition} has {len(replicas)} replicas, others {replica_count}"
        if problem is not None:
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        replica_count = len(replicas)
        by_partition[partition] = replicas
    if sorted(by_partition) != list(range(len(by_partition))):
        return Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "assigned partitions must be numbered from 0 on without a gap",
        )
    return [by_partition[partition] for partition in range(len(by_partition))]


def _replicas_problem(
    partition: int,
    replicas: tuple[int, ...],
    registered: Collection[int],
    eligible: Collection[int],
) -> str | None:
    if not replicas:
        return f"partition {partition} is assigned to no broker"
    if len(set(replicas)) < len(replicas):
        return f"partition {partition} names a broker more than once"
    unknown = [broker for broker in replicas if broker not in registered]
    if unknown:
        return f"partition {partition} names broker {unknown[0]}, which is not registered"
    if not any(broker in eligible for broker in replicas):
        return f"every broker of partition {partition} is fenced or shutting down"
    return None
