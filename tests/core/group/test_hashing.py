"""Java's hash, so that a group is looked for where Kafka put it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.core.group.hashing import in_java_map_order, java_string_hash, partition_for

# Values of String.hashCode, as any JVM prints them.
KNOWN = {
    "": 0,
    "a": 97,
    "ab": 3105,
    "hello": 99162322,
    "polygenelubricants": -(2**31),
    "ä": 228,
    "😀": 1772899,  # two UTF-16 units, D83D DE00
}


@pytest.mark.parametrize(("text", "value"), KNOWN.items())
def test_known_values(text: str, value: int) -> None:
    assert java_string_hash(text) == value % 2**32


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("readers", 3),
        ("of the new protocol", 2),
        ("in transactions: 1", 2),  # from here on hashes are negative
        ("ünïcode/…", 3),
        ("polygenelubricants", 0),  # the smallest number, which has no absolute value
    ],
)
def test_where_kafka_keeps_a_group(group: str, partition: int) -> None:
    """In a topic of five partitions: read off the log folders of Apache Kafka 4.4."""
    assert partition_for(group, 5) == partition


@given(st.text(), st.integers(1, 1000))
def test_a_partition_that_exists(group: str, count: int) -> None:
    assert 0 <= partition_for(group, count) < count


@given(st.text(st.characters(codec="utf-16")), st.text(st.characters(codec="utf-16")))
def test_the_hash_of_a_concatenation(left: str, right: str) -> None:
    units = len(right.encode("utf-16-be")) // 2
    expected = java_string_hash(left) * 31**units + java_string_hash(right)
    assert java_string_hash(left + right) == expected % 2**32


@given(st.lists(st.text(max_size=8)))
def test_map_order_loses_nothing_and_does_not_depend_on_chance(names: list[str]) -> None:
    ordered = in_java_map_order(names)
    assert sorted(ordered) == sorted(set(names))
    assert in_java_map_order(ordered) == ordered


def test_map_order_of_what_java_lists() -> None:
    assert in_java_map_order(["roundrobin", "range", "sticky"]) == ["sticky", "range", "roundrobin"]


def test_map_order_when_the_map_has_grown() -> None:
    """26 letters need 64 buckets, where codes 97 to 122 fall into 33 to 58: in order."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    assert in_java_map_order(reversed(letters)) == letters
    assert in_java_map_order(["p", "a", "o"]) == ["p", "a", "o"], "in 16 buckets p is in the first"
