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
    """An observer in front of another one. Entries are in order of time."""

    entries: list[Entry] = field(default_factory=list)
    # (index of the entry that follows, place, partition) -> LEO, HW: too many to be entries
    _ends: list[tuple[int, str, str, tuple[int, int]]] = field(default_factory=list)
    _replicas: dict[tuple[str, str], _Replica] = field(default_factory=dict)
    _controllers: dict[str, bool] = field(default_factory=dict)
    _records: dict[Key, Stored] = field(default_factory=dict)
    _schedule: Schedule = field(default_factory=Schedule)
    _judge: Observer | None = None

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
        self.entries.append(Entry(self._schedule.now_ms, place, partition, what))

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
            self._ends.append((len(self.entries), place, name, ends))
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
        rows: list[Row] = []
        now: dict[tuple[str, str], tuple[int, int]] = {}
        told: dict[tuple[str, str], tuple[int, int]] = {}
        ends = iter(self._ends)
        next_end = next(ends, None)
        for index, entry in enumerate(self.entries):
            while next_end is not None and next_end[0] <= index:
                if next_end[2] in partitions:
                    now[next_end[1], next_end[2]] = next_end[3]
                next_end = next(ends, None)
            if entry.partition and entry.partition not in partitions:
                continue
            if not rows or rows[-1].at_ms != entry.at_ms:
                rows.append(Row(entry.at_ms, {}))
            front = f"{entry.partition} " if entry.partition and len(partitions) > 1 else ""
            rows[-1].cells.setdefault(entry.place, []).append(front + entry.what)
            _tell_ends(rows[-1], now, told, several=len(partitions) > 1)
        last = self._last_ends(partitions, now)
        if rows:
            rows.append(Row(self._schedule.now_ms, {}))
            _tell_ends(rows[-1], last, told, several=len(partitions) > 1)
        return rows

    def _last_ends(
        self, partitions: set[str], now: dict[tuple[str, str], tuple[int, int]]
    ) -> dict[tuple[str, str], tuple[int, int]]:
        last = dict(now)
        for _, place, name, ends in self._ends:
            if name in partitions:
                last[place, name] = ends
        return last


def _tell_ends(
    row: Row,
    now: dict[tuple[str, str], tuple[int, int]],
    told: dict[tuple[str, str], tuple[int, int]],
    *,
    several: bool,
) -> None:
    for (place, name), (log_end, high_watermark) in now.items():
        if told.get((place, name)) != (log_end, high_watermark):
            told[place, name] = (log_end, high_watermark)
            front = f"{name} " if several else ""
            row.cells.setdefault(place, []).append(f"{front}LEO {log_end} HW {high_watermark}")


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
