"""Apache Kafka's own programs, for the tests of this folder. `make interop` fetches them."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.kafka import JARS, JAVA, Java, KafkaServer, kafka_ports
from tests.support.cluster import Cluster

# Together with the jars: `make test` must not take longer because somebody ran `make interop` once.
ASKED_FOR = "REPLOG_INTEROP"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(300))
            if not os.environ.get(ASKED_FOR):
                item.add_marker(pytest.mark.skip(reason="only with 'make interop'"))


@pytest.fixture(scope="session")
def java() -> Java:
    """Kafka's tools. Without them nobody would notice that they do not work, so no skip here."""
    if not list(JARS.glob("kafka-tools-*.jar")):
        pytest.fail(f"{JARS} has no jars: 'make interop' fetches them (Java 17 and Maven needed)")
    try:
        subprocess.run([JAVA, "-version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.fail("java is missing: 'apt-get install openjdk-17-jdk-headless' or later")
    return Java()


@pytest.fixture(scope="session")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of which tests may stop some."""
    running = Cluster(tmp_path_factory.mktemp("interop"))
    yield running
    running.down()


@pytest.fixture(scope="session")
def kafka(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One Apache Kafka node, broker and controller. It is stopped when a test asks for that."""
    server = KafkaServer(java, tmp_path_factory.mktemp("kafka"), kafka_ports(1))
    server.start()
    try:
        server.wait()
        yield server
    finally:
        server.stop()
