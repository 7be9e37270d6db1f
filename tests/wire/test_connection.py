"""Two real ends joined: requests go over, answers come back, in order, or the connection ends."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.codec import MalformedMessage, UnencodableMessage
from replog.model.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from replog.model.messages.controlled_shutdown import ControlledShutdownRequest
from replog.model.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from replog.model.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from replog.wire import (
    CLOSING_ERRORS,
    SERVED,
    Audience,
    ClientConnection,
    FrameError,
    OutOfOrder,
    ServerConnection,
    UnknownApi,
    UnsupportedVersion,
    parse_request,
)
from replog.wire.connection import ELEMENTS_MAX, PLAIN_REQUEST_MAX
from replog.wire.headers import read_request_header


def frame_of(parts: list[Any]) -> bytes:
    """The one frame in `parts`, without its size."""
    flat = b"".join(parts)
    assert int.from_bytes(flat[:4], "big") == len(flat) - 4
    return flat[4:]


def frames_of(parts: list[Any]) -> list[bytes]:
    """All frames in `parts`, without their sizes."""
    flat, frames = b"".join(parts), []
    while flat:
        size = int.from_bytes(flat[:4], "big")
        frames.append(flat[4 : 4 + size])
        flat = flat[4 + size :]
    return frames


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_both_ends_understand_each_other_in_every_served_version(api: Any) -> None:
    for version in range(api.min_understood, api.max_version + 1):
        client, server = ClientConnection(), ServerConnection(peer=True)
        request = server.received(frame_of(client.request(api.request(), version, "me")))
        assert (request.api_key, request.version) == (api.key, version)
        assert (request.client_id, request.message) == ("me", api.request())
        answer = frame_of(server.reply(request.token, api.response()))
        assert client.response(answer) == (request.correlation_id, api.response())
        assert client.in_flight == server.in_flight == 0


@given(count=st.integers(1, 12), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_answers_leave_in_the_order_of_requests(count: int, seed: int) -> None:
    """However the broker's answers are ordered, and even if some requests want none."""
    rng = random.Random(seed)
    client, server = ClientConnection(), ServerConnection()
    silent = {i for i in range(count) if rng.random() < 0.3}
    tokens = {}
    for i in range(count):
        message = HeartbeatRequest(generation_id=i)
        parts = client.request(message, 3, None, answered=i not in silent)
        tokens[i] = server.received(frame_of(parts)).token
    sent: list[bytes] = []
    for done, i in enumerate(rng.sample(range(count), count)):
        if i in silent:
            sent += frames_of(server.no_reply(tokens[i]))
        else:
            sent += frames_of(server.reply(tokens[i], HeartbeatResponse(throttle_time_ms=i)))
        assert server.in_flight + len(sent) <= count
        assert server.in_flight >= count - done - 1
    answered: list[int] = []
    for frame in sent:
        response = client.response(frame)[1]
        assert isinstance(response, HeartbeatResponse)
        answered.append(response.throttle_time_ms)
    assert answered == [i for i in range(count) if i not in silent]
    assert client.in_flight == server.in_flight == 0


def test_an_answer_waits_for_the_one_before_it() -> None:
    client, server = ClientConnection(), ServerConnection()
    first = server.received(frame_of(client.request(HeartbeatRequest(), 4, None)))
    second = server.received(frame_of(client.request(HeartbeatRequest(), 4, None)))
    assert server.reply(second.token, HeartbeatResponse()) == []
    assert server.in_flight == 2
    assert len(frames_of(server.reply(first.token, HeartbeatResponse()))) == 2


def test_a_request_is_answered_once() -> None:
    client, server = ClientConnection(), ServerConnection()
    token = server.received(frame_of(client.request(HeartbeatRequest(), 4, None))).token
    server.reply(token, HeartbeatResponse())
    with pytest.raises(LookupError):
        server.reply(token, HeartbeatResponse())
    with pytest.raises(LookupError):
        server.no_reply(token)


def test_a_response_that_cannot_be_encoded_leaves_the_request_open() -> None:
    client, server = ClientConnection(), ServerConnection()
    token = server.received(frame_of(client.request(HeartbeatRequest(), 4, None))).token
    with pytest.raises(UnencodableMessage):
        server.reply(token, HeartbeatResponse(error_code=1 << 20))
    assert server.in_flight == 1


# --- what closes a connection


def raw(api_key: int, version: int, rest: str = "ffff") -> bytes:
    head = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    return head + bytes.fromhex("00000001" + rest)


@pytest.mark.parametrize("api_key", [-1, 4, 5, 6, 7, 52, 56, 71, 95, 999, 20001, 20003, 0x7FFF])
def test_unknown_keys(api_key: int) -> None:
    with pytest.raises(UnknownApi, match=str(api_key)):
        parse_request(raw(api_key, 0))


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_versions_one_beyond_what_is_served(api: Any) -> None:
    if api.name == "ApiVersions":
        return
    for version in (api.min_understood - 1, api.max_version + 1, -1, 32767):
        with pytest.raises(UnsupportedVersion, match=f"{api.name} v{version}"):
            parse_request(raw(api.key, version), peer=True)


@pytest.mark.surface(1)
def test_old_produce_is_advertised_but_not_served() -> None:
    """librdkafka before 2.11 wants to see version 0 there, and never uses it."""
    assert SERVED[0].min_version == 0
    for version in (0, 1, 2):
        with pytest.raises(UnsupportedVersion):
            parse_request(raw(0, version))


@pytest.mark.surface(3)
@pytest.mark.parametrize("version", [-1, 6, 99, 32767])
@pytest.mark.parametrize("rest", ["ffff", "0000", "000178", "00017800", "ffff0200"])
def test_an_unknown_version_of_api_versions_is_told_which_there_are(
    version: int, rest: str
) -> None:
    server = ServerConnection()
    request = server.received(raw(18, version, rest))
    assert request.answer is not None
    answer = frame_of(server.reply(request.token, request.answer))
    assert answer == bytes.fromhex("00000001 0023 00000001 0012 0000 0005")
    good = server.received(raw(18, 0))
    assert good.answer is None


def test_a_client_reads_that_answer_whatever_it_asked() -> None:
    client = ClientConnection()
    client.request(ApiVersionsRequest(), 4, "me")
    answer = bytes.fromhex("00000001 0023 00000001 0012 0000 0003")
    row = ApiVersion(api_key=18, min_version=0, max_version=3)
    assert client.response(answer) == (1, ApiVersionsResponse(error_code=35, api_keys=[row]))


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "00030000",  # frame.header.cut
        "0003000000000001",  # frame.header.noclient
        "00030000000000017fff",  # frame.header.clientlength
        "0003000900000001ffff",  # no tags in the header
        "0003000900000001ffff01",  # a tag count, and no tag
        "0003000900000001ffff0163ff",  # a size that never ends
        "0003000900000001ffff016305aabb",  # a size beyond the end
        "0003000100000001ffff00000010",  # malformed.metadata.array.beyond
        "0003000100000001ffff7fffffff",  # malformed.metadata.array.huge
        "0003000000000001ffffffffffff",  # malformed.metadata.null.array.v0
        "0003000100000001ffff00000001ffff",  # malformed.metadata.string.null
        "0003000900000001ffff00ffffffffffffffff000000",  # malformed.metadata.varint.endless
        "0012000300000001ffff0d646966666572656e7469616c04312e3000",  # apiversions.header1
    ],
)
def test_malformed_frames(frame: str) -> None:
    with pytest.raises(MalformedMessage):
        parse_request(bytes.fromhex(frame))


def test_what_of_the_header_is_beyond_the_end_is_told() -> None:
    with pytest.raises(MalformedMessage, match="client id of 32767 bytes in a request of 10"):
        parse_request(bytes.fromhex("00030000000000017fff"))
    with pytest.raises(MalformedMessage, match="a tagged field ends 3 bytes after the frame"):
        parse_request(bytes.fromhex("0003000900000001ffff016305aabb"))


@pytest.mark.parametrize(
    ("frame", "client_id"),
    [
        ("0003000100000001ffffffffffff", None),
        ("00030001000000010000ffffffff", ""),
        ("0003000100000001ffffffffffff00", None),  # malformed.metadata.trailing
        ("00030009000000010002c3a40163021234 0000000000", "ä"),  # header.tags
        ("0003000900000001ffff02630100630100 0000000000", None),  # header.tags.twice
    ],
)
def test_unusual_frames_that_are_fine(frame: str, client_id: str | None) -> None:
    request = parse_request(bytes.fromhex(frame))
    assert request.client_id == client_id
    assert isinstance(request.message, MetadataRequest)


def test_a_client_id_that_could_not_be_told_on() -> None:
    """Each byte that is no UTF-8 becomes three."""
    begin = bytes.fromhex("0003 0000 00000001")
    read_request_header(begin + (10_922).to_bytes(2) + b"\xff" * 10_922)
    with pytest.raises(MalformedMessage, match="a string of 32769 bytes"):
        read_request_header(begin + (10_923).to_bytes(2) + b"\xff" * 10_923)


@pytest.mark.parametrize("text", ["474554202f20485454502f312e310d0a0d0a", "ff" * 40, "16030100"])
def test_other_protocols(text: str) -> None:
    with pytest.raises(CLOSING_ERRORS):
        parse_request(bytes.fromhex(text))


@given(junk=st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_junk_is_refused_and_nothing_else(junk: bytes) -> None:
    try:
        ServerConnection().received(junk)
    except CLOSING_ERRORS:
        pass


@given(junk=st.binary(max_size=60), key=st.sampled_from(sorted(SERVED)), data=st.data())
@settings(max_examples=300, deadline=None)
def test_junk_after_a_good_header(junk: bytes, key: int, data: st.DataObject) -> None:
    api = SERVED[key]
    version = data.draw(st.integers(api.min_understood, api.max_version))
    try:
        request = parse_request(raw(key, version) + junk, peer=True)
    except CLOSING_ERRORS:
        return
    assert request.api_key == key


def test_a_plain_request_has_a_limit_and_records_have_not() -> None:
    client = ClientConnection()
    frame = frame_of(client.request(HeartbeatRequest(), 4, None))
    assert parse_request(frame + bytes(PLAIN_REQUEST_MAX - len(frame)))
    too_long = frame + bytes(PLAIN_REQUEST_MAX - len(frame) + 1)
    with pytest.raises(FrameError, match="limit"):
        parse_request(too_long)
    assert parse_request(too_long, peer=True)
    partition = PartitionProduceData(records=bytes(PLAIN_REQUEST_MAX))
    topics = [TopicProduceData(name="t", partition_data=[partition])]
    assert parse_request(frame_of(client.request(ProduceRequest(topic_data=topics), 9, None)))


def test_a_client_may_not_ask_for_very_many_things_at_once() -> None:
    """Each of them is worked on while nobody else is served."""
    client = ClientConnection()
    topics = [MetadataRequestTopic(name="t")] * ELEMENTS_MAX
    frame = frame_of(client.request(MetadataRequest(topics=topics), 4, None))
    assert parse_request(frame)
    produced = [TopicProduceData(name="t") for _ in range(ELEMENTS_MAX + 1)]
    for request, version in (
        (MetadataRequest(topics=[*topics, topics[0]]), 4),
        (ProduceRequest(topic_data=produced), 9),
    ):
        frame = frame_of(client.request(request, version, None))
        with pytest.raises(MalformedMessage, match="1 elements more than are allowed"):
            parse_request(frame)
        assert parse_request(frame, peer=True)


def test_only_a_peer_may_ask_what_is_for_peers() -> None:
    frame = frame_of(ClientConnection().request(ControlledShutdownRequest(), 0, None))
    server = ServerConnection()
    with pytest.raises(UnknownApi):
        server.received(frame)
    server.peer = True
    assert server.received(frame).message == ControlledShutdownRequest()
    tools = [api for api in SERVED.values() if api.audience is Audience.TOOLS]
    for api in tools:
        stranger = ClientConnection().request(api.request(), 0, None)
        assert parse_request(frame_of(stranger)).message == api.request()


# --- the client's end


def test_a_response_must_answer_the_oldest_request() -> None:
    client, server = ClientConnection(), ServerConnection()
    with pytest.raises(OutOfOrder, match="nothing was asked"):
        client.response(bytes(20))
    frames = [frame_of(client.request(MetadataRequest(), 9, None)) for _ in range(2)]
    tokens = [server.received(frame).token for frame in frames]
    both = server.reply(tokens[0], MetadataResponse()) + server.reply(tokens[1], MetadataResponse())
    first, second = frames_of(both)
    with pytest.raises(OutOfOrder, match="response to 2, expected 1"):
        client.response(second)
    assert client.response(first)[0] == 1
    assert client.response(second)[0] == 2


@pytest.mark.parametrize("frame", ["", "000000", "00000001", "0000000101", "0000000100"])
def test_a_broken_response(frame: str) -> None:
    client = ClientConnection()
    client.request(MetadataRequest(), 9, None)
    with pytest.raises(MalformedMessage):
        client.response(bytes.fromhex(frame))


def test_a_request_that_cannot_be_said_is_not_counted() -> None:
    client = ClientConnection()
    with pytest.raises(UnencodableMessage):
        client.request(HeartbeatRequest(generation_id=1 << 40), 4, None)
    with pytest.raises(ValueError, match="not 5"):
        client.request(HeartbeatRequest(), 5, None)
    assert (client.in_flight, client.correlation_id) == (0, 0)


def test_correlation_ids_start_again() -> None:
    client = ClientConnection()
    client.correlation_id = 0x7FFFFFFF
    client.request(HeartbeatRequest(), 4, None)
    assert client.correlation_id == 0


def test_a_large_response_is_whole() -> None:
    """Above the size up to which the first part is copied behind the frame's size."""
    client, server = ClientConnection(), ServerConnection()
    token = server.received(frame_of(client.request(MetadataRequest(), 9, None))).token
    large = MetadataResponse(cluster_id="x" * 200_000)
    parts = server.reply(token, large)
    assert len(parts) == 2
    assert client.response(frame_of(parts)) == (1, large)
