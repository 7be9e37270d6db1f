"""A broker is cut off from ZooKeeper alone, or from the other brokers alone.

What must hold: no acknowledged record is lost, whoever leads by the newest epoch alone commits, and
when the cut is mended the broker is back in all ISRs without a restart.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.machines import Machines
from tests.zookeeper.spread import BROKERS, SpreadCluster

TOPIC = "cut"
PARTITIONS = range(3)
# The controller asks every 0.75 s, and fences who has not answered for nine seconds.
FENCED_S_MAX = 15.0
OUT_S = 6.0  # without coming back: then it stays out

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SpreadCluster]:
    machines = Machines([*(f"b{n}" for n in BROKERS), *(f"z{n}" for n in BROKERS)])
    running = SpreadCluster(
        tmp_path,
        machines,
        {
            "zookeeper.session.timeout.ms": "6000",
            "replica.lag.time.max.ms": "4000",
            "min.insync.replicas": "2",
        },
    )
    try:
        running.begin()
        running.create(TOPIC, len(PARTITIONS))
        yield running
    finally:
        running.close()
        machines.close()


@pytest.mark.parametrize("of_controller", [True, False], ids=["controller", "other"])
def test_a_broker_cut_off_from_zookeeper(cluster: SpreadCluster, of_controller: bool) -> None:
    victim = _victim(cluster, of_controller)
    witness = next(broker for broker in BROKERS if broker != victim)
    producers = cluster.producers(TOPIC, PARTITIONS)
    cluster.machines.cut(f"b{victim}", [f"z{n}" for n in BROKERS])
    # Its session times out: others take its leaderships, and a controllership.
    took = cluster.wait(
        "the others lead without it",
        lambda m: (
            m.controller_id not in (victim, -1)
            and all(leader not in (victim, -1) for leader, _ in cluster.seats(TOPIC, m).values())
        ),
        of=witness,
    )
    print(f"others lead after {took:.1f} s")
    for producer in producers:
        assert producer.wait_for_more(200, 60), cluster.logs()
    cluster.machines.heal()
    cluster.wait_in_sync(TOPIC)
    cluster.judge(TOPIC, PARTITIONS, producers)


@pytest.mark.parametrize("of_controller", [True, False], ids=["controller", "other"])
def test_a_broker_cut_off_from_its_peers(cluster: SpreadCluster, of_controller: bool) -> None:
    victim = _victim(cluster, of_controller)
    others = [broker for broker in BROKERS if broker != victim]
    producers = cluster.producers(TOPIC, PARTITIONS)
    cluster.machines.cut(f"b{victim}", [f"b{n}" for n in others])
    took = cluster.wait(
        "the others lead without it",
        lambda m: (
            m.controller_id not in (victim, -1)
            and all(leader not in (victim, -1) for leader, _ in cluster.seats(TOPIC, m).values())
        ),
        of=others[0],
    )
    print(f"others lead after {took:.1f} s")
    for producer in producers:
        assert producer.wait_for_more(200, 60), cluster.logs()
    # It can reach ZooKeeper, and stays out all the same: nobody hears it.
    _wait_until_it_stays_out(cluster, victim, of=others[0])
    cluster.machines.heal()
    cluster.wait_in_sync(TOPIC)
    cluster.judge(TOPIC, PARTITIONS, producers)


def _wait_until_it_stays_out(cluster: SpreadCluster, victim: int, *, of: int) -> None:
    """The victim is out by its peers' word, and knows by their silence that it must stay out. If it
    was cut off before it had ever heard them it comes back, and the controller fences it."""
    since = began = time.monotonic()
    while time.monotonic() - since < OUT_S:
        seen = cluster.metadata(of=of)
        if any(broker.node_id == victim for broker in seen.brokers):
            since = time.monotonic()
            assert since - began < FENCED_S_MAX, cluster.logs()
        time.sleep(0.1)


def _victim(cluster: SpreadCluster, of_controller: bool) -> int:
    controller = cluster.metadata().controller_id
    return controller if of_controller else next(n for n in BROKERS if n != controller)
