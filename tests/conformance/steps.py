"""What a case is made of: plain data, which `player` plays against three brokers.

Bodies of requests are dicts with the fields of `replog.model.messages`. A field that a version
lacks is left out there, so that one body serves all versions. In strings, `<a>` stands for a name
that no other run has; `Saved`, `TopicId` and `Batch` stand for what is known only while a case is
played.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Body = Mapping[str, Any]
Tamper = Callable[[bytes], bytes]  # takes a frame without its size, returns the one to send

LONG_AGO: Final = 1_700_000_000_000  # the time of produced records, in ms: never taken for now


@dataclass(frozen=True)
class Saved:
    """What an earlier answer held: see `Ask.save`."""

    name: str


@dataclass(frozen=True)
class TopicId:
    """The id of a topic that a `Topic` step made."""

    topic: str


@dataclass(frozen=True)
class Batch:
    """A record batch, right unless told otherwise.

    `header` replaces fields of the header before the CRC is computed, `after` bytes of the finished
    batch by their position; `payload` takes the place of the records.
    """

    values: Sequence[bytes | None] = (b"v",)
    keys: Sequence[bytes | None] | None = None  # as many as values; all null if not given
    times: Sequence[int] | None = None  # ms; LONG_AGO and on if not given
    compression: int = 0
    attributes: int = 0
    base_offset: int = 0
    producer: tuple[Any, int, int] | None = None  # id (maybe Saved), epoch, base sequence
    header: Mapping[str, int] = field(default_factory=dict)
    payload: bytes | None = None
    cut: int = 0  # bytes missing at the end
    after: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Batches:
    """Several batches as the records of one partition."""

    batches: Sequence[Batch]


@dataclass(frozen=True)
class Ask:
    """A request whose answer is compared.

    - `version`: that of the run if it is None.
    - `to`: `b1`, `b2`, `b3`, `any`, `controller`, `coordinator:<g>`, `other:<g>` (a broker that
      does not coordinate the group), `txn:<x>` or `other-txn:<x>`.
    - `save`: names for parts of the answer, which are given by paths like `members.0.member_id`.
    - `hide`: fields that chance decides.
    - `own`: only elements of top-level arrays count in which a name of this run occurs.
    - `only`: of the arrays of that name, elements whose field has one of the values count.
    - `until`, `until_empty`: the path of a number that must not be negative, of an array that must
      be empty; it is asked again until then.
    - `line`: the name of a connection of its own. With `later`, a later `Take` gets the answer.
    - `tamper`: changes the frame.
    - `check`: False if nobody looks at the answer.
    - `patient`: ask again while a coordinator is loading or moving.
    """

    api: str
    body: Body = field(default_factory=dict)
    version: int | None = None
    to: str = "b1"
    save: Mapping[str, str] = field(default_factory=dict)
    hide: Sequence[str] = ()
    own: bool = False
    only: Mapping[str, tuple[str, Sequence[Any]]] = field(default_factory=dict)
    until: str = ""
    until_empty: str = ""
    ordered: bool = False
    line: str = ""
    later: bool = False
    tamper: Tamper | None = None
    check: bool = True
    patient: bool = True


@dataclass(frozen=True)
class Take:
    """The answer to a request that was sent with `later` on this line."""

    line: str


@dataclass(frozen=True)
class Topic:
    """Make a topic, led by b1 unless `assignment` says otherwise, and wait until all know it."""

    name: str
    assignment: Sequence[Sequence[int]] = ((1, 2, 3),)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Write:
    """Produce to a topic with acks=all; it must succeed."""

    topic: str
    records: Batch | Batches
    partition: int = 0


@dataclass(frozen=True)
class Pause:
    """Let time pass, where only time helps."""

    ms: int


@dataclass(frozen=True)
class Hangup:
    """Close the connection of that name."""

    line: str


Step = Ask | Take | Topic | Write | Pause | Hangup


@dataclass(frozen=True)
class Case:
    """A few steps, played once for each of the versions of `api` that it names.

    `versions` is None for the newest one, "all" for all that are served, or a list.
    """

    name: str
    api: str
    steps: Sequence[Step]
    versions: str | Sequence[int] | None = None

    @property
    def area(self) -> str:
        """What it is about: the first part of its name."""
        return self.name.split(".")[0]
