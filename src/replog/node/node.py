"""The broker: one object, one method that matters.

`Node.step` takes one input and returns what is to be done about it. It never waits, never reads a
clock and never draws a random number that it was not given. All that a broker remembers hangs here:

- `membership`  registration, who is controller, the cluster image and how it is kept up to date
- `lease`       whether it may still take itself for the leader that it was told to be
- `confirming`  whether it leads a partition, by the coordinator's own account
- `controlling` the controller's work, while this broker is the controller
- `dynamic_config` settings of this broker that changed while it runs
- `forwarding`  clients' admin requests on their way to the controller
- `partitions`  the replicas on this broker, as leader or follower
- `upkeep`      retention and compaction of their logs, and requests to delete records
- `fetchers`    one conversation with each leader that this broker follows
- `throttles`   how fast replicas out of sync are copied
- `syncs`       logs on their way to stable storage
- `recompression` produced batches that need work before they are stored
- `waits`       requests that are parked until an offset is committed or data arrives
- `groups`      consumer groups whose offsets partition this broker leads
- `producer_ids` blocks of producer ids
- `transactional_ids` who may write under a transactional id whose state partition this broker leads
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from replog.log.disk import Disk
from replog.model.cluster import BrokerRecord, ClusterState, Endpoint
from replog.model.config import BrokerConfig
from replog.model.coordination import Operation
from replog.model.ids import GROUP_OFFSETS_TOPIC, NO_EPOCH, TRANSACTION_STATE_TOPIC
from replog.model.inputs import (
    ConnectionClosed,
    CoordinatorChanged,
    CoordinatorReach,
    CoordinatorRead,
    CoordinatorWritten,
    Input,
    JobDone,
    PeerFailed,
    PeerReplied,
    Received,
    SessionEnded,
    SessionStarted,
    StopRequested,
    Tick,
)
from replog.model.messages import Message
from replog.model.outputs import (
    Channel,
    CloseConnection,
    CoordinatorWrite,
    Level,
    Output,
    ReadCoordinator,
    Reply,
    Report,
    RunJob,
    Send,
)
from replog.node.confirming import Confirming
from replog.node.controlling import Controlling
from replog.node.dynamic_config import DynamicConfig
from replog.node.early_requests import EarlyRequests
from replog.node.fetchers import Fetchers
from replog.node.forwarding import Forwarding
from replog.node.groups import Groups
from replog.node.lease import Lease
from replog.node.log_folder import FolderSetup
from replog.node.log_tasks import RunTasks, one_by_one
from replog.node.membership import Membership
from replog.node.partitions import Partitions
from replog.node.producer_ids import ProducerIds
from replog.node.reach import Reach
from replog.node.recompression import Recompression
from replog.node.router import route
from replog.node.sessions import FetchSessions
from replog.node.syncs import Syncs
from replog.node.throttles import Throttles
from replog.node.timers import Timers
from replog.node.transactional_ids import TransactionalIds
from replog.node.upkeep import Upkeep
from replog.node.waits import Waits

PeerAnswer = PeerReplied | PeerFailed


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """What a broker is born with."""

    config: BrokerConfig
    cluster_id: str
    endpoints: tuple[Endpoint, ...]  # the first is the one that other brokers use
    api_ranges: tuple[tuple[int, int, int], ...]  # (key, lowest, highest) version advertised
    boot_id: str  # of the host: tells a restarted process from a restarted machine
    clean_start: bool = True  # the previous run on this folder ended in good order
    # Of the log folders, with commas between them: tells that one was replaced. Empty: not known.
    folder_id: str = ""
    run_tasks: RunTasks = one_by_one  # at the start and at the end


class Node:
    """One broker."""

    def __init__(
        self,
        setup: NodeSetup,
        folders: Disk | Sequence[FolderSetup],
        rng: random.Random,
        *,
        now_ms: float,
        wall_ms: int,
    ) -> None:
        """`folders` are those of `log.dirs`, or the one disk of a broker that has only one."""
        self.setup = setup
        self.config = setup.config
        self.broker_id = setup.config.node_id
        self.rng = rng
        self.now_ms = now_ms  # monotonic; for every interval
        self.wall_ms = wall_ms  # wall clock; for record timestamps alone
        self.broker_epoch = NO_EPOCH  # of the registration that holds now
        self.last_broker_epoch = NO_EPOCH  # of the newest registration that this folder knows of
        self.cluster = ClusterState(cluster_id=setup.cluster_id)
        self.outputs: list[Output] = []
        self.timers = Timers()
        # When a Tick is due at the latest; infinity when nothing waits for time.
        self.next_deadline_ms = self.timers.next_deadline_ms
        self.reach = Reach()
        self.lease = Lease(self)
        self.confirming = Confirming(self)
        self.early_requests = EarlyRequests(self, route)
        self._token = 0
        self._peer_waiters: dict[int, Callable[[PeerAnswer], None]] = {}
        self._write_waiters: dict[int, Callable[[CoordinatorWritten], None]] = {}
        self._read_waiters: dict[int, Callable[[CoordinatorRead], None]] = {}
        self._job_waiters: dict[int, Callable[[JobDone], None]] = {}
        self.dynamic_config = DynamicConfig(self)
        self.waits = Waits(self)
        self.fetch_sessions = FetchSessions(self)
        self.syncs = Syncs(self)
        self.recompression = Recompression(self)
        if not isinstance(folders, Sequence):
            folders = [FolderSetup(setup.config.log_dirs[0], folders)]
        self.partitions = Partitions(self, folders)
        self.upkeep = Upkeep(self)
        self.throttles = Throttles(self)
        self.fetchers = Fetchers(self)
        self.membership = Membership(self)
        self.controlling = Controlling(self)
        self.forwarding = Forwarding(self)
        self.groups = Groups(self)
        self.producer_ids = ProducerIds(self)
        self.transactional_ids = TransactionalIds(self)
        # Who keeps its state in which topic: it must know when this broker begins or ends to lead.
        self.coordinators: dict[str, Groups | TransactionalIds] = {
            GROUP_OFFSETS_TOPIC: self.groups,
            TRANSACTION_STATE_TOPIC: self.transactional_ids,
        }

    # ---- the one door -------------------------------------------------------------------

    def start(self) -> list[Output]:
        """Load what is on disk. Called once, before the first step."""
        self.partitions.load()
        self.lease.start()
        return self._take_outputs()

    def step(self, event: Input, now_ms: float, wall_ms: int) -> list[Output]:
        """Take one input; return what is to be done, in order."""
        if self.membership.departure.finished:
            return []  # the logs are closed: what still comes in must not be taken for a bad disk
        gap_ms = now_ms - self.now_ms
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        if gap_ms > self.lease.gap_ms:
            self.lease.overslept(gap_ms)
        self._dispatch(event)
        self.timers.fire(now_ms)
        self.waits.drain()
        return self._take_outputs()

    def _take_outputs(self) -> list[Output]:
        outputs = self.outputs
        self.outputs = []
        return outputs

    def _dispatch(self, event: Input) -> None:
        match event:
            case Received():
                route(self, event)
            case PeerReplied() | PeerFailed():
                if isinstance(event, PeerReplied):
                    self.reach.answered(event.broker_id)
                else:
                    self.reach.failed(event.broker_id, self.now_ms)
                waiter = self._peer_waiters.pop(event.token, None)
                if waiter is not None:
                    waiter(event)
            case CoordinatorWritten():
                self._write_waiters.pop(event.token)(event)
            case CoordinatorRead():
                self._read_waiters.pop(event.token)(event)
            case JobDone():
                self._job_waiters.pop(event.token)(event)
            case ConnectionClosed():
                self.waits.connection_closed(event.connection)
            case Tick():
                pass  # timers fire below
            case _:
                self._dispatch_membership(event)

    def _dispatch_membership(
        self,
        event: CoordinatorChanged
        | CoordinatorReach
        | SessionStarted
        | SessionEnded
        | StopRequested,
    ) -> None:
        match event:
            case CoordinatorChanged():
                self.membership.on_changed(event.paths)
            case CoordinatorReach():
                self.membership.on_reach(event.reachable)
            case SessionStarted():
                self.membership.on_session_started(event.session, event.patience_ms)
            case SessionEnded():
                self.membership.on_session_ended(event.reason)
            case StopRequested():
                self.membership.on_stop_requested()
            case _:
                assert_never(event)

    # ---- what the parts of a node emit with --------------------------------------------

    def reply(self, request: Received, message: Message | None) -> None:
        """Answer a request, now or after it was parked. None: no answer is expected (acks=0)."""
        self.outputs.append(Reply(request.connection, request.token, message))

    def close(self, request: Received, reason: str) -> None:
        """Close the connection of a request that can't be answered."""
        self.outputs.append(CloseConnection(request.connection, reason))

    def report(self, level: Level, text: str) -> None:
        """One line in the operator's log."""
        self.outputs.append(Report(level, text))

    def send(
        self,
        broker: BrokerRecord,
        message: Message,
        on_answer: Callable[[PeerAnswer], None],
        *,
        channel: Channel = Channel.CONTROL,
        lane: int = 0,
        timeout_ms: int | None = None,
    ) -> None:
        """Ask a peer; `on_answer` runs in the step that brings the answer or the failure."""
        own = self.setup.endpoints[0].name
        endpoint = broker.endpoint(own) or next(iter(broker.endpoints), None)
        token = self._next_token()
        self._peer_waiters[token] = on_answer
        if endpoint is None:
            # A new controller knows of brokers that died before it took over by what the last one
            # stored of them. Until it has told the last part of what becomes of their partitions,
            # they are in the table, registered nowhere.
            unknown = PeerFailed(token, broker.broker_id, "it is not registered")
            self.timers.call_at(self.now_ms, lambda: self._dispatch(unknown))
            return
        limit = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        self.outputs.append(
            Send(
                broker.broker_id,
                broker.broker_epoch,
                endpoint.host,
                endpoint.port,
                channel,
                token,
                message,
                limit,
                lane,
            )
        )

    def write_coordinator(
        self, operations: tuple[Operation, ...], on_done: Callable[[CoordinatorWritten], None]
    ) -> None:
        """One atomic multi; `on_done` runs in the step that brings its outcome."""
        token = self._next_token()
        self._write_waiters[token] = on_done
        self.outputs.append(CoordinatorWrite(token, operations))

    def read_coordinator(
        self, roots: tuple[str, ...], on_done: Callable[[CoordinatorRead], None]
    ) -> None:
        """Read subtrees; `on_done` runs in the step that brings them."""
        token = self._next_token()
        self._read_waiters[token] = on_done
        self.outputs.append(ReadCoordinator(token, roots))

    def run_job(
        self,
        work: Callable[[], object],
        on_done: Callable[[JobDone], None],
        *,
        for_request: bool = False,
    ) -> None:
        """Do slow work outside the step; `on_done` runs in the step that brings its end."""
        token = self._next_token()
        self._job_waiters[token] = on_done
        self.outputs.append(RunJob(token, work, for_request))

    def _next_token(self) -> int:
        self._token += 1
        return self._token
