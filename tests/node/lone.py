"""One real node on disks in memory, told of its topics: for what it keeps there, and its jobs.

Jobs wait until a test runs them, so that everything may happen meanwhile.
"""

import random
from collections.abc import Sequence

from replog.core.controller import stored
from replog.core.replica.leader import LeaderState
from replog.log.disk import DiskError
from replog.model.cluster import BrokerRecord, Endpoint, TopicRecord
from replog.model.config import BrokerConfig
from replog.model.coordination import Check, StoredNode, WriteDone
from replog.model.ids import TopicPartition
from replog.model.inputs import (
    CoordinatorRead,
    CoordinatorWritten,
    Input,
    JobDone,
    Received,
    StopRequested,
    Tick,
)
from replog.model.messages import Message
from replog.model.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.model.outputs import (
    CloseConnection,
    CoordinatorWrite,
    Output,
    ReadCoordinator,
    Reply,
    Report,
    RunJob,
    Stopped,
)
from replog.model.partition import PartitionRecord
from replog.node.log_folder import FolderSetup
from replog.node.node import Node, NodeSetup
from replog.node.partition import Partition
from replog.records.batch import Producer, Record, build_batch
from replog.sim.mem_disk import MemDisk

WALL_MS = 1_700_000_000_000


def topic_id(name: str) -> bytes:
    return name.encode()[-16:].ljust(16, b".")


def record(*replicas: int, leader: int | None = None, epoch: int = 0) -> PartitionRecord:
    """All replicas in sync; the first leads unless another is named."""
    return PartitionRecord(
        replicas=replicas,
        isr=replicas,
        leader=replicas[0] if leader is None else leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
    )


def batch(
    *values: bytes,
    compression: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int = WALL_MS,
) -> bytearray:
    """One batch with these values."""
    records = [Record(0, timestamp, b"k", value) for value in values]
    return bytearray(
        build_batch(records, compression=compression, producer=Producer._make(producer))
    )


class Lone:
    """Broker 1. Time stands unless `tick` moves it."""

    def __init__(self, disk: MemDisk | None = None, *, folders: int = 1, **given: str) -> None:
        self.disks = [disk or MemDisk(), *(MemDisk() for _ in range(folders - 1))]
        self.failed: dict[int, str] = {}  # folders that can't be used from the start, and why
        self.given = given
        self.now_ms = 1_000.0
        self.jobs: list[RunJob] = []
        self.outputs: list[Output] = []
        self._token = 0
        self.start()

    def start(self) -> None:
        """Start a process on what is on the disks."""
        named = {name.replace("__", "."): value for name, value in self.given.items()}
        setup = NodeSetup(
            config=BrokerConfig({"node.id": "1"} | named),
            cluster_id="lone",
            endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
            api_ranges=(),
            boot_id="boot",
        )
        self.jobs = []
        folders = [
            FolderSetup(f"/logs/{index}", disk, self.failed.get(index))
            for index, disk in enumerate(self.disks)
        ]
        self.node = Node(setup, folders, random.Random(1), now_ms=self.now_ms, wall_ms=WALL_MS)
        self._take(self.node.start())
        for broker_id in (1, 2, 3):
            self.node.cluster.brokers[broker_id] = BrokerRecord(
                broker_id, 100 + broker_id, (Endpoint("PLAINTEXT", f"host{broker_id}", 9092),)
            )

    def restart(self, *topics: str, clean: bool = True) -> None:
        """Stop in order, or be killed; then start, lead one partition of each topic anew."""
        if clean:
            self.step(StopRequested())
        for disk in self.disks:
            disk.before_call = None
            disk.crash()
        self.start()
        for name in topics:
            self.topic(name, record(1, epoch=1))

    def topic(self, name: str, *partitions: PartitionRecord, **configs: str) -> None:
        """Tell of a topic, or of its new state."""
        named = {config.replace("__", "."): value for config, value in configs.items()}
        topic = TopicRecord(name, topic_id(name), list(partitions), named)
        self.node.cluster.put_topic(topic)
        tps = [TopicPartition(name, index) for index in range(len(partitions))]
        self.node.partitions.apply(tps, [])
        self._take(self.node._take_outputs())

    def partition(self, name: str, index: int = 0) -> Partition:
        found = self.node.partitions.get(TopicPartition(name, index))
        assert found is not None
        return found

    def leader(self, name: str) -> LeaderState:
        leader = self.partition(name).leader
        assert leader is not None
        return leader

    @property
    def disk(self) -> MemDisk:
        """That of the first folder."""
        return self.disks[0]

    # ---- steps ---------------------------------------------------------------------------

    def step(self, event: Input) -> list[Output]:
        outputs = self.node.step(event, self.now_ms, WALL_MS)
        self._take(outputs)
        for output in outputs:
            self._coordinate(output)
        return outputs

    def _coordinate(self, output: Output) -> None:
        """The coordinator knows of leaders what the node was told, and nothing else."""
        match output:
            case CoordinatorWrite(operations=(Check(),)):
                self.step(CoordinatorWritten(output.token, WriteDone(1)))
            case ReadCoordinator():
                known = self._states()
                if set(output.roots) <= set(known):
                    nodes = {path: known[path] for path in output.roots}
                    self.step(CoordinatorRead(output.token, nodes))
            case _:
                pass

    def _states(self) -> dict[str, StoredNode]:
        return {
            stored.partition_path(TopicPartition(topic.name, index)): StoredNode(
                stored.encode_partition(state, topic.topic_id), 0, 1
            )
            for topic in self.node.cluster.topics.values()
            for index, state in enumerate(topic.partitions)
        }

    def tick(self, ms: float) -> None:
        self.now_ms += ms
        self.step(Tick())

    def _take(self, outputs: Sequence[Output]) -> None:
        self.outputs += outputs
        self.jobs += [output for output in outputs if isinstance(output, RunJob)]

    def run_jobs(self, *, last_first: bool = False) -> None:
        """Run all jobs, those that they lead to as well."""
        while self.jobs:
            self.run_job(-1 if last_first else 0)

    def run_job(self, index: int = 0) -> None:
        job = self.jobs.pop(index)
        error = None
        try:
            job.work()
        except DiskError as failure:
            error = str(failure)
        self.step(JobDone(job.token, error))

    # ---- clients ---------------------------------------------------------------------------

    def send(self, name: str, data: bytearray, *, acks: int = 1, timeout_ms: int = 1_000) -> int:
        """Produce to partition 0; returns a number for `answer`."""
        self._token += 1
        message = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=topic_id(name),
                    partition_data=[PartitionProduceData(index=0, records=memoryview(data))],
                )
            ],
        )
        self.ask(message, self._token)
        return self._token

    def ask(self, message: Message, token: int, *, version: int = 12) -> None:
        self.step(
            Received(7, token, version, message, listener="PLAINTEXT", client_host="127.0.0.1")
        )

    def replies(self, token: int) -> list[Message | None]:
        """What a request was answered with: nothing yet, or one message."""
        return [o.message for o in self.outputs if isinstance(o, Reply) and o.token == token]

    def answer(self, token: int) -> PartitionProduceResponse:
        """The answer of a produce request, which must be there."""
        (message,) = self.replies(token)
        assert isinstance(message, ProduceResponse)
        return message.responses[0].partition_responses[0]

    def produce(self, name: str, data: bytearray, **fields: int) -> PartitionProduceResponse:
        """Produce, and have it answered in the same step."""
        return self.answer(self.send(name, data, **fields))

    # ---- what was said ---------------------------------------------------------------------

    @property
    def reports(self) -> list[str]:
        return [output.text for output in self.outputs if isinstance(output, Report)]

    @property
    def stopped(self) -> list[Stopped]:
        return [output for output in self.outputs if isinstance(output, Stopped)]

    @property
    def closed(self) -> list[CloseConnection]:
        return [output for output in self.outputs if isinstance(output, CloseConnection)]
