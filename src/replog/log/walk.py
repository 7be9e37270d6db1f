"""Reading a segment batch by batch, payloads included, with their CRCs checked. For jobs."""

from collections.abc import Iterator
from typing import Final

from replog.log.disk import DiskFile
from replog.log.errors import LogCorrupt
from replog.records.header import HEADER_SIZE, MAGIC, BatchHeader, crc_ok

# One read. No larger, since a job holds up the loop for as long as it handles what it has read.
READ_BYTES: Final = 64 * 1024


def walk_batches(file: DiskFile, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each batch of the first `end` bytes of `file`.

    The header's own `position` is 0: it is that of the bytes. Raises DiskError, and LogCorrupt at
    the first batch that is not sound.
    """
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
        if length < HEADER_SIZE or header.magic != MAGIC or position + length > end:
            raise LogCorrupt(f"{file!r} has no batch at {position}")
        if index + length > len(data):
            data = memoryview(file.read(position, max(length, READ_BYTES)))
            start, index = position, 0
        batch = data[index : index + length]
        header.position = 0
        if len(batch) < length or not crc_ok(batch, header):
            raise LogCorrupt(f"{file!r}: the CRC of the batch at {position} does not match")
        yield position, header, batch
        position += length
