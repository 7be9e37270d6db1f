"""Lengths that lie: each is refused before anything of that length is made."""

import struct
import tracemalloc
from collections.abc import Callable

import pytest

from replog.codec import MalformedMessage, decode, encode_bytes
from replog.codec.primitives import skip_tags, uvarint
from replog.model.messages import APIS, Api, Message
from replog.model.messages.create_topics import CreateTopicsRequest
from replog.model.messages.describe_groups import DescribeGroupsRequest
from replog.model.messages.fetch import FetchRequest
from replog.model.messages.forward import ForwardRequest
from replog.model.messages.group_records import GroupMetadataValue
from replog.model.messages.metadata import MetadataRequest, MetadataResponse
from replog.model.messages.offset_fetch import OffsetFetchRequest
from replog.model.messages.produce import ProduceRequest
from replog.model.messages.sync_group import SyncGroupRequest
from replog.model.messages.update_cluster import UpdateClusterRequest

HUGE = 0x7FFFFFFF
LEFT = 1000  # bytes that follow the length


def int16(n: int) -> bytes:
    return struct.pack(">h", n)


def int32(n: int) -> bytes:
    return struct.pack(">i", n)


def peak_of(cls: type[Message], version: int, body: bytes) -> int:
    """The most memory in bytes that refusing `body` takes, once the decoder is compiled."""
    with pytest.raises(MalformedMessage):
        decode(cls, version, b"")
    tracemalloc.start()
    with pytest.raises(MalformedMessage):
        decode(cls, version, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def compact(n: int) -> bytes:
    return uvarint(n + 1)


# (class, version, what stands before the length, how it is written, bytes of one element)
CLAIMS = {
    "array of structs": (MetadataRequest, 1, b"", int32, 2),
    "compact array of structs": (MetadataRequest, 9, b"", compact, 2),
    "string": (MetadataRequest, 1, int32(1), int16, 1),
    "compact string": (MetadataRequest, 9, b"\2", compact, 1),
    "records": (
        ProduceRequest,
        3,
        bytes.fromhex("ffff 0001 00000001 00000001 000178 00000001 00000000"),
        int32,
        1,
    ),
    "compact records": (
        ProduceRequest,
        13,
        bytes.fromhex("00 0001 00000001 02") + bytes(16) + b"\2" + bytes(4),
        compact,
        1,
    ),
    "nested compact array": (
        ProduceRequest,
        13,
        bytes.fromhex("00 0001 00000001 02") + bytes(16),
        compact,
        6,
    ),
    "bytes": (
        GroupMetadataValue,
        0,
        bytes.fromhex("0000 00000000 ffff ffff 00000001 0000 0000 0000 00000000"),
        int32,
        1,
    ),
    "compact bytes": (SyncGroupRequest, 4, bytes.fromhex("01 00000000 01 00 02 01"), compact, 1),
    "numbers": (
        UpdateClusterRequest,
        0,
        bytes(36) + b"\1\1\0" + b"\2\1" + bytes(16) + b"\1\2" + bytes(16),
        compact,
        4,
    ),
    "old numbers": (FetchRequest, 7, bytes(25) + int32(0) + int32(1) + b"\0\1x", int32, 4),
    "deep numbers": (
        CreateTopicsRequest,
        2,
        int32(1) + b"\0\1x" + bytes(6) + int32(1) + int32(0),
        int32,
        4,
    ),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_length_beyond_the_end_is_refused_before_it_costs_anything(
    claim: tuple[type[Message], int, bytes, object, int],
) -> None:
    cls, version, before, write, size = claim
    fits = LEFT // size
    for number in (HUGE - 1, 1 << 24, fits + 1):
        if write is int16 and number > 0x7FFF:
            continue
        body = before + write(number) + bytes(LEFT)  # type: ignore[operator]
        assert peak_of(cls, version, body) < 100_000, number


def test_a_length_that_just_fits_is_taken_and_one_more_is_not() -> None:
    """The checks above are at the limit, not somewhere below it."""
    name = "x" * 200
    whole = int32(1) + int16(200) + name.encode()
    assert decode(MetadataRequest, 1, whole)[0].topics[0].name == name  # type: ignore[index]
    with pytest.raises(MalformedMessage, match=r"topics\[\].name: length 200 with 199 bytes left"):
        decode(MetadataRequest, 1, whole[:-1])
    many = compact(5000) + bytes(4) * 5000 + b"\0"
    before = bytes(25) + b"\1" + b"\2" + bytes(16)
    request = decode(FetchRequest, 13, before + many + b"\1\0")[0]
    assert len(request.forgotten_topics_data[0].partitions) == 5000
    with pytest.raises(MalformedMessage, match="length 5000 with 19999 bytes left"):
        decode(FetchRequest, 13, before + many[:-2])


def test_a_short_length_beyond_the_end_names_its_field() -> None:
    with pytest.raises(MalformedMessage, match=r"topics\[\].name: length 5 with 2 bytes left"):
        decode(MetadataRequest, 9, b"\2\6ab")
    with pytest.raises(MalformedMessage, match=r"records: length 9 with 3 bytes left"):
        decode(ProduceRequest, 9, bytes.fromhex("00 0001 00000001 02 0278 02 00000000 0a 616263"))


NEGATIVE = (-1, -2, -0x8000)


@pytest.mark.parametrize("length", [*NEGATIVE, -0x80000000])
def test_a_negative_count_is_null_where_null_is_allowed(length: int) -> None:
    assert decode(MetadataRequest, 1, int32(length))[0].topics is None
    with pytest.raises(MalformedMessage, match="topics: null where none is allowed"):
        decode(MetadataRequest, 0, int32(length))


@pytest.mark.parametrize("length", NEGATIVE)
def test_a_negative_length_is_null_where_null_is_allowed(length: int) -> None:
    rest = int16(-1) + int32(5) + int32(0)
    assert decode(ProduceRequest, 3, int16(length) + rest)[0].transactional_id is None
    with pytest.raises(MalformedMessage, match=r"topics\[\].name: null where none is allowed"):
        decode(MetadataRequest, 1, int32(1) + int16(length))


def test_a_compact_length_of_zero_is_null() -> None:
    assert decode(MetadataRequest, 9, b"\0\0\0\0\0")[0].topics is None
    with pytest.raises(MalformedMessage, match=r"topics\[\].name: null where none is allowed"):
        decode(MetadataRequest, 9, b"\2\0\0\0\0\0\0")
    with pytest.raises(MalformedMessage, match="topics: null"):
        decode(FetchRequest, 13, bytes(25) + b"\0" + bytes(30))


@pytest.mark.parametrize(
    ("varint", "complaint"),
    [
        ("ffffffff0f", "above"),  # 2^32 - 1
        ("8080808008", "above"),  # 2^31
        ("ffffffffff01", "more than five bytes"),
        ("ffffffffffffffff", "more than five bytes"),
        ("ffff", "ends too early"),
    ],
)
def test_a_varint_that_is_no_length(varint: str, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        decode(MetadataRequest, 9, bytes.fromhex(varint))


def test_a_long_varint_of_a_small_number_is_fine() -> None:
    """Nobody writes 1 in three bytes, but it is a varint, and Kafka reads it."""
    body = bytes.fromhex("818000") + b"\0\0\0\0"
    assert decode(MetadataRequest, 9, body)[0].topics == []


def test_an_array_of_nothing_but_nulls_costs_what_it_sends() -> None:
    """The dearest honest message: what it takes in memory is in proportion to its bytes."""
    count = 20_000
    body = compact(count) + b"\2x\0" * count + bytes(4)
    tracemalloc.start()
    decode(MetadataRequest, 9, body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * len(body)


# (class, version, a body of three elements)
THREE_ELEMENTS = {
    "structs": (MetadataRequest, 1, int32(3) + b"\0\1a" * 3),
    "compact structs": (MetadataRequest, 9, compact(3) + b"\2a\0" * 3 + bytes(4)),
    "in two arrays": (
        ProduceRequest,
        3,
        bytes.fromhex("ffff 0001 00000001 00000001 000178 00000002") + bytes(16),
    ),
    "numbers": (OffsetFetchRequest, 1, b"\0\1g" + int32(1) + b"\0\1t" + int32(2) + bytes(8)),
    "strings": (DescribeGroupsRequest, 0, int32(3) + b"\0\1a" * 3),
    "unknown tagged fields": (MetadataRequest, 9, b"\0\0\0\0\3" + b"\x50\0\x51\0\x52\0"),
}


@pytest.mark.parametrize(("cls", "version", "body"), THREE_ELEMENTS.values(), ids=THREE_ELEMENTS)
def test_elements_of_all_arrays_together(cls: type[Message], version: int, body: bytes) -> None:
    assert decode(cls, version, body, elements_max=3)[1] == len(body)
    with pytest.raises(MalformedMessage, match="1 elements more than are allowed"):
        decode(cls, version, body, elements_max=2)


def test_very_many_tagged_fields_in_a_header() -> None:
    assert skip_tags(uvarint(1000) + b"\x50\0" * 1000, 0) == 2002
    with pytest.raises(MalformedMessage, match="1001 tagged fields"):
        skip_tags(uvarint(1001) + b"\x50\0" * 1001, 0)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_one_byte_over_and_over_costs_little(api: Api) -> None:
    """It is a huge, a negative or an endless length at every place."""
    for cls in (api.request, api.response):
        for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
            for byte in (b"\x7f", b"\x80", b"\xff", b"\xfe"):
                body = byte * 2000
                try:
                    decode(cls, version, body)
                except MalformedMessage:
                    assert peak_of(cls, version, body) < 400_000, (cls, version, byte)


def test_encoding_a_length_that_the_version_cannot_say() -> None:
    long = MetadataResponse(cluster_id="x" * 0x8000)
    assert encode_bytes(long, 9)
    with pytest.raises(ValueError, match="MetadataResponse v8: cluster_id"):
        encode_bytes(long, 8)
    longest = MetadataResponse(cluster_id="x" * 0x7FFF)
    assert decode(MetadataResponse, 8, encode_bytes(longest, 8))[0] == longest


@pytest.mark.parametrize(
    ("version", "begin", "length", "byte", "longest"),
    [
        (5, b"\2", compact, b"a", 32_767),
        (5, b"\2", compact, b"\xff", 10_922),
        (2, int32(1), int16, b"\xff", 10_922),
    ],
)
def test_a_string_that_could_not_be_told_on(
    version: int, begin: bytes, length: Callable[[int], bytes], byte: bytes, longest: int
) -> None:
    """Compact ones end where the others do; each byte that is no UTF-8 becomes three."""

    def groups(size: int) -> DescribeGroupsRequest:
        body = begin + length(size) + byte * size + bytes(2)
        return decode(DescribeGroupsRequest, version, body)[0]

    assert encode_bytes(groups(longest), 2)
    with pytest.raises(MalformedMessage, match=r"a string of 3276[89] bytes"):
        groups(longest + 1)


def test_what_brokers_tell_each_other_has_strings_of_any_length() -> None:
    message = ForwardRequest(client_id="a" * 40_000)
    assert decode(ForwardRequest, 0, encode_bytes(message, 0))[0] == message
