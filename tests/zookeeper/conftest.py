"""Clusters that meet in a real ZooKeeper ensemble, and take long: `make zookeeper`."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.zookeeper import Ensemble

ASKED_FOR = "REPLOG_ZOOKEEPER"

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
            if not os.environ.get(ASKED_FOR):
                item.add_marker(pytest.mark.skip(reason="only with 'make zookeeper'"))


@pytest.fixture
def own_ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    """Three servers for a test that breaks them."""
    running = Ensemble(tmp_path / "ensemble")
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def zk_cluster(ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers that a test may kill."""
    home = tmp_path / "home"
    home.mkdir()
    address = f"zk://{ensemble.hosts}/cluster-{next(_numbers)}"
    running = Cluster(home, settings={"replog.coordinator": address})
    yield running
    running.down()
