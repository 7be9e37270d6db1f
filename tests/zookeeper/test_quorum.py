"""The ensemble loses its quorum, or one member, under load: who leads a partition serves on."""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, wait_until
from tests.support.load import all_go_on, check_promise, load
from tests.support.zookeeper import Ensemble
from tests.zookeeper.test_failover import controller

AWAY_S = float(os.environ.get("REPLOG_QUORUM_AWAY_S", "60"))
TOPIC = "served"
PARTITIONS = (0, 1, 2)

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(own_ensemble: Ensemble, tmp_path: Path) -> Iterator[Cluster]:
    home = tmp_path / "home"
    home.mkdir()
    running = Cluster(home, settings={"replog.coordinator": f"zk://{own_ensemble.hosts}/replog"})
    running.create_topic(TOPIC, partitions=len(PARTITIONS))
    yield running
    running.down()


@pytest.mark.scenario(45)
def test_without_a_quorum_leaders_serve_on_and_all_goes_on_when_it_is_back(
    cluster: Cluster, own_ensemble: Ensemble
) -> None:
    lost = own_ensemble.servers[:2]
    with load(cluster, TOPIC, PARTITIONS) as producers:
        assert all_go_on(producers, 200)
        for server in lost:
            server.kill()
        until = time.monotonic() + AWAY_S
        while time.monotonic() < until:
            assert all_go_on(producers, 100, timeout_s=5), cluster.logs()
        assert "serving on without elections" in cluster.logs(lines=200)
        status = cluster.run("status")
        assert set(status["coordinator_away_s"]) == {"0", "1", "2"}
        assert status["verdict"] == "the coordinator can't be used"
        own_ensemble.start(lost)
        wait_until(
            "the coordinator is used again by all",
            lambda: cluster.run("status")["coordinator_away_s"] == {},
            timeout_s=60,
        )
        assert cluster.logs(lines=200).count("can be used again") >= 3
        # A topic is made, and a broker that dies is replaced, without a restart of any.
        wait_until("a topic is made", lambda: _created(cluster), timeout_s=60)
        victim = controller(cluster)
        cluster.local.kill(victim)
        wait_until(
            "somebody else leads",
            lambda: all(
                leader not in (victim, -1)
                for leader, _ in cluster.seats(TOPIC, but=victim).values()
            ),
        )
        assert all_go_on(producers, 200), cluster.logs()
        cluster.local.start(victim)
    check_promise(cluster, TOPIC, PARTITIONS, producers)


_names = itertools.count()


def _created(cluster: Cluster) -> bool:
    done = cluster.try_to("topic", "create", f"later-{next(_names)}", "--partitions", "1")
    return done.returncode == 0


def test_members_of_the_ensemble_are_replaced_one_after_the_other(
    cluster: Cluster, own_ensemble: Ensemble
) -> None:
    """Killed, stopped and frozen: no session ends, nothing is refused, nobody is elected."""
    before = cluster.seats(TOPIC)
    with load(cluster, TOPIC, PARTITIONS) as producers:
        for server in own_ensemble.servers:
            server.kill()
            assert all_go_on(producers, 200), cluster.logs()
            own_ensemble.start([server])
        frozen = own_ensemble.leader()
        frozen.pause()
        assert all_go_on(producers, 200), cluster.logs()
        frozen.resume()
        own_ensemble.wait(frozen)
    assert cluster.seats(TOPIC) == before
    assert "session with the coordinator ended" not in cluster.logs(lines=200)
    check_promise(cluster, TOPIC, PARTITIONS, producers)
