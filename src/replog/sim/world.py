"""The simulated world: hosts, a network, a coordinator, clients, and an oracle that
watches."""

import itertools
import random
from collections.abc import Sequence
from functools import lru_cache

from replog.model.cluster import Endpoint
from replog.model.config import BrokerConfig
from replog.model.ids import TopicPartition
from replog.model.inputs import PeerIdentity
from replog.model.messages import Message
from replog.model.messages.create_topics import CreateTopicsRequest
from replog.model.messages.fetch import FetchRequest
from replog.model.messages.find_coordinator import FindCoordinatorRequest
from replog.model.messages.init_producer_id import InitProducerIdRequest
from replog.model.messages.metadata import MetadataRequest
from replog.model.messages.offset_commit import OffsetCommitRequest
from replog.model.messages.offset_fetch import OffsetFetchRequest
from replog.model.messages.produce import ProduceRequest
from replog.node.log_folder import FolderSetup
from replog.node.node import Node, NodeSetup
from replog.sim.admin import SimAdmin
from replog.sim.broker import Life, Observer
from replog.sim.chance import Chance
from replog.sim.checkers import Oracle
from replog.sim.client import SimClient
from replog.sim.committers import SimCommitter
from replog.sim.connection import Connection, Dialer
from replog.sim.consumers import ConsumerPlan, SimConsumer
from replog.sim.coordinator import CoordinatorService
from replog.sim.doubts import Doubts
from replog.sim.fault_kinds import Promise
from replog.sim.faults import Faults
from replog.sim.history import History
from replog.sim.host import Host
from replog.sim.lives import TOPIC, TopicLives
from replog.sim.mem_disk import CrashNow
from replog.sim.mover import SimMover
from replog.sim.network import Network
from replog.sim.plan import CALM, Plan
from replog.sim.producers import SimProducer
from replog.sim.schedule import Schedule
from replog.sim.transfer import Framed, Plain
from replog.wire.versions import api_ranges

PORT = 9092
# What simulated clients need: leader epochs in metadata and fetches, topic ids in metadata.
CLIENT_VERSIONS: dict[type[Message], tuple[int, int]] = {
    ProduceRequest: (3, 13),
    FetchRequest: (9, 18),
    MetadataRequest: (10, 13),
    CreateTopicsRequest: (2, 7),
    InitProducerIdRequest: (0, 5),
    FindCoordinatorRequest: (4, 6),
    OffsetCommitRequest: (2, 10),
    OffsetFetchRequest: (8, 10),
}
COMMIT_INTERVAL_MS = 150.0
CLUSTER_ID = "simulated-cluster-0000"
HOST_CLOCK_STEP_MS = 1_000_000.0  # between the monotonic clocks of two hosts: never to be compared


@lru_cache(maxsize=256)
def _broker_config(
    broker_id: int, folders: int, settings: tuple[tuple[str, str], ...]
) -> BrokerConfig:
    return BrokerConfig(
        {
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://b{broker_id}:{PORT}",
            "log.dirs": ",".join(f"/data/{index}" for index in range(folders)),
            "broker.rack": f"r{broker_id}",
            "auto.create.topics.enable": "false",
            **dict(settings),
        }
    )


class World:
    """Everything that exists in one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.brokers = tuple(range(plan.brokers))
        self.schedule = Schedule()
        self.chance = Chance(plan.seed)
        self.network = Network(self.schedule, self.chance, plan.weather)
        self.coordinator = CoordinatorService(
            self.schedule, self.chance, self.network, plan.coordinator
        )
        self.oracle = Oracle(self.coordinator.tree, plan.min_isr)
        self.observer: Observer = self.oracle
        self.coordinator.on_write = self.oracle.wrote
        self.history = History()
        self.hosts = self._hosts()
        self.doubts = Doubts(
            self.hosts,
            self.coordinator.tree,
            self.oracle.records,
            promise=plan.promise,
            at_once_max=plan.min_isr - 1,
        )
        self.oracle.replicas.doubted = self.doubts.unknown
        self.partitions = [
            TopicPartition(name, index) for name, count in plan.topics for index in range(count)
        ]
        self.faults = Faults(self, plan)
        self.client_names: list[str] = []
        self._connection_numbers = itertools.count(1)
        self.admin = SimAdmin(self, "admin", plan)
        unclean = plan.promise is Promise.NONE
        self.mover = (
            SimMover(self, "mover", self.partitions, unclean=unclean) if plan.moves else None
        )
        self.lives = TopicLives(self, "lives", plan) if plan.lives else None
        self.producers = [
            SimProducer(
                self,
                f"p{index}",
                self.partitions,
                plan=producer_plan,
                history=self.history,
                witness=self.oracle,
            )
            for index, producer_plan in enumerate(plan.producers)
        ]
        self.consumers = [
            self._consumer(f"c{index}", consumer_plan)
            for index, consumer_plan in enumerate(plan.consumers)
        ]
        self.committers = [
            SimCommitter(
                self,
                f"k{index}",
                self.partitions[index % len(self.partitions)],
                interval_ms=COMMIT_INTERVAL_MS,
                history=self.history,
                witness=self.oracle,
            )
            for index in range(plan.committers)
        ]
        clients = (self.admin, *self.producers, *self.consumers, *self.committers)
        self.client_names.extend(client.name for client in clients)
        if plan.framed:
            for client in clients:
                self._speak_some_version(client)

    def _hosts(self) -> list[Host]:
        skews = self.chance.at("clock skew")
        return [
            Host(
                broker_id,
                self.plan.log_folders,
                clock_ms=HOST_CLOCK_STEP_MS * (broker_id + 1),
                wall_skew_ms=skews.randint(-2000, 2000),
            )
            for broker_id in self.brokers
        ]

    # ---- parts --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin: all brokers start, clients as soon as the topics are made."""
        for host in self.hosts:
            self.start_process(host)
        self.admin.start(self._topics_made)
        self.faults.start()

    def _topics_made(self) -> None:
        for producer in self.producers:
            producer.start()
        for consumer in self.consumers:
            consumer.start()
        for committer in self.committers:
            committer.start()
        if self.mover is not None:
            self.mover.start()
        if self.lives is not None:
            self.lives.start()

    def late_consumer(self) -> SimConsumer:
        """One more consumer, which begins at offset 0 now."""
        plan = ConsumerPlan(max_wait_ms=50, session=False)
        consumer = self._consumer(f"c{len(self.consumers)}", plan)
        self.consumers.append(consumer)
        consumer.start()
        return consumer

    def _consumer(self, name: str, plan: ConsumerPlan) -> SimConsumer:
        return SimConsumer(
            self, name, self.partitions, plan=plan, history=self.history, witness=self.oracle
        )

    def _speak_some_version(self, client: SimClient) -> None:
        """Clients of all ages: each speaks one of the versions that have what it relies on."""
        stream = self.chance.at(f"{client.name}/versions")
        for kind, (oldest, newest) in CLIENT_VERSIONS.items():
            client.versions[kind] = stream.randint(oldest, newest)

    def calm_down(self) -> None:
        """No faults any more, and a quick network."""
        self.network.weather = CALM
        self.faults.heal()
        if self.mover is not None:
            self.mover.settle()
        if self.lives is not None:
            self.lives.settle()

    def restart_all(self) -> None:
        """Once more, of a healed world: each process is killed, or told to stop."""
        stream = self.chance.at("last restart")
        for host in self.hosts:
            assert host.life is not None
            if stream.random() < 0.5:
                host.life.die("killed once more")
            else:
                host.life.stop()

    def all_partitions(self) -> list[TopicPartition]:
        """Of all topics that there are now."""
        names = (record.name for record in self.oracle.records.records.values())
        found = (name.rpartition("-") for name in sorted(names))
        changing = [TopicPartition(name, int(index)) for name, _, index in found if name == TOPIC]
        return self.partitions + changing

    # ---- brokers ------------------------------------------------------------------------------

    def start_process(self, host: Host) -> None:
        """A new process on the disk of `host`; nothing else is left of the last one."""
        try:
            folders = host.claim(CLUSTER_ID)
        except CrashNow as crash:
            host.crash()
            host.timeline.note(self.schedule.now_ms, f"crashed while starting: {crash}")
            self.faults.died(host, failed=False)
            return
        host.life = life = Life(self, host, folders)
        host.timeline.note(self.schedule.now_ms, f"process {life.name} starts")
        life.start()

    def make_node(
        self, host: Host, folders: Sequence[FolderSetup], *, now_ms: float, wall_ms: int
    ) -> Node:
        """The production node, as `runtime.broker` makes it."""
        config = _broker_config(host.broker_id, len(host.disks), tuple(self.plan.settings.items()))
        setup = NodeSetup(
            config=config,
            cluster_id=CLUSTER_ID,
            endpoints=(Endpoint("PLAINTEXT", host.place, PORT),),
            api_ranges=api_ranges(),
            boot_id=host.boot_id,
            folder_id=host.folder_id,
        )
        rng = random.Random(f"{self.plan.seed}/node/{host.broker_id}/{host.incarnations}")
        return Node(setup, folders, rng, now_ms=now_ms, wall_ms=wall_ms)

    def died(self, host: Host, why: str, *, failed: bool) -> None:
        """A process is gone."""
        self.faults.died(host, failed=failed)

    # ---- connections --------------------------------------------------------------------------

    def dial(
        self, dialer: Dialer, source: str, broker_id: int, peer: PeerIdentity | None = None
    ) -> Connection:
        """Open a connection from a place to a broker."""
        host = self.hosts[broker_id]
        return Connection(
            self.network,
            next(self._connection_numbers),
            dialer,
            link=(source, host.place),
            find=lambda: host.life,
            courier=Framed(source, peer=peer is not None) if self.plan.framed else Plain(),
            client_id=source,
            peer=peer,
        )
