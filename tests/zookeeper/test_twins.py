"""A second broker with the id of one that lives, and a broker that lives but does nothing."""

import queue
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.zookeeper import Ensemble

from replog.cli.ports import free_ports
from replog.model.inputs import Input, SessionStarted
from replog.runtime.coordination.port import SessionSettings
from replog.runtime.coordination.zk_client import ZkSettings
from replog.runtime.coordination.zookeeper import ZooKeeperCoordination


@pytest.mark.scenario(48)
def test_a_second_broker_with_the_id_of_a_live_one_is_refused(
    zk_cluster: Cluster, ensemble: Ensemble, tmp_path: Path
) -> None:
    cluster = zk_cluster
    chroot = cluster.local.settings["replog.coordinator"].rpartition("/")[2]
    eye = ZooKeeperCoordination(ZkSettings(ensemble.hosts, f"/{chroot}"))
    before = eye.read_now(["/brokers/ids", "/replog/sessions"])
    config = {
        **cluster.local.settings,
        "node.id": "2",
        "listeners": f"PLAINTEXT://127.0.0.1:{free_ports(1)}",
        "log.dirs": str(tmp_path / "twin"),
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    command = [sys.executable, "-m", "replog", "broker", "run", "--config", str(file)]
    twin = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert twin.returncode == 1
    assert "broker id 2 is already registered by a live broker" in twin.stderr
    after = eye.read_now(["/brokers/ids", "/replog/sessions"])
    assert after["/brokers/ids/2"] == before["/brokers/ids/2"]
    assert after.keys() == before.keys()
    eye.close()


def test_a_session_outlives_a_loop_that_stands_still(ensemble: Ensemble) -> None:
    """Heartbeats have a thread of their own: that the loop stands still is for peers to see."""
    events: queue.SimpleQueue[Input] = queue.SimpleQueue()
    settings = ZkSettings(ensemble.hosts, "/still", session_timeout_ms=4000)
    door = ZooKeeperCoordination(settings)
    door.start(SessionSettings(1, address=("127.0.0.1", 0)), events.put)
    started = events.get(timeout=20)
    assert isinstance(started, SessionStarted)
    time.sleep(10)  # nobody calls `loop_turned`
    eye = ZooKeeperCoordination(settings)
    assert f"/replog/sessions/{started.session}" in eye.read_now(["/replog/sessions"])
    eye.close()
    door.close()
