"""Apache Kafka's command line tools that look after a cluster, against three brokers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.kafka import Java
from tests.support.cluster import Cluster, wait_until

Tool = Callable[..., str]


@pytest.fixture
def tool(java: Java, own_cluster: Cluster) -> Tool:
    """Runs a tool against the cluster; its stdout."""

    def run(name: str, *words: str) -> str:
        return java.tool(name, "--bootstrap-server", own_cluster.bootstrap, *words)

    return run


@pytest.fixture
def records(java: Java, own_cluster: Cluster, topic: str) -> str:
    """A topic of three partitions with 300 records that a group of the same name has read."""
    own_cluster.create_topic(topic, partitions=3)
    java.run(
        "Client", "produce", own_cluster.bootstrap, topic, "0", "300", "lz4", "idempotent", "0"
    )
    java.run("Client", "consume", own_cluster.bootstrap, topic, topic, "300")
    return topic


def table(output: str) -> list[list[str]]:
    """The cells of a tool's table, without those lines that are none."""
    return [line.split() for line in output.splitlines() if len(line.split()) > 2]


@pytest.mark.shows_tools("kafka-topics")
def test_topics(tool: Tool, topic: str) -> None:
    words = ("--partitions", "4", "--replication-factor", "3", "--config", "retention.ms=123456")
    tool("TopicCommand", "--create", "--topic", topic, *words)
    assert topic in tool("TopicCommand", "--list").split()
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "6")
    described = tool("TopicCommand", "--describe", "--topic", topic)
    for expected in ("PartitionCount: 6", "ReplicationFactor: 3", "retention.ms=123456"):
        assert expected in described
    assert described.count("Isr:") == 6
    tool("TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool("TopicCommand", "--list").split()


@pytest.mark.shows_tools("kafka-configs")
def test_configurations(tool: Tool, own_cluster: Cluster, topic: str) -> None:
    own_cluster.create_topic(topic)
    one = ("--entity-type", "topics", "--entity-name", topic)
    changes = "retention.ms=777,cleanup.policy=[compact,delete]"
    tool("ConfigCommand", "--alter", *one, "--add-config", changes)
    described = tool("ConfigCommand", "--describe", *one)
    assert "retention.ms=777 " in described and "cleanup.policy=compact,delete " in described
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=777" in described
    tool("ConfigCommand", "--alter", *one, "--delete-config", "retention.ms")
    assert "retention.ms=777" not in tool("ConfigCommand", "--describe", *one)
    assert "segment.bytes=1073741824" in tool("ConfigCommand", "--describe", "--all", *one)

    of_a_broker = ("--entity-type", "brokers", "--entity-name", "1")
    tool("ConfigCommand", "--alter", *of_a_broker, "--add-config", "log.retention.ms=888888")
    assert "log.retention.ms=888888 " in tool("ConfigCommand", "--describe", *of_a_broker)
    tool("ConfigCommand", "--alter", *of_a_broker, "--delete-config", "log.retention.ms")
    of_a_group = ("--entity-type", "groups", "--entity-name", topic)
    setting = "consumer.session.timeout.ms=50000"
    tool("ConfigCommand", "--alter", *of_a_group, "--add-config", setting)
    assert setting in tool("ConfigCommand", "--describe", *of_a_group)


@pytest.mark.shows_tools("kafka-consumer-groups", "kafka-groups")
def test_groups(tool: Tool, records: str) -> None:
    groups = "consumer.group.ConsumerGroupCommand"
    assert [records, "Empty"] in [
        line.split() for line in tool(groups, "--list", "--state").splitlines()
    ]
    assert [records, "Classic", "consumer"] in table(tool("GroupsCommand", "--list"))

    def positions() -> tuple[int, int]:
        """All that is committed, and all that is left to read."""
        rows = [
            row
            for row in table(tool(groups, "--describe", "--group", records))
            if row[0] == records
        ]
        assert len(rows) == 3
        return sum(int(row[3]) for row in rows), sum(int(row[5]) for row in rows)

    assert positions() == (300, 0)
    one = ("--group", records, "--topic", records)
    tool(groups, "--reset-offsets", *one, "--to-earliest", "--execute")
    assert positions() == (0, 300)
    tool(groups, "--reset-offsets", *one, "--shift-by", "10", "--execute")
    assert positions() == (30, 270)
    assert "Successful" in tool(groups, "--delete-offsets", *one)
    assert "successful" in tool(groups, "--delete", "--group", records)
    assert records not in tool(groups, "--list").split()


@pytest.mark.shows_tools("kafka-get-offsets", "kafka-delete-records")
def test_offsets_and_deletion_of_records(tool: Tool, records: str, tmp_path: Path) -> None:
    def offsets(time: str) -> dict[str, int]:
        output = tool("GetOffsetShell", "--topic", records, "--time", time)
        return {line.split(":")[1]: int(line.split(":")[2]) for line in output.split()}

    ends = offsets("-1")
    assert sum(ends.values()) == 300
    assert offsets("-2") == {"0": 0, "1": 0, "2": 0}
    file = tmp_path / "offsets.json"
    asked = [{"topic": records, "partition": 0, "offset": 10}]
    file.write_text(json.dumps({"version": 1, "partitions": asked}))
    deleted = tool("DeleteRecordsCommand", "--offset-json-file", str(file))
    assert "low_watermark: 10" in deleted
    assert offsets("-2") == {"0": 10, "1": 0, "2": 0}
    assert offsets("-1") == ends


@pytest.mark.shows_tools("kafka-log-dirs")
def test_log_folders(tool: Tool, records: str) -> None:
    found = json.loads(
        tool("LogDirsCommand", "--describe", "--topic-list", records).splitlines()[-1]
    )
    folders = [folder for broker in found["brokers"] for folder in broker["logDirs"]]
    assert len(found["brokers"]) == 3 and all(folder["error"] is None for folder in folders)
    partitions = [one for folder in folders for one in folder["partitions"]]
    assert len(partitions) == 9 and all(one["size"] > 0 for one in partitions)


@pytest.mark.shows_tools("kafka-reassign-partitions", "kafka-leader-election")
def test_moves_and_elections(tool: Tool, own_cluster: Cluster, topic: str, tmp_path: Path) -> None:
    own_cluster.create_topic(topic, partitions=2, replicas=2)
    moves = "reassign.ReassignPartitionsCommand"
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    words = ("--topics-to-move-json-file", str(topics), "--broker-list", "1,2")
    proposed = json.loads(tool(moves, "--generate", *words).strip().splitlines()[-1])
    assert {broker for one in proposed["partitions"] for broker in one["replicas"]} == {1, 2}

    for one in proposed["partitions"]:
        one["replicas"].sort()  # broker 1 is the preferred leader
    plan.write_text(json.dumps(proposed))
    file = ("--reassignment-json-file", str(plan))
    tool(moves, "--execute", *file)
    wait_until("moved", lambda: "is still in progress" not in tool(moves, "--verify", *file), 180)
    assert tool(moves, "--verify", *file).count("is completed") == 2
    assert "No partition reassignments found" in tool(moves, "--list")
    assert [p["assigned_replicas"] for p in own_cluster.describe(topic)["partitions"]] == [
        [1, 2]
    ] * 2

    tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert [p["leader"] for p in own_cluster.describe(topic)["partitions"]] == [1, 1]


@pytest.mark.shows_tools("kafka-features", "kafka-broker-api-versions", "kafka-cluster")
def test_what_brokers_are(java: Java, tool: Tool, own_cluster: Cluster) -> None:
    where = ("--bootstrap-server", own_cluster.bootstrap)
    assert "Feature: metadata.version" in java.tool("FeatureCommand", *where, "describe")
    versions = tool("BrokerApiVersionsCommand")
    assert versions.count("Produce(0): 0 to 13 [usable: 13]") == 3
    assert "Cluster ID: " in java.tool("ClusterTool", "cluster-id", *where)
    assert java.tool("ClusterTool", "list-endpoints", *where).count("unfenced") == 3
