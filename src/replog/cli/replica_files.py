"""Comparing the log files of replicas, byte by byte, while nobody writes to them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CHUNK_BYTES = 1 << 20


def compare_replicas(
    folders: Mapping[int, Path], topic: str, partitions: Sequence[int]
) -> tuple[bool, str]:
    """Whether all brokers hold the same bytes for each partition, and one sentence about it.

    `folders` are the log directories by broker id. Where segments begin may differ from replica to
    replica; the bytes in the order of offsets may not.
    """
    total = 0
    for partition in partitions:
        streams = {
            broker: _chunks(folder / f"{topic}-{partition}") for broker, folder in folders.items()
        }
        position = 0
        while True:
            chunks = {broker: next(stream, b"") for broker, stream in streams.items()}
            first = next(iter(chunks.values()))
            if any(chunk != first for chunk in chunks.values()):
                sizes = {b: _size(f / f"{topic}-{partition}") for b, f in folders.items()}
                return False, (
                    f"replicas of partition {partition} differ from byte "
                    f"{position + _first_difference(list(chunks.values()))} on (sizes {sizes})"
                )
            if not first:
                break
            position += len(first)
        total += position
    count = len(folders)
    if total == 0:
        return False, f"the {count} replicas of {topic} hold no bytes at all"
    return True, (
        f"{count} replicas of {len(partitions)} partitions are the same, byte by byte "
        f"({total:,} bytes each)"
    )


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))  # names are base offsets with leading zeros


def _size(folder: Path) -> int:
    return sum(segment.stat().st_size for segment in _segments(folder))


def _chunks(folder: Path) -> Iterator[bytes]:
    """The bytes of all segments, in chunks of one size whatever the segments' sizes are."""
    pending = bytearray()
    for segment in _segments(folder):
        with segment.open("rb") as file:
            while data := file.read(CHUNK_BYTES):
                pending += data
                while len(pending) >= CHUNK_BYTES:
                    yield bytes(pending[:CHUNK_BYTES])
                    del pending[:CHUNK_BYTES]
    if pending:
        yield bytes(pending)


def _first_difference(chunks: Sequence[bytes]) -> int:
    shortest = min(len(chunk) for chunk in chunks)
    for index in range(shortest):
        if len({chunk[index] for chunk in chunks}) > 1:
            return index
    return shortest
