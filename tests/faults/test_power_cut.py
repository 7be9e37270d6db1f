"""The power fails for the whole cluster at once, on a real file system.

All data lie on an ext4 file system in a file, mounted so that nothing but an fsync gets there. The
brokers are killed, the file is copied as it is, and the copy takes the place of the disk: whatever
was only in page cache is gone. In durability `fsync` nothing acknowledged may be missing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster
from tests.support.load import all_go_on, check_promise, load
from tests.support.mounts import PowerCutDisk

from replog.cli.replica_files import compare_replicas

TOPIC = "synced"
PARTITIONS = (0, 1, 2)
CUTS = 2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerCutDisk]:
    with PowerCutDisk(tmp_path).mounted() as mounted:
        yield mounted


def test_nothing_acknowledged_is_missing_after_a_power_cut(disk: PowerCutDisk) -> None:
    cluster = Cluster(disk.folder, settings={"min.insync.replicas": "2"})
    disk.settle()  # the cluster was made long ago; the topic is made now
    cluster.run(
        *("topic", "create", TOPIC, "--partitions", "3", "--replication-factor", "3"),
        *("--config", "replog.durability=fsync"),
    )
    try:
        with load(cluster, TOPIC, PARTITIONS) as producers:
            for cut in range(CUTS):
                assert all_go_on(producers, 300), cluster.logs()
                canary = disk.folder / f"canary-{cut}"
                canary.write_text("never synced")
                for broker in cluster.broker_ids:
                    cluster.local.kill(broker)
                disk.cut()
                assert not canary.exists() or not canary.read_text(), "that was no power cut"
                cluster.run("up", "--detach")
                assert all_go_on(producers, 100), cluster.logs()
        verdict = check_promise(cluster, TOPIC, PARTITIONS, producers)
        assert verdict.acknowledged > CUTS * 800
    finally:
        cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, PARTITIONS)
    assert same, text
