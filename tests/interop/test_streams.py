"""Kafka Streams counts words while a broker dies: with repartition topic, changelog and state."""

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.interop.clients import PATIENCE_S, SHORT
from tests.interop.kafka import Java
from tests.support.cluster import Cluster, wait_until

from replog.cli.traffic import QUICK, read_everything

LINES = 1_000 if SHORT else 10_000
WORDS = [f"word{number}" for number in range(50)]


def write(cluster: Cluster, topic: str, rng: random.Random) -> Counter[str]:
    """Lines of five words each; how often which word was written."""
    producer = Producer({**QUICK, "bootstrap.servers": cluster.bootstrap, "acks": "all"})
    written: Counter[str] = Counter()
    for _ in range(LINES):
        words = rng.choices(WORDS, k=5)
        written.update(words)
        producer.produce(topic, " ".join(words))
        producer.poll(0)
    assert producer.flush(60) == 0
    return written


def counts(cluster: Cluster, topic: str) -> dict[str, int]:
    """The last count of each word. A word is always in one partition."""
    logs = read_everything(cluster.bootstrap, topic, range(3))
    return {
        word: int(count)
        for records in logs.values()
        for word, count in (value.decode().split("=") for _, value in records)
    }


@pytest.mark.shows_tools("Kafka Streams, at_least_once")
def test_counts_words_across_a_kill(
    java: Java, own_cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    rng = random.Random(topic)
    own_cluster.create_topic(f"{topic}-in", partitions=3)
    own_cluster.create_topic(f"{topic}-out", partitions=3)
    words = (own_cluster.bootstrap, topic, f"{topic}-in", f"{topic}-out", str(tmp_path / "state"))
    log = tmp_path / "streams.log"
    with open(log, "wb") as output:
        streams = subprocess.Popen(
            java.command("WordCount", *words), stdin=subprocess.PIPE, stdout=output, stderr=output
        )
    assert streams.stdin is not None
    leader, _ = own_cluster.seats(f"{topic}-in")[0]
    try:
        expected = write(own_cluster, f"{topic}-in", rng)
        wait_until(
            "some are counted", lambda: bool(counts(own_cluster, f"{topic}-out")), PATIENCE_S
        )
        own_cluster.local.kill(leader)
        expected += write(own_cluster, f"{topic}-in", rng)

        def all_counted() -> bool:
            """At least once: some may be counted again after the kill, none is forgotten."""
            found = counts(own_cluster, f"{topic}-out")
            return all(found.get(word, 0) >= count for word, count in expected.items())

        wait_until("all are counted", all_counted, PATIENCE_S)
    finally:
        own_cluster.local.start(leader)
        streams.stdin.close()
        code = streams.wait(60)
    assert code == 0, log.read_text(errors="replace")[-3_000:]
    own_cluster.wait_in_sync("__consumer_offsets")
    own_cluster.run("elect", "--all")
