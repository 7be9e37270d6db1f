"""What producers were promised, and whether a log keeps it.

A value is a function of who wrote it, where and as which record, so a value that is read tells
whether it is the one that was written. Nothing here does I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

PROBLEMS_SHOWN_MAX = 20  # a broken log breaks many records; the first ones tell the story


@dataclass(frozen=True, slots=True)
class Writer:
    """A producer by name. An idempotent one promises no repeats and no other order."""

    name: str  # without '/'
    idempotent: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The cluster said: record `number` of `writer` is committed at `offset` of `partition`."""

    writer: str
    partition: int
    number: int
    offset: int


@dataclass(slots=True)
class Verdict:
    """What was checked, and what is wrong; each problem is one line."""

    acknowledged: int = 0
    read: int = 0
    repeated_by_plain_writers: int = 0  # allowed: a retry without idempotence may repeat
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def wrong(self, text: str) -> None:
        """Note a problem; only the first PROBLEMS_SHOWN_MAX are kept in words."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_SHOWN_MAX:
            self.problems.append(text)

    @property
    def ok(self) -> bool:
        return self.problem_count == 0


def value_of(writer: str, partition: int, number: int, size: int = 100) -> bytes:
    """The value of a record: its name, then filler that depends on the name, `size` bytes in all.

    It is longer than `size` when the name alone is.
    """
    name = f"{writer}/{partition}/{number}/".encode()
    room = size - len(name)
    if room <= 0:
        return name
    filler = blake2b(name, digest_size=32).hexdigest().encode()
    return name + (filler * (room // len(filler) + 1))[:room]


def name_in(value: bytes) -> tuple[str, int, int] | None:
    """Writer, partition and number that `value` claims; None when it is no value of ours."""
    parts = value.split(b"/", 3)
    if len(parts) != 4 or not parts[1].isdigit() or not parts[2].isdigit():
        return None
    return parts[0].decode(errors="replace"), int(parts[1]), int(parts[2])


def judge(
    logs: Mapping[int, Sequence[tuple[int, bytes]]],
    acknowledged: Sequence[Acknowledged],
    writers: Sequence[Writer],
) -> Verdict:
    """Hold what was read from offset 0 on, by partition, against all acknowledgements.

    Wrong are: an offset that is missing or comes twice, a value that nobody wrote, an acknowledged
    record that is not at its offset, and a record of an idempotent writer that comes twice or after
    a later one.
    """
    verdict = Verdict(acknowledged=len(acknowledged))
    for partition, records in sorted(logs.items()):
        _judge_log(partition, records, writers, verdict)
    values = {partition: dict(records) for partition, records in logs.items()}
    for ack in acknowledged:
        value = values.get(ack.partition, {}).get(ack.offset)
        where = f"partition {ack.partition} offset {ack.offset}"
        if value is None:
            verdict.wrong(f"lost: {where} was acknowledged ({ack.writer} {ack.number}), not there")
        elif name_in(value) != (ack.writer, ack.partition, ack.number):
            verdict.wrong(f"changed: {where} was {ack.writer} {ack.number}, is {value[:40]!r}")
    return verdict


def _judge_log(
    partition: int,
    records: Sequence[tuple[int, bytes]],
    writers: Sequence[Writer],
    verdict: Verdict,
) -> None:
    idempotent = {writer.name: writer.idempotent for writer in writers}
    newest: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for position, (offset, value) in enumerate(records):
        verdict.read += 1
        where = f"partition {partition} offset {offset}"
        if offset != position:
            verdict.wrong(f"gap or repeat: {where} comes where {position} was expected")
            return  # everything after it is off by the same distance
        name = name_in(value)
        if name is None or name[0] not in idempotent or name[1] != partition:
            verdict.wrong(f"stranger: {where} holds {value[:40]!r}, which nobody wrote there")
            continue
        writer, _, number = name
        if value != value_of(writer, partition, number, len(value)):
            verdict.wrong(f"changed: {where} claims to be {writer} {number}, but its bytes differ")
        if (writer, number) in seen:
            if idempotent[writer]:
                verdict.wrong(f"repeated: {where} holds {writer} {number} once more")
            else:
                verdict.repeated_by_plain_writers += 1
        elif idempotent[writer] and number < newest.get(writer, -1):
            verdict.wrong(f"reordered: {where} holds {writer} {number} after {newest[writer]}")
        seen.add((writer, number))
        newest[writer] = max(number, newest.get(writer, -1))
