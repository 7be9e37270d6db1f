"""Which of the batches that a follower has fetched its log can take."""

from crc32c import crc32c

from replog.log.errors import OffsetsNotContiguous
from replog.records.errors import CorruptBatch
from replog.records.header import CRC_COVERS_FROM, BatchHeader, iterate


def takeable(fetched: memoryview, log_end_offset: int) -> tuple[list[BatchHeader], int]:
    """The whole batches in front of the first that can't be taken, and how many offsets from the
    log's end on are in none of them (compaction took those).

    The next fetch begins with the one that can't be taken. When that is the first here, it raises
    OffsetsNotContiguous or CorruptBatch.
    """
    expected, skipped = log_end_offset, 0
    taken = iterate(fetched, up_to_fault=True)
    for index, header in enumerate(taken):
        fault: Exception | None = None
        payload = fetched[header.position + CRC_COVERS_FROM : header.position + header.length]
        if header.base_offset < expected:
            fault = OffsetsNotContiguous(expected, header.base_offset)
        elif header.last_offset_delta < 0 or crc32c(payload) != header.crc:
            fault = CorruptBatch(f"{header!r} is damaged")
        if fault is not None and not index:
            raise fault
        if fault is not None:
            return taken[:index], skipped
        skipped += header.base_offset - expected
        expected = header.base_offset + header.last_offset_delta + 1
    return taken, skipped
