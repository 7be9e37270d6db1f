"""Real brokers that meet in a real ensemble: what they write there, deaths.

One cluster serves all tests of this file; each leaves it whole. Longer ones: `make zookeeper`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster, wait_until
from tests.support.load import all_go_on, check_promise, load
from tests.support.zookeeper import Ensemble

from replog.model.coordination import Create, StoredNode
from replog.runtime.client import AdminClient
from replog.runtime.coordination.zk_client import ZkSettings
from replog.runtime.coordination.zookeeper import ZooKeeperCoordination

PAGE = Path("docs/coordination.md")
CHROOT = "/layout"
TOPIC = "orders"
KILLED = "killed"  # a topic has one load: the ledger counts all that it finds
PARTITIONS = (0, 1, 2)
SESSION_MS = 40_000  # ZooKeeper's most at its default tickTime, and more than `wait_until` waits


@pytest.fixture(scope="module")
def layout(
    ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, ZooKeeperCoordination]]:
    """A cluster with something of everything in its tree, and a look into that."""
    settings = {
        "zookeeper.connect": f"{ensemble.hosts}{CHROOT}",
        "zookeeper.session.timeout.ms": str(SESSION_MS),
    }
    cluster = Cluster(tmp_path_factory.mktemp("layout"), first_id=1, settings=settings)
    for topic in (TOPIC, KILLED):
        cluster.create_topic(topic, partitions=len(PARTITIONS))
    cluster.run("config", "set", "--topic", TOPIC, "retention.ms=3600000")
    eye = ZooKeeperCoordination(ZkSettings(ensemble.hosts, CHROOT))
    yield cluster, eye
    eye.close()
    cluster.down()


def documented() -> dict[str, Any]:
    """The JSON of each node that the page shows."""
    shown = {}
    for section in PAGE.read_text().split("\n### `")[1:]:
        example = re.search(r"^```json\n(.*?)^```", section, re.M | re.S)
        if example is not None:
            shown[section[: section.index("`")]] = json.loads(example[1])
    return shown


def controller(cluster: Cluster, *, but: int | None = None) -> int:
    addresses = [("127.0.0.1", port) for broker, port in cluster.ports.items() if broker != but]
    with AdminClient(addresses, 5) as client:
        return client.metadata().controller_id


def test_nodes_are_as_the_page_on_coordination_shows_them(
    layout: tuple[Cluster, ZooKeeperCoordination],
) -> None:
    cluster, eye = layout
    with load(cluster, TOPIC, PARTITIONS) as producers:  # an idempotent one takes a block of ids
        assert all_go_on(producers, 50)
    nodes = eye.read_now(["/"])
    pages = documented()
    assert len(pages) > 10
    for path, shown in pages.items():
        found = _like(path, nodes)
        assert found is not None, f"{path} is not there"
        value = json.loads(found.data)
        assert isinstance(value, type(shown)), path
        if isinstance(value, dict):
            assert list(value) == list(shown), path
            for key, part in value.items():
                same = part is None or shown[key] is None or isinstance(part, type(shown[key]))
                assert same, f"{path}: {key}"
    ephemeral = {re.sub(r"[^/]*$", "", path) for path, node in nodes.items() if node.session}
    assert ephemeral == {"/", "/brokers/ids/", "/replog/sessions/"}  # "/": the controller's
    state = json.loads(nodes[f"/brokers/topics/{TOPIC}/partitions/0/state"].data)
    leader, isr = cluster.seats(TOPIC)[0]
    assert (state["leader"], set(state["isr"])) == (leader, isr)
    settings = json.loads(nodes[f"/config/topics/{TOPIC}"].data)
    assert settings["config"]["retention.ms"] == "3600000"


def _like(path: str, nodes: dict[str, StoredNode]) -> StoredNode | None:
    """The node of that path; for the page's session, any."""
    if path.startswith("/replog/sessions/"):
        return next(node for p, node in nodes.items() if p.startswith("/replog/sessions/"))
    return nodes.get(path)


def test_nobody_waits_for_the_session_of_a_killed_controller(
    layout: tuple[Cluster, ZooKeeperCoordination],
) -> None:
    cluster, eye = layout
    epoch = int(eye.read_now(["/controller_epoch"])["/controller_epoch"].data)
    victim = controller(cluster)
    with load(cluster, KILLED, PARTITIONS) as producers:
        assert all_go_on(producers, 50)
        cluster.local.kill(victim)
        wait_until("a new controller", lambda: controller(cluster, but=victim) not in (victim, -1))
        assert all_go_on(producers, 100), cluster.logs()
        # Nor does the killed broker, when it comes back, for what it has left behind.
        cluster.local.start(victim)
    assert int(eye.read_now(["/controller_epoch"])["/controller_epoch"].data) == epoch + 1
    check_promise(cluster, KILLED, PARTITIONS, producers)


def test_a_topic_is_deleted_by_a_node_as_with_kafka(
    layout: tuple[Cluster, ZooKeeperCoordination],
) -> None:
    cluster, eye = layout
    cluster.create_topic("unwanted", partitions=1)
    eye.write_now([Create("/admin/delete_topics/unwanted", b"")])
    gone = ("/admin/delete_topics/unwanted", "/brokers/topics/unwanted")
    wait_until("the topic is gone", lambda: not eye.read_now(gone))
