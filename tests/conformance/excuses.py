"""Where Replog answers otherwise on purpose. docs/conformance.md gives the reasons at length.

An excuse that nothing needs any more fails the test, so that none outlives its difference.
"""

from fnmatch import fnmatchcase
from typing import Final, NamedTuple


class Excuse(NamedTuple):
    """Runs by a pattern of their names, and why the difference is better or does not matter."""

    runs: str
    why: str


_FEATURES = "only features are claimed that are there (KIP-584)"
_NO_SERVER_ERROR = "a mistake of the client has a code of its own"

EXCUSES: Final[tuple[Excuse, ...]] = (
    Excuse("apiversions.features.v*", _FEATURES),
    Excuse("features.others.group.v*", _FEATURES),
    Excuse("features.others.kraft.v*", _FEATURES),
    Excuse("features.others.streams.v*", _FEATURES),
    Excuse("features.others.transaction.v*", _FEATURES),
    Excuse("produce.twice.v*", "both batches are appended, and two answers are true"),
    Excuse("incremental.operation.*", _NO_SERVER_ERROR),
    Excuse("static.id.of.another.v*", _NO_SERVER_ERROR),
    Excuse("topicpartitions.unknown.v*", _NO_SERVER_ERROR),
    Excuse("incremental.broker.unknown.v*", "a misspelt name must not look as if it were set"),
    Excuse(
        "incremental.broker.log.cleaner.dedupe.buffer.size.v*",
        "a small buffer means more passes, and no failure",
    ),
)


def excuse_of(run: str) -> Excuse | None:
    """The first that fits."""
    return next((excuse for excuse in EXCUSES if fnmatchcase(run, excuse.runs)), None)
