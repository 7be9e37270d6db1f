"""A few real nodes that share a coordinator in memory, and a clock that stands until it is moved.

Everything that nodes send each other arrives in order and at once, unless a test says otherwise:
brokers can be killed, paused and cut off, a message can be lost, the answer of the coordinator too.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from replog.log.disk import DiskError
from replog.model.cluster import Endpoint
from replog.model.config import BrokerConfig
from replog.model.coordination import Operation, WriteError, WriteFailed, WriteResult
from replog.model.ids import TopicPartition
from replog.model.inputs import (
    CoordinatorChanged,
    CoordinatorRead,
    CoordinatorWritten,
    Input,
    JobDone,
    PeerFailed,
    PeerIdentity,
    PeerReplied,
    Received,
    SessionEnded,
    SessionStarted,
    StopRequested,
    Tick,
)
from replog.model.messages import Message
from replog.model.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from replog.model.messages.fetch import FetchResponse
from replog.model.outputs import (
    Channel,
    CloseConnection,
    CoordinatorWrite,
    Output,
    ReadCoordinator,
    Reply,
    Report,
    RunJob,
    Send,
    Stopped,
)
from replog.model.records import FileRange
from replog.node.log_folder import FolderSetup
from replog.node.node import Node, NodeSetup
from replog.sim.mem_coordination import MemTree
from replog.sim.mem_disk import MemDisk

CLUSTER_ID = "town"
DEFAULTS = {
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "200",
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
}
M = TypeVar("M", bound=Message)


@dataclass(eq=False)
class Life:
    """One process of a broker."""

    broker_id: int
    node: Node
    session: str | None = None
    alive: bool = True
    paused: bool = False
    inbox: deque[Input] = field(default_factory=deque)
    stopped: Stopped | None = None
    # connection number -> what another broker asked
    asked: dict[int, "UnderWay"] = field(default_factory=dict)


@dataclass(eq=False)
class UnderWay:
    """What a broker sent to another, until its answer has arrived."""

    sender: Life
    sender_epoch: int
    send: Send
    deadline_ms: float
    answer: Message | None = None  # waits for those before it

    @property
    def link(self) -> tuple[int, int, int, int, Channel, int]:
        """The connection it is on: answers arrive in order, and a late one breaks it."""
        send = self.send
        registrations = (self.sender_epoch, send.broker_epoch)
        return (id(self.sender), send.broker_id, *registrations, send.channel, send.lane)


@dataclass
class Town:
    """The world of these tests."""

    brokers: tuple[int, ...] = (0, 1, 2)
    settings: dict[str, str] = field(default_factory=dict)
    log_folders: int = 1  # of each broker
    now_ms: float = 0.0
    tree: MemTree = field(default_factory=MemTree)
    lives: dict[int, Life] = field(default_factory=dict)
    disks: dict[int, MemDisk] = field(default_factory=dict)
    further_disks: dict[tuple[int, int], MemDisk] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    sent: list[tuple[int, int, Message]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    # What a test breaks: each says True when the thing is lost.
    lose_send: Callable[[int, int, Message], bool] = lambda source, target, message: False
    lose_reply: Callable[[int, int, Message], bool] = lambda source, target, message: False
    held_writes: list[tuple[Life, Input]] | None = None  # answers that are late; None: none is
    lose_write: Callable[[int, tuple[Operation, ...]], bool] = lambda broker, ops: False
    lose_write_reply: Callable[[int, tuple[Operation, ...]], bool] = lambda broker, ops: False
    refused: set[tuple[int, int]] = field(default_factory=set)  # who can't connect to whom
    coordinator_down: bool = False
    cut_from_coordinator: set[int] = field(default_factory=set)
    boots: dict[int, str] = field(default_factory=dict)  # of hosts that restarted
    folders: dict[int, str] = field(default_factory=dict)  # ids of log folders that were replaced
    disk_delays_ms: dict[int, float] = field(default_factory=dict)  # of brokers with slow devices

    def __post_init__(self) -> None:
        self._queue: deque[tuple[Life, Input]] = deque()
        self._answers: dict[int, Message | None] = {}
        self._connection = 0
        self._under_way: list[UnderWay] = []
        self._jobs: list[tuple[float, Life, RunJob]] = []  # of slow devices, by when they end
        self._seed = 0
        self._wrote_while_cut: list[tuple[Life, int]] = []

    # ---- processes -------------------------------------------------------------------------

    def start(self, *brokers: int) -> None:
        """Start brokers, all if none is named, and let things settle."""
        for broker_id in brokers or self.brokers:
            self._seed += 1
            config = BrokerConfig({"node.id": str(broker_id)} | DEFAULTS | self.settings)
            setup = NodeSetup(
                config=config,
                cluster_id=CLUSTER_ID,
                endpoints=(Endpoint("PLAINTEXT", "localhost", 9092 + broker_id),),
                api_ranges=(),
                boot_id=self.boots.get(broker_id, "boot"),
                folder_id=self.folders.get(broker_id, f"folder {broker_id}"),
            )
            disks = [self.disk(broker_id, index) for index in range(self.log_folders)]
            folders = [FolderSetup(f"/logs/{index}", disk) for index, disk in enumerate(disks)]
            node = Node(
                setup, folders, random.Random(self._seed), now_ms=self.now_ms, wall_ms=self.wall_ms
            )
            life = Life(broker_id, node)
            self.lives[broker_id] = life
            self._carry_out(life, node.start())
            self.begin_session(broker_id)
        self.run()

    def disk(self, broker_id: int, folder: int = 0) -> MemDisk:
        """Of a broker's folder; the first one's are in `disks`, by broker."""
        if folder == 0:
            return self.disks.setdefault(broker_id, MemDisk())
        return self.further_disks.setdefault((broker_id, folder), MemDisk())

    def begin_session(self, broker_id: int) -> None:
        life = self.lives[broker_id]
        life.session = self.tree.begin_session(broker_id)
        self.post(life, SessionStarted(life.session))

    def expire(self, broker_id: int) -> None:
        """The coordinator gives the session up; the broker is told, and is without one."""
        life = self.lives[broker_id]
        if life.session is not None:
            session, life.session = life.session, None
            self.post(life, SessionEnded("expired"))
            self._hint(self.tree.end_session(session))

    def kill(self, broker_id: int) -> None:
        self._end(self.lives[broker_id])

    def _end(self, life: Life) -> None:
        life.alive = False
        for sent in life.asked.values():
            self._break_link(sent, "disconnected")
        if life.session is not None:
            self._hint(self.tree.end_session(life.session))

    def cut_power(self, *brokers: int) -> None:
        """The hosts go down all at once: unsynced bytes are lost, and they come back later."""
        for broker_id in brokers:
            self.lives[broker_id].alive = False
        for broker_id in brokers:
            self.kill(broker_id)
            self._seed += 1
            self.disks[broker_id].power_cut(random.Random(self._seed))
            self.boots[broker_id] = f"boot {self._seed}"

    def replace_disk(self, broker_id: int) -> None:
        """The folder of a broker that does not run is empty from now on."""
        self._seed += 1
        self.disks[broker_id] = MemDisk()
        self.folders[broker_id] = f"folder {self._seed}"

    def stop(self, broker_id: int) -> None:
        """SIGTERM."""
        self.post(self.lives[broker_id], StopRequested())

    def pause(self, broker_id: int) -> None:
        self.lives[broker_id].paused = True

    def resume(self, broker_id: int) -> None:
        life = self.lives[broker_id]
        life.paused = False
        while life.inbox:
            self._queue.append((life, life.inbox.popleft()))

    def node(self, broker_id: int) -> Node:
        return self.lives[broker_id].node

    @property
    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now_ms)

    @property
    def controller(self) -> int:
        """The broker that is controller and active; there must be exactly one."""
        active = [
            life.broker_id
            for life in self.lives.values()
            if life.alive and not life.paused and life.node.controlling.active
        ]
        assert len(active) == 1, active
        return active[0]

    # ---- time ------------------------------------------------------------------------------

    def post(self, life: Life, event: Input) -> None:
        self._queue.append((life, event))

    def run(self, ms: float = 0) -> None:
        """Let everything happen that happens within `ms` from now on."""
        end = self.now_ms + ms
        while True:
            self._drain()
            due = [
                life.node.next_deadline_ms()
                for life in self.lives.values()
                if life.alive and not life.paused
            ]
            due += [deadline for deadline, *_ in self._jobs]
            due += [sent.deadline_ms for sent in self._under_way]
            soonest = min(due, default=float("inf"))
            if soonest > end:
                break
            self.now_ms = max(self.now_ms, soonest)
            for life in list(self.lives.values()):
                if life.alive and not life.paused and life.node.next_deadline_ms() <= self.now_ms:
                    self.post(life, Tick())
            self._expire_sends()
        self.now_ms = end

    def run_until(self, condition: Callable[[], object], limit_ms: float = 20_000) -> None:
        """Let time pass until `condition` holds."""
        end = self.now_ms + limit_ms
        self.run()
        while not condition():
            assert self.now_ms < end, "it never came true; " + "\n".join(self.reports[-30:])
            self.run(10)

    def _end_jobs(self) -> None:
        ended = [entry for entry in self._jobs if entry[0] <= self.now_ms]
        self._jobs = [entry for entry in self._jobs if entry[0] > self.now_ms]
        for _, life, job in ended:
            if life.alive:
                self.post(life, JobDone(job.token, _run(job)))

    def _drain(self) -> None:
        steps = 0
        while self._queue or any(ends_ms <= self.now_ms for ends_ms, *_ in self._jobs):
            self._end_jobs()
            if not self._queue:
                continue
            steps += 1
            assert steps < 50_000, "the nodes never come to rest"
            life, event = self._queue.popleft()
            if not life.alive:
                continue
            if life.paused:
                life.inbox.append(event)
                continue
            self._carry_out(life, life.node.step(event, self.now_ms, self.wall_ms))

    def _expire_sends(self) -> None:
        for sent in [sent for sent in self._under_way if sent.deadline_ms <= self.now_ms]:
            self._break_link(sent, "timed out")

    # ---- outputs ---------------------------------------------------------------------------

    def _carry_out(self, life: Life, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Reply():
                    self._reply(life, output)
                case Send():
                    self._send(life, output)
                case CoordinatorWrite():
                    self._write(life, output)
                case ReadCoordinator():
                    away = self.coordinator_down or life.broker_id in self.cut_from_coordinator
                    nodes = None if away else self.tree.read(output.roots)
                    self.post(life, CoordinatorRead(output.token, nodes))
                case RunJob():
                    ends_ms = self.now_ms + self.disk_delays_ms.get(life.broker_id, 0)
                    self._jobs.append((ends_ms, life, output))
                case Report():
                    self.reports.append(f"{self.now_ms:.0f} broker {life.broker_id}: {output.text}")
                case Stopped():
                    life.stopped = output
                    self._end(life)
                case CloseConnection():
                    self.closed.append(output.reason)
                case _:
                    pass

    def _write(self, life: Life, output: CoordinatorWrite) -> None:
        result: WriteResult
        if (
            self.coordinator_down
            or life.broker_id in self.cut_from_coordinator
            or self.lose_write(life.broker_id, output.operations)
        ):
            result = WriteFailed(WriteError.UNKNOWN)
        elif life.session is None:
            result = WriteFailed(WriteError.SESSION_EXPIRED)
        else:
            result, paths = self.tree.write(life.session, output.operations)
            self._hint(paths)
            if self.lose_write_reply(life.broker_id, output.operations):
                result = WriteFailed(WriteError.UNKNOWN)
        answer = CoordinatorWritten(output.token, result)
        if self.held_writes is None:
            self.post(life, answer)
        else:
            self.held_writes.append((life, answer))

    def release_writes(self) -> None:
        """What was held arrives."""
        held, self.held_writes = self.held_writes or [], None
        self._queue.extend(held)

    def _hint(self, paths: frozenset[str]) -> None:
        for life in self.lives.values():
            if life.alive and paths and life.session is not None:
                self.post(life, CoordinatorChanged(paths))

    def _send(self, life: Life, output: Send) -> None:
        target = self.lives.get(output.broker_id)
        route = (life.broker_id, output.broker_id)
        if target is None or not target.alive or route in self.refused:
            self._fail_send(life, output, "refused")
            return
        if target.node.broker_epoch != output.broker_epoch:
            self._fail_send(life, output, "another registration")
            return
        sent = UnderWay(life, life.node.broker_epoch, output, self.now_ms + output.timeout_ms)
        self._under_way.append(sent)
        if self.lose_send(*route, output.message):
            return
        self.sent.append((*route, output.message))
        self._connection += 1
        target.asked[self._connection] = sent
        peer = PeerIdentity(life.broker_id, sent.sender_epoch)
        version = type(output.message).VERSIONS[1]
        self.post(target, Received(self._connection, 0, version, output.message, peer=peer))

    def _fail_send(self, life: Life, send: Send, reason: str) -> None:
        self.post(life, PeerFailed(send.token, send.broker_id, reason))

    def _break_link(self, broken: UnderWay, reason: str) -> None:
        """The connection on which `broken` is under way breaks, unless it is answered."""
        failed = [sent for sent in self._under_way if sent.link == broken.link]
        if broken in failed:
            self._under_way = [sent for sent in self._under_way if sent not in failed]
            for sent in failed:
                self._fail_send(sent.sender, sent.send, reason)

    def _reply(self, life: Life, output: Reply) -> None:
        sent = life.asked.pop(output.connection, None)
        message = output.message
        if sent is None:
            self._answers[output.connection] = message
            return
        if message is None or self.lose_reply(life.broker_id, sent.sender.broker_id, message):
            return  # it is waited for in vain
        sent.answer = _carried(message)
        for other in [other for other in self._under_way if other.link == sent.link]:
            if other.answer is None:
                break
            self._under_way.remove(other)
            self.post(other.sender, PeerReplied(other.send.token, life.broker_id, other.answer))

    # ---- clients ---------------------------------------------------------------------------

    def ask_later(self, broker_id: int, message: Message, **fields: Any) -> int:
        """Send a client's request; `answer` has what came back."""
        self._connection += 1
        version = fields.pop("version", type(message).VERSIONS[1])
        request = Received(
            self._connection,
            0,
            version,
            message,
            client_host="test",
            listener="PLAINTEXT",
            **fields,
        )
        self.post(self.lives[broker_id], request)
        return self._connection

    def answered(self, connection: int) -> bool:
        return connection in self._answers

    def answer(self, connection: int, kind: type[M]) -> M:
        message = self._answers[connection]
        assert isinstance(message, kind), message
        return message

    def ask(self, broker_id: int, message: Message, kind: type[M], **fields: Any) -> M:
        """Send a client's request, and let time pass until it is answered."""
        connection = self.ask_later(broker_id, message, **fields)
        self.run_until(lambda: self.answered(connection), limit_ms=60_000)
        return self.answer(connection, kind)

    def create(self, name: str, *assignment: list[int], at: int | None = None) -> None:
        """Make a topic with this assignment."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in enumerate(assignment)
            ],
        )
        message = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        asked = self.controller if at is None else at
        result = self.ask(asked, message, CreateTopicsResponse).topics[0]
        assert result.error_code == 0, result

    # ---- what is seen ----------------------------------------------------------------------

    def seen(self, name: str) -> dict[int, list[tuple[int, list[int]]]]:
        """(leader, ISR) of every partition of a topic, by broker that says so."""
        return {
            life.broker_id: [
                (record.leader, list(record.isr))
                for record in life.node.cluster.topics[name].partitions
            ]
            for life in self.lives.values()
            if life.alive and not life.paused
        }

    def everybody_sees(self, name: str, *rows: tuple[int, list[int]]) -> bool:
        """Whether every live broker shows exactly these leaders and ISRs."""
        return all(shown == list(rows) for shown in self.seen(name).values())

    def record(self, broker_id: int, name: str, partition: int = 0) -> Any:
        return self.node(broker_id).cluster.partition(TopicPartition(name, partition))


def _run(job: RunJob) -> str | None:
    try:
        job.work()
    except DiskError as error:
        return str(error)
    return None


def _carried(message: Message) -> Message:
    """What arrives at the other end: records in memory, in a buffer of the receiver's own."""
    if isinstance(message, FetchResponse):
        for topic in message.responses:
            for partition in topic.partitions:
                records = partition.records
                if isinstance(records, FileRange):
                    partition.records = memoryview(bytearray(records.read()))
                elif isinstance(records, bytes):
                    partition.records = memoryview(bytearray(records))
    return message
