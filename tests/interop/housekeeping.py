"""How far Apache Kafka's housekeeping is with what was written to it: compaction, and deletion by
retention. What it serves before they are done is not what it serves, or has in its folders, later.

Each node works for itself, on its own copy: what is looked at is what lies in its folders.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.interop.kafka import KafkaServer
from tests.support.cluster import wait_until

SOON_MS = 60_000  # a test waits for `retention.ms` up to here
PATIENCE_S = 180  # several nodes, on a busy machine


def cleaned_to(folder: Path, partition: str) -> int:
    """Where the cleaner of a log folder goes on in one `topic-partition`; 0 where it never was."""
    checkpoint = folder / "cleaner-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    ends = {f"{topic}-{index}": int(end) for topic, index, end in map(str.split, lines)}
    return ends.get(partition, 0)


def is_done(folder: Path, configs: Mapping[str, str]) -> bool:
    """Whether nothing is left to do in a partition's folder that nobody writes to.

    The newest segment is never compacted; nor is one deleted by `retention.bytes` when less than
    that would be left.
    """
    try:
        sizes = {int(log.stem): log.stat().st_size for log in sorted(folder.glob("*.log"))}
    except FileNotFoundError:
        return False  # one is put into another's place right now
    if not sizes:
        return False
    *closed, newest = sizes
    policies = configs.get("cleanup.policy", "delete").split(",")
    if "compact" in policies:
        behind = [base for base in closed if sizes[base]]
        if behind and cleaned_to(folder.parent, folder.name) < newest:
            return False
    if "delete" in policies:
        if 0 <= int(configs.get("retention.ms", "-1")) <= SOON_MS:
            return not any(sizes.values())
        if closed and (kept := int(configs.get("retention.bytes", "-1"))) >= 0:
            return sum(sizes.values()) - sizes[closed[0]] < kept
    return True


def wait_until_done(nodes: Iterable[KafkaServer], topics: Mapping[str, Mapping[str, str]]) -> None:
    """On every node, with topics that are written to no more: their configurations by name."""
    for node in nodes:
        for log_folder in node.folders:
            for partition in log_folder.glob("*-*/"):
                configs = topics.get(partition.name.rpartition("-")[0])
                if configs is not None:
                    wait_until(
                        f"housekeeping is done in {partition}",
                        lambda at=partition, configs=configs: is_done(at, configs),
                        PATIENCE_S,
                    )
