"""A leader that can't know whether it still is: it tells nothing of the log, and takes nothing."""

import pytest
from tests.node.handlers.one_broker import OneBroker, record, topic_id

from replog.model.errors import ErrorCode
from replog.model.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from replog.model.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from replog.model.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from replog.model.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch

T = 1_700_000_000_000


def produce(broker: OneBroker) -> int:
    batch = build_batch([Record(0, T, None, b"v", ())])
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    topic = TopicProduceData(topic_id=topic_id("a"), partition_data=[data])
    answer = broker.ask(ProduceRequest(acks=1, topic_data=[topic]), ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def fetch(broker: OneBroker) -> int:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=topic_id("a"), partitions=[wanted])
    answer = broker.ask(FetchRequest(max_bytes=1 << 20, topics=[topic]), FetchResponse)
    return answer.responses[0].partitions[0].error_code


def list_offsets(broker: OneBroker) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name="a", partitions=[wanted])
    answer = broker.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), ListOffsetsResponse)
    return answer.topics[0].partitions[0].error_code


def end_of_epoch(broker: OneBroker) -> int:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = OffsetForLeaderTopic(topic="a", partitions=[wanted])
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
    answer = broker.ask(request, OffsetForLeaderEpochResponse)
    return answer.topics[0].partitions[0].error_code


def delete_records(broker: OneBroker) -> int:
    wanted = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="a", partitions=[wanted])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    answer = broker.ask(request, DeleteRecordsResponse)
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("call", [produce, fetch, list_offsets, end_of_epoch, delete_records])
def test_a_leader_without_its_lease_answers_for_nothing(call) -> None:  # type: ignore[no-untyped-def]
    broker = OneBroker()
    broker.topic("a", record(1))
    broker.produce("a", T, T)
    broker.node.lease.lost()
    assert call(broker) == ErrorCode.NOT_LEADER_OR_FOLLOWER
