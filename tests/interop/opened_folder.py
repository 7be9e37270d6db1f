"""Log folders as one broker finds them at its start, that leads whatever is in them."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interop.kafka_truth import PartitionTruth, Served

from replog.log import checkpoints
from replog.model.cluster import BrokerRecord, Endpoint, TopicRecord
from replog.model.config import BrokerConfig
from replog.model.ids import TopicPartition
from replog.model.inputs import JobDone, Received
from replog.model.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from replog.model.outputs import Level, Output, Reply, Report, RunJob
from replog.model.partition import PartitionRecord
from replog.model.records import FileRange
from replog.node.log_folder import FolderSetup
from replog.node.node import Node, NodeSetup
from replog.records.batch import iterate, records_of
from replog.records.rewrite import ABORT_MARKER, marker_type
from replog.runtime.os_disk import OsDisk

NAMES_VERSION = 12  # the last version of Fetch with names of topics
NOW_MS, WALL_MS = 1_000.0, 1_700_000_000_000


class OpenedFolder:
    """A node over real files, without any other."""

    def __init__(self, folders: Sequence[Path]) -> None:
        setup = NodeSetup(
            config=BrokerConfig({"node.id": "1", "log.retention.check.interval.ms": "100000000"}),
            cluster_id="opened",
            endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
            api_ranges=(),
            boot_id="boot",
        )
        self.reports: list[str] = []  # warnings and errors
        disks = [OsDisk(folder) for folder in folders]
        setups = [FolderSetup(str(f), disk) for f, disk in zip(folders, disks, strict=True)]
        self.node = Node(setup, setups, random.Random(1), now_ms=NOW_MS, wall_ms=WALL_MS)
        self._take(self.node.start())
        self.node.cluster.brokers[1] = BrokerRecord(1, 101, (Endpoint("PLAINTEXT", "h", 9092),))
        self._token = 0
        for disk in disks:
            self._lead_all(disk)

    def _lead_all(self, disk: OsDisk) -> None:
        cluster = self.node.cluster
        for name in disk.list(""):
            tp = checkpoints.partition_of_directory(name)
            topic_id = None if tp is None else checkpoints.topic_id_of(disk, name)
            if tp is None or topic_id is None:
                continue
            known = cluster.topics.get(tp.topic)
            partitions = [] if known is None else list(known.partitions)
            while len(partitions) <= tp.partition:
                partitions.append(PartitionRecord((2,), (2,), 2, 1_000, 1))
            partitions[tp.partition] = PartitionRecord((1,), (1,), 1, 1_000, 1)
            cluster.put_topic(TopicRecord(tp.topic, topic_id, partitions, {"retention.ms": "-1"}))
            self.node.partitions.apply([tp], [])
            self._take(self.node._take_outputs())

    def truth(self, tp: TopicPartition) -> PartitionTruth:
        """What is in it; without what only clients of a cluster can ask for."""
        partition = self.node.partitions.get(tp)
        assert partition is not None, (tp, self.reports)
        truth = PartitionTruth(start=partition.log_start_offset)
        for level, isolation in enumerate(("read_uncommitted", "read_committed")):
            end = partition.last_stable_offset if level else partition.high_watermark
            truth.ends[isolation] = end
            truth.records[isolation] = list(self._read(tp, truth.start, end, level))
        return truth

    def _read(self, tp: TopicPartition, start: int, end: int, level: int) -> Iterator[Served]:
        """As a consumer reads: by the broker's list of aborted transactions, and by markers."""
        offset = start
        while offset < end:
            data = self._fetch(tp, offset, level)
            assert data.error_code == 0
            aborted = {
                each.first_offset: each.producer_id for each in data.aborted_transactions or ()
            }
            ongoing: set[int] = set()
            assert isinstance(data.records, FileRange)
            batches = memoryview(data.records.read())
            headers = iterate(batches)
            assert headers, f"{tp}: nothing at {offset}, though it ends at {end}"
            for header in headers:
                for first in [first for first in aborted if first <= header.last_offset]:
                    ongoing.add(aborted.pop(first))
                offset = header.next_offset
                if header.control:
                    if marker_type(batches, header) == ABORT_MARKER:
                        ongoing.discard(header.producer_id)
                elif not (header.transactional and header.producer_id in ongoing):
                    kind = 2 if header.log_append_time else 1
                    for record in records_of(batches, header):
                        if record.offset >= start:
                            yield Served(
                                record.offset,
                                (kind, record.timestamp),
                                record.key,
                                record.value,
                                tuple(record.headers),
                            )

    def _fetch(self, tp: TopicPartition, offset: int, level: int) -> PartitionData:
        self._token += 1
        where = FetchPartition(
            partition=tp.partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        message = FetchRequest(
            replica_id=-1,
            max_bytes=1 << 20,
            session_epoch=-1,
            isolation_level=level,
            topics=[FetchTopic(topic=tp.topic, partitions=[where])],
        )
        request = Received(
            7, self._token, NAMES_VERSION, message, listener="PLAINTEXT", client_host="h"
        )
        replies = self._take(self.node.step(request, NOW_MS, WALL_MS))
        (answer,) = (reply.message for reply in replies)
        assert isinstance(answer, FetchResponse)
        return answer.responses[0].partitions[0]

    def _take(self, outputs: Sequence[Output]) -> list[Reply]:
        """Jobs are done at once."""
        replies = []
        waiting = list(outputs)
        while waiting:
            output = waiting.pop(0)
            if isinstance(output, Reply):
                replies.append(output)
            elif isinstance(output, Report) and output.level is not Level.INFO:
                self.reports.append(output.text)
            elif isinstance(output, RunJob):
                output.work()
                waiting += self.node.step(JobDone(output.token, None), NOW_MS, WALL_MS)
        return replies

    def close(self) -> None:
        """Without a mark of a clean stop."""
        for partition in self.node.partitions.all():
            partition.log.abandon()
