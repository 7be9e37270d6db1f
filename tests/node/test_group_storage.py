"""Groups and offsets in the log: Kafka's bytes, and everything comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.codec import MalformedMessage
from replog.core.group.facts import StoredGroup, StoredMember
from replog.core.group.offsets import CommittedOffset
from replog.model.ids import TopicPartition
from replog.node.group_storage import (
    GroupStored,
    OffsetStored,
    Stored,
    from_record,
    to_batch,
)
from replog.records.batch import Record, read_records

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
POSITIVE = st.integers(0, 2**31 - 1)
BYTES = st.binary(max_size=20)
PLACES = st.builds(TopicPartition, TEXT, INT32)
OFFSETS = st.builds(
    CommittedOffset,
    offset=INT64,
    leader_epoch=INT32,
    metadata=TEXT,
    committed_wall_ms=INT64,
    topic_id=st.binary(min_size=16, max_size=16),
)
MEMBERS = st.builds(
    StoredMember, TEXT, st.none() | TEXT, TEXT, TEXT, POSITIVE, POSITIVE, BYTES, BYTES
)
GROUPS = st.builds(
    StoredGroup,
    protocol_type=TEXT,
    generation=INT32,
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    state_since_wall_ms=INT64,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)
CHANGES = st.one_of(
    st.builds(OffsetStored, TEXT, PLACES, st.none() | OFFSETS),
    st.builds(GroupStored, TEXT, st.none() | GROUPS),
)


def back(changes: list[Stored], compression: int = 0) -> list[Stored | None]:
    batch = to_batch(changes, wall_ms=1_700_000_000_000, compression=compression)
    return [from_record(record) for record in read_records(batch)]


@given(st.lists(CHANGES, min_size=1, max_size=5), st.integers(0, 4))
def test_everything_comes_back(changes: list[Stored], compression: int) -> None:
    assert back(changes, compression) == changes


@given(OFFSETS, st.integers(0, 2**62))
def test_a_clients_own_retention_costs_epoch_and_topic_id(
    committed: CommittedOffset, expires: int
) -> None:
    """Only version 1 of the value has room for it, as in Kafka."""
    kept = CommittedOffset(
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        committed.committed_wall_ms,
        expires,
        committed.topic_id,
    )
    place = TopicPartition("t", 1)
    expected = CommittedOffset(
        kept.offset, -1, kept.metadata, kept.committed_wall_ms, kept.expires_wall_ms
    )
    assert back([OffsetStored("g", place, kept)]) == [OffsetStored("g", place, expected)]


def test_an_offset_as_kafka_writes_it() -> None:
    topic_id = bytes.fromhex("e604ad8a66c84eb1a9066f0a163670af")
    committed = CommittedOffset(7, -1, "seven", 0x01A229951AB1, topic_id=topic_id)
    change = OffsetStored("readers", TopicPartition("plain", 0), committed)
    batch = to_batch([change], wall_ms=0x01A229951ABA, compression=0)
    (record,) = read_records(batch)
    assert record.key is not None and record.value is not None
    assert record.key.hex() == "00010007" + b"readers".hex() + "0005" + b"plain".hex() + "0" * 8
    assert record.value.hex() == (
        "0004"
        "0000000000000007"
        "ffffffff"
        "06" + b"seven".hex() + "000001a229951ab1"
        "010010" + topic_id.hex()
    )


def test_a_group_as_kafka_writes_it() -> None:
    member = StoredMember("m", None, "c", "/127.0.0.1", 300, 100, b"S", b"A")
    group = StoredGroup("consumer", 2, "range", "m", 5, (member,))
    (record,) = read_records(to_batch([GroupStored("g", group)], wall_ms=1, compression=0))
    assert record.key is not None and record.value is not None
    assert record.key.hex() == "0002000167"
    assert record.value.hex() == (
        "0003"
        "0008" + b"consumer".hex() + "00000002"
        "0005" + b"range".hex() + "0001"
        "6d"
        "0000000000000005"
        "00000001"
        "0001"
        "6d"
        "ffff"
        "0001"
        "63"
        "000a" + b"/127.0.0.1".hex() + "0000012c"
        "00000064"
        "00000001"
        "53"
        "00000001"
        "41"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\x00", b""),
        (b"\x00\x01", b""),
        (b"\x00\x02\x00\x01g", b"\x00"),
        (b"\x00\x02\x00\x01g", b"\x00\x09"),
        (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x04\x00"),
    ],
)
def test_poison(key: bytes | None, value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        from_record(Record(0, 0, key, value))


def test_the_oldest_offsets_and_kinds_to_come() -> None:
    old = b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x03"
    value = b"\x00\x00" + (9).to_bytes(8) + b"\x00\x01m" + (4).to_bytes(8)
    assert from_record(Record(0, 0, old, value)) == OffsetStored(
        "g", TopicPartition("t", 3), CommittedOffset(9, -1, "m", 4)
    )
    assert from_record(Record(0, 0, b"\x00\x03\x00\x01g", b"\x00\x00")) is None


def test_before_version_1_one_timeout_stood_for_both() -> None:
    value = (
        b"\x00\x00\x00\x08consumer\x00\x00\x00\x01\x00\x05range\x00\x01m"
        b"\x00\x00\x00\x01\x00\x01m\x00\x01c\x00\x01h\x00\x00\x00\x64\x00\x00\x00\x00\x00\x00\x00\x00"
    )
    change = from_record(Record(0, 0, b"\x00\x02\x00\x01g", value))
    assert isinstance(change, GroupStored)
    assert change.group is not None
    (member,) = change.group.members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (100, 100)
