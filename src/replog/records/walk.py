"""Whether bytes are records, told by their lengths: nothing is kept, nothing is copied.

For the few batches whose records are looked at on the produce path. A record costs a microsecond or
two, so whoever calls this limits how many there are.
"""

from typing import Final

from replog.records.errors import CorruptBatch
from replog.records.varint import read_varint

NO_DELTA: Final = -(2**63)  # of no records at all
_SMALL: Final = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))  # one-byte varints


def check_records(payload: bytes, count: int) -> int:
    """`payload` is exactly `count` records, as Kafka reads them. Raises CorruptBatch.

    Returns the largest timestamp, as milliseconds from the batch's base timestamp on. Offsets are
    passed over. Lengths below zero stand for null, except that a header has a name.
    """
    position, end = 0, len(payload)
    latest = NO_DELTA
    for index in range(count):
        length, position = read_varint(payload, position, end)
        stop = position + length
        if length < 0 or stop > end:
            raise CorruptBatch(f"record {index} has {length} bytes, {end - position} are left")
        delta, position = read_varint(payload, position + 1, stop)
        if delta > latest:
            latest = delta
        position = _check_record(payload, position, stop)
        if position != stop:
            raise CorruptBatch(f"{stop - position} bytes of record {index} have no meaning")
    if position != end:
        raise CorruptBatch(f"{end - position} bytes are left after {count} records")
    return latest


def _check_record(payload: bytes, position: int, stop: int) -> int:
    """Where the record ends that has its offset delta at `position`."""
    # Offset delta, key, value: usually short numbers, hence not in functions.
    for sized in (False, True, True):
        byte = payload[position] if position < stop else 0x80
        if byte < 0x80:
            number = _SMALL[byte]
            position += 1
        else:
            number, position = read_varint(payload, position, stop)
        if sized and number > 0:
            if number > stop - position:
                raise CorruptBatch(f"a field of {number} bytes, {stop - position} are left")
            position += number
    if position < stop and not payload[position]:
        return position + 1  # no headers
    return _check_headers(payload, position, stop)


def _check_headers(payload: bytes, position: int, stop: int) -> int:
    count, position = read_varint(payload, position, stop)
    if not 0 <= count <= (stop - position) // 2:  # each header takes two bytes at least
        raise CorruptBatch(f"{count} headers in {stop - position} bytes")
    for _ in range(count):
        for may_be_null in (False, True):  # a name, a value
            length, position = read_varint(payload, position, stop)
            if length > stop - position or (length < 0 and not may_be_null):
                raise CorruptBatch(f"{length} bytes of a header, {stop - position} are left")
            position += max(length, 0)
    return position
