"""What happened in a run, for people: roles, epochs, ISRs and faults, broker by broker.

A run is a function of its plan. So nothing is kept while seeds are tried, and one that fails is
played once more with a chronicle, which watches every step before the oracle judges it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from replog.core.replica.isr import PendingExpand, PendingShrink
from replog.model.inputs import Input
from replog.model.outputs import Level, Output, Report
from replog.node.partition import Partition
from replog.sim.broker import Life, Observer
from replog.sim.records_watch import Stored
from replog.sim.schedule import Schedule
from replog.sim.shadows import Key

STORED: Final = "stored"  # the place of partition records
PARTITION_IN_TEXT: Final = re.compile(r"[\w.]+-\d+")


class Entry(NamedTuple):
    """One thing that happened at a place, or to a partition there."""

    at_ms: float
    place: str
    partition: str  # empty: to the broker as a whole
    what: str


class _Ends(NamedTuple):
    """How far a log is, whenever that changed."""

    place: str
    partition: str
    log_end: int
    high_watermark: int


class Row(NamedTuple):
    """One moment, as it is shown: what happened at each place, and how far its log is now."""

    at_ms: float
    cells: dict[str, list[str]]


@dataclass(slots=True)
class _Replica:
    """What was seen of a replica last."""

    partition: Partition  # the object: a replica that is opened anew has another one
    role: str
    ends: tuple[int, int]  # LEO, HW


@dataclass(slots=True)
class Chronicle:
    """An observer in front of another one."""

    _log: list[Entry | _Ends] = field(default_factory=list)
    _replicas: dict[tuple[str, str], _Replica] = field(default_factory=dict)
    _controllers: dict[str, bool] = field(default_factory=dict)
    _records: dict[Key, Stored] = field(default_factory=dict)
    _schedule: Schedule = field(default_factory=Schedule)
    _judge: Observer | None = None

    @property
    def entries(self) -> list[Entry]:
        """Everything but the ends of logs."""
        return [item for item in self._log if isinstance(item, Entry)]

    def before(self, judge: Observer, schedule: Schedule) -> Observer:
        """Watch what `judge` is going to see."""
        self._judge, self._schedule = judge, schedule
        return self

    def note(self, place: str, what: str) -> None:
        """Something was done to a place."""
        self._add(place, "", what)

    def wrote(self, records: dict[Key, Stored]) -> None:
        """The coordinator carried out a write; `records` is what it holds now."""
        for key, record in records.items():
            if self._records.get(key) != record:
                self._records[key] = record
                self._add(STORED, record.name, _stored(record))
        for key in self._records.keys() - records.keys():
            self._add(STORED, self._records.pop(key).name, "deleted")

    # ---- the observer ---------------------------------------------------------------------------

    def started(self, life: Life) -> None:
        self._controllers[life.host.place] = False
        self._look(life)
        if self._judge is not None:
            self._judge.started(life)

    def stepped(self, life: Life, event: Input, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, Report) and output.level is not Level.INFO:
                self._add(life.host.place, "", output.text)
        self._look(life)
        if self._judge is not None:
            self._judge.stepped(life, event, outputs)

    def _add(self, place: str, partition: str, what: str) -> None:
        self._log.append(Entry(self._schedule.now_ms, place, partition, what))

    def _look(self, life: Life) -> None:
        place = life.host.place
        active = life.node.controlling.active
        if self._controllers.get(place, False) != active:
            self._controllers[place] = active
            self._add(place, "", "is the controller" if active else "is no longer controller")
        for partition in life.node.partitions.all():
            self._look_at(place, partition)

    def _look_at(self, place: str, partition: Partition) -> None:
        name, role = str(partition.tp), _role(partition)
        ends = (partition.log_end_offset, partition.high_watermark)
        known = self._replicas.get((place, name))
        if known is not None and known.partition is not partition:
            known = None
        if known is None or known.role != role:
            self._add(place, name, role)
        if known is not None and ends[0] < known.ends[0]:
            self._add(place, name, f"cut back from {known.ends[0]} to {ends[0]}")
        if known is None or known.ends != ends:
            self._log.append(_Ends(place, name, *ends))
        self._replicas[place, name] = _Replica(partition, role, ends)

    # ---- for people -----------------------------------------------------------------------------

    def partitions_in(self, text: str) -> set[str]:
        """The partitions that `text` speaks of; all when it names none."""
        names = {name for _, name in self._replicas}
        return names & set(PARTITION_IN_TEXT.findall(text)) or names

    def rows(self, partitions: set[str]) -> list[Row]:
        """The moments at which something happened to `partitions`, or to brokers as a whole.

        Ends of logs are told where they have changed since they were told last.
        """
        writer = _RowWriter(partitions)
        for item in self._log:
            writer.take(item)
        writer.tell_ends(self._schedule.now_ms)
        return writer.rows


class _RowWriter:
    """Makes rows of what happened, in the order in which it did."""

    def __init__(self, partitions: set[str]) -> None:
        self.rows: list[Row] = []
        self._partitions = partitions
        self._ends: dict[tuple[str, str], _Ends] = {}  # that were not told yet

    def take(self, item: Entry | _Ends) -> None:
        if item.partition and item.partition not in self._partitions:
            return
        if isinstance(item, _Ends):
            self._ends[item.place, item.partition] = item
            return
        self._say(item.at_ms, item, item.what)
        self.tell_ends(item.at_ms)

    def tell_ends(self, at_ms: float) -> None:
        for ends in self._ends.values():
            self._say(at_ms, ends, f"LEO {ends.log_end} HW {ends.high_watermark}")
        self._ends.clear()

    def _say(self, at_ms: float, about: Entry | _Ends, what: str) -> None:
        if not self.rows or self.rows[-1].at_ms != at_ms:
            self.rows.append(Row(at_ms, {}))
        several = about.partition and len(self._partitions) > 1
        line = f"{about.partition} {what}" if several else what
        self.rows[-1].cells.setdefault(about.place, []).append(line)


def _role(partition: Partition) -> str:
    record = partition.record
    view = partition.leader_view()
    if partition.offline_reason is not None:
        return "offline"
    if view is None:
        leader = f"follows b{record.leader}" if record.online else "has no leader"
        return f"{leader}, epoch {record.leader_epoch}"
    isr = view.isr_state
    pending = ""
    if isinstance(isr, PendingExpand):
        pending = f" +{_ids(isr.added)}?"
    elif isinstance(isr, PendingShrink):
        pending = f" -{_ids(isr.removed)}?"
    elr = f" ELR {_ids(record.elr)}" if record.elr else ""
    return f"leads, epoch {view.epoch}, ISR {_ids(isr.isr)}{pending}{elr}"


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _stored(record: Stored) -> str:
    leader = f"leader {record.leader}" if record.leader >= 0 else "no leader"
    elr = f" ELR {_ids(record.elr)}" if record.elr else ""
    members = f"ISR {_ids(record.isr)} of {_ids(record.replicas)}{elr}"
    return f"{leader}, epoch {record.leader_epoch}, {members}"
