"""The bench's load program: its figures count only because it refuses what is wrong."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import Cluster

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "load.c"

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    built = tmp_path_factory.mktemp("load") / "load"
    words = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", str(built)]
    subprocess.run([*words, str(SOURCE)], check=True)
    return built


def run(program: Path, command: str, cluster: Cluster, **options: object) -> Any:
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run(
        [str(program), command, "--bootstrap", cluster.bootstrap.split(",")[0], *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def test_what_was_written_is_read_back(program: Path, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    wrote = run(program, "produce", cluster, topic=topic, records=9600, size=256)
    assert wrote["records"] == 9600
    read = run(program, "consume", cluster, topic=topic, records=9600, digest=wrote["digest"])
    assert (read["records"], read["digest"]) == (9600, wrote["digest"])
    ends = [
        r["log_end_offset"] for p in cluster.describe(topic)["partitions"] for r in p["replicas"]
    ]
    assert sum(ends) == 3 * 9600
    wrong = run(program, "consume", cluster, topic=topic, records=9600, digest="0" * 16)
    assert "digest" in wrong


def test_too_few_records_are_no_success(program: Path, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    run(program, "produce", cluster, topic=topic, records=960, size=256)
    options = {"topic": topic, "records": 1000, "timeout-ms": 1500}
    assert "960 of 1000 records" in run(program, "consume", cluster, **options)


def test_a_batch_that_comes_twice_is_noticed(program: Path, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    for _ in range(2):  # the second run begins to number its batches anew
        run(program, "produce", cluster, topic=topic, records=960, size=256)
    refused = run(program, "consume", cluster, topic=topic, records=1920)
    assert "batch 0 comes where batch 1 was expected" in refused


def test_a_refusal_of_the_broker_ends_it(program: Path, cluster: Cluster, topic: str) -> None:
    words = ("--partitions", "1", "--replication-factor", "2", "--config", "min.insync.replicas=3")
    cluster.run("topic", "create", topic, *words)
    described = run(program, "latency", cluster, topic=topic, records=10, size=100_000)
    assert "p99_ms" in described  # m is the smaller one of 3 and 2, so this is no error
    words = ("--partitions", "1", "--replication-factor", "1", "--config", "max.message.bytes=1000")
    cluster.run("topic", "create", f"{topic}-small", *words)
    assert "error 10" in run(program, "produce", cluster, topic=f"{topic}-small", records=960)


def test_one_at_a_time(program: Path, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    result = run(program, "latency", cluster, topic=topic, records=100, size=1024)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
