"""How long a cluster that meets in ZooKeeper is without an answer when its controller dies.

ZooKeeper's `tickTime` is its default of 2 s, and sessions time out after 18 s: whoever waited for a
session would fail here by far.
"""

import os
import statistics
import time

import pytest
from tests.support.cluster import Cluster, wait_until
from tests.support.load import all_go_on, check_promise, load

from replog.runtime.client import AdminClient

KILLS = int(os.environ.get("REPLOG_KILLS", "20"))
TOPIC = "kills"
PARTITIONS = (0, 1, 2)
KILLS_OF_A_MEASUREMENT = 20  # fewer only show that nobody waits for a session
MEDIAN_S_MAX = 1.0 if KILLS >= KILLS_OF_A_MEASUREMENT else 9.0

pytestmark = pytest.mark.slow


def controller(cluster: Cluster, *, but: int | None = None) -> int:
    """Whom the brokers call controller, -1 for nobody."""
    addresses = [("127.0.0.1", port) for broker, port in cluster.ports.items() if broker != but]
    with AdminClient(addresses, 5) as client:
        return client.metadata([]).controller_id


def test_the_controller_that_also_leads_is_killed_over_and_over(zk_cluster: Cluster) -> None:
    cluster = zk_cluster
    cluster.create_topic(TOPIC, partitions=len(PARTITIONS))
    silences = []
    with load(cluster, TOPIC, PARTITIONS) as producers:
        for _ in range(KILLS):
            silences.append(_kill_controller(cluster, producers))
    print(f"silent for, s: {[round(s, 2) for s in silences]}")
    print(f"median {statistics.median(silences):.2f} s, longest {max(silences):.2f} s")
    check_promise(cluster, TOPIC, PARTITIONS, producers)
    assert statistics.median(silences) < MEDIAN_S_MAX, silences


def _kill_controller(cluster: Cluster, producers: list) -> float:  # type: ignore[type-arg]
    """Seconds without an acknowledgement of all producers, for each partition has one leader."""
    victim = controller(cluster)
    leads = [p for p, (leader, _) in cluster.seats(TOPIC).items() if leader == victim]
    if not leads:
        cluster.run("elect", "--all")
        wait_until("it leads", lambda: victim in {s[0] for s in cluster.seats(TOPIC).values()})
    time.sleep(0.3)
    for producer in producers:
        producer.longest_silence_s = 0.0
    cluster.local.kill(victim)
    wait_until("a new controller", lambda: controller(cluster, but=victim) not in (victim, -1))
    assert all_go_on(producers, 100), cluster.logs()
    silence = max(producer.longest_silence_s for producer in producers)
    cluster.local.start(victim)
    wait_until(
        f"broker {victim} is not back in sync",
        lambda: all(len(isr) == 3 for _, isr in cluster.seats(TOPIC).values()),
    )
    return silence
