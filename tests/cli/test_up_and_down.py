"""Starting, stopping and finding clusters, as a user does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, replog

from replog.cli.ports import free_ports
from replog.cli.up import local_defaults
from replog.runtime.local_cluster import LocalCluster


def test_what_one_broker_needs_differs_from_what_three_need() -> None:
    assert local_defaults(1)["offsets.topic.replication.factor"] == "1"
    assert local_defaults(2)["transaction.state.log.min.isr"] == "2"
    assert local_defaults(5)["default.replication.factor"] == "3"


def test_a_cluster_is_found_without_naming_it(tmp_path: Path) -> None:
    port = str(free_ports(1))
    up = replog("up", "--brokers", "1", "--port", port, "--detach", home=tmp_path)
    assert up.returncode == 0, up.stderr
    assert f"127.0.0.1:{port}" in up.stdout and "replog down" in up.stdout
    try:
        created = replog("topic", "create", "t", home=tmp_path)
        assert created.returncode == 0, created.stderr
        assert "partitions 1, replication 1" in created.stdout
    finally:
        down = replog("down", home=tmp_path)
    assert down.returncode == 0 and "stopped 1 broker" in down.stdout
    assert replog("down", home=tmp_path).returncode == 0
    listed = replog("topic", "list", home=tmp_path)
    assert listed.returncode == 1 and "replog up" in listed.stderr


def test_records_survive_down_and_up(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, brokers=2, first_id=5)
    try:
        cluster.create_topic("kept", partitions=1, replicas=2)
        assert cluster.try_to("produce", "kept", stdin=b"still here\n").returncode == 0
        cluster.down()
        again = cluster.run("up", "--detach")  # folder, ids and ports are known by now
        assert again["bootstrap_servers"] == cluster.bootstrap
        assert [b["broker"] for b in again["brokers"]] == [5, 6]
        assert cluster.try_to("consume", "kept", "-e").stdout == "still here\n"
    finally:
        cluster.down()


def test_one_broker_at_a_time(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        cluster.create_topic("t", partitions=3)
        cluster.run("broker", "stop", "0")
        states = {b["broker"]: b["state"] for b in cluster.run("status")["brokers"]}
        by_address = replog(
            *("status", "--format", "json", "--bootstrap-server", cluster.bootstrap), home=tmp_path
        )
        seen = {b["broker"]: b["state"] for b in json.loads(by_address.stdout)["brokers"]}
        assert seen == {0: "gone", 1: "alive", 2: "alive"}
        assert states == {0: "stopped", 1: "running", 2: "running"}
        cluster.run("broker", "kill", "1")
        cluster.run("broker", "start", "0")
        cluster.run("broker", "start", "1")
        cluster.wait_in_sync("t")
        cluster.run("broker", "pause", "2")
        assert [b.state for b in cluster.local.status()] == ["running", "running", "paused"]
        cluster.run("broker", "resume", "2")
        cluster.wait_in_sync("t")
    finally:
        cluster.down()
    assert cluster.local.running() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_in_the_foreground_a_signal_stops_all(tmp_path: Path, number: signal.Signals) -> None:
    words = ["up", "--brokers", "2", "--port", str(free_ports(2)), "--data", str(tmp_path / "c")]
    process = subprocess.Popen(
        [sys.executable, "-m", "replog", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        # Whoever runs the tests in the background of a script has its children ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None and process.stderr is not None
    with process.stdout, process.stderr:
        shown = [process.stdout.readline() for _ in range(4)]
        assert "Ctrl-C" in shown[-1], shown
        cluster = LocalCluster.load(tmp_path / "c")
        assert len(cluster.running()) == 2
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stdout.read() == f"stopped 2 brokers; data stays in {cluster.data_dir}\n"
        assert process.stderr.read() == "\nstopping ...\n"
    limit = time.monotonic() + 10
    while cluster.running() and time.monotonic() < limit:
        time.sleep(0.05)
    assert cluster.running() == []
