"""What the tests of each client have in common."""

import os
import shutil
from collections.abc import Iterable

import pytest

RECORDS = int(os.environ.get("REPLOG_CLIENT_RECORDS", "10000"))
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def values() -> list[bytes]:
    """What is written: numbered, of a size and content that compression bites on."""
    return [f"{number:08d} ".encode() + b"replog " * 20 for number in range(RECORDS)]


def partition_of(number: int) -> int:
    return number % PARTITIONS


def check_all_in_order(read: Iterable[tuple[int, int, bytes]]) -> None:
    """`read` are (partition, offset, value): nothing missing, nothing twice, order kept."""
    by_partition: dict[int, list[bytes]] = {}
    for partition, offset, value in read:
        found = by_partition.setdefault(partition, [])
        assert offset == len(found), f"partition {partition}: offset {offset} after {len(found)}"
        found.append(value)
    written = values()
    for partition in range(PARTITIONS):
        assert by_partition.get(partition) == written[partition::PARTITIONS], partition


@pytest.fixture
def kcat() -> str:
    """The program kcat. Without it nobody would notice that it does not work, so no skip here."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None:
        pytest.fail("kcat is missing: 'apt-get install kcat' or 'brew install kcat'")
    return found
