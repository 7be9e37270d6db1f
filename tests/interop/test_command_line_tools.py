"""Apache Kafka's command line tools that write and read, against three brokers."""

import itertools
import json
import time

import pytest
from tests.interop.kafka import SMALL, Java, ToolFailed
from tests.support.cluster import Cluster

BUSY_S = 420  # of a machine that has no ten seconds in a row for a tool


def lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.strip()]


@pytest.mark.shows_tools("kafka-console-producer", "kafka-console-consumer")
def test_console_producer_and_consumer(java: Java, own_cluster: Cluster) -> None:
    own_cluster.create_topic("console", partitions=3, replicas=3)
    where = ("--bootstrap-server", own_cluster.bootstrap, "--topic", "console")
    written = [f"line {number}" for number in range(500)]
    java.tool(
        "ConsoleProducer",
        *where,
        *("--compression-codec", "lz4"),
        stdin="\n".join(written).encode() + b"\n",
    )
    read = java.tool(
        "consumer.ConsoleConsumer",
        *where,
        *("--from-beginning", "--max-messages", "500", "--timeout-ms", "60000"),
        *("--group", "console-readers"),
    )
    assert sorted(lines(read)) == sorted(written)
    offsets = java.tool("GetOffsetShell", *where)
    assert sum(int(line.split(":")[2]) for line in lines(offsets)) == 500


@pytest.mark.shows_tools("kafka-producer-perf-test", "kafka-consumer-perf-test")
def test_performance_tools(java: Java, own_cluster: Cluster) -> None:
    own_cluster.create_topic("performance", partitions=3, replicas=3)
    where = ("--bootstrap-server", own_cluster.bootstrap, "--topic", "performance")
    words = ("--num-records", "20000", "--record-size", "512", "--throughput", "-1")
    assert "20000 records sent" in java.tool("ProducerPerformance", *where, *words)
    output = java.tool("ConsumerPerformance", *where, "--num-records", "20000")
    result = lines(output)[-1].split(", ")
    assert int(result[4]) == 20_000, output


@pytest.mark.shows_tools("kafka-e2e-latency")
def test_latency_from_end_to_end(java: Java, own_cluster: Cluster) -> None:
    own_cluster.create_topic("latency", partitions=1, replicas=3)
    where = ("--bootstrap-server", own_cluster.bootstrap, "--topic", "latency")
    words = ("--num-records", "200", "--producer-acks", "all", "--record-size", "100")
    assert "99th" in java.tool("EndToEndLatency", *where, *words)


@pytest.mark.shows_tools("ClientCompatibilityTest")
def test_client_compatibility(java: Java, own_cluster: Cluster, topic: str) -> None:
    """Kafka's own check of what brokers can do, used in its system tests. ACLs there are none.

    It gives itself ten seconds for all that it does. One of them, on a machine of its own, is gone
    with loading its classes, so on a busy one all ten may be: then it is asked again, with new
    topics. What it tells of its steps is shown if there never is time enough.
    """
    flags = {
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "expect-record-too-large-exception": "false",
        "num-cluster-nodes": "3",
        "create-topics-supported": "true",
        "describe-acls-supported": "false",
        "describe-configs-supported": "true",
        "idempotent-producer-supported": "true",
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    steps = (*SMALL, "-Dlog4j2.level=INFO")
    began = time.monotonic()
    for attempt in itertools.count():
        name = f"{topic}-{attempt}"
        own_cluster.create_topic(name, partitions=1, replicas=3)
        where = ("--bootstrap-server", own_cluster.bootstrap, "--topic", name)
        try:
            java.tool("ClientCompatibilityTest", *where, *words, options=steps)
            return
        except ToolFailed as failure:
            late = "Timed out after 10000 ms" in str(failure)
            if not late or time.monotonic() - began > BUSY_S:
                raise
        own_cluster.run("topic", "delete", "newtopic")  # it makes this one


@pytest.mark.shows_tools("kafka-verifiable-producer", "kafka-verifiable-consumer")
def test_verifiable_producer_and_consumer(java: Java, own_cluster: Cluster) -> None:
    own_cluster.create_topic("verified", partitions=3, replicas=3)
    where = ("--bootstrap-server", own_cluster.bootstrap, "--topic", "verified")
    told = java.tool("VerifiableProducer", *where, "--max-messages", "2000", "--acks", "-1")
    events = [json.loads(line) for line in lines(told)]
    assert sum(event["name"] == "producer_send_success" for event in events) == 2000
    told = java.tool(
        "VerifiableConsumer",
        *where,
        *("--group-id", "verifiers", "--max-messages", "2000", "--reset-policy", "earliest"),
    )
    events = [json.loads(line) for line in lines(told)]
    consumed = sum(e["count"] for e in events if e["name"] == "records_consumed")
    assert consumed == 2000
    committed = [e for e in events if e["name"] == "offsets_committed"]
    assert committed and all(event["success"] for event in committed)
