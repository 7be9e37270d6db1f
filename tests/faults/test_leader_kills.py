"""The leader is killed under load, over and over, on one cluster.

What must hold each time: leadership moves, and records are acknowledged while the broker is down.
What must hold in the end, read from offset 0: no acknowledged record is lost or changed, and those
of the idempotent producer are neither repeated nor reordered. All replicas hold the same bytes.
"""

from collections.abc import Sequence

import pytest
from tests.support.cluster import Cluster, wait_until
from tests.support.load import WRITERS, all_go_on, check_promise, load

from replog.cli.replica_files import compare_replicas
from replog.cli.traffic import Producer

KILLS = 20  # `make torture` goes on for as long as one likes, with other faults between
TOPIC = "kills"
PARTITIONS = (0, 1, 2)
RECORDS_WHILE_DOWN = 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_no_acknowledged_record_is_lost(own_cluster: Cluster) -> None:
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=len(PARTITIONS))
    with load(cluster, TOPIC, PARTITIONS) as producers:
        moves = [
            kill_the_leader(cluster, kill % len(PARTITIONS), producers) for kill in range(KILLS)
        ]
    assert len(moves) == KILLS
    assert all(before != after for before, after in moves), moves
    verdict = check_promise(cluster, TOPIC, PARTITIONS, producers)
    assert verdict.acknowledged > KILLS * RECORDS_WHILE_DOWN * len(WRITERS)
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, PARTITIONS)
    assert same, text


def kill_the_leader(
    cluster: Cluster, partition: int, producers: Sequence[Producer]
) -> tuple[int, int]:
    """Kill, see leadership move and records acknowledged, start it again, wait until in sync."""
    before = cluster.seats(TOPIC)[partition][0]
    assert before >= 0
    cluster.local.kill(before)
    wait_until(
        f"partition {partition} has no new leader",
        lambda: cluster.seats(TOPIC, but=before)[partition][0] not in (before, -1),
    )
    after = cluster.seats(TOPIC, but=before)[partition][0]
    assert all_go_on(producers, RECORDS_WHILE_DOWN), cluster.logs()
    assert before not in cluster.local.running(), "it was to be down all the time"
    cluster.local.start(before)
    wait_until(
        f"broker {before} is not back in sync",
        lambda: all(len(isr) == 3 for _, isr in cluster.seats(TOPIC).values()),
    )
    return before, after
