"""The simulated life of a topic: made, written to, grown, altered, cut at its start, deleted, and
made again under the same name, whoever is down.

Its records name the topic id that they were sent to, so that whatever of an earlier topic turns up
in a later one is seen. `TopicLives` holds what was promised, and looks at the end.
"""

from collections.abc import Callable, Iterable
from typing import Final

from replog.model.errors import ErrorCode
from replog.model.ids import TopicPartition
from replog.model.messages import Message
from replog.model.messages.base import Request
from replog.model.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from replog.model.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from replog.model.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from replog.model.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from replog.model.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from replog.records.batch import Record, build_batch, read_records
from replog.sim.broker import WALL_START_MS
from replog.sim.client import Ground, SimClient
from replog.sim.plan import Plan
from replog.sim.violation import Violation

TOPIC: Final = "x"
TIMEOUT_MS: Final = 500
PAUSE_MEAN_MS: Final = 60.0
PARTITIONS_MAX: Final = 3
RECORDS_MAX: Final = 3  # of one batch
TOPIC_RESOURCE: Final = 2  # type of a resource whose configuration is altered
SET: Final = 0  # what is done to a setting
# What is done next, and how often beside the others.
DEEDS: Final = ("write",) * 40 + ("delete",) * 3 + ("grow",) * 2 + ("alter",) * 3 + ("trim",) * 4

OnAnswer = Callable[[Message | None], None]


class TopicLives(SimClient):
    """One client that does one thing after the other to its topic, and waits for each answer."""

    def __init__(self, ground: Ground, name: str, plan: Plan) -> None:
        super().__init__(ground, name, (TOPIC,))
        self._plan = plan
        self._exists = False
        self._settling = False
        self._at_rest = False  # nothing is wanted any more, nor under way
        self._count = 0  # records sent
        self._acknowledged: dict[bytes, dict[tuple[int, int], bytes]] = {}  # by topic id
        self._trimmed: dict[tuple[bytes, int], int] = {}
        self.deeds: dict[str, int] = dict.fromkeys(DEEDS, 0)  # that were done
        self._acts: dict[str, Callable[[], None]] = {
            "write": self._write,
            "delete": self._delete,
            "grow": self._grow,
            "alter": self._alter,
            "trim": self._trim,
        }

    def start(self) -> None:
        """Begin."""
        self._soon()

    def settle(self) -> None:
        """The world is healed: leave a topic behind."""
        self._settling = True

    @property
    def settled(self) -> bool:
        """The topic is there, and nothing is going to change it."""
        return self._at_rest

    # ---- deeds ----------------------------------------------------------------------------------

    def _soon(self) -> None:
        self.later(self.ground.chance.delay(f"{self.name}/pause", PAUSE_MEAN_MS), self._act)

    def _act(self) -> None:
        if not self._exists:
            self._create()
        elif self._settling:
            self._at_rest = True
        else:
            self._acts[DEEDS[int(self.draw("deed") * len(DEEDS))]]()

    def _done(self, deed: str) -> None:
        self.deeds[deed] += 1

    def _ask_any(self, request: Request, on_answer: OnAnswer) -> None:
        """Ask any broker, and go on when it has answered or not."""
        brokers = self.ground.brokers
        broker_id = brokers[int(self.draw("broker") * len(brokers))]

        def answered(message: Message | None) -> None:
            on_answer(message)
            self._soon()

        self.ask(broker_id, request, answered, TIMEOUT_MS * 1.5)

    def _create(self) -> None:
        settings = {
            "min.insync.replicas": str(self._plan.min_isr),
            "replog.durability": self._plan.topic_settings.get("replog.durability", "replicated"),
            "segment.ms": "300",
            "retention.ms": "-1",
            "message.timestamp.after.max.ms": str(2**62),
            "message.timestamp.before.max.ms": str(2**62),
            "file.delete.delay.ms": "100",
        }
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=1 + int(self.draw("partitions") * 2),
            replication_factor=len(self.ground.brokers),
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in settings.items()],
        )

        def answered(message: Message | None) -> None:
            if isinstance(message, CreateTopicsResponse):
                error = message.topics[0].error_code
                self._exists = error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                self.refresh()

        self._ask_any(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), answered)

    def _delete(self) -> None:
        def answered(message: Message | None) -> None:
            if isinstance(message, DeleteTopicsResponse):
                error = message.responses[0].error_code
                if error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    self._done("delete")
                    self._exists = False

        topic = DeleteTopicState(name=TOPIC)
        self._ask_any(DeleteTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), answered)

    def _grow(self) -> None:
        count = 1 + max((tp.partition for tp in self.leaders), default=0)
        topic = CreatePartitionsTopic(name=TOPIC, count=min(count + 1, PARTITIONS_MAX))
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

        def answered(message: Message | None) -> None:
            if message is not None:
                self._done("grow")
            self.refresh()

        self._ask_any(request, answered)

    def _alter(self) -> None:
        """The smallest ISR that is enough: never less than the plan's, by which is judged."""
        least = self._plan.min_isr
        wanted = least + int(self.draw("min isr") * (len(self.ground.brokers) - least + 1))
        setting = AlterableConfig(
            name="min.insync.replicas", config_operation=SET, value=str(wanted)
        )
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configs=[setting]
        )

        def answered(message: Message | None) -> None:
            if message is not None:
                self._done("alter")

        self._ask_any(IncrementalAlterConfigsRequest(resources=[resource]), answered)

    def _some_leader(self) -> tuple[TopicPartition, int, bytes] | None:
        """A partition, its leader and the topic's id. Asks for metadata when they are not known."""
        known = [(tp, leader) for tp, (leader, _) in self.leaders.items() if leader >= 0]
        topic_id = self.topic_ids.get(TOPIC)
        if not known or topic_id is None:
            self.refresh()
            self._soon()
            return None
        tp, leader = known[int(self.draw("partition") * len(known))]
        return tp, leader, topic_id

    def _trim(self) -> None:
        found = self._some_leader()
        if found is None:
            return
        tp, leader, topic_id = found
        offsets = [o for p, o in self._acknowledged.get(topic_id, ()) if p == tp.partition]
        offset = offsets[int(self.draw("trim") * len(offsets))] if offsets else 0
        part = DeleteRecordsPartition(partition_index=tp.partition, offset=offset)
        topic = DeleteRecordsTopic(name=TOPIC, partitions=[part])

        def answered(message: Message | None) -> None:
            if isinstance(message, DeleteRecordsResponse):
                told = message.topics[0].partitions[0]
                if not told.error_code:
                    self._done("trim")
            self._soon()

        # Asked for by name: who carries it out, and when, is not known. It is gone from now on.
        key = (topic_id, tp.partition)
        self._trimmed[key] = max(self._trimmed.get(key, 0), offset)
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        self.ask(leader, request, answered, TIMEOUT_MS * 1.5)

    def _write(self) -> None:
        found = self._some_leader()
        if found is None:
            return
        tp, leader, topic_id = found
        values = []
        for _ in range(1 + int(self.draw("records") * RECORDS_MAX)):
            values.append(topic_id + b"/%d" % self._count)
            self._count += 1
        timestamp = WALL_START_MS + int(self.schedule.now_ms)
        batch = build_batch([Record(0, timestamp, None, value) for value in values])
        data = PartitionProduceData(index=tp.partition, records=batch)
        topic = TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])

        def answered(message: Message | None) -> None:
            part = None
            if isinstance(message, ProduceResponse):
                part = message.responses[0].partition_responses[0]
            if part is not None and not part.error_code:
                self._done("write")
                kept = self._acknowledged.setdefault(topic_id, {})
                for index, value in enumerate(values):
                    kept[tp.partition, part.base_offset + index] = value
            else:
                self.refresh()
            self._soon()

        self.ask(leader, request, answered, TIMEOUT_MS * 1.5)

    # ---- the end --------------------------------------------------------------------------------

    def audit(self, topic_id: bytes, tp: TopicPartition, log: bytes, lost: Iterable[int]) -> None:
        """`log` is all that is left of a partition, but for offsets that were said to be lost."""
        found = {record.offset: record.value for record in read_records(log)}
        for value in found.values():
            if value is None or not value.startswith(topic_id):
                raise Violation("a deleted topic's records never come back", f"{tp}: {value!r}")
        trimmed, excused = self._trimmed.get((topic_id, tp.partition), 0), set(lost)
        for (partition, offset), value in self._acknowledged.get(topic_id, {}).items():
            if partition != tp.partition or offset < trimmed or offset in excused:
                continue
            if found.get(offset) != value:
                raise Violation("no acknowledged record is lost", f"{tp}: {value!r} at {offset}")
