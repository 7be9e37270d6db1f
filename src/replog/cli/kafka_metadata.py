"""What Apache Kafka's controllers kept of topics: `__cluster_metadata-0` in a log folder (KIP-631).

Only a node that is a controller too has it. It tells what no partition's folder does: how many
partitions a topic has, how often each got a leader, and the topic's configuration. Values are
records of a type and a version, in the flexible encoding: lengths are varints, one too large, and
tagged fields end each record.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final

from replog.log import files
from replog.model.ids import topic_id_text
from replog.records.batch import CorruptBatch, crc_ok, iterate, records_of

FOLDER: Final = "__cluster_metadata-0"

_FRAME_VERSION: Final = 1
_TOPIC: Final = 2
_PARTITION: Final = 3
_CONFIG: Final = 4
_PARTITION_CHANGE: Final = 5
_REMOVE_TOPIC: Final = 9
_PRODUCER_IDS: Final = 15
_TOPIC_RESOURCE: Final = 2

_LEADER_TAG: Final = 1  # of a partition's change
_NO_CHANGE: Final = -2

_INT32 = Struct(">i")
_PRODUCER_BLOCK = Struct(">iqq")  # broker, its epoch, the next id that nobody has

_CHECKPOINT_SUFFIX: Final = ".checkpoint"


class BadMetadata(Exception):
    """The metadata log can't be read; the text says why."""


@dataclass(slots=True)
class KafkaTopic:
    """A topic that was there at the end of the log."""

    name: str
    topic_id: bytes
    partitions: int = 0
    configs: dict[str, str] = field(default_factory=dict)
    leader_epochs: dict[int, int] = field(default_factory=dict)  # by partition


@dataclass(slots=True)
class KafkaMetadata:
    """Topics by id, and the first producer id that was never given out."""

    topics: dict[bytes, KafkaTopic] = field(default_factory=dict)
    next_producer_id: int = 0


class _Reader:
    """One record's value, field after field."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def number(self) -> int:
        """An unsigned varint."""
        value = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str | None:
        length = self.number() - 1
        return None if length < 0 else self.take(length).decode()

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(_INT32.size))[0])

    def skip_numbers(self) -> None:
        """An array of 32-bit numbers, or null."""
        self.take(max(self.number() - 1, 0) * _INT32.size)

    def tagged(self) -> dict[int, bytes]:
        """The tagged fields, undecoded."""
        found = {}
        for _ in range(self.number()):
            tag, size = self.number(), self.number()
            found[tag] = self.take(size)
        return found

    def take(self, length: int) -> bytes:
        start = self.position
        self.position += length
        if self.position > len(self._data):
            raise IndexError(f"{length} bytes are more than there are")
        return self._data[start : self.position]


def read_metadata(log_folder: Path) -> KafkaMetadata | None:
    """The topics that the log knows, None when there is none. Raises BadMetadata."""
    folder = log_folder / FOLDER
    if not folder.is_dir():
        return None
    found = KafkaMetadata()
    try:
        first_offset = 0
        checkpoint = _newest_checkpoint(folder)
        if checkpoint is not None:
            first_offset, path = checkpoint
            for _, value in _values(path):
                _apply(found, value)
        for path in sorted(folder.glob(f"*{files.LOG_SUFFIX}")):
            for offset, value in _values(path):
                if offset >= first_offset:
                    _apply(found, value)
    except OSError as error:
        raise BadMetadata(f"{error.filename}: {error.strerror}") from error
    except (CorruptBatch, IndexError, ValueError) as error:
        raise BadMetadata(f"{folder} can't be understood: {error}") from error
    return found


def _newest_checkpoint(folder: Path) -> tuple[int, Path] | None:
    """A snapshot of all that the log said below an offset: `<offset>-<epoch>.checkpoint`."""
    newest: tuple[int, Path] | None = None
    for path in folder.glob(f"*{_CHECKPOINT_SUFFIX}"):
        digits = path.name.removesuffix(_CHECKPOINT_SUFFIX).partition("-")[0]
        if digits.isdigit() and (newest is None or int(digits) > newest[0]):
            newest = int(digits), path
    return newest


def _values(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of each record that is no control record. What a crash tore off is left out:
    nobody was ever told of it."""
    data = path.read_bytes()
    for header in iterate(data):
        if not crc_ok(data, header):
            return
        if header.control:
            continue
        for record in records_of(data, header):
            if record.value is not None:
                yield record.offset, record.value


def _apply(found: KafkaMetadata, value: bytes) -> None:
    reader = _Reader(value)
    frame = reader.number()
    if frame != _FRAME_VERSION:
        raise ValueError(f"frame version {frame} is unknown")
    kind = reader.number()
    reader.number()  # version: what is read here is the same in all of them
    if kind == _TOPIC:
        name, topic_id = reader.text() or "", reader.take(16)
        found.topics[topic_id] = KafkaTopic(name, topic_id)
    elif kind in (_PARTITION, _PARTITION_CHANGE):
        index, topic_id = reader.int32(), reader.take(16)
        topic = found.topics.get(topic_id)
        if topic is None:
            raise ValueError(f"a partition of an unknown topic {topic_id_text(topic_id)}")
        topic.partitions = max(topic.partitions, index + 1)
        if kind == _PARTITION:
            for _ in ("replicas", "isr", "removing", "adding"):
                reader.skip_numbers()
            reader.int32()  # the leader
            topic.leader_epochs[index] = reader.int32()
        else:
            leader = reader.tagged().get(_LEADER_TAG)
            if leader is not None and _INT32.unpack(leader)[0] != _NO_CHANGE:
                topic.leader_epochs[index] = topic.leader_epochs.get(index, 0) + 1
    elif kind == _REMOVE_TOPIC:
        found.topics.pop(reader.take(16), None)
    elif kind == _CONFIG:
        _apply_config(found, reader)
    elif kind == _PRODUCER_IDS:
        found.next_producer_id = max(
            found.next_producer_id, _PRODUCER_BLOCK.unpack(reader.take(_PRODUCER_BLOCK.size))[2]
        )


def _apply_config(found: KafkaMetadata, reader: _Reader) -> None:
    resource = reader.take(1)[0]
    resource_name, name, value = reader.text(), reader.text(), reader.text()
    if resource != _TOPIC_RESOURCE or resource_name is None or name is None:
        return
    for topic in found.topics.values():
        if topic.name == resource_name:
            if value is None:
                topic.configs.pop(name, None)
            else:
                topic.configs[name] = value
