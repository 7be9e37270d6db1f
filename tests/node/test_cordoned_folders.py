"""Folders in `cordoned.log.dirs` (KIP-1066)."""

import pytest
from tests.node.lone import Lone, record

from replog.model.inputs import Received
from replog.model.messages.describe_log_dirs import DescribeLogDirsRequest
from replog.node.handlers import describe_log_dirs


def folders_of(made: Lone, names: str) -> list[int]:
    return [made.node.partitions.logs.folders.index(made.partition(n).folder) for n in names]


@pytest.mark.parametrize(
    ("cordoned", "went"),
    [
        ("/logs/0", [1, 2, 1, 2]),
        ("/logs/2,/logs/0", [1, 1, 1, 1]),
        ("/logs/0,/logs/1,/logs/2", [0, 1, 2, 0]),  # they have to go somewhere
        ("*", [0, 1, 2, 0]),
    ],
)
def test_a_cordoned_folder_takes_no_new_partitions(cordoned: str, went: list[int]) -> None:
    """What is in it stays."""
    folders = "/logs/0,/logs/1,/logs/2"
    made = Lone(folders=3, log__dirs=folders, cordoned__log__dirs=cordoned)
    for name in "abcd":
        made.topic(name, record(1))
    assert folders_of(made, "abcd") == went
    made.given["cordoned__log__dirs"] = "/logs/1"
    made.restart("a", "b", "c", "d")
    assert folders_of(made, "abcd") == went
    request = Received(7, 1, 5, DescribeLogDirsRequest(), "PLAINTEXT", client_host="127.0.0.1")
    told = describe_log_dirs.handle(made.node, request, DescribeLogDirsRequest())
    assert [result.is_cordoned for result in told.results] == [False, True, False]
