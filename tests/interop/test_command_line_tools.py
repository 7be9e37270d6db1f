"""Apache Kafka's command line tools, and the Java client in them, against three brokers."""

import json

from tests.interop.kafka import Java
from tests.support.cluster import Cluster


def lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.strip()]


def test_topics(java: Java, own_cluster: Cluster) -> None:
    where = ("--bootstrap-server", own_cluster.bootstrap)
    java.tool(
        "TopicCommand",
        *where,
        *("--create", "--topic", "by-kafkas-tool", "--partitions", "4"),
        *("--replication-factor", "3", "--config", "retention.ms=123456"),
    )
    assert "by-kafkas-tool" in lines(java.tool("TopicCommand", *where, "--list"))
    described = java.tool("TopicCommand", *where, "--describe", "--topic", "by-kafkas-tool")
    assert "PartitionCount: 4" in described
    assert "ReplicationFactor: 3" in described
    assert "retention.ms=123456" in described
    assert described.count("Isr:") == 4
    java.tool("TopicCommand", *where, "--delete", "--topic", "by-kafkas-tool")
    assert "by-kafkas-tool" not in lines(java.tool("TopicCommand", *where, "--list"))


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
        *("--from-beginning", "--max-messages", "500", "--timeout-ms", "30000"),
        *("--group", "console-readers"),
    )
    assert sorted(lines(read)) == sorted(written)
    offsets = java.tool("GetOffsetShell", *where)
    assert sum(int(line.split(":")[2]) for line in lines(offsets)) == 500


def test_performance_of_a_producer(java: Java, own_cluster: Cluster) -> None:
    own_cluster.create_topic("performance", partitions=3, replicas=3)
    output = java.tool(
        "ProducerPerformance",
        *("--bootstrap-server", own_cluster.bootstrap, "--topic", "performance"),
        *("--num-records", "20000", "--record-size", "512", "--throughput", "-1"),
    )
    assert "20000 records sent" in output


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
