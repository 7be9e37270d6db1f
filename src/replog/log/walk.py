"""Reading a segment batch by batch, payloads included. For jobs and tools."""

from collections.abc import Iterator
from typing import Final

from replog.log.disk import DiskFile
from replog.log.errors import DamagedBatch, LogCorrupt
from replog.records.header import HEADER_SIZE, MAGIC, BatchHeader, crc_ok

# One read. No larger, since a job holds up the loop for as long as it handles what it has read.
READ_BYTES: Final = 64 * 1024

# (position in the file, header, bytes); the header's own `position` is 0: it is that of the bytes.
Walked = tuple[int, BatchHeader, memoryview]


def walk_batches(file: DiskFile, end: int) -> Iterator[Walked]:
    """Each batch of the first `end` bytes of `file`. Raises DiskError, and LogCorrupt at the first
    batch that is not sound."""
    for position, header, batch in walk_unchecked(file, end):
        if not crc_ok(batch, header):
            raise DamagedBatch(f"{file!r}: the CRC of the batch at {position} does not match")
        yield position, header, batch


def walk_unchecked(file: DiskFile, end: int) -> Iterator[Walked]:
    """As `walk_batches`, but CRCs are the caller's affair: LogCorrupt comes where no batch is."""
    position = start = 0
    data = memoryview(b"")
    while position < end:
        index = position - start
        if index + HEADER_SIZE > len(data):
            data = memoryview(file.read(position, READ_BYTES))
            start, index = position, 0
            if len(data) < HEADER_SIZE:
                raise LogCorrupt(f"{file!r} ends inside the header at {position}")
        header = BatchHeader(data, index)
        length = header.length
        if length < HEADER_SIZE or header.magic != MAGIC:
            raise LogCorrupt(f"{file!r} has no batch at {position}")
        if index + length > len(data) and position + length <= end:
            data = memoryview(file.read(position, max(length, READ_BYTES)))
            start, index = position, 0
        batch = data[index : index + length]
        if position + length > end or len(batch) < length:
            raise LogCorrupt(f"{file!r} ends inside the batch at {position}")
        header.position = 0
        yield position, header, batch
        position += length
