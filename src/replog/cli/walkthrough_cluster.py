"""The cluster of the walk-through: three real brokers, a topic, and ways to look at both."""

import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from replog.cli.cluster_view import add_replicas, explain, topics
from replog.cli.errors import Failure
from replog.cli.ports import free_ports
from replog.cli.topic_create import assign, create_topic
from replog.cli.up import READY_TIMEOUT_S, local_defaults
from replog.cli.walkthrough import (
    ASSIGNMENT,
    BROKERS,
    SHIFT,
    START_INDEX,
    Observation,
    observe,
)
from replog.model.coordination import StoredNode
from replog.model.messages.create_topics import CreatableTopic
from replog.runtime.client import AdminClient, ClientError
from replog.runtime.coordination.opening import open_coordination
from replog.runtime.coordination.port import Coordination, CoordinationError
from replog.runtime.local_cluster import ClusterError, LocalCluster

TOPIC = "walk-through"
CALL_TIMEOUT_S = 5.0


class WalkCluster:
    """Starts brokers, stops them, and reads what they and the coordinator say."""

    def __init__(
        self, folder: Path, *, first_port: int | None, kill: bool, coordinator: str | None = None
    ) -> None:
        self._kill = kill
        given = local_defaults(len(BROKERS)) | {"auto.leader.rebalance.enable": "false"}
        if coordinator:
            given["replog.coordinator"] = coordinator
        try:
            self._cluster = LocalCluster.plan(
                folder,
                brokers=len(BROKERS),
                port=first_port or free_ports(len(BROKERS)),
                settings=given,
            )
        except ClusterError as error:
            raise Failure(str(error)) from error
        self._alive = set(BROKERS)
        self._store: Coordination | None = None
        self.partitions = range(len(ASSIGNMENT))
        self.bootstrap = self._cluster.bootstrap_servers

    def begin(self) -> None:
        """Start all three and create the topic. Raises Failure."""
        # Until the clients' threads run, Ctrl-C may interrupt anything; `end` cleans up.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self._cluster.up(remember=False)
            self._cluster.wait_ready(READY_TIMEOUT_S)
        except ClusterError as error:
            raise Failure(str(error)) from error
        self._store = open_coordination(self._cluster.config)
        with self._client() as client:
            topic = CreatableTopic(
                name=TOPIC, num_partitions=len(ASSIGNMENT), replication_factor=len(BROKERS)
            )
            assign(client, topic, start_index=START_INDEX, shift=SHIFT)
            result = create_topic(client, topic)
        if result.error_code:
            raise Failure(
                f"{TOPIC} not created: {explain(result.error_code, result.error_message)}"
            )

    def end(self) -> None:
        """Stop whatever runs. May be called at any time, and again."""
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._cluster.running():
            self._cluster.down()

    def stop_broker(self, broker_id: int) -> None:
        """By SIGTERM, or SIGKILL when the walk was asked for with `--kill`."""
        if self._kill:
            self._cluster.kill(broker_id)
        elif not self._cluster.stop(broker_id):
            raise Failure(f"broker {broker_id} did not stop when it was told to")
        self._alive.remove(broker_id)

    def start_broker(self, broker_id: int) -> None:
        """Start it on the data that it left."""
        try:
            self._cluster.start(broker_id)
        except ClusterError as error:
            raise Failure(str(error)) from error
        self._alive.add(broker_id)

    def start_missing(self) -> None:
        """Start every broker that is down."""
        for broker_id in sorted(set(BROKERS) - self._alive):
            self.start_broker(broker_id)

    def observe(self) -> Observation:
        """Every live broker and the coordinator, each asked by itself."""
        clients = {
            m.broker_id: partial(AdminClient, [("127.0.0.1", m.port)], CALL_TIMEOUT_S)
            for m in self._cluster.members
            if m.broker_id in self._alive
        }
        return observe(TOPIC, clients, self._read_store)

    def _read_store(self, roots: tuple[str, ...]) -> Mapping[str, StoredNode]:
        if self._store is None:
            return {}
        try:
            return self._store.read_now(roots)
        except CoordinationError as error:
            raise Failure(f"the coordinator can't be read: {error}") from error

    def wait_in_sync(self, timeout_s: float) -> None:
        """Until no replica is out of sync. Raises Failure."""
        self._wait("some replicas are still out of sync", timeout_s, same_ends=False)

    def wait_same_ends(self, timeout_s: float) -> None:
        """Until all replicas of each partition end at the same offset, all of it committed."""
        self._wait("replicas still end at different offsets", timeout_s, same_ends=True)

    def _wait(self, complaint: str, timeout_s: float, *, same_ends: bool) -> None:
        limit = time.monotonic() + timeout_s
        while not self._settled(same_ends=same_ends):
            if time.monotonic() > limit:
                raise Failure(f"after {timeout_s:g} s {complaint}")
            time.sleep(0.05)

    def _settled(self, *, same_ends: bool) -> bool:
        try:
            with self._client() as client:
                (view,) = topics(client, [TOPIC])
                if any(partition.osr for partition in view.partitions):
                    return False
                add_replicas(client, [view])
        except ClientError:
            return False
        if not same_ends:
            return True
        return all(
            len({d.log_end_offset for d in p.details} | {d.high_watermark for d in p.details}) == 1
            for p in view.partitions
        )

    def log_folders(self) -> dict[int, Path]:
        """The log folder of each broker."""
        return {broker: self._cluster.log_dir(broker) for broker in BROKERS}

    def _client(self) -> AdminClient:
        return AdminClient(self.bootstrap, CALL_TIMEOUT_S)
