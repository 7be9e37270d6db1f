"""A cluster that outgrows its database moves to ZooKeeper; the records stay where they are."""

from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.load import check_promise, load
from tests.support.zookeeper import Ensemble

TOPIC = "moved"
PARTITIONS = (0, 1, 2)


def test_a_cluster_moves_from_its_database_to_zookeeper(ensemble: Ensemble, tmp_path: Path) -> None:
    address = f"zk://{ensemble.hosts}/moved"
    file = str(tmp_path / "tree.json")
    cluster = Cluster(tmp_path)
    try:
        cluster.create_topic(TOPIC, partitions=len(PARTITIONS))
        cluster.run("config", "set", "--topic", TOPIC, "retention.ms=123456")
        with load(cluster, TOPIC, PARTITIONS) as before:
            assert all(producer.wait_for_more(500, 30) for producer in before)
        there = cluster.describe(TOPIC)
        refused = cluster.try_to("coordinator", "export", "--file", file)
        assert refused.returncode == 1 and "run: stop them" in refused.stderr
        cluster.down()
        cluster.run("coordinator", "export", "--file", file)
        cluster.run("coordinator", "import", "--file", file, "--coordinator", address)
        elsewhere = cluster.try_to("up", "--detach", "--coordinator", "sqlite:/somewhere/else.db")
        assert elsewhere.returncode == 1 and "'replog coordinator' moves them" in elsewhere.stderr
        cluster.run("up", "--detach")
        assert cluster.describe(TOPIC)["topic_id"] == there["topic_id"]
        check_promise(cluster, TOPIC, PARTITIONS, before)
        shown = cluster.try_to("config", "get", "--topic", TOPIC).stdout
        assert "123456" in shown
    finally:
        cluster.down()
