"""A real broker without a world: a cluster that it is simply told of, and questions put to it."""

import random
from collections.abc import Sequence
from typing import TypeVar

from replog.model.cluster import BrokerRecord, BrokerState, Endpoint, TopicRecord
from replog.model.config import BrokerConfig
from replog.model.ids import TopicPartition
from replog.model.inputs import PeerIdentity, Received
from replog.model.messages import Message, Request
from replog.model.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse
from replog.model.messages.produce import TopicProduceData as ProducedTopic
from replog.model.messages.update_cluster import UpdateClusterResponse
from replog.model.outputs import Output, Reply
from replog.model.partition import PartitionRecord
from replog.node.cluster_image import full_image
from replog.node.node import Node, NodeSetup
from replog.records.batch import Record, build_batch
from replog.sim.mem_disk import MemDisk

CLUSTER_ID = "cluster-of-tests-12345"
RANGES = ((0, 0, 13), (3, 0, 13), (18, 0, 5))
R = TypeVar("R", bound=Message)


def record(*replicas: int, leader: int | None = None, epoch: int = 0) -> PartitionRecord:
    """A partition whose replicas are all in sync; the first leads unless another is named."""
    return PartitionRecord(
        replicas=replicas,
        isr=replicas,
        leader=replicas[0] if leader is None else leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
    )


def topic_id(name: str) -> bytes:
    return name.encode()[-16:].ljust(16, b".")


class OneBroker:
    """Broker 1 of a cluster of three. Time stands at `now_ms`."""

    def __init__(self, **given: str) -> None:
        named = {name.replace("__", "."): value for name, value in given.items()}
        setup = NodeSetup(
            config=BrokerConfig({"node.id": "1"} | named),
            cluster_id=CLUSTER_ID,
            endpoints=(Endpoint("PLAINTEXT", "host1", 9092),),
            api_ranges=RANGES,
            boot_id="boot",
        )
        self.now_ms = 1000.0
        self.wall_ms = 1_700_000_000_000
        self.node = Node(
            setup, MemDisk(), random.Random(1), now_ms=self.now_ms, wall_ms=self.wall_ms
        )
        self.node.start()
        for broker_id in (1, 2, 3):
            self.broker(broker_id)
        self.node.cluster.controller_id = 3
        self._token = 0
        self.outputs: list[Output] = []  # of the last question

    def broker(
        self,
        broker_id: int,
        *,
        listeners: Sequence[str] = ("PLAINTEXT",),
        rack: str | None = None,
        state: BrokerState = BrokerState.ACTIVE,
    ) -> None:
        """Tell of a broker."""
        endpoints = tuple(
            Endpoint(name, f"{name.lower()}.host{broker_id}", 9091 + broker_id)
            for name in listeners
        )
        self.node.cluster.brokers[broker_id] = BrokerRecord(
            broker_id, 100 + broker_id, endpoints, rack=rack, state=state
        )

    def topic(self, name: str, *partitions: PartitionRecord, **configs: str) -> None:
        """Tell of a topic, or of its new state."""
        named = {config.replace("__", "."): value for config, value in configs.items()}
        topic = TopicRecord(name, topic_id(name), list(partitions), named)
        self.node.cluster.put_topic(topic)
        changed = [TopicPartition(name, index) for index in range(len(partitions))]
        self.node.partitions.apply(changed, [])

    def hear_from_controller(self, *, but: int | None = None) -> None:
        """Take what is told so far as an image from broker 3, which is controller thereby.

        Of broker `but` it knows nothing.
        """
        node = self.node
        node.broker_epoch = node.cluster.brokers[1].broker_epoch
        node.cluster.controller_epoch, node.cluster.version = 1, 1
        image = full_image(node.cluster, node.broker_epoch)
        image.brokers = [broker for broker in image.brokers if broker.broker_id != but]
        request = Received(
            8,
            1,
            0,
            image,
            peer=PeerIdentity(3, node.cluster.brokers[3].broker_epoch),
        )
        (reply,) = (o for o in node.step(request, self.now_ms, self.wall_ms) if type(o) is Reply)
        assert isinstance(reply.message, UpdateClusterResponse) and reply.message.error_code == 0

    def ask(
        self, message: Request, answer: type[R], *, version: int = 99, listener: str = "PLAINTEXT"
    ) -> R:
        """The answer, which must come in the same step. The version is the newest if not given."""
        self._token += 1
        request = Received(
            7,
            self._token,
            min(version, type(message).VERSIONS[1]),
            message,
            listener=listener,
            client_host="127.0.0.1",
        )
        outputs = self.node.step(request, self.now_ms, self.wall_ms)
        self.outputs = outputs
        replies = [o for o in outputs if isinstance(o, Reply) and o.token == self._token]
        assert len(replies) == 1, outputs
        message_back = replies[0].message
        assert isinstance(message_back, answer)
        return message_back

    def produce(self, name: str, *timestamps: int, compression: int = 0) -> int:
        """Write one batch to partition 0 with acks=1; returns its base offset."""
        records = [Record(0, timestamp, None, b"v", ()) for timestamp in timestamps]
        data = PartitionProduceData(
            index=0, records=memoryview(bytearray(build_batch(records, compression=compression)))
        )
        topics = [ProducedTopic(name=name, topic_id=topic_id(name), partition_data=[data])]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)
        answer = self.ask(request, ProduceResponse, version=12)
        partition = answer.responses[0].partition_responses[0]
        assert partition.error_code == 0, partition
        return partition.base_offset
