"""All runs of all cases, and playing many of them at once."""

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple
from zlib import crc32

from tests.conformance.cases import CASES
from tests.conformance.line import Address
from tests.conformance.player import BY_NAME, Player
from tests.conformance.steps import Case

AT_ONCE: Final = 8  # runs; most of the time of each is spent waiting for brokers


class Run(NamedTuple):
    """A case at one version."""

    case: Case
    version: int

    @property
    def name(self) -> str:
        return f"{self.case.name}.v{self.version}"


def runs_of(case: Case) -> list[Run]:
    api = BY_NAME[case.api]
    if case.versions is None:
        return [Run(case, api.max_version)]
    if case.versions == "all":
        return [Run(case, v) for v in range(api.min_understood, api.max_version + 1)]
    assert not isinstance(case.versions, str), case
    return [Run(case, version) for version in case.versions]


def all_runs() -> list[Run]:
    return [run for case in CASES for run in runs_of(case)]


def some_runs() -> list[Run]:
    """Each case once; which of its versions that is, its name decides."""
    return [
        versions[crc32(case.name.encode()) % len(versions)]
        for case, versions in ((case, runs_of(case)) for case in CASES)
    ]


def play(
    runs: Iterable[Run], brokers: Mapping[int, Address], *, lag_s: float = 0.0
) -> dict[str, Any]:
    """Answers by the names of the runs. What goes wrong in a run is its answer."""

    def one(run: Run) -> tuple[str, Any]:
        tag = uuid.uuid4().hex[:12]
        try:
            return run.name, Player(brokers, tag, run.version, lag_s=lag_s).play(run.case)
        except Exception as error:  # noqa: BLE001  # one run must not hide the others' answers
            return run.name, f"failed: {type(error).__name__}: {error}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(pool.map(one, runs))
