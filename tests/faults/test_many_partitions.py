"""Hundreds of partitions on brokers that die: what takes long is what is done for each of them.

`bench/partitions.py` measures thousands.
"""

import pytest
from tests.support.cluster import Cluster, wait_until
from tests.support.load import check_promise

from replog.cli.ledger import Writer
from replog.cli.replica_files import compare_replicas
from replog.cli.traffic import Producer
from replog.runtime.client import AdminClient

TOPIC = "many"
PARTITIONS = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.scenario(83)
def test_all_leaderships_of_a_broker_move_at_once(own_cluster: Cluster) -> None:
    """Each partition has a leader again, and takes records; then the broker is back in all ISRs."""
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    everything = range(PARTITIONS)
    writer = Writer("safe", idempotent=True)
    producer = Producer(cluster.bootstrap, TOPIC, writer, partitions=everything)
    producer.start()
    assert producer.wait_for_more(PARTITIONS, 60), cluster.logs()
    for controller in (False, True):
        victim = pick(cluster, controller=controller)
        cluster.local.kill(victim)
        wait_until(
            "some partitions have no leader",
            lambda b=victim: all(
                leader not in (b, -1) for leader, _ in cluster.seats(TOPIC, but=b).values()
            ),
        )
        assert producer.wait_for_more(2 * PARTITIONS, 60), cluster.logs()
        cluster.local.start(victim)
        wait_until(
            "some partitions are not in sync",
            lambda: all(len(isr) == 3 for _, isr in cluster.seats(TOPIC).values()),
        )
    assert producer.finish() == 0 and not producer.refused
    check_promise(cluster, TOPIC, everything, [producer])
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, everything)
    assert same, text


def pick(cluster: Cluster, *, controller: bool) -> int:
    """The controller, or another broker that leads something."""
    with AdminClient(cluster.bootstrap, 10) as client:
        seen = client.metadata([TOPIC])
    if controller:
        return seen.controller_id
    leaders = {partition.leader_id for partition in seen.topics[0].partitions}
    return min(leaders - {seen.controller_id})
