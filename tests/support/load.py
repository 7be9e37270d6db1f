"""Producers that run while a test breaks things, and the judgement afterwards."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support.cluster import Cluster

from replog.cli.ledger import Verdict, Writer, judge
from replog.cli.traffic import Producer, read_everything

WRITERS = (Writer("safe", idempotent=True), Writer("plain", idempotent=False))


@contextmanager
def load(
    cluster: Cluster,
    topic: str,
    partitions: Sequence[int],
    *,
    records_per_second: int = 400,
) -> Iterator[list[Producer]]:
    """An idempotent and a plain producer with acks=all: all that they send is acknowledged."""
    producers = [
        Producer(
            cluster.bootstrap,
            topic,
            writer,
            partitions=partitions,
            records_per_second=records_per_second,
        )
        for writer in WRITERS
    ]
    for producer in producers:
        producer.start()
    try:
        yield producers
    finally:
        unanswered = [producer.finish() for producer in producers]
    assert unanswered == [0, 0], cluster.logs()
    refused = [text for producer in producers for text in producer.refused[:3]]
    assert not refused, [*refused, cluster.logs()]


def check_promise(
    cluster: Cluster, topic: str, partitions: Sequence[int], producers: Sequence[Producer]
) -> Verdict:
    """Read everything from offset 0 and hold it against every acknowledgement."""
    cluster.wait_in_sync(topic)
    logs = read_everything(cluster.bootstrap, topic, partitions)
    acknowledged = [ack for producer in producers for ack in producer.acknowledged]
    verdict = judge(logs, acknowledged, WRITERS)
    assert verdict.ok, "\n".join([*verdict.problems, cluster.logs()])
    return verdict


def all_go_on(producers: Sequence[Producer], records: int, timeout_s: float = 30) -> bool:
    """Whether each producer gets `records` more acknowledgements in time."""
    return all(producer.wait_for_more(records, timeout_s) for producer in producers)
