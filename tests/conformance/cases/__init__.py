"""The cases, by area."""

from collections.abc import Sequence
from typing import Final

from tests.conformance.cases import (
    batches,
    cluster,
    commits,
    configs,
    fetch,
    frames,
    group_admin,
    groups,
    moves,
    offsets,
    produce,
    producers,
    topic_configs,
    topics,
)
from tests.conformance.steps import Case

CASES: Final[Sequence[Case]] = (
    *frames.CASES,
    *produce.CASES,
    *batches.CASES,
    *producers.CASES,
    *fetch.CASES,
    *offsets.CASES,
    *topics.CASES,
    *topic_configs.CASES,
    *configs.CASES,
    *cluster.CASES,
    *moves.CASES,
    *groups.CASES,
    *group_admin.CASES,
    *commits.CASES,
)
