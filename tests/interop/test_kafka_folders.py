"""Log folders of a cluster of Apache Kafka, of as many kinds as there are: after a stop in good
order and as a kill leaves them, each is opened by a broker as it is, imported, and verified. What
is served must be what Kafka served from them.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop import housekeeping, kafka_kinds
from tests.interop.kafka import Java, KafkaServer, copy, kafka_ports
from tests.interop.kafka_kinds import GROUPS, KINDS, Kafka
from tests.interop.kafka_truth import MAX_TIMESTAMP, Cluster, PartitionTruth, Served
from tests.interop.opened_folder import OpenedFolder
from tests.support.cluster import replog, wait_until

from replog.cli.ports import free_ports
from replog.model.ids import TopicPartition

NODES = 3
TOPICS = [kind.topic for kind in KINDS]
# A time may lead to a marker, and each node compacts them for itself.
COMPACTED_BY_EACH = {"transactions-compacted", "all-aborted"}
DELETED = "deleted-while-it-was-copied"
ROUNDS_OF_ELECTIONS = 3

pytestmark = pytest.mark.timeout(1800)


@dataclass
class Folders:
    """What Kafka served, and the log folders of each node: copied while it ran, and afterwards."""

    truth: dict[TopicPartition, PartitionTruth]
    committed: dict[str, tuple[int, str | None]]
    busy: str  # what is said of a folder that is in use
    killed: dict[int, list[Path]]
    stopped: dict[int, list[Path]]


@pytest.fixture(scope="module")
def folders(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folders]:
    home = tmp_path_factory.mktemp("nodes")
    ports = kafka_ports(NODES)
    with ThreadPoolExecutor(NODES) as pool:
        made = [
            pool.submit(KafkaServer, java, home / f"{n}", ports, node=n, folders=2 if n == 1 else 1)
            for n in range(1, NODES + 1)
        ]
    nodes = [each.result() for each in made]
    try:
        yield write_and_copy(nodes, home)
    finally:
        for node in nodes:
            node.stop(kill=True)


def write_and_copy(nodes: Sequence[KafkaServer], home: Path) -> Folders:
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait()
    bootstrap = ",".join(node.bootstrap for node in nodes)
    kafka = Kafka(bootstrap)
    kafka_kinds.create(kafka, NODES)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(kind.write, kafka, kind.topic) for kind in KINDS]:
            done.result()
    kafka_kinds.commit_offsets(kafka)
    for turn in range(ROUNDS_OF_ELECTIONS):
        node = nodes[turn % NODES]
        node.stop(kill=turn == 1)
        node.start()
        node.wait()
        wait_until("all are in sync", lambda: in_sync(kafka), 180)
        kafka_kinds.after_election(kafka, turn)
    kafka_kinds.delete_at_last(kafka, DELETED, NODES)
    with closing(Cluster(bootstrap)) as served:
        served.wait_for_leaders(TOPICS)
        housekeeping.wait_until_done(nodes, {kind.topic: kind.configs for kind in KINDS})
        truth = {tp: served.truth(tp) for tp in served.partitions}
        for tp, found in truth.items():
            newest = served.newest_epoch(tp)
            found.epochs = {epoch: served.end_of_epoch(tp, epoch) for epoch in range(newest)}
        committed = served.committed(GROUPS)
    used = replog("import", "kafka-data", str(nodes[0].data), "--dry-run", home=home)
    with ExitStack() as frozen:
        for node in nodes:
            frozen.enter_context(node.frozen())
        killed = copies(nodes, home / "killed")
    for node in nodes:
        node.ask_to_stop()
    for node in nodes:
        node.stop()
    stopped = copies(nodes, home / "stopped")
    return Folders(truth, committed, used.stderr, killed, stopped)


def in_sync(kafka: Kafka) -> bool:
    found = kafka.admin().list_topics(timeout=30)
    partitions = [p for name in TOPICS for p in found.topics[name].partitions.values()]
    return all(len(p.isrs) == NODES and p.leader > 0 for p in partitions)


def copies(nodes: Sequence[KafkaServer], home: Path) -> dict[int, list[Path]]:
    found: dict[int, list[Path]] = {}
    for node in nodes:
        for folder in node.folders:
            target = home / f"{node.node}" / folder.name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy(folder, target)
            found.setdefault(node.node, []).append(target)
    return found


# ---- what is compared --------------------------------------------------------------------------


def test_what_was_written_is_worth_the_test(folders: Folders) -> None:
    def of(topic: str, partition: int = 0) -> PartitionTruth:
        return folders.truth[TopicPartition(topic, partition)]

    for topic in ("transactions", "transactions-segments"):
        records = of(topic).records
        assert 0 < len(records["read_committed"]) < len(records["read_uncommitted"]), topic
    assert of("left-open").ends["read_committed"] < of("left-open").ends["read_uncommitted"]
    assert of("front-deleted").start == 777
    assert of("front-deleted", 1).start == of("front-deleted", 1).ends["read_uncommitted"] == 1_000
    for topic in ("compacted", "compacted.tombstones_kept", "transactions-compacted"):
        assert len(of(topic).records["read_uncommitted"]) < 40, "the cleaner has not run"
    assert len(of("hole").records["read_uncommitted"]) < 20_000
    assert of("retained").start > 0, "nothing was deleted"
    assert len(of("epochs").epochs) > 1
    assert len(folders.committed) > len(GROUPS)
    for topic in ("segments-0", "index-full-0", "transactions-segments-0"):
        (found,) = (f for f in folders.stopped[1] if (f / topic).exists())
        assert len(list((found / topic).glob("*.log"))) > 3, topic


def test_a_folder_in_use_is_refused(folders: Folders) -> None:
    assert "is in use by a running broker" in folders.busy


def differences(expected: PartitionTruth, found: PartitionTruth) -> list[str]:
    """What is not the same, shortly."""
    told = []
    for name in ("start", "ends", "producers", "epochs"):
        if getattr(expected, name) != getattr(found, name):
            told.append(f"{name}: {getattr(expected, name)} became {getattr(found, name)}")
    # Without any record, Kafka finds markers where compaction left them.
    if expected.records["read_uncommitted"]:
        for stamp in expected.times.keys() & found.times.keys():
            one, other = expected.times[stamp], found.times[stamp]
            # Where the log starts inside a batch, Kafka may name a deleted record of that batch as
            # the one of the latest time. Only that it is deleted for us too would be wrong then.
            deleted = 0 <= one[0] < expected.start
            if (0 <= other[0] < found.start) if deleted else one != other:
                told.append(f"time {stamp}: {one} became {other}")
    for isolation, records in expected.records.items():
        served = found.records[isolation]
        if served != records:
            pairs = enumerate(zip(records, served, strict=False))
            first = next((i for i, (one, other) in pairs if one != other), -1)
            told.append(
                f"{isolation}: {len(records)} records became {len(served)}, the first that "
                f"differs is {records[first][:3]}, now {served[first : first + 1]}"
            )
    return told


@pytest.mark.parametrize(("ours", "differs"), [(777, False), (-1, False), (755, True)])
def test_no_deleted_record_is_found(ours: int, differs: bool) -> None:
    left = {"read_uncommitted": [Served(777, (1, 5), None, b"777", ())]}
    expected = PartitionTruth(start=777, records=left, times={MAX_TIMESTAMP: (755, 5)})
    found = PartitionTruth(start=777, records=left, times={MAX_TIMESTAMP: (ours, 5)})
    assert bool(differences(expected, found)) == differs


@pytest.mark.parametrize("node", range(1, NODES + 1))
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_broker_opens_it_as_it_is(folders: Folders, how: str, node: int, tmp_path: Path) -> None:
    given = getattr(folders, how)[node]
    copied = [tmp_path / folder.name for folder in given]
    for folder, target in zip(given, copied, strict=True):
        copy(folder, target)
    wrong = {}
    with closing(OpenedFolder(copied)) as opened:
        for tp, expected in folders.truth.items():
            found = opened.truth(tp)
            found.epochs, found.producers = expected.epochs, expected.producers
            if told := differences(expected, found):
                wrong[str(tp)] = told
    assert not wrong, json.dumps(wrong, indent=1)
    if how == "stopped":
        assert not opened.reports


@pytest.mark.parametrize(("how", "nodes"), [("stopped", (1,)), ("killed", (2, 3))])
def test_it_is_imported(folders: Folders, how: str, nodes: tuple[int, ...], tmp_path: Path) -> None:
    given = [str(folder) for node in nodes for folder in getattr(folders, how)[node]]
    data = tmp_path / "cluster"
    words = ["--data", str(data), "--format", "json"]
    done = replog(
        "import",
        "kafka-data",
        *given,
        "--port",
        str(free_ports(3)),
        *words,
        home=tmp_path,
        timeout_s=300,
    )
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout)
    assert not [note for note in imported["notes"] if "configuration" in note], imported["notes"]
    started = replog("up", "--detach", *words, home=tmp_path)
    assert started.returncode == 0, started.stderr
    try:
        bootstrap = json.loads(started.stdout)["bootstrap_servers"]
        with closing(Cluster(bootstrap)) as served:
            served.wait_for_leaders(TOPICS)
            wrong = {}
            for tp, expected in folders.truth.items():
                found = served.truth(tp)
                found.epochs = {epoch: served.end_of_epoch(tp, epoch) for epoch in expected.epochs}
                if tp.topic in COMPACTED_BY_EACH:
                    found.times = {}
                if told := differences(expected, found):
                    wrong[str(tp)] = told
            assert not wrong, json.dumps(wrong, indent=1)
            assert served.committed(GROUPS) == folders.committed
        # And it is a cluster like any other: new records go behind the old ones.
        producer = Kafka(bootstrap).producer(enable_idempotence=True)
        for topic in TOPICS:
            producer.produce(topic, b"new", key=b"new", on_delivery=must_arrive)
        assert producer.flush(60) == 0
    finally:
        replog("down", "--data", str(data), home=tmp_path)
    for broker in range(3):
        verified = replog("log", "verify", str(data / f"broker-{broker}" / "data"), home=tmp_path)
        assert verified.returncode == 0, verified.stdout + verified.stderr


def must_arrive(error: object, message: object) -> None:
    assert error is None, error


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_it_is_verified(folders: Folders, how: str, tmp_path: Path) -> None:
    for given in getattr(folders, how).values():
        for folder in given:
            done = replog("log", "verify", str(folder), home=tmp_path)
            assert done.returncode == 0, done.stdout
