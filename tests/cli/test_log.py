"""`replog log dump` and `replog log verify` on folders as they lie on disk."""

import json
from pathlib import Path

import pytest

from replog.cli.main import run
from replog.cli.read_only_disk import ReadOnlyDisk
from replog.log import checkpoints, files
from replog.log.config import LogConfig
from replog.log.disk import DiskError
from replog.log.partition_log import PartitionLog
from replog.model.ids import TopicPartition
from replog.records.batch import CONTROL_BIT, Producer, Record, build_batch, iterate
from replog.runtime.os_disk import OsDisk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log folder with two partitions."""
    disk = OsDisk(tmp_path)
    for name in ("t-0", "t-1"):
        log = PartitionLog.open(
            disk, name, LogConfig(), topic_id=b"i" * 16, recovery_point=0, clean=False
        )
        for batch in (
            build_batch(
                [
                    Record(0, 1_700_000_000_000, b"k", b"v", (("h", b"x"),)),
                    Record(0, 9, None, b"\xff"),
                ],
                producer=Producer(7, 1, 4),
                compression=3,
            ),
            build_batch([Record(0, 5, b"\0\0\0\1", b"")], attributes=CONTROL_BIT),
        ):
            data = bytearray(batch)
            log.append_as_leader(memoryview(data), iterate(data), 2, 0)
        log.close()
    checkpoints.write(disk, checkpoints.HIGH_WATERMARKS, {TopicPartition("t", 0): 3})
    return tmp_path


def test_every_batch_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "dump", str(folder / "t-0")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    for part in (
        "t-0/00000000000000000000.log:0",
        "offsets 0-1",
        "2 records",
        "epoch 2",
        "lz4",
        "CreateTime 2023-11-14T22:13:20.000+00:00",
        "producer 7 epoch 1",
        "sequence 4-5",
        "crc ok",
    ):
        assert part in first
    assert "marker commit" in second and "control" in second


def test_json_has_a_document_a_line_with_records_on_demand(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "dump", str(folder), "--format", "json", "--records"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["file"][:3] for line in lines] == ["t-0", "t-0", "t-1", "t-1"]
    batch = lines[0]
    assert batch["records"] == [
        {
            "offset": 0,
            "timestamp": 1_700_000_000_000,
            "key": "k",
            "value": "v",
            "headers": [["h", "x"]],
        },
        {"offset": 1, "timestamp": 9, "key": None, "value_base64": "/w=="},
    ]
    assert (batch["codec"], batch["crc"], batch["leader_epoch"]) == ("lz4", "ok", 2)
    assert (batch["producer_id"], batch["base_sequence"], batch["last_sequence"]) == (7, 4, 5)
    assert lines[1]["marker"] == "commit" and lines[1]["control"]


def test_a_dump_tells_what_it_can_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data[:-3])
    assert run(["log", "dump", str(folder / "t-0")]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert "crc bad" in first and "ends inside the batch" in second


def test_a_sound_folder_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", "verify", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("2 partitions, 2 segments, 4 batches, 6 records")
    assert run(["log", "verify", str(folder / "t-1"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == 1


def test_faults_are_told_with_file_and_position(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "t-1" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert run(["log", "verify", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "t-1/00000000000000000000.log at byte 0: the CRC does not match" in out
    assert "1 faults" in out
    assert run(["log", "verify", str(folder), "--format", "json"]) == 1
    fault = json.loads(capsys.readouterr().out.splitlines()[0])
    assert fault == {
        "file": "t-1/00000000000000000000.log",
        "position": 0,
        "fault": "the CRC does not match",
    }
    assert run(["log", "verify", str(folder / "t-0")]) == 0, "the other one is sound"


@pytest.mark.parametrize(
    "name",
    [
        checkpoints.HIGH_WATERMARKS,
        checkpoints.RECOVERY_POINTS,
        checkpoints.LOG_STARTS,
        checkpoints.CLEANED,
    ],
)
def test_checkpoints_may_not_be_ahead_of_their_logs(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = OsDisk(folder)
    checkpoints.write(disk, name, {TopicPartition("t", 1): 3})
    assert run(["log", "verify", str(folder)]) == 0
    checkpoints.write(disk, name, {TopicPartition("t", 1): 4})
    assert run(["log", "verify", str(folder)]) == 1
    assert f"{name}: t-1 has 4, but its log ends at 3" in capsys.readouterr().out
    (folder / name).write_text("0\n7\n")
    assert run(["log", "verify", str(folder)]) == 1


def test_all_partitions_of_a_topic_have_its_id(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t-1" / files.PARTITION_METADATA).write_bytes(files.metadata_text(b"j" * 16))
    assert run(["log", "verify", str(folder)]) == 1
    assert "t-1/partition.metadata: it tells another topic id than" in capsys.readouterr().out
    assert run(["log", "verify", str(folder / "t-1")]) == 0, "nobody can tell"


def test_a_log_folder_says_whose_it_is(folder: Path) -> None:
    (folder / checkpoints.META_PROPERTIES).write_text("cluster.id=c\nnode.id=1\nversion=1\n")
    assert run(["log", "verify", str(folder)]) == 0
    (folder / checkpoints.META_PROPERTIES).write_text("cluster.id=c\nnode.ie=1\nversion=1\n")
    assert run(["log", "verify", str(folder)]) == 1


def test_gaps_are_known_where_this_broker_has_compacted(folder: Path) -> None:
    path = folder / "t-0" / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[iterate(data)[0].length :])
    (folder / "t-0" / f"{0:020d}.timeindex").write_bytes(b"")
    assert run(["log", "verify", str(folder)]) == 1
    assert run(["log", "verify", str(folder), "--allow-gaps"]) == 0
    checkpoints.write(OsDisk(folder), checkpoints.CLEANED, {TopicPartition("t", 0): 2})
    assert run(["log", "verify", str(folder)]) == 0


def test_a_folder_without_logs_is_refused_with_a_hint(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["log", "verify", str(folder.parent)]) == 1
    assert str(folder) in capsys.readouterr().err
    assert run(["log", "dump", str(folder / "nowhere")]) == 1
    assert "is no folder" in capsys.readouterr().err


def test_nothing_can_be_written(folder: Path) -> None:
    disk = ReadOnlyDisk(folder)
    file = disk.open("t-0/partition.metadata", create=True)
    with pytest.raises(DiskError):
        file.append((b"x",))
    with pytest.raises(DiskError):
        disk.open("t-0/nothing", create=True)
    for call in (disk.remove, disk.remove_tree, disk.make_directory, disk.sync_directory):
        with pytest.raises(DiskError):
            call("t-0")
    with pytest.raises(DiskError):
        disk.write_file("t-0/x", b"")
    with pytest.raises(DiskError):
        disk.rename("t-0", "t-2")
    assert not (folder / "t-0" / "nothing").exists()
    file.close()
    with pytest.raises(DiskError):
        file.size()
