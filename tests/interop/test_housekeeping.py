"""When compaction and deletion by Kafka count as done."""

from pathlib import Path

import pytest
from tests.interop.housekeeping import is_done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a partition: 30 bytes up to offset 5, 20 up to 9, 10 from there on."""
    folder = tmp_path / "some-topic-1"
    folder.mkdir()
    for base, size in ((0, 30), (5, 20), (9, 10)):
        (folder / f"{base:020}.log").write_bytes(bytes(size))
    return folder


@pytest.mark.parametrize(
    ("checkpoint", "done"),
    [
        (None, False),
        ("0\n1\nsome-topic 0 9\n", False),
        ("0\n2\nsome-topic 0 9\nsome-topic 1 5\n", False),
        ("0\n2\nsome-topic 0 2\nsome-topic 1 9\n", True),
    ],
)
def test_compaction_ends_at_the_newest_segment(
    folder: Path, checkpoint: str | None, done: bool
) -> None:
    if checkpoint is not None:
        (folder.parent / "cleaner-offset-checkpoint").write_text(checkpoint)
    assert is_done(folder, {"cleanup.policy": "compact"}) == done
    assert is_done(folder, {})


@pytest.mark.parametrize(("kept", "done"), [(20, False), (30, False), (31, True), (90, True)])
def test_segments_go_while_enough_is_left(folder: Path, kept: int, done: bool) -> None:
    assert is_done(folder, {"retention.bytes": str(kept)}) == done


def test_what_is_old_goes_to_the_last_record(folder: Path) -> None:
    old = {"cleanup.policy": "compact,delete", "retention.ms": "1500"}
    for log in sorted(folder.glob("*.log")):
        assert not is_done(folder, old)
        log.unlink()
    assert not is_done(folder, old), "there is always a segment"
    (folder / f"{12:020}.log").touch()
    assert is_done(folder, old)
