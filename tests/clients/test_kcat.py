"""kcat: what people type when they want to see a cluster."""

import json
import subprocess

import pytest
from tests.clients.conftest import CODECS, PARTITIONS, RECORDS, check_all_in_order, values
from tests.support.cluster import Cluster

pytestmark = pytest.mark.clients


def run(kcat: str, cluster: Cluster, *words: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        [kcat, "-b", cluster.bootstrap, *words], input=stdin, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_writes_and_reads_in_a_group(kcat: str, cluster: Cluster, topic: str, codec: str) -> None:
    cluster.create_topic(topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        lines = b"\n".join(values()[partition::PARTITIONS]) + b"\n"
        run(
            kcat,
            cluster,
            *("-P", "-t", topic, "-p", str(partition), "-z", codec, "-X", "acks=all"),
            stdin=lines,
        )
    out = run(
        kcat,
        cluster,
        *("-X", "auto.offset.reset=earliest", "-c", str(RECORDS), "-q", "-f", "%p %o %s\n"),
        *("-G", f"group-{topic}", topic),
    )
    read = []
    for line in out.splitlines():
        partition, offset, value = line.split(b" ", 2)
        read.append((int(partition), int(offset), value))
    check_all_in_order(read)


def test_lists_leaders_replicas_and_isrs(kcat: str, cluster: Cluster, topic: str) -> None:
    words = ("--partitions", "3", "--replication-factor", "3", "--start-index", "1", "--shift", "1")
    cluster.run("topic", "create", topic, *words)
    seen = json.loads(run(kcat, cluster, "-L", "-J", "-t", topic))
    assert {b["id"] for b in seen["brokers"]} == {0, 1, 2}
    assert sorted(b["name"] for b in seen["brokers"]) == sorted(cluster.bootstrap.split(","))
    rows = {
        p["partition"]: (
            p["leader"],
            [r["id"] for r in p["replicas"]],
            [r["id"] for r in p["isrs"]],
        )
        for p in seen["topics"][0]["partitions"]
    }
    assert rows == {
        0: (1, [1, 0, 2], [1, 0, 2]),
        1: (2, [2, 1, 0], [2, 1, 0]),
        2: (0, [0, 2, 1], [0, 2, 1]),
    }


@pytest.mark.surface(14)
def test_makes_a_topic_by_writing_to_it(kcat: str, cluster: Cluster, topic: str) -> None:
    run(kcat, cluster, "-P", "-t", topic, "-X", "acks=all", stdin=b"hello\n")
    assert run(kcat, cluster, "-C", "-t", topic, "-e", "-q") == b"hello\n"
    assert cluster.describe(topic)["replication_factor"] == 3
