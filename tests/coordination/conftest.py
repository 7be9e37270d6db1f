"""Fixtures of the contract tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.coordination.doors import Backend, MemBackend, SqliteBackend


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made: Backend = MemBackend() if request.param == "memory" else SqliteBackend(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sqlite_backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    made = SqliteBackend(tmp_path)
    yield made
    made.close()
