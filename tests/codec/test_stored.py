"""Records of the internal topics, some of them as an Apache Kafka 4.4 broker wrote them."""

import pytest

from replog.codec import (
    MalformedMessage,
    decode_key,
    decode_oldest,
    decode_value,
    encode_key,
    encode_value,
    prefix_of,
)
from replog.model.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from replog.model.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from replog.model.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)


def test_a_committed_offset() -> None:
    key = bytes.fromhex("00010007726561646572730005706c61696e00000000")
    value = bytes.fromhex(
        "00040000000000000007ffffffff06736576656e000001a229951ab1"
        "010010e604ad8a66c84eb1a9066f0a163670af"
    )
    commit_key = OffsetCommitKey(group="readers", topic="plain", partition=0)
    commit = OffsetCommitValue(
        offset=7,
        metadata="seven",
        commit_timestamp=1795993967281,
        topic_id=bytes.fromhex("e604ad8a66c84eb1a9066f0a163670af"),
    )
    assert prefix_of(key) == OffsetCommitKey.RECORD_TYPE
    assert decode_key(OffsetCommitKey, memoryview(key)) == commit_key
    assert encode_key(commit_key) == key
    assert decode_value(OffsetCommitValue, memoryview(value)) == commit
    assert encode_value(commit, 4) == value


def test_a_transaction() -> None:
    key = bytes.fromhex("0000000674782d6f6e65")
    value = bytes.fromhex(
        "000100000000000000000000000c350001020474786e02000000000000"
        "0001a22994fffc000001a22994fffc0100080000000000000000"
    )
    state = TransactionLogValue(
        producer_id=0,
        previous_producer_id=0,
        producer_epoch=0,
        transaction_timeout_ms=800000,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="txn", partition_ids=[0])],
        transaction_last_update_timestamp_ms=1795993960444,
        transaction_start_timestamp_ms=1795993960444,
    )
    assert encode_key(TransactionLogKey(transactional_id="tx-one")) == key
    assert decode_value(TransactionLogValue, value) == state
    assert encode_value(state, 1) == value


def test_a_group_survives_in_every_version_as_far_as_it_goes() -> None:
    member = MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        rebalance_timeout=5,
        session_timeout=6,
        subscription=b"s",
        assignment=b"a",
    )
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[member],
    )
    assert encode_key(GroupMetadataKey(group="g")) == bytes.fromhex("0002 0001 67")
    for version in range(5):
        back = decode_value(GroupMetadataValue, encode_value(group, version))
        assert back.members[0].assignment == b"a"
        assert back.members[0].rebalance_timeout == (5 if version >= 1 else -1)
        assert back.current_state_timestamp == (9 if version >= 2 else -1)


def test_a_subscription_of_a_newer_client_is_read_as_far_as_we_know_it() -> None:
    """Members of a group may be of different ages, and their protocol only grows at its end."""
    owned = [ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=[1, 2])]
    ours = ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned, generation_id=4)
    newer = bytes.fromhex("0009") + encode_value(ours, 3)[2:] + b"more"
    assert decode_value(ConsumerProtocolSubscription, newer, newer=True) == ours
    with pytest.raises(MalformedMessage, match="versions 0 to 3, found 9"):
        decode_value(ConsumerProtocolSubscription, newer)


@pytest.mark.parametrize("version", ["ffff", "0000", "0003", "0063"])
def test_of_a_value_the_fields_of_the_lowest_version_are_read(version: str) -> None:
    ours = ConsumerProtocolSubscription(topics=["t", "u"])
    value = bytes.fromhex(version) + encode_value(ours, 0)[2:]
    assert decode_oldest(ConsumerProtocolSubscription, value, elements_max=2) == ours
    with pytest.raises(MalformedMessage):
        decode_oldest(ConsumerProtocolSubscription, value, elements_max=1)
    with pytest.raises(MalformedMessage, match="too few"):
        decode_oldest(ConsumerProtocolSubscription, value[:1])


def test_the_wrong_kind_is_refused() -> None:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=1))
    with pytest.raises(MalformedMessage, match="type 2, found 1"):
        decode_key(GroupMetadataKey, key)
    with pytest.raises(MalformedMessage, match="type 0, found 1"):
        decode_key(LegacyOffsetCommitKey, key)
    for short in (b"", b"\0"):
        with pytest.raises(MalformedMessage, match="too few"):
            decode_value(ConsumerProtocolAssignment, short, newer=True)
    with pytest.raises(MalformedMessage, match="found -1"):
        decode_value(ConsumerProtocolAssignment, b"\xff\xff", newer=True)
