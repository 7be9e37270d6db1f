"""What becomes of one partition when something happens to brokers, or when its leader proposes an
ISR.

Every function takes the committed record and returns the next one, or None when nothing changes.
Epochs rise in `PartitionRecord.merge` alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from replog.core.controller.election import elect
from replog.core.controller.eligible import electable, has_settled, settle, suspect
from replog.model.cluster import BrokerRecord, BrokerState
from replog.model.errors import ErrorCode, Refused
from replog.model.ids import NO_EPOCH, NO_LEADER
from replog.model.partition import PartitionRecord


@dataclass(frozen=True, slots=True)
class Liveness:
    """Which brokers may do what, at one moment."""

    eligible: frozenset[int]  # may be elected and be in an ISR
    leaving: frozenset[int] = (
        frozenset()
    )  # in controlled shutdown: lead on while nobody can take over

    @classmethod
    def of(cls, brokers: Mapping[int, BrokerRecord]) -> "Liveness":
        """Read it off the broker table."""
        leaving = [b for b, r in brokers.items() if r.state is BrokerState.CONTROLLED_SHUTDOWN]
        return cls(
            frozenset(broker for broker, record in brokers.items() if record.eligible),
            frozenset(leaving),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """The next record of a partition. `unclean`: committed records may be lost with it."""

    record: PartitionRecord
    unclean: bool = False


def reconcile(
    record: PartitionRecord,
    liveness: Liveness,
    *,
    unclean: bool,
    controller_epoch: int,
    min_isr: int = 1,
) -> Change | None:
    """Bring one partition into line with who is alive.

    Covers a broker that died (it leaves the ISR unless it is the last member, and a leaderless
    partition elects), one that came up (a leaderless partition elects; nothing else moves), and one
    in controlled shutdown (leadership moves away, then it leaves the ISR; where nobody can take
    over it goes on leading). A replica whose log failed counts as one whose broker died.
    Members that leave an ISR that is smaller than m afterwards stay eligible (`eligible.settle`).
    """
    eligible = liveness.eligible.difference(record.failed)
    in_sync, _ = electable(record)
    members = tuple(broker for broker in in_sync if broker in eligible)
    if members:
        isr = members
        keeps_leader = record.leader in members
    else:
        leaving = liveness.leaving.difference(record.failed)
        keeps_leader = record.leader in record.isr and record.leader in leaving
        isr = tuple(b for b in record.isr if b in leaving) if keeps_leader else record.isr
    if keeps_leader:
        if isr == record.isr and has_settled(record, min_isr):
            return None
        after = record.merge(controller_epoch=controller_epoch, isr=isr)
        return Change(settle(record, after, min_isr))
    election = elect(record, liveness.eligible, unclean=unclean)
    if election.leader == NO_LEADER and record.leader == NO_LEADER:
        return None
    next_record = record.merge(
        controller_epoch=controller_epoch,
        leader=election.leader,
        isr=election.isr,
        bump_leader_epoch=True,
    )
    if election.unclean:  # what the others hold beyond the new leader's log is committed no more
        return Change(replace(next_record, elr=(), last_known_elr=()), unclean=True)
    return Change(settle(record, next_record, min_isr))


def replica_failed(
    record: PartitionRecord,
    broker: int,
    liveness: Liveness,
    *,
    unclean: bool,
    controller_epoch: int,
    min_isr: int = 1,
) -> Change | None:
    """`broker` can't use its log of this partition any more: as if it had died, for this one."""
    if broker in record.failed or broker not in record.replicas:
        return None
    marked = replace(record, failed=(*record.failed, broker))
    change = reconcile(
        marked, liveness, unclean=unclean, controller_epoch=controller_epoch, min_isr=min_isr
    )
    return change or Change(marked.merge(controller_epoch=controller_epoch))


def replica_read_only(
    record: PartitionRecord,
    broker: int,
    liveness: Liveness,
    *,
    unclean: bool,
    controller_epoch: int,
    min_isr: int = 1,
) -> Change | None:
    """`broker` has no room for more records: it counts as failed once somebody else can lead.

    Until then it goes on leading: what is there can be read, and followers may yet catch up.
    """
    marked = replace(record, failed=(*record.failed, broker))
    alone = elect(marked, liveness.eligible, unclean=False).leader == NO_LEADER
    if broker in record.isr and alone:
        return None
    return replica_failed(
        record,
        broker,
        liveness,
        unclean=unclean,
        controller_epoch=controller_epoch,
        min_isr=min_isr,
    )


def replica_begins_anew(
    record: PartitionRecord,
    broker: int,
    liveness: Liveness,
    *,
    controller_epoch: int,
    min_isr: int = 1,
) -> Change | None:
    """`broker` has a damaged log, and is to throw it away: it leaves ISR and ELR for that.

    None while nobody else may lead, so that the records that only this log has are kept. A new
    leader epoch begins even where the leader stays: what the broker acknowledged before, of a log
    that it has no more, counts in no later epoch.
    """
    if broker not in record.replicas:
        return None
    others = tuple(failed for failed in record.failed if failed != broker)
    without = replace(record, failed=(*others, broker))
    if elect(without, liveness.eligible, unclean=False).leader == NO_LEADER:
        return None
    change = reconcile(
        without, liveness, unclean=False, controller_epoch=controller_epoch, min_isr=min_isr
    )
    after = without if change is None else change.record
    if after.leader_epoch == record.leader_epoch:
        begun = record.merge(
            controller_epoch=controller_epoch, isr=after.isr, bump_leader_epoch=True
        )
        after = replace(begun, elr=after.elr, last_known_elr=after.last_known_elr)
    suspects = tuple(suspect for suspect in after.last_known_elr if suspect != broker)
    return Change(replace(after, failed=others, last_known_elr=suspects))


def replicas_returned(
    record: PartitionRecord, brokers: Collection[int], *, controller_epoch: int
) -> PartitionRecord | None:
    """`brokers` registered anew: what they said of their logs before does not hold any more.

    Who is still in the ISR, since there was nobody else, may have lost what it could not write.
    """
    failed = tuple(broker for broker in record.failed if broker not in brokers)
    if failed == record.failed:
        return None
    after = record
    for broker in record.failed:
        if broker in brokers:
            after = suspect(after, broker, controller_epoch=controller_epoch) or after
    if after is record:
        return record.merge(controller_epoch=controller_epoch, failed=failed)
    return replace(after, failed=failed)


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """What a leader asks for. `isr` in order of admission, with the broker epoch of each member."""

    broker_id: int  # who asks
    leader_epoch: int
    partition_epoch: int
    # (broker id, broker epoch; -1 of a member that has not fetched from this leader yet)
    isr: tuple[tuple[int, int], ...]


def accept_isr(
    record: PartitionRecord,
    proposal: IsrProposal,
    brokers: Mapping[int, BrokerRecord],
    *,
    controller_epoch: int,
    min_isr: int = 1,
) -> PartitionRecord | Refused | None:
    """Judge an AlterPartition: a compare-and-set by the current leader on both epochs.

    None when the ISR is already so. A leader from the future means that this controller is out of
    date.
    """
    refusal = _refuse_proposer(record, proposal)
    if refusal is None:
        refusal = _refuse_members(record, proposal, brokers)
    if refusal is not None:
        return refusal
    isr = tuple(broker for broker, _ in proposal.isr)
    if isr == record.isr:
        return None
    return settle(record, record.merge(controller_epoch=controller_epoch, isr=isr), min_isr)


def _refuse_proposer(record: PartitionRecord, proposal: IsrProposal) -> Refused | None:
    if (
        proposal.leader_epoch > record.leader_epoch
        or proposal.partition_epoch > record.partition_epoch
    ):
        return Refused(ErrorCode.NOT_CONTROLLER)
    if proposal.leader_epoch < record.leader_epoch:
        return Refused(ErrorCode.FENCED_LEADER_EPOCH)
    if proposal.broker_id != record.leader:
        return Refused(ErrorCode.INVALID_REQUEST, "only the leader may change the ISR")
    if proposal.partition_epoch < record.partition_epoch:
        return Refused(ErrorCode.INVALID_UPDATE_VERSION)
    return None


def _refuse_members(
    record: PartitionRecord, proposal: IsrProposal, brokers: Mapping[int, BrokerRecord]
) -> Refused | None:
    members = [broker for broker, _ in proposal.isr]
    if len(set(members)) < len(members) or not set(members) <= set(record.replicas):
        return Refused(ErrorCode.INVALID_REQUEST, "an ISR names assigned replicas, each once")
    if record.leader not in members:
        return Refused(ErrorCode.INVALID_REQUEST, "the leader is in the ISR")
    for member, epoch in proposal.isr:
        if member in record.failed:
            return Refused(ErrorCode.INELIGIBLE_REPLICA, f"the log of broker {member} failed")
        broker = brokers.get(member)
        if broker is not None and epoch > broker.broker_epoch:
            # The leader knows of a newer registration. To call the member ineligible would be
            # final, and an earlier copy of this proposal, still on its way, could yet be accepted.
            return Refused(ErrorCode.NOT_CONTROLLER)
        if broker is None or epoch not in (NO_EPOCH, broker.broker_epoch):
            return Refused(ErrorCode.INELIGIBLE_REPLICA, f"broker {member} is gone or restarted")
        if epoch == NO_EPOCH and member not in record.isr:
            # A leader lets in who has fetched under a registration. Only members who have not
            # fetched from it yet, and stay, may come without.
            return Refused(ErrorCode.INELIGIBLE_REPLICA, f"no registration of {member} is named")
        # A leader in controlled shutdown may still let a follower in, so that somebody can take
        # over.
        if not broker.eligible and member != record.leader:
            return Refused(ErrorCode.INELIGIBLE_REPLICA, f"broker {member} is {broker.state.name}")
    return None


def new_partition(
    replicas: Sequence[int], eligible: Collection[int], *, controller_epoch: int
) -> PartitionRecord:
    """The first record of a partition: every eligible replica is in sync, as there is nothing to
    copy.

    With no eligible replica the partition is offline, with all replicas in the ISR.
    """
    members = tuple(broker for broker in replicas if broker in eligible)
    return PartitionRecord(
        replicas=tuple(replicas),
        isr=members or tuple(replicas),
        leader=members[0] if members else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
        controller_epoch=controller_epoch,
    )


def partitions_held_back(
    records: Collection[PartitionRecord], broker: int, eligible: Collection[int]
) -> int:
    """How many partitions `broker` still leads that an eligible replica may yet take over."""
    return sum(
        1
        for record in records
        if record.leader == broker
        and any(other in eligible and other not in record.failed for other in record.replicas)
    )


def better_without(
    records: Iterable[PartitionRecord], broker: int, eligible: Collection[int]
) -> bool:
    """Whether a broker that does not answer is better taken for dead: somebody else can lead where
    it leads, or need not wait for it. Not so where it leads what nobody else can: its clients may
    reach it."""
    others = set(eligible) - {broker}
    leads = False
    for record in records:
        if broker in record.isr:
            if elect(record, others, unclean=False).leader != NO_LEADER:
                return True
            leads = leads or record.leader == broker
    return not leads
