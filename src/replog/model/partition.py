"""The record of one partition as the coordinator stores it and as every broker knows it.

Only the controller makes new records (`core.controller`), and only by `PartitionRecord.merge`, so
that epochs rise in one place: the partition epoch with every change, the leader epoch with every
change of leader and whenever leadership must be begun anew.
"""

from dataclasses import dataclass, replace

from replog.model.ids import NO_LEADER


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Committed state of one partition. `isr` is in the order in which its members were
    admitted."""

    replicas: tuple[int, ...]  # AR: the first is the preferred leader
    isr: tuple[int, ...]
    leader: int  # NO_LEADER (-1) while the partition is offline
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int = 0  # of the controller that wrote this record
    elr: tuple[int, ...] = ()  # KIP-966
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()  # KIP-455
    removing: tuple[int, ...] = ()
    # Assigned replicas whose log can't be used, by their broker's own account. They stay so until
    # that broker registers anew, or begins the log anew.
    failed: tuple[int, ...] = ()

    @property
    def osr(self) -> tuple[int, ...]:
        """Assigned replicas that are out of sync, in AR order."""
        return tuple(broker for broker in self.replicas if broker not in self.isr)

    @property
    def online(self) -> bool:
        return self.leader != NO_LEADER

    def merge(
        self,
        *,
        controller_epoch: int,
        leader: int | None = None,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
        failed: tuple[int, ...] | None = None,
        bump_leader_epoch: bool = False,
    ) -> "PartitionRecord":
        """The next record: what is not given stays, and the epochs rise as they must."""
        next_leader = self.leader if leader is None else leader
        led_anew = bump_leader_epoch or next_leader != self.leader
        return replace(
            self,
            leader=next_leader,
            isr=self.isr if isr is None else isr,
            replicas=self.replicas if replicas is None else replicas,
            failed=self.failed if failed is None else failed,
            leader_epoch=self.leader_epoch + (1 if led_anew else 0),
            partition_epoch=self.partition_epoch + 1,
            controller_epoch=controller_epoch,
        )

    def diff(self, previous: "PartitionRecord") -> str:
        """What changed since `previous`, for one log line; empty when nothing did."""
        parts = []
        names = ("leader", "isr", "replicas", "elr", "failed", "leader_epoch", "partition_epoch")
        for name in names:
            before, after = getattr(previous, name), getattr(self, name)
            if before != after:
                parts.append(f"{name} {before} -> {after}")
        return ", ".join(parts)
