"""Commands on a real cluster: what they print, in text and JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.support.cluster import Cluster, replog

from replog.cli.traffic import QUICK, log_end


def test_status_tells_brokers_and_topics(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    status = cluster.run("status")
    assert [b["broker"] for b in status["brokers"]] == [0, 1, 2]
    assert {b["state"] for b in status["brokers"]} == {"running"}
    assert sum(b["controller"] for b in status["brokers"]) == 1
    assert {t["name"]: t["promise"] for t in status["topics"]}[topic] == 1
    shown = cluster.try_to("status").stdout
    assert "BROKER" in shown and topic in shown and status["cluster_id"] in shown


def test_status_works_by_address_alone(cluster: Cluster, tmp_path: Path) -> None:
    done = replog("status", "--bootstrap-server", cluster.bootstrap, home=tmp_path)
    assert done.returncode == 0 and "alive" in done.stdout


def test_m_of_the_promise_is_the_smaller_of_two_numbers(cluster: Cluster, topic: str) -> None:
    words = ("--replication-factor", "2", "--config", "min.insync.replicas=3")
    cluster.run("topic", "create", topic, "--partitions", "1", *words)
    view = cluster.describe(topic)
    assert (view["min_insync_replicas"], view["replication_factor"], view["promise"]) == (3, 2, 2)


def test_describe_asks_every_replica(cluster: Cluster, topic: str) -> None:
    words = ("--partitions", "3", "--replication-factor", "3", "--start-index", "1", "--shift", "1")
    cluster.run("topic", "create", topic, *words)
    done = cluster.try_to("produce", topic, "--partition", "1", stdin=b"one\ntwo\n")
    assert done.returncode == 0, done.stderr
    view = cluster.wait_in_sync(topic)
    assert [p["assigned_replicas"] for p in view["partitions"]] == [[1, 0, 2], [2, 1, 0], [0, 2, 1]]
    replicas = view["partitions"][1]["replicas"]
    assert [r["broker"] for r in replicas] == [2, 1, 0]
    assert [r["role"] for r in replicas] == ["leader", "follower", "follower"]
    assert {r["log_end_offset"] for r in replicas} == {2}
    shown = cluster.try_to("topic", "describe", topic).stdout
    assert "LEO" in shown and "OSR" in shown


def test_lines_come_back_as_they_went_in(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    lines = b"plain\n\nk1:v1\nk2:v:2\nnight \xe2\x98\xbe\n"
    done = cluster.try_to("produce", topic, "--key-separator", ":", stdin=lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = cluster.try_to("consume", topic, "-e", "--print", "%o[%k]%v")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["0[]plain", "1[]", "2[k1]v1", "3[k2]v:2", "4[]night ☾"]


@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_partition_that_is_not_there(cluster: Cluster, topic: str, command: str) -> None:
    cluster.create_topic(topic, partitions=2)
    done = cluster.try_to(command, topic, "--partition", "2", stdin=b"a\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"replog {command}: topic '{topic}' has no partition 2 (it has 2)\n"


def test_a_line_that_is_too_large_keeps_no_other_back(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    lines = b"before\n" + b"x" * 3_000_000 + b"\nafter\n"
    done = cluster.try_to("produce", topic, stdin=lines)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "1 records refused" in done.stderr and "too large" in done.stderr
    assert cluster.try_to("consume", topic, "-e").stdout == "before\nafter\n"


@pytest.mark.parametrize(("limit", "size"), [(2_000, 1_000), (4_000_000, 3_000_000)])
def test_the_topic_decides_what_is_too_large(
    cluster: Cluster, topic: str, limit: int, size: int
) -> None:
    config = ("--config", f"max.message.bytes={limit}")
    cluster.run("topic", "create", topic, "--partitions", "1", *config)
    lines = [str(n) * (size // len(str(n))) for n in range(5)]
    done = cluster.try_to("produce", topic, stdin="\n".join(lines).encode())
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.try_to("consume", topic, "-e").stdout.splitlines() == lines


def test_consume_begins_and_ends_where_it_is_told(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.try_to("produce", topic, stdin=b"".join(b"%d\n" % n for n in range(10)))
    assert cluster.try_to("consume", topic, "-o", "7", "-e").stdout == "7\n8\n9\n"
    assert cluster.try_to("consume", topic, "-c", "2").stdout == "0\n1\n"
    assert cluster.try_to("consume", topic, "-o", "end", "-e").stdout == ""
    assert cluster.try_to("consume", topic, "-o", "11", "-e").stdout == "", "not the beginning"
    done = cluster.try_to("consume", topic, "-e", "--format", "json", "-o", "9")
    assert json.loads(done.stdout)["value"] == "9"


def test_the_end_is_found_after_the_leadership_moved(cluster: Cluster, topic: str) -> None:
    """The client knows a leader of before, and librdkafka by itself would ask that one only."""
    words = ("--replication-factor", "1", "--start-index", "0", "--shift", "0")
    cluster.run("topic", "create", topic, "--partitions", "1", *words)
    client = Consumer({**QUICK, "bootstrap.servers": cluster.bootstrap, "group.id": topic})
    place = TopicPartition(topic, 0)
    try:
        assert log_end(client, place, 30) == 0
        done = cluster.try_to("reassign", "apply", f"{topic}:0=1", "--wait")
        assert done.returncode == 0, done.stderr
        assert log_end(client, place, 30) == 0
    finally:
        client.close()


def test_a_group_goes_on_where_it_stopped(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.try_to("produce", topic, stdin=b"a\nb\nc\n")
    words = ("consume", topic, "--group", f"group-{topic}")
    assert cluster.try_to(*words, "-c", "2").stdout == "a\nb\n"
    assert cluster.try_to(*words, "-e").stdout == "c\n"


def test_who_is_asked_to_end_leaves_the_group(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.try_to("produce", topic, stdin=b"a\n")
    words = ["consume", topic, "--group", f"group-{topic}", "--bootstrap-server", cluster.bootstrap]
    with subprocess.Popen(
        [sys.executable, "-m", "replog", *words], stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == b"a\n"
        reader.terminate()
    assert reader.returncode == 0
    (found,) = cluster.run("group", "describe", f"group-{topic}")
    assert (found["state"], found["positions"][0]["committed"]) == ("Empty", 1)


def test_a_reader_that_has_seen_enough_is_no_error(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.try_to("produce", topic, stdin=b"line\n" * 20_000)
    words = f"{sys.executable} -m replog consume {topic} -e --bootstrap-server {cluster.bootstrap}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} | head -n 1"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "line\n", "")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("consume", "t", "-o", "soon"), "--offset"),
        (("consume", "t", "-g", "g", "-p", "0"), "--group"),
        (("consume", "t", "-g", "g", "-o", "5"), "--offset"),
        (("topic", "create", "t", "--start-index", "1"), "--shift"),
        (("topic", "create", "t", "--config", "x"), "NAME=VALUE"),
    ],
)
def test_wrong_options_are_usage_errors(
    cluster: Cluster, words: tuple[str, ...], hint: str
) -> None:
    done = cluster.try_to(*words)
    assert done.returncode == 2 and not done.stdout
    assert hint in done.stderr and done.stderr.count("\n") == 1


def test_deleting_says_what_was_and_what_was_not(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    done = cluster.try_to("topic", "delete", topic, "never-was")
    assert done.returncode == 1
    assert done.stdout == f"deleted {topic}\n" and "never-was" in done.stderr
    assert topic not in [t["name"] for t in cluster.run("topic", "list")]
