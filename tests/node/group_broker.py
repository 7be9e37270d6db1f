"""A real broker that leads the offsets topic; the test plays members, followers and time."""

from collections.abc import Mapping
from typing import TypeVar

from tests.node.handlers.one_broker import OneBroker, record

from replog.model.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from replog.model.inputs import PeerIdentity, Received, Tick
from replog.model.messages import Message, Request
from replog.model.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from replog.model.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from replog.model.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from replog.model.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from replog.model.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from replog.model.outputs import Output, Reply, Report
from replog.model.partition import PartitionRecord
from replog.node.node import Node
from replog.node.partition import Partition
from replog.sim.mem_disk import MemDisk

R = TypeVar("R", bound=Message)
OFFSETS = TopicPartition(GROUP_OFFSETS_TOPIC, 0)
ALONE = record(1)


class GroupBroker(OneBroker):
    """Broker 1, which leads the only partition of `__consumer_offsets`, and topic `t` with 3."""

    def __init__(self, offsets: PartitionRecord | None = ALONE, **given: str) -> None:
        settings = {"group__initial__rebalance__delay__ms": "0"} | given
        super().__init__(**settings)
        self.replies: dict[int, Message | None] = {}
        self.reports: list[str] = []
        self.topic("t", ALONE, ALONE, ALONE)
        if offsets is not None:
            self.lead(offsets)

    # ---- the world -------------------------------------------------------------------------

    def lead(self, offsets: PartitionRecord) -> None:
        """Tell of a new state of the offsets partition; loading is begun and goes on."""
        self.topic(GROUP_OFFSETS_TOPIC, offsets)
        self.wait(0)

    def restart(self, offsets: PartitionRecord) -> None:
        """The process dies and comes back on the same disk, and hears of its partitions anew."""
        topics = dict(self.node.cluster.topics)
        brokers = dict(self.node.cluster.brokers)
        disk = self.node.partitions.logs.folders[0].disk
        assert isinstance(disk, MemDisk)
        disk.crash()
        setup = self.node.setup
        self.node = Node(setup, disk, self.node.rng, now_ms=self.now_ms, wall_ms=self.wall_ms)
        self.node.start()
        self.node.cluster.brokers.update(brokers)
        for name, topic in topics.items():
            if name != GROUP_OFFSETS_TOPIC:
                self.topic(name, *topic.partitions)
        self.lead(offsets)

    def _note(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Reply):
                assert output.token not in self.replies, "answered twice"
                self.replies[output.token] = output.message
            elif isinstance(output, Report):
                self.reports.append(output.text)

    def wait(self, ms: float) -> None:
        """Let time pass; the broker is woken whenever it asked for that, and once at least."""
        end = self.now_ms + ms
        while True:
            self._note(self.node.step(Tick(), self.now_ms, self.wall_ms))
            due = self.node.next_deadline_ms()
            if due > end:
                break
            step = max(due - self.now_ms, 0.0)
            self.now_ms += step
            self.wall_ms += int(step)
        self.wall_ms += int(end - self.now_ms)
        self.now_ms = end

    def partition(self) -> Partition:
        partition = self.node.partitions.get(OFFSETS)
        assert partition is not None
        return partition

    def follower_has_all(self, broker_id: int = 2) -> None:
        """A follower of the offsets partition asks from the end on."""
        partition = self.partition()
        peer = PeerIdentity(broker_id, 100 + broker_id)
        self.node.partitions.follower_fetched(partition, peer, partition.log_end_offset)
        self.wait(0)

    # ---- requests --------------------------------------------------------------------------

    def send(self, message: Request, version: int = 99) -> int:
        """Send a request that may have to wait; its token."""
        self._token += 1
        request = Received(
            7,
            self._token,
            min(version, type(message).VERSIONS[1]),
            message,
            client_id="client",
            listener="PLAINTEXT",
            client_host="127.0.0.1",
        )
        self._note(self.node.step(request, self.now_ms, self.wall_ms))
        return self._token

    def waits(self, token: int) -> bool:
        return token not in self.replies

    def answer(self, token: int, kind: type[R]) -> R:
        message = self.replies[token]
        assert isinstance(message, kind)
        return message

    def call(self, message: Request, kind: type[R], version: int = 99) -> R:
        """Send a request that is answered at once."""
        return self.answer(self.send(message, version), kind)

    # ---- what clients say ------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 3,
        instance_id: str | None = None,
        session_ms: int = 10_000,
    ) -> int:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"meta")]
        message = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        return self.send(message, version)

    def joined(self, token: int) -> JoinGroupResponse:
        return self.answer(token, JoinGroupResponse)

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int = 1,
        group: str = "g",
    ) -> int:
        message = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
        )
        return self.send(message, 3)

    def synced(self, token: int) -> SyncGroupResponse:
        return self.answer(token, SyncGroupResponse)

    def heartbeat(self, member_id: str, generation: int = 1, group: str = "g") -> int:
        message = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        return self.call(message, HeartbeatResponse).error_code

    def member(self, group: str = "g") -> str:
        """A stable group of one."""
        member = self.joined(self.join(group=group)).member_id
        assert self.synced(self.sync(member, {member: b"x"}, group=group)).error_code == 0
        return member

    def commit(
        self,
        offset: int,
        *,
        group: str = "g",
        member_id: str = "",
        generation: int = -1,
        partitions: tuple[int, ...] = (0,),
        metadata: str | None = "m",
        version: int = 9,
        retention_ms: int = -1,
    ) -> int:
        topic = OffsetCommitRequestTopic(
            name="t",
            topic_id=self.node.cluster.topics["t"].topic_id,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
                for index in partitions
            ],
        )
        message = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[topic],
            retention_time_ms=retention_ms,
        )
        return self.send(message, version)

    def committed(self, token: int) -> list[int]:
        """Errors of the partitions of a commit."""
        response = self.answer(token, OffsetCommitResponse)
        return [p.error_code for topic in response.topics for p in topic.partitions]

    def fetch(self, group: str = "g", partitions: tuple[int, ...] = (0,)) -> list[int] | int:
        """The committed offsets of `t`, or the error of the group."""
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=list(partitions))
        message = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])]
        )
        (answer,) = self.call(message, OffsetFetchResponse, 9).groups
        if answer.error_code:
            return answer.error_code
        return [p.committed_offset for t in answer.topics for p in t.partitions]
