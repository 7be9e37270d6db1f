"""The byte-by-byte comparison must find one changed, missing or surplus byte."""

from pathlib import Path

import pytest

from replog.cli.replica_files import CHUNK_BYTES, compare_replicas


def replica(folder: Path, *segments: bytes) -> Path:
    place = folder / "t-0"
    place.mkdir(parents=True)
    offset = 0
    for data in segments:
        (place / f"{offset:020}.log").write_bytes(data)
        offset += len(data)
    (place / "leader-epoch-checkpoint").write_text("not compared " + folder.name)
    return folder


def test_same_bytes_in_other_segments_are_the_same(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000  # more than one chunk
    assert len(data) > CHUNK_BYTES
    one = replica(tmp_path / "one", data)
    two = replica(tmp_path / "two", data[:70_000], data[70_000:])
    good, text = compare_replicas({0: one, 1: two}, "t", [0])
    assert good and f"{len(data):,} bytes" in text


@pytest.mark.parametrize(
    ("other", "at"),
    [(b"abcdefgX", 7), (b"abcdefg", 7), (b"abcdefghi", 8), (b"", 0)],
    ids=["changed", "missing", "surplus", "empty"],
)
def test_one_byte_is_enough(tmp_path: Path, other: bytes, at: int) -> None:
    one = replica(tmp_path / "one", b"abcdefgh")
    two = replica(tmp_path / "two", other)
    good, text = compare_replicas({0: one, 1: two}, "t", [0])
    assert not good and f"from byte {at} on" in text


def test_nothing_to_compare_is_no_success(tmp_path: Path) -> None:
    good, _ = compare_replicas({0: replica(tmp_path / "one", b"")}, "t", [0])
    assert not good
