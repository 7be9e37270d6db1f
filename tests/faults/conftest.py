"""Clusters that a test may break."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers of this test alone."""
    running = Cluster(tmp_path, settings={"auto.leader.rebalance.enable": "false"})
    yield running
    running.down()
