"""What encoding does with records, with what a version lacks, and with what can't be said."""

from typing import Any

import pytest

from replog.codec import MalformedMessage, UnencodableMessage, decode, encode, encode_bytes, prepare
from replog.codec.compile import _decoders, _encoders
from replog.codec.primitives import uvarint
from replog.model.messages import Message
from replog.model.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from replog.model.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from replog.model.messages.join_group import JoinGroupRequest
from replog.model.messages.metadata import MetadataRequest, MetadataRequestTopic
from replog.model.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from replog.model.records import FileRange

TOPIC_ID = bytes(range(16))


class Segment:
    """A file that remembers whether somebody read it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    def read(self, position: int, length: int) -> bytes:
        self.reads += 1
        return self.content[position : position + length]


def fetch_response(*records: Any) -> FetchResponse:
    partitions = [PartitionData(partition_index=i, records=r) for i, r in enumerate(records)]
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=partitions)]
    )


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_leave_as_they_are_and_between_the_rest(version: int) -> None:
    segment = Segment(bytes(5000))
    in_file = FileRange(segment, 100, 3000)
    in_memory = memoryview(bytearray(b"abc" * 50))
    parts = encode(fetch_response(in_file, in_memory, None, b""), version, b"head")
    assert [type(part) for part in parts] == [bytes, FileRange, bytes, memoryview, bytes]
    assert parts[1] is in_file
    assert parts[3] is in_memory
    assert bytes(parts[0][:4]) == b"head"  # type: ignore[index]
    assert segment.reads == 0
    flat = b"".join(p.read() if isinstance(p, FileRange) else p for p in parts)
    back, end = decode(FetchResponse, version, flat, 4)
    assert end == len(flat)
    records = [partition.records for partition in back.responses[0].partitions]
    assert records == [bytes(3000), b"abc" * 50, None, b""]


def test_records_come_in_as_views_and_the_rest_is_copied() -> None:
    sent = ProduceRequest(
        transactional_id="txn",
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=1, records=b"payload")]
            )
        ],
    )
    frame = bytearray(encode_bytes(sent, 9))
    got, _ = decode(ProduceRequest, 9, memoryview(frame))
    frame[:] = frame.replace(b"payload", b"PAYLOAD").replace(b"txn", b"TXN")
    assert got.topic_data[0].partition_data[0].records == b"PAYLOAD"
    assert got.transactional_id == "txn"


def test_bytes_are_copied_out_of_the_buffer() -> None:
    frame = bytearray(encode_bytes(JoinGroupRequest(protocols=[]), 5))
    view = memoryview(frame)
    decode(JoinGroupRequest, 5, view)
    view.release()  # fails if the message still had a view of the view
    frame.append(0)  # fails if it had one of the buffer


def test_records_in_a_file_have_no_bytes() -> None:
    with pytest.raises(UnencodableMessage, match="in a file"):
        encode_bytes(fetch_response(FileRange(Segment(b"x"), 0, 1)), 12)


def test_a_response_drops_what_its_version_lacks() -> None:
    full = CreateTopicsResponse(
        throttle_time_ms=7,
        topics=[CreatableTopicResult(name="t", topic_id=TOPIC_ID, num_partitions=3)],
    )
    for version in range(2, 7):
        back, _ = decode(CreateTopicsResponse, version, encode_bytes(full, version))
        assert back.topics[0].topic_id == bytes(16)
        assert back.topics[0].num_partitions == (3 if version >= 5 else -1)


def test_a_request_refuses_to_drop_what_changes_its_meaning() -> None:
    static = JoinGroupRequest(group_instance_id="me")
    assert encode_bytes(static, 5)
    with pytest.raises(UnencodableMessage, match="JoinGroupRequest v4: group_instance_id"):
        encode_bytes(static, 4)


def test_a_request_drops_what_may_be_dropped() -> None:
    both = FetchRequest(topics=[FetchTopic(topic="t", topic_id=TOPIC_ID)])
    assert decode(FetchRequest, 12, encode_bytes(both, 12))[0].topics[0].topic == "t"
    by_id = decode(FetchRequest, 13, encode_bytes(both, 13))[0].topics[0]
    assert (by_id.topic, by_id.topic_id) == ("", TOPIC_ID)


def test_tagged_structs_are_absent_at_their_defaults() -> None:
    plain = encode_bytes(fetch_response(None), 12)
    response = fetch_response(None)
    response.responses[0].partitions[0].diverging_epoch = EpochEndOffset()
    assert encode_bytes(response, 12) == plain
    response.responses[0].partitions[0].current_leader = LeaderIdAndEpoch(leader_id=3)
    back, _ = decode(FetchResponse, 12, encode_bytes(response, 12))
    partition = back.responses[0].partitions[0]
    assert partition.diverging_epoch is None
    assert partition.current_leader == LeaderIdAndEpoch(leader_id=3)


def with_tags(body: bytes, *tags: tuple[int, bytes]) -> bytes:
    """`body` of a flexible version, whose own tag count is its last byte, with these tags."""
    assert body[-1] == 0
    parts = [body[:-1], uvarint(len(tags))]
    for tag, content in tags:
        parts += [uvarint(tag), uvarint(len(content)), content]
    return b"".join(parts)


def test_unknown_tags_are_skipped_and_the_last_of_a_known_one_counts() -> None:
    body = encode_bytes(FetchRequest(), 15)
    state = bytes.fromhex("00000002 0000000000000007 00")
    other = bytes.fromhex("00000003 0000000000000008 00")
    got, end = decode(FetchRequest, 15, with_tags(body, (1, state), (200, b"x" * 300), (1, other)))
    assert got.replica_state == ReplicaState(replica_id=3, replica_epoch=8)
    assert end == len(with_tags(body, (1, state), (200, b"x" * 300), (1, other)))


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [
        ([(1, bytes(12))], "replica_state"),  # one byte short: the next is read for it
        ([(1, bytes(14))], "replica_state: its size as a tagged field is wrong"),
        ([(0, b"\5ab")], "cluster_id"),
    ],
)
def test_a_tagged_field_must_fill_its_size(tags: list[tuple[int, bytes]], complaint: str) -> None:
    body = with_tags(encode_bytes(FetchRequest(), 15), *tags)
    with pytest.raises(MalformedMessage, match=complaint):
        decode(FetchRequest, 15, body)


def test_a_tag_beyond_the_end_is_refused() -> None:
    body = encode_bytes(FetchRequest(), 15)[:-1] + b"\1\x63\x05abc"
    with pytest.raises(MalformedMessage, match="tag 99 ends 2 bytes beyond the end"):
        decode(FetchRequest, 15, body)


def broken(field: str, value: Any) -> FetchRequest:
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])])
    where: Any = {
        "max_wait_ms": request,
        "topic": request.topics[0],
        "topic_id": request.topics[0],
        "fetch_offset": request.topics[0].partitions[0],
        "partitions": request.topics[0],
    }[field]
    setattr(where, field, value)
    return request


@pytest.mark.parametrize(
    ("version", "field", "value", "path"),
    [
        (12, "topic", None, r"topics\[\].topic: "),
        (12, "topic", "\udc80", r"topics\[\].topic: "),
        (12, "partitions", None, r"topics\[\].partitions: "),
        (12, "partitions", [None], r"topics\[\].partitions\[\]"),
        (12, "max_wait_ms", 1 << 31, "topics: "),
        (13, "topic_id", bytes(15), r"topics\[\].topic_id: a uuid has 16 bytes"),
        (13, "topic_id", "0123456789abcdef", r"topics\[\]"),
        (13, "fetch_offset", "5", r"topics\[\].partitions\[\]"),
    ],
)
def test_what_cannot_be_said_names_its_field(
    version: int, field: str, value: Any, path: str
) -> None:
    with pytest.raises(UnencodableMessage, match=f"FetchRequest v{version}: {path}"):
        encode_bytes(broken(field, value), version)


def test_null_only_where_the_version_has_it() -> None:
    everything = MetadataRequest(topics=None)
    assert encode_bytes(everything, 1) == b"\xff\xff\xff\xff"
    with pytest.raises(UnencodableMessage, match="MetadataRequest v0: topics"):
        encode_bytes(everything, 0)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=TOPIC_ID)])
    assert encode_bytes(by_id, 12)
    with pytest.raises(UnencodableMessage, match=r"MetadataRequest v9: topics\[\].name"):
        encode_bytes(by_id, 9)


def test_prepared_code_is_the_code_that_is_used() -> None:
    decode(MetadataRequest, 2, b"\xff\xff\xff\xff")
    before = dict(_decoders), dict(_encoders)
    prepare(MetadataRequest, 2)
    assert dict(_decoders) == before[0]
    assert (MetadataRequest, 2) in _encoders
    with pytest.raises(ValueError, match="not 99"):
        prepare(MetadataRequest, 99)


def test_text_that_is_not_utf8_is_read_as_kafka_reads_it() -> None:
    got: Message = decode(MetadataRequest, 1, bytes.fromhex("00000001 0001 ff"))[0]
    assert got == MetadataRequest(topics=[MetadataRequestTopic(name="\ufffd")])
