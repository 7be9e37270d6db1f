"""The leader is killed under load, over and over, on one cluster.

What must hold each time: leadership moves, and records are acknowledged while the broker is down.
What must hold in the end, read from offset 0: no acknowledged record is lost or changed, and those
of the idempotent producer are neither repeated nor reordered. All replicas hold the same bytes.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster

from replog.cli.ledger import Writer, judge
from replog.cli.replica_files import compare_replicas
from replog.cli.traffic import Producer, read_everything
from replog.runtime.client import AdminClient

KILLS = int(os.environ.get("REPLOG_KILLS", "20"))
TOPIC = "kills"
PARTITIONS = (0, 1, 2)
RECORDS_WHILE_DOWN = 60
PATIENCE_S = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(max(300, KILLS * 20))]


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path, settings={"auto.leader.rebalance.enable": "false"})
    yield running
    running.down()


def leaders(cluster: Cluster, *, but: int | None = None) -> dict[int, tuple[int, set[int]]]:
    """Leader and ISR by partition, asked from the first broker that is alive and not `but`."""
    addresses = [("127.0.0.1", p) for b, p in cluster.ports.items() if b != but]
    with AdminClient(addresses, 5) as client:
        topic = client.metadata([TOPIC]).topics[0]
    return {p.partition_index: (p.leader_id, set(p.isr_nodes)) for p in topic.partitions}


def wait_until(what: str, done: Any) -> float:
    """Seconds until `done()` is true."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < PATIENCE_S, f"after {PATIENCE_S} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def test_no_acknowledged_record_is_lost(own_cluster: Cluster) -> None:
    cluster = own_cluster
    cluster.create_topic(TOPIC, partitions=len(PARTITIONS))
    writers = [Writer("safe", idempotent=True), Writer("plain", idempotent=False)]
    producers = [
        Producer(cluster.bootstrap, TOPIC, w, partitions=PARTITIONS, records_per_second=400)
        for w in writers
    ]
    for producer in producers:
        producer.start()
    moves: list[tuple[int, int]] = []
    try:
        for kill in range(KILLS):
            moves.append(kill_the_leader(cluster, kill % len(PARTITIONS), producers))
    finally:
        unanswered = [producer.finish() for producer in producers]
    assert len(moves) == KILLS
    assert all(before != after for before, after in moves), moves
    assert unanswered == [0, 0]
    assert not [text for producer in producers for text in producer.refused[:3]]

    cluster.wait_in_sync(TOPIC)
    logs = read_everything(cluster.bootstrap, TOPIC, PARTITIONS)
    acknowledged = [ack for producer in producers for ack in producer.acknowledged]
    verdict = judge(logs, acknowledged, writers)
    assert verdict.ok, "\n".join([*verdict.problems, cluster.logs()])
    assert verdict.acknowledged > KILLS * RECORDS_WHILE_DOWN * len(writers)
    cluster.down()
    same, text = compare_replicas(cluster.log_folders(), TOPIC, PARTITIONS)
    assert same, text


def kill_the_leader(cluster: Cluster, partition: int, producers: list[Producer]) -> tuple[int, int]:
    """Kill, see leadership move and records acknowledged, start it again, wait until in sync."""
    before = leaders(cluster)[partition][0]
    assert before >= 0
    cluster.local.kill(before)
    wait_until(
        f"partition {partition} has no new leader",
        lambda: leaders(cluster, but=before)[partition][0] not in (before, -1),
    )
    after = leaders(cluster, but=before)[partition][0]
    for producer in producers:
        assert producer.wait_for_more(RECORDS_WHILE_DOWN, PATIENCE_S), (
            f"{producer.writer.name} got no answers while broker {before} was down\n"
            + cluster.logs()
        )
    assert before not in cluster.local.running(), "it was to be down all the time"
    cluster.local.start(before)
    wait_until(
        f"broker {before} is not back in sync",
        lambda: all(len(isr) == 3 for _, isr in leaders(cluster).values()),
    )
    return before, after
