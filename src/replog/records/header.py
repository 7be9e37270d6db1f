"""The 61 bytes in front of every record batch (KIP-98, magic 2), read and stamped in place.

    offset  field                      covered by the CRC
    0       base offset, int64         no
    8       length of what follows     no
    12      partition leader epoch     no
    16      magic, int8                no
    17      CRC-32C of what follows    -
    21      attributes, int16          yes
    23      last offset delta, int32   yes
    27      base timestamp, int64      yes
    35      max timestamp, int64       yes
    43      producer id, int64         yes
    51      producer epoch, int16      yes
    53      base sequence, int32       yes
    57      number of records, int32   yes

The leader assigns offsets and stamps its epoch, which is why the CRC leaves these two out: a batch
is checked once where it arrives, and neither copied nor summed again.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c

from replog.records.errors import CorruptBatch

MAGIC: Final = 2
LOG_OVERHEAD: Final = 12  # base offset and length, which the length does not count
HEADER_SIZE: Final = 61
CRC_COVERS_FROM: Final = 21
ATTRIBUTES_AT: Final = 21
MAGIC_AT: Final = 16
PRODUCER_ID_AT: Final = 43

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qi")  # base offset, length
_BASE_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_PRODUCER = Struct(">qhi")
_MAX_TIMESTAMP = Struct(">q")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")

read_prefix = _PREFIX.unpack_from

Bytes = bytes | bytearray | memoryview


def read_producer(buffer: Bytes) -> tuple[int, int]:
    """Producer id and base sequence of the first batch of `buffer`; NO_PRODUCER_ID and NO_SEQUENCE
    when it is not even a header."""
    if len(buffer) < HEADER_SIZE:
        return NO_PRODUCER_ID, NO_SEQUENCE
    producer_id, _, sequence = _PRODUCER.unpack_from(buffer, PRODUCER_ID_AT)
    return producer_id, sequence


def begins_transactional(buffer: Bytes) -> bool:
    """Whether the first batch of `buffer` says that it belongs to a transaction."""
    return (
        len(buffer) >= HEADER_SIZE
        and buffer[MAGIC_AT] == MAGIC
        and bool(buffer[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT)
    )


class BatchHeader:
    """One header. `position` is where the batch begins in the buffer it was read from.

    `length` is the size of the whole batch in bytes, its first 12 included; timestamps are in
    milliseconds since 1970, -1 where there is none.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "length",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
    )

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    position: int

    def __init__(self, buffer: Bytes, position: int) -> None:
        """Reads the 61 bytes at `position`, unchecked: `struct.error` when there are fewer."""
        (
            self.base_offset,
            length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = _HEADER.unpack_from(buffer, position)
        self.length = length + LOG_OVERHEAD
        self.position = position

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last one of this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 mean nothing."""
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        """Every record has the time at which the leader appended the batch: `max_timestamp`."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, wrapped at 2^31 as producers do; -1 without a sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    def __repr__(self) -> str:
        return (
            f"BatchHeader(offsets {self.base_offset}..{self.last_offset}, epoch "
            f"{self.leader_epoch}, {self.length} bytes at {self.position})"
        )


def iterate(buffer: Bytes, *, up_to_fault: bool = False) -> list[BatchHeader]:
    """Headers of the whole batches at the front of `buffer`; one cut off at the end is left out.

    `size_of` tells where the whole ones end. CRCs are not looked at. Raises CorruptBatch for a
    length that no batch can have or another magic than 2: nothing behind them can be found.
    `up_to_fault`: those in front of that are enough, if there are any.
    """
    headers: list[BatchHeader] = []
    end = len(buffer)
    position = 0
    while end - position >= HEADER_SIZE:
        header = BatchHeader(buffer, position)
        if header.length < HEADER_SIZE or header.magic != MAGIC:
            if up_to_fault and headers:
                break
            raise CorruptBatch(_what_is_wrong(header))
        if position + header.length > end:
            break
        headers.append(header)
        position += header.length
    else:
        _check_short_tail(buffer, position)
    return headers


def _check_short_tail(buffer: Bytes, position: int) -> None:
    """Fewer bytes than a header are left: they may begin a batch, unless what is there says no."""
    if len(buffer) - position >= LOG_OVERHEAD:
        _, length = _PREFIX.unpack_from(buffer, position)
        if length + LOG_OVERHEAD < HEADER_SIZE:
            raise CorruptBatch(f"length {length} of the batch at {position} is less than a header")


def _what_is_wrong(header: BatchHeader) -> str:
    if header.length < HEADER_SIZE:
        length = header.length - LOG_OVERHEAD
        return f"length {length} of the batch at {header.position} is less than a header"
    return f"magic {header.magic} of the batch at {header.position}, {MAGIC} expected"


def size_of(headers: Sequence[BatchHeader]) -> int:
    """Bytes from the start of the buffer up to the end of the last batch."""
    return headers[-1].position + headers[-1].length if headers else 0


def crc_ok(buffer: Bytes, header: BatchHeader) -> bool:
    """Whether the payload is what its CRC-32C says. The whole batch must be in `buffer`."""
    start = header.position
    if not isinstance(buffer, memoryview):
        buffer = memoryview(buffer)
    return crc32c(buffer[start + CRC_COVERS_FROM : start + header.length]) == header.crc


def stamp(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write offset and epoch into the batch at `position`; its CRC stays right."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + 12, leader_epoch)


def stamp_timestamp(
    buffer: bytearray | memoryview,
    header: BatchHeader,
    *,
    max_timestamp: int,
    log_append_time: bool,
) -> None:
    """Set the largest timestamp and its type in batch and `header`; sums the payload anew."""
    attributes = header.attributes & ~LOG_APPEND_TIME_BIT
    if log_append_time:
        attributes |= LOG_APPEND_TIME_BIT
    start = header.position
    header.attributes = attributes
    header.max_timestamp = max_timestamp
    _ATTRIBUTES.pack_into(buffer, start + ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, start + 35, max_timestamp)
    view = memoryview(buffer)[start + CRC_COVERS_FROM : start + header.length]
    header.crc = crc32c(view)
    _CRC.pack_into(buffer, start + 17, header.crc)


def stamp_log_append_time(
    buffer: bytearray | memoryview, header: BatchHeader, wall_ms: int
) -> None:
    """The leader's own clock becomes the time of every record of the batch (LogAppendTime)."""
    stamp_timestamp(buffer, header, max_timestamp=wall_ms, log_append_time=True)
