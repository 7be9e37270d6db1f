"""Apache Kafka's dump tool, and the classes that its server reads small files with, on folders that
Replog brokers wrote for real clients: all codecs, several segments, epochs, idempotent producers.
"""

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.kafka import SOURCES, Java
from tests.support.cluster import Cluster

from replog.log import checkpoints
from replog.model.ids import topic_id_text
from replog.runtime.os_disk import OsDisk

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEGABYTES = int(os.environ.get("REPLOG_INTEROP_MEGABYTES", "4"))  # a codec
SEGMENT = 1024 * 1024

# Words with which the tool tells of what it does not like, each with its own stack of details.
COMPLAINTS = re.compile(
    r"isvalid: false|invalid bytes|Mismatches|Non-consecutive|timestamp mismatch|out of order"
    r"|Exception|corrupt|[Ss]kipping|ERROR|WARN",
)


@dataclass
class Written:
    """What clients wrote: by topic, how many records on each partition."""

    counts: dict[str, list[int]] = field(default_factory=dict)


def write(bootstrap: str, topic: str, codec: str, written: Written, **options: object) -> None:
    counts = written.counts.setdefault(topic, [0, 0])

    def delivered(error: object, message: object) -> None:
        assert error is None, error
        counts[message.partition()] += 1  # type: ignore[attr-defined]

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "acks": "all",
            "linger.ms": 5,
            **options,
        }
    )
    # Half of it can't be compressed, so that there is more than one segment whatever the codec.
    for number in range(MEGABYTES * 1024):
        value = os.urandom(512) + b"replog " * 73
        producer.produce(
            topic,
            value,
            key=b"%d" % (number % 100),
            headers=[("number", b"%d" % number), ("empty", None)],
            on_delivery=delivered,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def folders(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of a broker's log folder: after a kill, and after a stop in good order."""
    cluster, written = own_cluster, Written()
    topics = {codec: {} for codec in CODECS} | {
        "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    }
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics(
        [
            NewTopic(name, 2, 3, config={"segment.bytes": str(SEGMENT), **config})
            for name, config in topics.items()
        ]
    ).values():
        made.result(30)
    for codec in CODECS:
        write(cluster.bootstrap, codec, codec, written)
    leader = cluster.seats("none")[0][0]
    cluster.local.kill(leader)  # a second epoch begins
    write(cluster.bootstrap, "none", "none", written, **{"enable.idempotence": True})
    write(cluster.bootstrap, "compacted", "zstd", written)
    cluster.run("broker", "start", str(leader))
    for topic in topics:
        cluster.wait_in_sync(topic)
    home = tmp_path_factory.mktemp("folders")
    cluster.local.kill(0)
    shutil.copytree(cluster.log_folders()[0], home / "killed")
    cluster.run("broker", "start", "0")
    for topic in topics:
        cluster.wait_in_sync(topic)
    cluster.run("broker", "stop", "2")
    shutil.copytree(cluster.log_folders()[2], home / "stopped")
    cluster.run("broker", "start", "2")
    return {"killed": home / "killed", "stopped": home / "stopped"}


def files(folder: Path, suffix: str) -> list[str]:
    found = sorted(str(path) for path in folder.glob(f"*/*{suffix}"))
    return [path for path in found if not Path(path).parent.name.endswith("-delete")]


def dump(java: Java, paths: list[str], *words: str) -> str:
    output = java.tool("DumpLogSegments", *words, "--files", ",".join(paths))
    complaint = COMPLAINTS.search(output)
    assert complaint is None, output[max(0, complaint.start() - 300) : complaint.end() + 300]
    for path in paths:
        assert f"Dumping {path}" in output
    return output


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_segments(folders: dict[str, Path], java: Java, how: str) -> None:
    output = dump(java, files(folders[how], ".log"), "--deep-iteration")
    ends: dict[str, int] = {}
    records = codecs = 0
    partition = ""
    for line in output.splitlines():
        if line.startswith("Dumping "):
            partition = Path(line.removeprefix("Dumping ")).parent.name
        elif line.startswith("baseOffset: "):
            words = line.replace(":", "").split()
            batch = dict(zip(words[::2], words[1::2], strict=False))
            assert batch["isvalid"] == "true"
            first = int(batch["baseOffset"])
            if not partition.startswith("compacted"):
                assert first == ends.get(partition, first), f"{partition}: a gap at {first}"
            ends[partition] = int(batch["lastOffset"]) + 1
            codecs += batch["compresscodec"] == "zstd"
        elif line.startswith("| offset: "):
            records += 1
    assert records >= 6 * MEGABYTES * 1024
    assert codecs
    assert len(files(folders[how], ".log")) > 20, "several segments in a partition were wanted"


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
def test_indexes(folders: dict[str, Path], java: Java, how: str, suffix: str, check: str) -> None:
    """The tool holds each entry against the log beside it. What it says of an index of which a kill
    took the last entries is not a fault: they are made anew at the start."""
    output = dump(java, files(folders[how], suffix), check)
    if check == "--index-sanity-check":
        passed = output.count("passed sanity check") + output.count(" is empty.")
        assert passed == len(files(folders[how], suffix))


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_snapshots_of_producers(folders: dict[str, Path], java: Java, how: str) -> None:
    paths = files(folders[how], ".snapshot")
    assert paths
    output = dump(java, paths)
    if how == "stopped":
        assert "producerEpoch: 0" in output, "an idempotent producer was wanted"


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_small_files_say_to_kafka_what_they_say_to_us(
    folders: dict[str, Path], java: Java, how: str
) -> None:
    folder = folders[how]
    found = java.run(str(SOURCES / "ReadCheckpoints.java"), str(folder)).splitlines()
    disk = OsDisk(folder)
    wanted = []
    for name in disk.list(""):
        if (folder / name / "partition.metadata").exists():
            topic_id = checkpoints.topic_id_of(disk, name)
            assert topic_id is not None
            wanted.append(f"id {name} {topic_id_text(topic_id)}")
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.HIGH_WATERMARKS, checkpoints.LOG_STARTS):
        offsets, fault = checkpoints.read(disk, name)
        assert fault is None
        wanted += [f"offset {name} {tp} {offset}" for tp, offset in offsets.items()]
    assert set(wanted) <= set(found)
    epochs = [line.split() for line in found if line.startswith("epoch none-")]
    assert len(epochs) > 2, "a change of leaders was wanted"


def test_internal_topics(folders: dict[str, Path], java: Java) -> None:
    """With the decoder for committed offsets."""
    paths = [p for p in files(folders["stopped"], ".log") if "__consumer_offsets" in p]
    if paths:
        dump(java, paths[:5], "--offsets-decoder")
