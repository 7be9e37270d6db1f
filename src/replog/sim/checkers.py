"""The oracle: it sees every node, every log and the coordinator, and judges each step before the
world goes on.

What it asserts, at each step that changes something:
- bounds and contiguity of every log; epochs of batches and of the epoch file in order
- (topic id, partition, epoch, offset) names one batch with one prefix for ever (log matching)
- a leader commits only what every member of the *stored* ISR has, and only with enough members
- one process commits in each leader epoch; a high watermark never falls within a leadership
- followers take no more for committed than leaders do, and the same bytes
- whoever joins an ISR holds everything committed and the start of the epoch
- records change under the controller's fence, epochs rise, only members of an ISR are elected
- acknowledgements and answers to consumers speak of committed records only, and nobody gives any
  as a leader who was asleep until its session was over and does not know that yet
- what coordinators of groups tell is in the log, and committed
- committed sequences of idempotent producers are contiguous, without repetition
- what waits for a commit or for records waits for something that is not there yet
"""

from collections.abc import Sequence

from replog.model.coordination import Operation, StoredNode
from replog.model.ids import GROUP_OFFSETS_TOPIC, TopicPartition
from replog.model.inputs import Input, Received
from replog.model.messages.fetch import FetchRequest, FetchResponse
from replog.model.messages.offset_fetch import OffsetFetchResponse
from replog.model.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
)
from replog.model.outputs import Output, RangeInvalidated, Reply
from replog.model.records import FileRange
from replog.records.header import BatchHeader, iterate
from replog.sim.broker import Life
from replog.sim.mem_coordination import MemTree
from replog.sim.offsets_watch import judge_offsets
from replog.sim.records_watch import RecordsWatch
from replog.sim.replicas_watch import ReplicasWatch
from replog.sim.shadows import Shadow
from replog.sim.violation import Violation
from replog.sim.waits_watch import WaitsWatch

ALL = -1  # acks
ASLEEP = "who was asleep until its session was over answers alone for no leader before it knows"

_Said = tuple[str, bytes, int, int]  # leader's process, topic id, partition, follower


class Oracle:
    """Judges every step. Raises Violation."""

    def __init__(self, tree: MemTree, min_isr: int) -> None:
        self.records = RecordsWatch()
        self.replicas = ReplicasWatch(self.records.records, min_isr)
        self.waits = WaitsWatch()
        self.acknowledgements = 0
        self.truncations = 0
        self._tree = tree
        self._counted: dict[_Said, tuple[float, int]] = {}  # time and offset of the last fetch
        self._said_in: dict[_Said, int] = {}  # leader epoch of the last fetch that named it

    # ---- what the world tells ---------------------------------------------------------------

    def started(self, life: Life) -> None:
        """A process has opened its logs."""
        self.replicas.look(life, anew=True)

    def stepped(self, life: Life, event: Input, outputs: Sequence[Output]) -> None:
        """A node took an input; nothing of what it wants was done yet."""
        truncated = any(isinstance(output, RangeInvalidated) for output in outputs)
        self.truncations += truncated
        self.replicas.look(life, anew=truncated)
        if isinstance(event, Received) and isinstance(event.message, FetchRequest) and event.peer:
            self._judge_progress(life, event.peer.broker_id, event.message)
        for output in outputs:
            if isinstance(output, Reply) and output.message is not None:
                self._judge_reply(life, output)
        self.waits.look(life)

    def wrote(self, operations: Sequence[Operation], before: dict[str, StoredNode]) -> None:
        """The coordinator carried out a multi."""
        for change in self.records.on_write(operations, before, self._tree.nodes):
            self.replicas.judge_change(change)

    def consumed(self, consumer: str, topic_id: bytes, partition: int, batch: BatchHeader) -> None:
        """A consumer got this batch: it must be the committed one."""
        committed = self.replicas.committed((topic_id, partition))
        known = committed.log.at(batch.base_offset)
        found = (batch.base_offset, batch.leader_epoch, batch.crc)
        if any((lost.base, lost.epoch, lost.crc) == found for lost in committed.lost):
            return
        if known is None or (known.base, known.epoch, known.crc) != found:
            raise Violation(
                "consumers read committed records only",
                f"{consumer}, partition {partition}: {batch!r} instead of {known}",
            )

    def may_have_lost(self, topic_id: bytes, partition: int) -> bool:
        """The cluster has said that committed records of a partition may be lost."""
        return self.replicas.committed((topic_id, partition)).lossy_epoch >= 0

    def may_have_lost_offsets(self) -> bool:
        """The cluster has said that offsets which groups committed may be lost."""
        return any(
            self.may_have_lost(*key)
            for key, record in self.records.records.items()
            if record.name.startswith(GROUP_OFFSETS_TOPIC)
        )

    def was_lost(self, topic_id: bytes, partition: int, offset: int) -> bool:
        """What was committed at this offset is lost, which the cluster has said."""
        return self.replicas.committed((topic_id, partition)).was_lost(offset)

    def committed_log(self, topic_id: bytes, partition: int) -> Shadow:
        """What is committed of a partition."""
        return self.replicas.committed((topic_id, partition)).log

    def _judge_progress(self, life: Life, follower: int, request: FetchRequest) -> None:
        """What a follower says counts in the leader epoch in which it says it, and in no other."""
        for topic in request.topics:
            for part in topic.partitions:
                said = (life.name, topic.topic_id, part.partition, follower)
                self._said_in[said] = part.current_leader_epoch
        for partition in life.node.partitions.all():
            view = partition.leader_view()
            progress = None if view is None else view.progress.get(follower)
            said = (life.name, partition.topic_id, partition.tp.partition, follower)
            if view is None or progress is None or progress.log_end_offset < 0:
                continue
            counted = (progress.last_fetch_ms, progress.log_end_offset)
            known, self._counted[said] = self._counted.get(said), counted
            if known != counted and self._said_in.get(said) != view.epoch:
                raise Violation(
                    "progress of a follower counts in the epoch of its fetch",
                    f"{life.name} {partition.tp}: broker {follower} in epoch "
                    f"{self._said_in.get(said)} counts in epoch {view.epoch}",
                )

    # ---- answers ------------------------------------------------------------------------------

    def _judge_reply(self, life: Life, reply: Reply) -> None:
        message = reply.message
        if isinstance(message, OffsetFetchResponse):
            judge_offsets(life, message)
        if not isinstance(message, ProduceResponse | FetchResponse):
            return
        connection = life.connections.get(reply.connection)
        if connection is None:
            return
        request = connection.request_of(reply.token)
        if isinstance(message, ProduceResponse):
            self._judge_produced(life, request, message)
        elif request.peer is None:
            _judge_fetched(life, message)

    def _judge_produced(self, life: Life, request: Received, message: ProduceResponse) -> None:
        asked = request.message
        assert isinstance(asked, ProduceRequest)
        for topic, answer in zip(asked.topic_data, message.responses, strict=True):
            name = topic.name or life.node.cluster.topic_names.get(topic.topic_id, "")
            parts = zip(topic.partition_data, answer.partition_responses, strict=True)
            for given, part in parts:
                if not part.error_code:
                    tp = TopicPartition(name, part.index)
                    self._judge_acknowledged(life, tp, given, part, acks=asked.acks)

    def _judge_acknowledged(
        self,
        life: Life,
        tp: TopicPartition,
        given: PartitionProduceData,
        part: PartitionProduceResponse,
        *,
        acks: int,
    ) -> None:
        where = f"{life.name} {tp} acks={acks} offset {part.base_offset}"
        partition = life.node.partitions.get(tp)
        if partition is None or not partition.is_leader:
            raise Violation("only a leader acknowledges", where)
        if life.overslept and acks != ALL:  # which followers have answered for
            raise Violation(ASLEEP, where)
        assert isinstance(given.records, memoryview)
        batch = BatchHeader(given.records, 0)
        if acks == ALL:
            self.acknowledgements += 1
            committed = self.replicas.committed((partition.topic_id, tp.partition))
            if partition.leader_epoch < committed.lossy_epoch:
                return
            log = committed.log
            if partition.high_watermark <= part.base_offset + batch.last_offset_delta:
                raise Violation("acks=all is given for committed records only", where)
        else:
            replica = self.replicas.replica(life.broker_id, (partition.topic_id, tp.partition))
            assert replica is not None
            log = replica.shadow
        found = log.at(part.base_offset)
        if found is None or (found.base, found.crc) != (part.base_offset, batch.crc):
            raise Violation(
                "an acknowledged batch is at the offset that was told", f"{where}: {found}"
            )


def _judge_fetched(life: Life, message: FetchResponse) -> None:
    """What a consumer is given ends below the high watermark."""
    for topic in message.responses:
        name = topic.topic or life.node.cluster.topic_names.get(topic.topic_id, "")
        for part in topic.partitions:
            partition = life.node.partitions.get(TopicPartition(name, part.partition_index))
            if partition is None or not isinstance(part.records, FileRange):
                continue
            if life.overslept and partition.is_leader:
                raise Violation(ASLEEP, f"{life.name} {partition.tp}: a consumer reads")
            batches = iterate(part.records.read())
            if batches and batches[-1].next_offset > partition.high_watermark:
                raise Violation(
                    "consumers get what is below the high watermark",
                    f"{life.name} {partition.tp}: {batches[-1]!r}, HW {partition.high_watermark}",
                )
