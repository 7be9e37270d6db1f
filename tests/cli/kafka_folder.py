"""A log folder as an Apache Kafka node leaves it, made by hand for tests."""

from collections.abc import Sequence
from pathlib import Path

from replog.core.group.hashing import partition_for
from replog.core.group.offsets import CommittedOffset
from replog.log import checkpoints
from replog.log.config import LogConfig
from replog.log.partition_log import PartitionLog
from replog.model.ids import TopicPartition
from replog.node.group_storage import OffsetStored, to_batch
from replog.node.partition import replay_producers
from replog.records.batch import Producer, Record, build_batch, iterate
from replog.runtime.os_disk import OsDisk

TIME = 1_700_000_000_000


def topic_id(name: str) -> bytes:
    return name.encode()[:16].ljust(16, b"\1")


def batch(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), codec: int = 0) -> bytes:
    records = [Record(0, TIME, b"k", value) for value in values]
    return build_batch(records, producer=Producer._make(producer), compression=codec)


class KafkaFolder:
    """Add partitions, then `stop` or `kill` the node."""

    def __init__(self, root: Path, *, node: int = 1) -> None:
        root.mkdir()
        self.root = root
        self._disk = OsDisk(root)
        self._ends: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        self._metadata: list[bytes] = []
        (root / "meta.properties").write_text(
            f"#\nnode.id={node}\nversion=1\ncluster.id=RPz1xly-SJu70FEZ6o_x1Q\n"
        )

    def partition(
        self,
        name: str,
        index: int,
        batches: Sequence[bytes],
        *,
        epoch: int = 0,
        log_start: int = 0,
        cleaned_to: int = 0,
        segment_bytes: int = 1 << 30,
    ) -> Path:
        tp = TopicPartition(name, index)
        config = LogConfig(segment_bytes=segment_bytes)
        log = PartitionLog.open(
            self._disk, str(tp), config, topic_id=topic_id(name), recovery_point=0, clean=False
        )
        for data in batches:
            buffer = memoryview(bytearray(data))
            log.append_as_leader(buffer, iterate(buffer), epoch, TIME)
        producers = replay_producers(log, [])
        self._ends[tp] = log.close()
        log.snapshots.add_unsynced(log.log_end_offset, producers.entries())
        self._starts[tp], self._cleaned[tp] = log_start, cleaned_to
        return self.root / str(tp)

    def offsets(self, group: str, committed: dict[TopicPartition, int], *, of: int = 2) -> None:
        """A topic of `of` partitions with the committed offsets of a group."""
        for index in range(of):
            changes = [
                OffsetStored(group, tp, CommittedOffset(offset, -1, f"at {offset}", TIME * 2))
                for tp, offset in committed.items()
            ]
            here = partition_for(group, of) == index
            data = [bytes(to_batch(changes, wall_ms=TIME, compression=0))] if here else []
            self.partition("__consumer_offsets", index, data)

    # ---- what the controllers say --------------------------------------------------------------

    def led_anew(self, name: str, index: int, leader: int) -> None:
        """A change of a partition: its ISR, and its leader (-2: not that)."""
        front = b"\1\5\0" + index.to_bytes(4, "big") + topic_id(name)
        leader_field = b"\1\4" + leader.to_bytes(4, "big", signed=True)
        self._metadata.append(front + b"\2" + b"\0\5\2\0\0\0\1" + leader_field)

    def topic(self, name: str, partitions: int, **configs: str) -> None:
        self._metadata.append(b"\1\2\0" + _text(name) + topic_id(name) + b"\0")
        for index in range(partitions):
            front = index.to_bytes(4, "big") + topic_id(name)
            self._metadata.append(b"\1\3\2" + front + b"\2\0\0\0\1" * 2 + bytes(20) + b"\0")
        for key, value in configs.items():
            key = key.replace("__", ".")
            self._metadata.append(b"\1\4\0\2" + _text(name) + _text(key) + _text(value) + b"\0")

    def producer_ids(self, next_id: int) -> None:
        self._metadata.append(b"\1\x0f\0" + bytes(12) + next_id.to_bytes(8, "big") + b"\0")

    def _write_metadata(self) -> None:
        folder = self.root / "__cluster_metadata-0"
        folder.mkdir(exist_ok=True)
        records = [Record(0, TIME, None, value) for value in self._metadata]
        (folder / f"{0:020d}.log").write_bytes(build_batch(records))

    # ---- the end -------------------------------------------------------------------------------

    def kill(self) -> Path:
        """The end of the process, with checkpoints as they were then."""
        if self._metadata:
            self._write_metadata()
        for name, offsets in (
            (checkpoints.RECOVERY_POINTS, self._ends),
            (checkpoints.HIGH_WATERMARKS, self._ends),
            (checkpoints.LOG_STARTS, {tp: n for tp, n in self._starts.items() if n}),
            (checkpoints.CLEANED, {tp: n for tp, n in self._cleaned.items() if n}),
        ):
            checkpoints.write(self._disk, name, offsets)
        return self.root

    def stop(self) -> Path:
        checkpoints.mark_clean_shutdown(self._disk)
        return self.kill()


def _text(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data) + 1]) + data
