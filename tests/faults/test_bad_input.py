"""Mistakes: each is one clear line or Kafka's own code, and leaves nothing half made."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.cluster import Cluster, replog

from replog.cli.ports import free_ports


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 1, nothing on stdout, one line on stderr that holds all of `words`."""
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert not done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---- topics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["..", ".", "a/b", "x" * 250, "spaß"])
def test_illegal_topic_names(cluster: Cluster, name: str) -> None:
    refused(cluster.try_to("topic", "create", name), "INVALID_TOPIC_EXCEPTION")
    assert name not in [t["name"] for t in cluster.run("topic", "list")]


def test_a_name_of_249_characters_is_legal(cluster: Cluster) -> None:
    name = "y" * 249
    cluster.create_topic(name, partitions=1)
    cluster.run("topic", "delete", name)


@pytest.mark.parametrize("exact", [False, True], ids=["by the controller", "by the command"])
def test_more_replicas_than_live_brokers(cluster: Cluster, topic: str, exact: bool) -> None:
    words = ["--start-index", "0", "--shift", "0"] if exact else []
    done = cluster.try_to(
        "topic", "create", topic, "--partitions", "1", "--replication-factor", "4", *words
    )
    refused(done, "INVALID_REPLICATION_FACTOR", "4")
    assert topic not in [t["name"] for t in cluster.run("topic", "list")]


def test_kafka_clients_get_kafkas_codes(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for asked, code in [
        (NewTopic(topic, 1, 4), "INVALID_REPLICATION_FACTOR"),
        (NewTopic("a/b", 1, 1), "TOPIC_EXCEPTION"),
        (NewTopic(topic, 0, 1), "INVALID_PARTITIONS"),
    ]:
        with pytest.raises(KafkaException) as failure:
            next(iter(admin.create_topics([asked]).values())).result(30)
        assert code in failure.value.args[0].name()


def test_an_unknown_topic(cluster: Cluster) -> None:
    for words in (("topic", "describe"), ("topic", "delete")):
        done = cluster.try_to(*words, "no-such-topic")
        assert done.returncode == 1 and "UNKNOWN_TOPIC_OR_PARTITION" in done.stderr
    refused(cluster.try_to("consume", "no-such-topic"), "no-such-topic", "replog topic create")
    done = cluster.try_to("produce", "no-such-topic", stdin=b"lost\n")
    refused(done, "no-such-topic", "replog topic create")
    assert "no-such-topic" not in [t["name"] for t in cluster.run("topic", "list")]


def test_a_topic_that_is_there_already(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    refused(cluster.try_to("topic", "create", topic), "TOPIC_ALREADY_EXISTS")
    assert cluster.run("topic", "create", topic, "--if-not-exists")["created"] is False
    assert len(cluster.describe(topic)["partitions"]) == 2


# ---- starting -------------------------------------------------------------------------------


def test_a_port_in_use(tmp_path: Path) -> None:
    first = free_ports(3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        taken.listen()
        done = replog("up", "--port", str(first), "--data", "new", "--detach", home=tmp_path)
    refused(done, f"port {first + 2} is in use")
    assert not (tmp_path / "new").exists()


def without_privileges() -> list[str]:
    """Root may write everywhere, unless it gives its capabilities away."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv here to stop it")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    done = subprocess.run(
        [
            *without_privileges(),
            *(sys.executable, "-m", "replog", "up", "--detach"),
            *("--port", str(free_ports(3)), "--data", str(tmp_path / "closed" / "new")),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    refused(done, "closed/new", "Permission denied")


def test_a_folder_that_may_not_be_read(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    file = properties(
        tmp_path,
        node_id=9,
        listeners=f"PLAINTEXT://127.0.0.1:{free_ports(1)}",
        log_dirs=tmp_path / "closed",
        replog_coordinator=f"sqlite:{cluster.local.coordinator}",
    )
    done = subprocess.run(
        [*without_privileges(), sys.executable, "-m", "replog", "broker", "run", "--config", file],
        capture_output=True,
        text=True,
        timeout=60,
    )
    refused(done, "closed", "Permission denied")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = replog("up", "--port", str(free_ports(3)), "--data", "file", "--detach", home=tmp_path)
    refused(done, str(tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "not a folder"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("min.insync.replica=2", ["min.insync.replica", "min.insync.replicas"]),
        ("num.partitions=many", ["num.partitions", "many"]),
    ],
)
def test_a_setting_that_makes_no_sense(tmp_path: Path, setting: str, words: list[str]) -> None:
    port = str(free_ports(3))
    done = replog("up", "--port", port, "--data", "new", "--set", setting, home=tmp_path)
    refused(done, *words)
    assert not (tmp_path / "new").exists()


def test_a_cluster_that_runs_already(cluster: Cluster) -> None:
    refused(cluster.try_to("up", "--detach"), "running")
    assert len(cluster.local.running()) == 3


def test_a_broker_that_is_not_there(cluster: Cluster) -> None:
    for verb in ("start", "stop", "kill", "pause", "resume"):
        refused(cluster.try_to("broker", verb, "7"), "there is no broker 7", "0, 1, 2")


def test_a_broker_that_runs_already(cluster: Cluster) -> None:
    refused(cluster.try_to("broker", "start", "1"), "broker 1 is running already")


# ---- one broker from a file -----------------------------------------------------------------


def run_broker(file: Path, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "replog", "broker", "run", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=home,
    )


def properties(home: Path, **settings: object) -> Path:
    lines = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    file = home / "server.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.scenario(48)
def test_a_second_broker_with_the_same_id(cluster: Cluster, tmp_path: Path) -> None:
    file = properties(
        tmp_path,
        node_id=1,
        listeners=f"PLAINTEXT://127.0.0.1:{free_ports(1)}",
        log_dirs=tmp_path / "log",
        replog_coordinator=f"sqlite:{cluster.local.coordinator}",
    )
    done = run_broker(file, tmp_path)
    assert done.returncode == 1
    assert "broker id 1" in done.stderr and "already" in done.stderr
    # the first one did not notice
    assert {b["broker"]: b["state"] for b in cluster.run("status")["brokers"]}[1] == "running"


@pytest.mark.scenario(48)
def test_the_log_folder_of_a_running_broker(cluster: Cluster, tmp_path: Path) -> None:
    file = properties(
        tmp_path,
        node_id=9,
        listeners=f"PLAINTEXT://127.0.0.1:{free_ports(1)}",
        log_dirs=cluster.local.log_dir(1),
        replog_coordinator=f"sqlite:{cluster.local.coordinator}",
    )
    done = run_broker(file, tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "in use" in done.stderr


def test_a_properties_file_that_is_not_there(tmp_path: Path) -> None:
    done = run_broker(tmp_path / "missing.properties", tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "missing.properties" in done.stderr


def test_a_port_that_another_broker_has(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.ports[0]
    file = properties(
        tmp_path,
        node_id=9,
        listeners=f"PLAINTEXT://127.0.0.1:{port}",
        log_dirs=tmp_path / "log",
        replog_coordinator=f"sqlite:{cluster.local.coordinator}",
    )
    done = run_broker(file, tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert str(port) in done.stderr
    assert not (tmp_path / "log").exists()


def test_a_folder_of_a_newer_replog(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "meta.properties").write_text(
        "version=1\ncluster.id=aaaaaaaaaaaaaaaaaaaaaa\nnode.id=1\nreplog.disk.format=99\n"
    )
    file = properties(
        tmp_path,
        node_id=1,
        listeners=f"PLAINTEXT://127.0.0.1:{free_ports(1)}",
        log_dirs=folder,
        replog_coordinator=f"sqlite:{tmp_path / 'coordinator' / 'replog.db'}",
    )
    done = run_broker(file, tmp_path)
    assert done.returncode == 1
    assert "99" in done.stderr, done.stderr
