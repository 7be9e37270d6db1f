"""One broker as a process: how it starts, what it refuses, how it ends."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from replog.core.controller import stored
from replog.model.config import BrokerConfig
from replog.model.messages.metadata import MetadataResponse
from replog.node.log_folder import FolderSetup
from replog.runtime.broker import BrokerProcess
from replog.runtime.client import AdminClient, ClientError, parse_bootstrap
from replog.runtime.coordination.sqlite import SqliteCoordination
from replog.runtime.loop import Cluster
from replog.runtime.ports import free_ports
from replog.sim.mem_disk import MemDisk

WAIT_S = 30.0


@dataclass
class Brokers:
    """Starts brokers in a folder and sees to it that none is left."""

    folder: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def settings(self, node_id: int, port: int) -> dict[str, str]:
        return {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(self.folder / f"data-{node_id}"),
            "replog.coordinator": f"sqlite:{self.folder / 'coordinator' / 'replog.db'}",
        }

    def start(self, settings: dict[str, str]) -> subprocess.Popen[bytes]:
        number = len(self.children)
        path = self.folder / f"server-{number}.properties"
        path.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        with open(self.folder / f"log-{number}", "wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "replog.runtime", str(path)], stderr=log, stdout=log
            )
        self.children.append(child)
        return child

    def said(self, child: subprocess.Popen[bytes]) -> str:
        return (self.folder / f"log-{self.children.index(child)}").read_text()

    def wait_says(self, child: subprocess.Popen[bytes], text: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while text not in self.said(child):
            assert child.poll() is None and time.monotonic() < deadline, self.said(child)
            time.sleep(0.02)

    def refusal(self, settings: dict[str, str]) -> str:
        """The one line of a broker that can't start."""
        child = self.start(settings)
        assert child.wait(WAIT_S) == 1, self.said(child)
        lines = self.said(child).strip().splitlines()
        assert len(lines) == 1, lines
        return lines[0]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path)
    yield made
    for child in made.children:
        child.kill()
        child.wait()


def free_port() -> int:
    return free_ports("127.0.0.1", 1)[0]


def test_a_broker_serves_until_it_is_asked_to_stop(brokers: Brokers) -> None:
    port = free_port()
    child = brokers.start(brokers.settings(5, port))
    brokers.wait_says(child, "serving PLAINTEXT://127.0.0.1")
    deadline = time.monotonic() + WAIT_S
    with AdminClient(f"127.0.0.1:{port}") as client:
        while not client.brokers() and time.monotonic() < deadline:
            time.sleep(0.02)
        answer = client.metadata()
        assert client.brokers() == {5: ("127.0.0.1", port)}
        asked = client.call(_metadata(), broker=5)
        assert isinstance(asked, MetadataResponse) and asked.cluster_id == answer.cluster_id
    child.send_signal(signal.SIGTERM)
    assert child.wait(WAIT_S) == 0, brokers.said(child)
    coordination = SqliteCoordination(brokers.folder / "coordinator" / "replog.db")
    nodes = coordination.read_now(["/brokers/ids", "/cluster/id"])
    coordination.close()
    assert "/brokers/ids/5" not in nodes, "its session is over"
    assert stored.decode_cluster_id(nodes["/cluster/id"].data) == answer.cluster_id
    assert (brokers.folder / "data-5" / ".kafka_cleanshutdown").exists()


def _metadata():  # type: ignore[no-untyped-def]
    from replog.model.messages.metadata import MetadataRequest

    return MetadataRequest(topics=[])


def test_the_log_is_one_line_an_event_with_time_level_and_broker(brokers: Brokers) -> None:
    child = brokers.start(brokers.settings(5, free_port()))
    brokers.wait_says(child, "serving")
    line = brokers.said(child).splitlines()[0]
    date, clock, level, rest = line.split(" ", 3)
    assert len(date) == 10 and len(clock) == 12 and level == "INFO"
    assert rest.startswith("broker 5: serving")


def test_a_process_has_the_title_of_its_broker(brokers: Brokers) -> None:
    child = brokers.start(brokers.settings(5, free_port()))
    brokers.wait_says(child, "serving")
    command = Path(f"/proc/{child.pid}/cmdline").read_bytes().rstrip(b"\0")
    assert command == b"replog broker 5"


def test_a_signal_that_comes_before_the_loop_turns_is_not_lost(brokers: Brokers) -> None:
    child = brokers.start(brokers.settings(5, free_port()))
    folder = brokers.folder / "data-5"
    deadline = time.monotonic() + WAIT_S
    while not (folder / "meta.properties").exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    child.send_signal(signal.SIGTERM)
    assert child.wait(WAIT_S) in (0, -signal.SIGTERM), brokers.said(child)


def test_a_second_signal_ends_it_at_once(brokers: Brokers) -> None:
    child = brokers.start(brokers.settings(5, free_port()))
    brokers.wait_says(child, "serving")
    os.kill(child.pid, signal.SIGTERM)
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(WAIT_S) in (0, 1)


def test_a_port_in_use_is_refused_and_nothing_is_made(brokers: Brokers) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before = set(brokers.folder.iterdir())
        line = brokers.refusal(brokers.settings(5, port))
    assert line == (
        f"replog: broker 5: listener PLAINTEXT://127.0.0.1:{port}: port {port} is in use"
    )
    made = {p.name for p in set(brokers.folder.iterdir()) - before}
    assert made == {"server-0.properties", "log-0"}


def test_a_log_folder_in_use_is_refused(brokers: Brokers) -> None:
    first = brokers.start(brokers.settings(5, free_port()))
    brokers.wait_says(first, "serving")
    line = brokers.refusal(brokers.settings(5, free_port()))
    assert "is in use by another broker" in line and "data-5" in line
    assert first.poll() is None


def test_a_folder_of_another_broker_is_refused(brokers: Brokers) -> None:
    first = brokers.start(brokers.settings(5, free_port()))
    brokers.wait_says(first, "registered")
    first.kill()
    first.wait()
    moved = brokers.settings(6, free_port()) | {"log.dirs": str(brokers.folder / "data-5")}
    assert "belongs to broker 5, not to 6" in brokers.refusal(moved)


def test_a_folder_of_another_cluster_is_refused(brokers: Brokers) -> None:
    settings = brokers.settings(5, free_port())
    first = brokers.start(settings)
    brokers.wait_says(first, "registered")
    first.kill()
    first.wait()
    other = settings | {"replog.coordinator": f"sqlite:{brokers.folder / 'other.db'}"}
    assert "belongs to cluster" in brokers.refusal(other)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"node.id": "x"}, "node.id"),
        ({"log.segment.byte": "1"}, "did you mean log.segment.bytes?"),
        ({"listeners": "PLAINTEXT://256.1.1.1:9092"}, "listener PLAINTEXT://256.1.1.1:9092"),
        ({"log.dirs": "/proc/replog"}, "/proc/replog"),
        ({"replog.coordinator": "sqlite:/proc/replog.db"}, "/proc/replog.db"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_1(
    brokers: Brokers, change: dict[str, str], text: str
) -> None:
    line = brokers.refusal(brokers.settings(5, free_port()) | change)
    assert line.startswith("replog: ") and text in line


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replog.runtime", str(tmp_path / "none")], capture_output=True
    )
    assert done.returncode == 1
    assert done.stderr.decode().strip() == (
        f"replog: {tmp_path / 'none'} can't be read: No such file or directory"
    )


def test_a_killed_broker_starts_again_on_its_folder(brokers: Brokers) -> None:
    settings = brokers.settings(5, free_port())
    epochs = []
    for _ in range(2):
        child = brokers.start(settings)
        brokers.wait_says(child, "registered as broker 5, epoch ")
        said = brokers.said(child)
        epochs.append(int(said.split("registered as broker 5, epoch ")[1].split()[0]))
        child.kill()
        child.wait()
    assert epochs[0] < epochs[1]


def test_who_can_not_be_reached_is_named() -> None:
    port = free_port()
    text = f"127.0.0.1:{port}: can't connect: Connection refused"
    with AdminClient(f"127.0.0.1:{port}") as client, pytest.raises(ClientError, match=text):
        client.metadata()
    with pytest.raises(ClientError, match="'nonsense' is not HOST:PORT"):
        parse_bootstrap("nonsense")
    assert parse_bootstrap("a:1, [::1]:2") == [("a", 1), ("::1", 2)]


def test_who_does_not_answer_is_named() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        port = deaf.getsockname()[1]
        text = f"127.0.0.1:{port}: no answer within 0.2 s"
        with (
            AdminClient(f"127.0.0.1:{port}", timeout_s=0.2) as client,
            pytest.raises(ClientError, match=text),
        ):
            client.metadata()


def test_it_tells_that_it_lives_as_often_as_is_set() -> None:
    given = {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "broker.heartbeat.interval.ms": "700",
    }
    process = BrokerProcess(BrokerConfig(given))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process._sockets = [listener]
        node = process._make_node(Cluster("c", b"s"), [FolderSetup("/logs", MemDisk())])
    assert process._session_settings(node).ping_ms == 700
