"""What `replog status` says first: the worst that is wrong."""

import pytest

from replog.cli.cluster_view import FolderView, PartitionView, TopicView, Troubles
from replog.cli.status import BrokerView, Overview, _print

GOOD = FolderView(1, "/a", "online", "", 3, ("t-0.abc-stray",))
FULL = FolderView(1, "/b", "full", "no space left", 7, ())
FAILED = FolderView(2, "/c", "failed", "Input/output error", 1, ())


def overview(
    *folders: FolderView,
    leader: int = 1,
    isr: tuple[int, ...] = (1, 2),
    states: tuple[str, ...] = ("running", "alive"),
) -> Overview:
    partition = PartitionView(0, leader, 1, (1, 2), isr)
    topic = TopicView("t", "id", False, [partition])
    brokers = [BrokerView(n, "-", state, None, False) for n, state in enumerate(states, 1)]
    return Overview("cluster", None, brokers, [topic], None, Troubles(folders=list(folders)))


@pytest.mark.parametrize(
    ("shown", "verdict"),
    [
        (overview(), "healthy"),
        (overview(GOOD), "healthy"),
        (overview(GOOD, FULL, FAILED), "2 log folders can't be written to"),
        (overview(FULL, isr=(1,)), "1 partitions have fewer in-sync replicas than assigned"),
        (overview(FULL, leader=-1), "1 partitions have no leader"),
        (overview(states=("paused", "running", "gone")), "broker 1 is paused, broker 3 is gone"),
    ],
)
def test_the_verdict(shown: Overview, verdict: str) -> None:
    assert shown.verdict == verdict


def test_log_folders_that_are_not_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    _print(overview(GOOD, FULL, FAILED), "text")
    text = capsys.readouterr().out
    assert "/b of broker 1 is full, and only read from, with 7 replicas: no space left" in text
    assert "/c of broker 2 failed, with 1 replicas: Input/output error" in text
    assert "/a of broker 1 keeps what belongs to no topic any more" in text
    assert "t-0.abc-stray" in text
