"""Java's hash of a string, which decides the partition of `__consumer_offsets` that keeps a group.

Clients and tools never compute it, but a data folder written by Apache Kafka is laid out by it.
"""

from collections.abc import Iterable

_UINT32 = 0xFFFFFFFF
_NEGATIVE = 0x80000000  # numbers from here on have the sign bit


def java_string_hash(text: str) -> int:
    """`String.hashCode` as an unsigned 32-bit number: over UTF-16 units, not over characters."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _UINT32
    return value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition that keeps a group or a transactional id: by the absolute value of its hash, as
    Kafka has it (0 for the smallest number, which has none)."""
    value = java_string_hash(group_id)
    return min(value, _UINT32 + 1 - value) % _NEGATIVE % partition_count


def in_java_map_order(names: Iterable[str]) -> list[str]:
    """`names` in the order in which a Java `HashMap` that they were put into lists them.

    It decides ties between protocols with equally many votes.
    """
    distinct = list(dict.fromkeys(names))
    buckets = 16
    while len(distinct) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        value = java_string_hash(name)
        return (value ^ value >> 16) & (buckets - 1)

    return sorted(distinct, key=bucket)
