"""Files of the log folder: Kafka's text, and distrust of whatever is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.log import checkpoints
from replog.log.checkpoints import CleanShutdownMarker, MetaProperties, WrongFolder
from replog.model.ids import TopicPartition
from replog.sim.mem_disk import CrashNow, MemDisk
from replog.version import DISK_FORMAT_VERSION

NAME = checkpoints.RECOVERY_POINTS
OFFSETS = {TopicPartition("b", 10): 7, TopicPartition("a", 0): 2**63 - 1, TopicPartition("b", 9): 0}


def test_the_text_is_kafkas() -> None:
    disk = MemDisk()
    checkpoints.write(disk, NAME, OFFSETS)
    assert disk.read_file(NAME) == b"0\n3\na 0 9223372036854775807\nb 9 0\nb 10 7\n"
    assert checkpoints.read(disk, NAME) == (OFFSETS, None)


def test_nothing_is_empty_without_a_reason() -> None:
    disk = MemDisk()
    assert checkpoints.read(disk, NAME) == ({}, None)
    checkpoints.write(disk, NAME, {})
    assert disk.read_file(NAME) == b"0\n0\n"
    assert checkpoints.read(disk, NAME) == ({}, None)


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 30,
        b"1\n0\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0 5",
        b"0\n1\na 0\n",
        b"0\n1\na 0 five\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na -1 5\n",
        b"0\n1\n 0 5\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n2\na 0 5\na 0 6\n",
        b"0\n1\na 0 5\n\n",
        b"\xff\xfe",
    ],
)
def test_what_makes_no_sense_is_empty_and_says_why(data: bytes) -> None:
    disk = MemDisk()
    disk.write_file(NAME, data)
    found, reason = checkpoints.read(disk, NAME)
    assert found == {}
    assert reason


def test_an_empty_file_says_nothing() -> None:
    """Kafka makes the cleaner's as soon as it looks for logs to compact."""
    disk = MemDisk()
    disk.write_file(NAME, b"")
    assert checkpoints.read(disk, NAME) == ({}, None)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_distrusted(data: bytes) -> None:
    disk = MemDisk()
    disk.write_file(NAME, data)
    found, reason = checkpoints.read(disk, NAME)
    assert not found or reason is None


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("a-0", TopicPartition("a", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
        ("a-00", None),
        ("a-", None),
        ("-1", None),
        ("a", None),
        ("a-0.0123-delete", None),
        ("a-0.0123-stray", None),
        ("a-٣", None),
        ("meta.properties", None),
    ],
)
def test_folders_of_partitions(name: str, partition: TopicPartition | None) -> None:
    assert checkpoints.partition_of_directory(name) == partition


def test_the_marker_of_a_clean_stop_is_taken_once_and_for_good() -> None:
    disk = MemDisk()
    assert checkpoints.take_clean_shutdown(disk) is None
    checkpoints.mark_clean_shutdown(disk, 17)
    assert disk.read_file(".kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":17}'
    calls: list[str] = []
    disk.before_call = lambda call, path: calls.append(call)
    assert checkpoints.take_clean_shutdown(disk) == CleanShutdownMarker(17)
    assert calls == ["remove", "sync_directory"], "a crash or a power cut while loading is no stop"
    assert checkpoints.take_clean_shutdown(disk) is None


def test_a_crash_while_the_marker_is_taken() -> None:
    disk = MemDisk()
    checkpoints.mark_clean_shutdown(disk)

    def die(call: str, path: str) -> None:
        raise CrashNow(call)

    disk.before_call = die
    with pytest.raises(CrashNow):
        checkpoints.take_clean_shutdown(disk)
    disk.before_call = None
    assert checkpoints.take_clean_shutdown(disk) == CleanShutdownMarker(-1), (
        "nothing was loaded yet"
    )


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"version":1,"brokerEpoch":1}', b'{"version":0}', b"\0", b"null"]
)
def test_a_marker_that_says_nothing_is_none_and_goes(data: bytes) -> None:
    disk = MemDisk()
    disk.write_file(checkpoints.CLEAN_SHUTDOWN, data)
    assert checkpoints.take_clean_shutdown(disk) is None
    assert disk.read_file(checkpoints.CLEAN_SHUTDOWN) is None


def test_a_folder_is_claimed_once() -> None:
    disk = MemDisk()
    checkpoints.claim_folder(disk, cluster_id="abc", node_id=3)
    assert disk.read_file("meta.properties") == (
        b"version=1\ncluster.id=abc\nnode.id=3\nreplog.disk.format=%d\n" % DISK_FORMAT_VERSION
    )
    assert checkpoints.read_meta(disk) == MetaProperties("abc", 3, DISK_FORMAT_VERSION)
    calls: list[str] = []
    disk.before_call = lambda call, path: calls.append(call)
    checkpoints.claim_folder(disk, cluster_id="abc", node_id=3)
    assert calls == []


def test_a_folder_of_kafka_is_taken_over_with_what_it_says() -> None:
    disk = MemDisk()
    disk.write_file(
        "meta.properties",
        b"#\n#Sun Nov 29\nnode.id=1\ndirectory.id=y-alz\nversion=1\ncluster.id=RPz1\n",
    )
    assert checkpoints.read_meta(disk) == MetaProperties("RPz1", 1, 0, "y-alz")
    checkpoints.claim_folder(disk, cluster_id="RPz1", node_id=1)
    assert checkpoints.read_meta(disk) == MetaProperties("RPz1", 1, DISK_FORMAT_VERSION, "y-alz")
    assert b"directory.id=y-alz\n" in (disk.read_file("meta.properties") or b"")


def test_an_older_kafkas_name_of_the_broker() -> None:
    disk = MemDisk()
    disk.write_file("meta.properties", b"version=0\nbroker.id=4\ncluster.id=x\n")
    assert checkpoints.read_meta(disk) == MetaProperties("x", 4, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version=1\ncluster.id=abc\nnode.id=4\n", "broker 4, not to 3"),
        ("version=1\ncluster.id=xyz\nnode.id=3\n", "cluster xyz, not to abc"),
        ("version=2\ncluster.id=abc\nnode.id=3\n", "version 2"),
        ("version=1\nnode.id=3\n", "cluster.id"),
        ("version=1\ncluster.id=abc\n", "broker.id"),
        ("version=1\ncluster.id=abc\nnode.id=three\n", "three"),
        ("version=one\ncluster.id=abc\nnode.id=3\n", "one"),
        ("", "broker.id"),
    ],
)
def test_somebody_elses_folder(text: str, expected: str) -> None:
    disk = MemDisk()
    disk.write_file("meta.properties", text.encode())
    with pytest.raises(WrongFolder, match=expected):
        checkpoints.claim_folder(disk, cluster_id="abc", node_id=3)
    assert disk.read_file("meta.properties") == text.encode()


def test_a_newer_disk_format_is_refused_with_both_numbers() -> None:
    disk = MemDisk()
    newer = DISK_FORMAT_VERSION + 1
    text = f"version=1\ncluster.id=abc\nnode.id=3\nreplog.disk.format={newer}\n"
    disk.write_file("meta.properties", text.encode())
    with pytest.raises(WrongFolder, match=f"format {newer}, .* up to {DISK_FORMAT_VERSION}"):
        checkpoints.claim_folder(disk, cluster_id="abc", node_id=3)
