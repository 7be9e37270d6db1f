"""20 members over 60 partitions come and go: one owner each, nothing skipped, nothing undone."""

import os

import pytest
from tests.interop.clients import SHORT
from tests.interop.rebalance import KINDS, MEMBERS_MAX, PARTITIONS, rebalance
from tests.support.cluster import Cluster

RUN = KINDS if not SHORT else ("librdkafka/cooperative-sticky", "java/range")
SECONDS = float(os.environ.get("REPLOG_REBALANCE_SECONDS", "8" if SHORT else "180"))


@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind,
            marks=pytest.mark.shows_scenario(
                f"{MEMBERS_MAX} members over {PARTITIONS} partitions come and go: {kind}"
            ),
        )
        for kind in RUN
    ],
)
def test_members_come_and_go(own_cluster: Cluster, topic: str, kind: str) -> None:
    found = rebalance(own_cluster, topic, kind, SECONDS, seed=1)
    assert not found.problems, "\n".join(found.problems[:20])
