"""What the coordinator holds about partitions, and the rules for whoever changes it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replog.core.controller.stored import LOSSES, decode_losses
from replog.model.coordination import (
    CONTROLLER_EPOCH,
    TOPICS,
    Check,
    Operation,
    SetData,
    StoredNode,
)
from replog.model.ids import topic_id_from_text
from replog.sim.shadows import Key
from replog.sim.violation import Violation


@dataclass(frozen=True, slots=True)
class Stored:
    """A partition record as it is stored."""

    name: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    controller_epoch: int
    elr: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()  # `last_known_elr`: may have lost what they had

    @property
    def electable(self) -> tuple[int, ...]:
        """Who may lead without loss: each of them holds everything committed."""
        return tuple(broker for broker in self.isr + self.elr if broker not in self.suspects)


@dataclass(frozen=True, slots=True)
class Change:
    """A record that was written; `before` is None for a new partition."""

    key: Key
    before: Stored | None
    after: Stored
    loses: bool = False  # who leads may lack committed records, and that was counted

    @property
    def many(self) -> bool:
        """Several changes in one write: who was elected out of which ISR is not stored."""
        before = self.before
        return before is not None and self.after.partition_epoch > before.partition_epoch + 1


class RecordsWatch:
    """The committed records by partition, kept up to date by every write to the coordinator."""

    def __init__(self) -> None:
        self.records: dict[Key, Stored] = {}
        self.elections = 0
        self.losses = 0  # elections that were counted, as records may be lost by them
        self.isr_changes = 0
        self._keys: dict[str, Key] = {}  # path of a state node -> partition
        self._controller_epoch = -1

    def on_write(
        self,
        operations: Sequence[Operation],
        before: dict[str, StoredNode],
        after: dict[str, StoredNode],
    ) -> list[Change]:
        """Look at one multi. Returns the records that it changed; raises when it was not
        allowed."""
        touched = [op.path for op in operations if op.path.startswith(TOPICS + "/")]
        if touched and not isinstance(operations[0], Check | SetData):
            raise Violation("writes of the controller are fenced", f"{operations}")
        if touched and operations[0].path != CONTROLLER_EPOCH:
            raise Violation("writes of the controller are fenced", f"{operations}")
        self._check_controller_epoch(after)
        counted = _losses(after) - _losses(before)
        self.losses += counted
        changes = []
        for path in touched:
            if path.endswith("/state") and path in after:
                change = self._changed(path, after, may_lose=counted > 0)
                if change is not None:
                    changes.append(change)
            elif path in before and path not in after:
                self._forget(path)
        lossy = [change for change in changes if change.loses and not change.many]
        if len(lossy) > counted:
            raise Violation("elections that may lose records are counted", f"{lossy}, {counted}")
        return changes

    def _check_controller_epoch(self, after: dict[str, StoredNode]) -> None:
        node = after.get(CONTROLLER_EPOCH)
        epoch = -1 if node is None or not node.data else int(node.data)
        if epoch < self._controller_epoch:
            raise Violation(
                "the controller epoch never falls", f"{self._controller_epoch} to {epoch}"
            )
        self._controller_epoch = epoch

    def _forget(self, path: str) -> None:
        for state in [p for p in self._keys if p == path or p.startswith(path + "/")]:
            self.records.pop(self._keys.pop(state), None)

    def _changed(self, path: str, after: dict[str, StoredNode], *, may_lose: bool) -> Change | None:
        topic_path, _, rest = path[len(TOPICS) + 1 :].partition("/partitions/")
        index = int(rest.split("/")[0])
        topic = json.loads(after[f"{TOPICS}/{topic_path}"].data)
        state = json.loads(after[path].data)
        key = (topic_id_from_text(topic["topic_id"]), index)
        self._keys[path] = key
        record = Stored(
            f"{topic_path}-{index}",
            tuple(topic["partitions"][str(index)]),
            tuple(state["isr"]),
            state["leader"],
            state["leader_epoch"],
            state["partition_epoch"],
            state["controller_epoch"],
            tuple(state.get("elr", ())),
            tuple(state.get("last_known_elr", ())),
        )
        known = self.records.get(key)
        if known == record:
            return None
        for problem in _problems(known, record):
            raise Violation(problem, f"{known} to {record}")
        loses = known is not None and _loses(known, record, counted=may_lose)
        if known is not None and loses and not may_lose:
            raise Violation("only a member of ISR or ELR is elected", f"{known} to {record}")
        self.elections += known is not None and known.leader_epoch != record.leader_epoch
        self.isr_changes += known is not None and known.isr != record.isr
        self.records[key] = record
        return Change(key, known, record, loses)


def _problems(known: Stored | None, record: Stored) -> Iterator[str]:
    """Rules of shape, of monotonic epochs and of clean elections that `record` breaks."""
    if not record.isr or len(set(record.isr)) != len(record.isr):
        yield "an ISR is never empty and names nobody twice"
    if not set(record.electable) <= set(record.replicas) or set(record.isr) & set(record.elr):
        yield "ISR and ELR are parts of the assigned replicas, and apart"
    if record.leader != -1 and record.leader not in record.isr:
        yield "a leader is in the ISR"
    if known is None:
        return
    if record.leader_epoch < known.leader_epoch or record.controller_epoch < known.controller_epoch:
        yield "leader epochs and controller epochs never fall"
    if record.partition_epoch <= known.partition_epoch:
        yield "the partition epoch rises with every change"
    if record.leader != known.leader and record.leader_epoch == known.leader_epoch:
        yield "the leader epoch rises with every change of the leader"
    if record.partition_epoch > known.partition_epoch + 1:
        return  # several changes in one write: who was elected out of which ISR is not stored
    if _loses(known, record, counted=False):
        return
    added = set(record.isr) - set(known.isr) - {record.leader}
    if added and record.leader_epoch != known.leader_epoch:
        yield "nobody joins an ISR by an election but a leader out of the ELR"


def _loses(known: Stored, record: Stored, *, counted: bool) -> bool:
    """Whether somebody leads anew who may lack what is committed.

    Who was elected out of which ISR is not stored when one write has several changes: then the
    count of the losses says it.
    """
    if record.leader_epoch == known.leader_epoch or record.leader == -1:
        return False
    if record.partition_epoch > known.partition_epoch + 1:
        return counted
    return record.leader not in known.electable


def _losses(nodes: dict[str, StoredNode]) -> int:
    """Elections that may have lost records, as the controller has counted them."""
    node = nodes.get(LOSSES)
    return 0 if node is None else sum(decode_losses(node.data))
