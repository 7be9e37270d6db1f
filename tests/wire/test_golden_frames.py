"""Frames that real clients sent (recorded from a socket), and answers byte by byte."""

import pytest

from replog.model.messages import Request, Response
from replog.model.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from replog.model.messages.find_coordinator import FindCoordinatorRequest
from replog.model.messages.heartbeat import HeartbeatResponse
from replog.model.messages.init_producer_id import InitProducerIdRequest
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from replog.model.messages.metadata import MetadataRequest, MetadataRequestTopic
from replog.model.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from replog.wire import ClientConnection, ParsedRequest, encode_response, parse_request

RDKAFKA_BATCH = bytes.fromhex(
    "00000000000000000000003a0000000002e4fa06cd000000000000000001a22b46220b000001a22b46220b"
    "00000000000000010000000000000000000110000000026b027600"
)
AIOKAFKA_BATCH = bytes.fromhex(
    "000000000000000000000039ffffffff025ffdaa6a000000000000000001a22b4631df000001a22b4631df"
    "ffffffffffffffffffff00000000000000010e00000001027600"
)


def fetch(topic: FetchTopic, **more: int) -> FetchRequest:
    values = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 52428800, **more}
    return FetchRequest(topics=[topic], **values)  # type: ignore[arg-type]


def one_partition(leader_epoch: int) -> list[FetchPartition]:
    return [FetchPartition(current_leader_epoch=leader_epoch, partition_max_bytes=1048576)]


def produce(acks: int, timeout_ms: int, batch: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="t", partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


# name: (the frame, correlation id, the message)
REQUESTS: dict[str, tuple[str, int, Request]] = {
    "api_versions_v0_aiokafka": (
        "00120000000000010004676f6c64",
        1,
        ApiVersionsRequest(),
    ),
    "api_versions_v3_librdkafka": (
        "00120003000000010004676f6c640017636f6e666c75656e742d6b61666b612d707974686f6e"
        "16322e31362e312d72646b61666b612d322e31362e3000",
        1,
        ApiVersionsRequest(
            client_software_name="confluent-kafka-python",
            client_software_version="2.16.1-rdkafka-2.16.0",
        ),
    ),
    "api_versions_v4_kafka_python": (
        "00120004000000010004676f6c64000d6b61666b612d707974686f6e07332e302e313200",
        1,
        ApiVersionsRequest(client_software_name="kafka-python", client_software_version="3.0.12"),
    ),
    "metadata_v5_aiokafka": (
        "00030005000000020004676f6c640000000001",
        2,
        MetadataRequest(topics=[]),
    ),
    "metadata_v13_librdkafka": (
        "0003000d000000020004676f6c64000200000000000000000000000000000000027400010000",
        2,
        MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
    ),
    "init_producer_id_v4_librdkafka": (
        "00160004000000020004676f6c640000ffffffffffffffffffffffffffff00",
        2,
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
    ),
    "find_coordinator_v2_librdkafka": (
        "000a0002000000030004676f6c6400016700",
        3,
        FindCoordinatorRequest(key="g"),
    ),
    "produce_v7_aiokafka": (
        "00000007000000020004676f6c64ffff000100009c40000000010001740000000100000000"
        "00000045" + AIOKAFKA_BATCH.hex(),
        2,
        produce(1, 40000, AIOKAFKA_BATCH),
    ),
    "produce_v10_librdkafka": (
        "0000000a000000030004676f6c640000ffff0000753002027402000000004700"
        + RDKAFKA_BATCH.hex()[2:]
        + "000000",
        3,
        produce(-1, 30000, RDKAFKA_BATCH),
    ),
    "list_offsets_v3_aiokafka": (
        "00020003000000030004676f6c64ffffffff00000000010001740000000100000000ffffffffffffffff",
        3,
        ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])],
        ),
    ),
    "list_offsets_v11_kafka_python": (
        "0002000b000000020004676f6c6400ffffffff000202740200000000ffffffff"
        "ffffffffffffffff00000000000000",
        2,
        ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])],
        ),
    ),
    "fetch_v11_aiokafka": (
        "0001000b000000040004676f6c64ffffffff000001f400000001032000000000000000ffffffff"
        "000000010001740000000100000000ffffffff0000000000000000ffffffffffffffff"
        "00100000000000000000",
        4,
        fetch(FetchTopic(topic="t", partitions=one_partition(-1))),
    ),
    "fetch_v12_kafka_python": (
        "0001000c000000030004676f6c6400ffffffff000001f40000000103200000000000000000000000"
        "0202740200000000000000000000000000000000ffffffffffffffffffffffff001000000000010100",
        3,
        fetch(FetchTopic(topic="t", partitions=one_partition(0)), session_epoch=0),
    ),
    "fetch_v16_librdkafka": (
        "00010010000000050004676f6c6400000001f400000001032000000100000000ffffffff"
        "02000102030405060708090a0b0c0d0e0f0200000000000000000000000000000000"
        "ffffffffffffffffffffffff001000000000010100",
        5,
        fetch(
            FetchTopic(topic_id=bytes(range(16)), partitions=one_partition(0)), isolation_level=1
        ),
    ),
}


@pytest.mark.parametrize(
    ("frame", "correlation_id", "message"), REQUESTS.values(), ids=list(REQUESTS)
)
def test_request(frame: str, correlation_id: int, message: Request) -> None:
    raw = bytes.fromhex(frame)
    request = parse_request(memoryview(raw))
    assert request.message == message
    assert request.correlation_id == correlation_id
    assert request.client_id == "gold"
    assert request.answer is None
    connection = ClientConnection()
    for _ in range(correlation_id - 1):
        connection.request(message, request.version, "gold")
    sent = b"".join(connection.request(message, request.version, "gold"))  # type: ignore[arg-type]
    assert sent == len(raw).to_bytes(4, "big") + raw


def asked(api_key: int, version: int) -> ParsedRequest:
    return ParsedRequest(
        api_key=api_key,
        version=version,
        correlation_id=7,
        client_id=None,
        message=ApiVersionsRequest(),
    )


ROW = ApiVersion(api_key=18, min_version=0, max_version=5)
RESPONSES: dict[str, tuple[ParsedRequest, Response, str]] = {
    "heartbeat_v0": (asked(12, 0), HeartbeatResponse(error_code=25), "0019"),
    "heartbeat_v1": (asked(12, 1), HeartbeatResponse(error_code=25), "000000000019"),
    "heartbeat_v4": (
        asked(12, 4),
        HeartbeatResponse(throttle_time_ms=1, error_code=25),
        "00 00000001 0019 00",
    ),
    "api_versions_v0": (
        asked(18, 0),
        ApiVersionsResponse(error_code=35, api_keys=[ROW]),
        "0023 00000001 0012 0000 0005",
    ),
    "api_versions_v3_without_tags_in_its_header": (
        asked(18, 3),
        ApiVersionsResponse(api_keys=[ROW]),
        "0000 02 0012 0000 0005 00 00000000 00",
    ),
}


@pytest.mark.parametrize(("request_", "response", "body"), RESPONSES.values(), ids=list(RESPONSES))
def test_response(request_: ParsedRequest, response: Response, body: str) -> None:
    after_size = bytes.fromhex("00000007" + body)
    frame = b"".join(encode_response(request_, response))  # type: ignore[arg-type]
    assert frame == len(after_size).to_bytes(4, "big") + after_size
