"""What tests of several rooms share."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.support.cluster import Cluster
from tests.support.zookeeper import Ensemble

# Of a busy machine it says nothing how long an example takes.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of real processes, shared by all tests that leave them alive."""
    home: Path = tmp_path_factory.mktemp("shared-cluster")
    running = Cluster(home)
    yield running
    running.down()


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three ZooKeeper servers, shared by all tests that leave them alive. Take a chroot each."""
    running = Ensemble(tmp_path_factory.mktemp("ensemble"))
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses: the test's name, and a number for all of its id."""
    name: str = request.node.name
    readable = "".join(c if c.isalnum() else "-" for c in name)[-100:].strip("-").lower()
    return f"{readable}-{zlib.crc32(request.node.nodeid.encode()):08x}"
