"""What the Python programs share: the words they are called with, and what they print.

The page `tests/interop/clients.py` says what each of them must do.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

FILLER = "replog " * 20


@dataclass(frozen=True)
class Produce:
    """One run of a producer."""

    bootstrap: str
    topic: str
    first: int
    count: int
    codec: str
    idempotent: bool
    per_second: int  # 0: as fast as it goes

    def chunks(self) -> Iterator[range]:
        """Numbers of records, as many at a time as are due."""
        size = max(1, self.per_second // 50) if self.per_second else 500
        pause_s = size / self.per_second if self.per_second else 0.0
        due = time.monotonic()
        end = self.first + self.count
        for start in range(self.first, end, size):
            yield range(start, min(start + size, end))
            due += pause_s
            time.sleep(max(0.0, due - time.monotonic()))


@dataclass(frozen=True)
class Consume:
    """One run of a member of a group."""

    bootstrap: str
    topic: str
    group: str
    count: int  # different records after which it ends


@dataclass(frozen=True)
class Admin:
    """One run through the calls of an admin client."""

    bootstrap: str
    topic: str  # to be made
    data: str  # a topic with records
    group: str  # which has committed offsets of `data`


@dataclass(frozen=True)
class Program:
    """What a library must be able to do."""

    version: str
    produce: Callable[[Produce], None]
    consume: Callable[[Consume], None]
    admin: Callable[[Admin], None] | None = None

    def run(self) -> None:
        """Do what the command line says."""
        verb, *words = sys.argv[1:]
        if verb == "version":
            print(self.version)
        elif verb == "produce":
            bootstrap, topic, first, count, codec, mode, per_second = words
            idempotent = mode == "idempotent"
            self.produce(
                Produce(
                    bootstrap, topic, int(first), int(count), codec, idempotent, int(per_second)
                )
            )
        elif verb == "consume":
            bootstrap, topic, group, count = words
            self.consume(Consume(bootstrap, topic, group, int(count)))
        elif verb == "admin" and self.admin is not None:
            self.admin(Admin(*words))
        else:
            sys.exit(f"no such verb: {verb}")


def key(number: int) -> bytes:
    """Of a numbered record."""
    return b"%d" % number


def value(number: int) -> bytes:
    """Of a numbered record: its number, and something that compression bites on."""
    return f"{number:08d} {FILLER}".encode()


def number_of(found: bytes) -> int:
    """The number of the record with this value."""
    return int(found[:8])


def told(partition: int, offset: int, number: int) -> None:
    """Print one record that was acknowledged, or read."""
    sys.stdout.write(f"{partition} {offset} {number}\n")  # in one piece: threads share it
    sys.stdout.flush()


def steps(calls: Mapping[str, Callable[[], object]]) -> None:
    """Make the calls in their order and print what they answer."""
    for name, call in calls.items():
        print(name, call(), flush=True)


def soon(wanted: object, ask: Callable[[], object]) -> object:
    """Ask until the answer is the wanted one, as brokers learn of a change one after the other."""
    limit = time.monotonic() + 10
    while (found := ask()) != wanted and time.monotonic() < limit:
        time.sleep(0.05)
    return found
