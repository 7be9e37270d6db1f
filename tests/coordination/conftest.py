"""Fixtures of the contract tests."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.coordination.doors import Backend, MemBackend, SqliteBackend, ZooKeeperBackend
from tests.support.zookeeper import Ensemble

_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "sqlite", "zookeeper"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made: Backend
    if request.param == "memory":
        made = MemBackend()
    elif request.param == "sqlite":
        made = SqliteBackend(tmp_path)
    else:
        ensemble: Ensemble = request.getfixturevalue("ensemble")
        made = ZooKeeperBackend(ensemble.hosts, f"test-{next(_numbers)}")
    yield made
    made.close()


@pytest.fixture
def sqlite_backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    made = SqliteBackend(tmp_path)
    yield made
    made.close()


@pytest.fixture
def zookeeper_backend(ensemble: Ensemble) -> Iterator[ZooKeeperBackend]:
    made = ZooKeeperBackend(ensemble.hosts, f"test-{next(_numbers)}")
    yield made
    made.close()
