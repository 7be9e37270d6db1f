"""Apache Kafka's own programs, for the tests of this folder. `make interop` fetches them."""

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from tests.interop import clients, report
from tests.interop.kafka import JARS, JAVA, Java, KafkaServer, kafka_ports
from tests.support.cluster import Cluster

# Together with the jars: `make test` must not take longer because somebody ran `make interop` once.
ASKED_FOR = "REPLOG_INTEROP"
PAGE = "REPLOG_INTEROP_PAGE"  # where a run writes what it found

# A test starts ten programs of Java, and a busy machine takes half a minute for each.
HANGS_S = 900

NOTE = pytest.StashKey[str]()
FINDINGS = pytest.StashKey[report.Findings]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(column): of its client, in docs/clients.md")
    config.addinivalue_line("markers", "shows_tools(*names): in docs/clients.md")
    config.addinivalue_line("markers", "shows_scenario(name): in docs/clients.md")
    before = Path(os.environ.get(PAGE) or os.devnull)
    config.stash[FINDINGS] = report.findings_in(before.read_text() if before.exists() else "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(HANGS_S))
            if not os.environ.get(ASKED_FOR):
                item.add_marker(pytest.mark.skip(reason="only with 'make interop'"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    outcome = yield
    if outcome.when == "call" or outcome.failed:
        result = "fails" if outcome.failed else item.stash.get(NOTE, "works")
        _file(item, result, item.config.stash[FINDINGS])
    return outcome


def _file(item: pytest.Item, result: str, found: report.Findings) -> None:
    """Put the result of a test where its marks say."""
    for mark in item.iter_markers("shows"):
        client = item.callspec.params["client"]  # type: ignore[attr-defined]
        found.clients[client.name, mark.args[0]] = result
    for mark in item.iter_markers("shows_tools"):
        for name in mark.args:
            found.tools[name] = result
    for mark in item.iter_markers("shows_scenario"):
        found.scenarios[mark.args[0]] = result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if file := os.environ.get(PAGE):
        found = session.config.stash[FINDINGS]
        for client in clients.CLIENTS:
            found.languages[client.name] = client.language
            found.versions[client.name] = client.run("version").strip()
        Path(file).write_text(report.page(found))


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says what stands in the page when the test passes."""

    def keep(text: str) -> None:
        request.node.stash[NOTE] = text

    return keep


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
